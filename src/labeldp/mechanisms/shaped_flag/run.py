"""Carrying out shaped-flag: Xᵀy in exact integers, and C·Xᵀy plus noise through the door.

C has 40-bit entries and Xᵀy is integers, so every mean is a rational number: doubles enclose it,
and the exact fraction settles the few draws in doubt. The pass that sums labels also measures
‖C x_i‖ of the very rows it sums, so the guarantee rests on no earlier pass; only of rows that
have stayed in memory since they were measured is it known (`engines/memory.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.row_norms import Weights
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.plans import CONTRADICTION, OTHER_FEATURES, Plan
from labeldp.mechanisms.residual_floor import measure_residual
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.mechanisms.shaped_flag.lengths import Lengths
from labeldp.mechanisms.shaped_flag.published import weight_schema
from labeldp.passes.engine import Engine
from labeldp.release.certificate import seal
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over features and labels, then the draw."""
    claim, features, labels = plan.claim, plan.features, plan.labels
    weights = plan.parts.get("weights")
    assert isinstance(claim, ShapedFlagClaim)
    if not isinstance(weights, Weights) or weights.kept != features.kept_columns:
        raise PlanError(CONTRADICTION)
    plan.bind(
        source,
        weights.problem() is None,
        claim.bags == weights.rank,
        claim.intercept is (features.constant is not None),
    )
    randomness.spend()
    lengths = Lengths(claim, features, weights)
    tallies = GramAccumulator(features), LabelCrossProducts(features, labels), lengths.tally
    gram, moments, seen = engine.run_pass("label sums", source, *tallies)
    plan.check_sums(gram.digest())
    if lengths.problem(seen, source, engine):
        raise PlanError(OTHER_FEATURES)
    measured = None
    if claim.residual_noise_std is not None:
        residual = residual_of(plan, gram, moments)
        measured = residual_root(claim, residual, labels, randomness)
    grid = rounded_noise.grid_for(claim.noise_std)
    drawn = aggregate_labels(weights, gram, moments, labels, claim, grid, randomness)
    schema = aggregate_schema(features, source.label or "label")
    batch = aggregate_batch(schema, aggregate_design(weights, gram, features), drawn)
    certify = plan.certifier(None, source, grid, randomness)

    def certificate(digests: dict[str, str]) -> dict[str, Any]:
        return seal(certify(digests) | {"residual_root": measured})

    files = {"weights": weight_table(features, weights.matrix)}
    return PendingRelease(features, schema, (one for one in [batch]), certificate, files)


def weight_table(features: FeatureMap, matrix: NDArray[np.float64]) -> pa.Table:
    """C as a table, one row for each aggregate."""
    arrays = [arrow_numbers(column) for column in matrix.T]
    return pa.Table.from_arrays(arrays, schema=weight_schema(features))


def aggregate_design(
    weights: Weights, gram: FeatureGram, features: FeatureMap
) -> NDArray[np.float64]:
    """Z = C·XᵀX, in the feature map's scales."""
    exact = gram.exact(weights.kept).astype(np.float64)
    return np.asarray(weights.matrix @ exact * features.kept_scales)


def aggregate_labels(
    weights: Weights,
    gram: FeatureGram,
    moments: LabelMoments,
    labels: LabelGrid,
    claim: ShapedFlagClaim,
    grid: int,
    randomness: Randomness,
) -> NDArray[np.float64]:
    """t = C·Xᵀy + noise, on the public grid."""
    kept = list(weights.kept)
    sums = moments.cross[kept]
    if labels.centre:  # codes count from it, and the first column is the constant
        sums = sums + labels.centre * gram.exact(range(gram.width))[0][kept]
    scale = math.ldexp(claim.scale, -labels.exponent)
    rounded = sums.astype(np.float64)
    size = np.abs(weights.matrix) @ np.abs(rounded)

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        from flint import arb, fmpq, fmpz

        total = fmpq(0)
        for weight, entry in zip(weights.matrix[row], sums, strict=True):
            top, bottom = float(weight).as_integer_ratio()
            total += fmpq(fmpz(top * int(entry)), fmpz(bottom))
        return arb(total), arb(scale)

    cells = claim.noise.publish(
        weights.matrix @ rounded,
        (weights.rank + 4) * 2.0**-52 * size,
        scale,
        grid - labels.exponent,
        randomness,
        exact,
    )
    return np.ldexp(cells, labels.exponent)


def residual_of(plan: Plan, gram: FeatureGram, moments: LabelMoments) -> ExactLeastSquares:
    """The residual of the table, by the plan's factor if it has it still."""
    factor = plan.factor
    if factor is None or factor.kept != plan.features.kept_columns or not factor.is_of(gram):
        factor = verified_cholesky(gram, plan.features, saturated=True)
        if factor.kept != plan.features.kept_columns:
            raise PlanError(OTHER_FEATURES)
    return ExactLeastSquares(factor, moments)


def residual_root(
    claim: ShapedFlagClaim, residual: ExactLeastSquares, labels: LabelGrid, randomness: Randomness
) -> float:
    """σ̂ = σ + noise (theory §6.2)."""
    scale, std = claim.residual_scale, claim.residual_noise_std
    assert scale is not None
    assert std is not None
    law = claim.noise.residual
    return measure_residual([residual], labels, scale, rounded_noise.grid_for(std), randomness, law)
