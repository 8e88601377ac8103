"""Carrying out sampled-noisy-wtd-LAg: each bag's Σ w·y plus noise of a public deviation.

Noise N(0, s²) on the labels of noisy rows adds N(0, s²Σw²) to the bag's sum: one number through
the door, whose mean is exact and whose deviation is public.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms.bags import BagRows, SimulationInputs
from labeldp.mechanisms.plans import CONTRADICTION, Plan
from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import SampledNoisyWtdLagClaim
from labeldp.mechanisms.sampled_noisy_wtd_lag.published import NOISE
from labeldp.mechanisms.sampled_noisy_wtd_lag.weights import BagWeights, label_grid
from labeldp.passes.engine import Engine
from labeldp.release.pending import PendingRelease, label_column
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

_ULP = 2.0**-52


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over the rows of the bags, then the sums."""
    claim, features, labels = plan.claim, plan.features, plan.labels
    assert isinstance(claim, SampledNoisyWtdLagClaim)
    plan.bind(
        source,
        claim.bags == claim.draw.bags,
        claim.rank == len(features.names),
        (claim.mu is not None) == (claim.accountant == "exact"),
    )
    weights = claim.weights(source)
    if claim.mu is not None and not weights.largest_mu(claim.width, claim.noise_std) <= claim.mu:
        raise PlanError(CONTRADICTION)
    randomness.spend()
    rows = BagRows(features, claim.draw)
    values = rows.read_labelled(source, engine)
    plan.check_sums(rows.digest())
    noise = weights.noise(claim.noise_std)
    grid = label_grid(noise)
    sums = draw_sums(weights, values, labels, claim.noise_std, grid, randomness)
    table = pa.table({NOISE: noise, label_column(source.label or "label"): sums})
    certificate = plan.certifier(None, source, grid, randomness)
    batches = (batch for batch in table.to_batches())
    files = {"bags": weights.table(claim.draw)}
    return PendingRelease(features, table.schema, batches, certificate, files)


def draw_sums(
    weights: BagWeights,
    values: NDArray[np.float64],
    labels: LabelGrid,
    noise_std: float,
    grid: int,
    randomness: Randomness,
) -> NDArray[np.float64]:
    """round(Σ w·y + s√(Σ w² over noisy rows)·N(0,1)), one per bag."""
    codes = labels.codes(values) + labels.centre
    scale = Fraction(noise_std) * Fraction(2) ** -labels.exponent
    size = np.abs(weights.values * codes).sum(axis=1)
    std = weights.noise(float(scale))
    margin = (values.shape[1] + 8) * _ULP

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        from flint import arb, fmpq

        pairs = zip(weights.values[row], codes[row], strict=True)
        mean = sum((Fraction(float(w)) * int(c) for w, c in pairs), Fraction(0))
        drawn = weights.values[row][weights.noisy[row]]
        square = scale**2 * sum((Fraction(float(w)) ** 2 for w in drawn), Fraction(0))
        return (
            arb(fmpq(mean.numerator, mean.denominator)),
            arb(fmpq(square.numerator, square.denominator)).sqrt(),
        )

    cells = rounded_noise.sample_rounded(
        np.einsum("ij,ij->i", weights.values, codes),
        margin * size,
        (std * (1 - margin), std * (1 + margin)),
        grid - labels.exponent,
        randomness,
        exact,
    )
    return np.ldexp(cells, labels.exponent)


def rehearse(plan: Plan, source: Source, stream: np.random.Generator) -> SimulationInputs:  # noqa: ARG001
    """The weights that the plan drew: all but the noise is public already."""
    claim = plan.claim
    assert isinstance(claim, SampledNoisyWtdLagClaim)
    weights = claim.weights(source)
    return SimulationInputs(
        claim.draw, weights.values, weights.noise(claim.noise_std) ** 2, weigh=True
    )
