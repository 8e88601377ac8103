"""One sampled-wtd-FLAg release as it might be."""

from __future__ import annotations

import numpy as np

from labeldp.mechanisms.protocol import Draft, Imagined
from labeldp.mechanisms.sampled_wtd_flag.claim import SampledFlagClaim
from labeldp.source import Source


def imagine(draft: Draft, source: Source, stream: np.random.Generator) -> Imagined | None:  # noqa: ARG001
    """Fresh weights, and the noise of the forecast."""
    claim = draft.claim
    assert isinstance(claim, SampledFlagClaim)
    weights = stream.standard_normal((claim.bags, claim.draw.bag_size))
    variances = np.full(claim.bags, draft.forecast.added_variance)
    return Imagined(claim.draw, weights, variances, weigh=False)
