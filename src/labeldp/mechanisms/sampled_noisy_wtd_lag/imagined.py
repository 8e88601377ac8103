"""One sampled-noisy-wtd-LAg release as it might be: all but the noise is public already."""

from __future__ import annotations

import numpy as np

from labeldp.mechanisms.protocol import Draft, Imagined
from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import NoisyLagClaim
from labeldp.mechanisms.sampled_noisy_wtd_lag.execute import planned_weights
from labeldp.source import Source


def imagine(draft: Draft, source: Source, stream: np.random.Generator) -> Imagined | None:  # noqa: ARG001
    """The weights that the plan drew."""
    claim = draft.claim
    assert isinstance(claim, NoisyLagClaim)
    weights = planned_weights(claim, source)
    return Imagined(claim.draw, weights.values, weights.noise(claim.noise_std) ** 2, weigh=True)
