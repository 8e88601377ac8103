"""Checking a shaped release: its weights, its grid, its error, and its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import door
from labeldp._arrow import column_numbers
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim, read_claim
from labeldp.mechanisms.shaped_flag.lengths import Lengths
from labeldp.mechanisms.shaped_flag.run import weight_schema
from labeldp.mechanisms.workbench import (
    AGGREGATES,
    FEATURES,
    Engine,
    FeatureGram,
    GramSum,
    Release,
    Source,
    Weights,
    check_grid,
    check_label_exponent,
    check_numbers,
    file_name,
)

WEIGHTS = file_name("weights")
_UNIT = 2.0**-53
_SPENT = 1e-6
"""Of μ, or ε, what a plan may leave."""
_TOLERANCE = 0.01
"""Of the stated error, which follows from the published numbers up to their rounding."""


def check(release: Release) -> Iterator[str]:
    """Where the published numbers contradict the claim."""
    claim, features = read_claim(release.certificate), release.features
    if claim.intercept is not (features.constant is not None):
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    exponent = release.certificate["numerics"]["label_exponent"]
    yield from check_label_exponent(claim.label_range, features.intercept, exponent)
    if claim.spent < claim.noise.whole(claim.epsilon, claim.delta) * (1 - _SPENT):
        yield "certificate: the noise is not that of the budget"
    yield from _check_residual(claim, release.certificate.get("residual_root"))
    weights = published_weights(release)
    problem = f"{WEIGHTS} is not square" if weights is None else weights.problem()
    unsound = [problem] if problem else list(check_numbers(release))
    yield from unsound or check_grid(release, door.grid_for(claim.noise_std))
    if weights is not None and not unsound:
        yield from _check_error(release, weights, claim)


def weight_layout(release: Release) -> pa.Schema:
    """The columns of public weights."""
    return weight_schema(release.features)


def published_weights(release: Release) -> Weights | None:
    """C, if it has a row for each aggregate."""
    table = release.files["weights"]
    if table.num_rows != len(release.features.names):
        return None
    matrix = np.column_stack([column_numbers(column) for column in table.columns])
    return Weights(release.features.kept_columns, matrix)


def published_design(release: Release) -> NDArray[np.float64]:
    """Z for integer codes."""
    parts = [design for design, _ in release.chunks()]
    return np.concatenate(parts) / release.features.kept_scales


def _check_residual(claim: ShapedFlagClaim, measured: float | None) -> Iterator[str]:
    noise = claim.residual_noise_std
    if (noise is None) is not (measured is None):
        yield "certificate: the residual is published, or not, against shape.residual_noise_std"
    if noise is None or measured is None:
        return
    if math.fmod(measured, math.ldexp(1.0, door.grid_for(noise))) != 0:
        yield "certificate: residual_root is off its public grid: its low bits may leak"


def _check_error(release: Release, weights: Weights, claim: ShapedFlagClaim) -> Iterator[str]:
    """Whether Z = C·G for some symmetric G, and the error stated follows: S = L²(C·G·Cᵀ)⁻¹."""
    design = published_design(release)
    product = design @ weights.matrix.T
    size = np.abs(design) @ np.abs(weights.matrix.T)
    rounding = 4 * (weights.rank + 8) * _UNIT * (size + size.T)
    if (np.abs(product - product.T) > rounding).any():
        yield f"{AGGREGATES} and {WEIGHTS} do not belong together"
        return
    values = np.linalg.eigvalsh((product + product.T) / 2)
    error = float(np.linalg.norm(rounding))
    if values[0] <= 10 * error:  # numbers too rough to tell
        return
    inverse = claim.length**2 / values
    slack = _TOLERANCE + 10 * error / values[0]
    if not math.isclose(inverse.sum(), claim.trace, rel_tol=slack):
        yield f"certificate: shape.trace should be {inverse.sum():.6g}"
    directions = inverse.sum() ** 2 / np.square(inverse).sum()
    if not math.isclose(directions, claim.directions, rel_tol=2 * slack):
        yield f"certificate: shape.directions should be {directions:.6g}"


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, sums and the length of their weights are the table's: one pass."""
    certificate, features = release.certificate, release.features
    claim, weights = read_claim(certificate), published_weights(release)
    assert weights is not None  # as `check` found
    lengths = Lengths(claim, features, weights)
    gram, seen = engine.fold("feature sums", source, GramSum(features), lengths.tally)
    if gram.rows != claim.rows:
        yield f"the table has {gram.rows} rows, the certificate says {claim.rows}"
        return
    if gram.digest() != certificate["digests"]["feature_sums"]:
        yield "the table's features are not those of the release"
        return
    problem = lengths.problem(seen, source, engine)
    if problem is not None:
        yield problem
    yield from _check_design(published_design(release), weights, gram)


def _check_design(
    design: NDArray[np.float64], weights: Weights, gram: FeatureGram
) -> Iterator[str]:
    exact = gram.exact(weights.kept).astype(np.float64)
    size = np.abs(weights.matrix) @ np.abs(exact)
    rounding = 4 * (weights.rank + 8) * _UNIT * size
    if (np.abs(design - weights.matrix @ exact) > rounding).any():
        yield f"{AGGREGATES} has features that are not those of the table, weighed as it says"
