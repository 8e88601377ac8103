"""Checking a shaped release: its weights, its grid, its error, and its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from labeldp.arrow_util import column_numbers
from labeldp.data.source import Source
from labeldp.exact.cholesky import ROUNDOFF
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.row_norms import Weights
from labeldp.mechanisms.checks import (
    FAR,
    check_grid,
    check_label_exponent,
    check_numbers,
    other_table,
)
from labeldp.mechanisms.noise_checks import (
    CHANCE,
    NORMAL,
    check_scatter,
    check_values,
)
from labeldp.mechanisms.shaped_flag import GAUSSIAN, RADIAL
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim, read_claim
from labeldp.mechanisms.shaped_flag.lengths import Lengths
from labeldp.passes.engine import Engine
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES, FEATURES, file_name
from labeldp.sampling import rounded_noise

WEIGHTS = file_name("weights")
_SPENT = 1e-6
"""Of μ, or ε, what a plan may leave."""
_FAR = {GAUSSIAN: FAR, RADIAL: 28.0}
"""Deviations that the noise on the residual's root exceeds with a chance below 1e-12."""
_MOST = 100.0
"""Deviations that no noise on an aggregate exceeds."""
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
    yield from unsound or check_grid(release, rounded_noise.grid_for(claim.noise_std))
    yield from [] if unsound else _check_reach(release, claim)
    yield from [] if unsound else _check_noise(release, claim)
    if weights is not None and not unsound:
        yield from _check_error(release, weights, claim)


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
    if math.fmod(measured, math.ldexp(1.0, rounded_noise.grid_for(noise))) != 0:
        yield "certificate: residual_root is off its public grid: its low bits may leak"
    low, high = claim.label_range
    reach = claim.width / 2 if claim.intercept else max(abs(low), abs(high))
    far = _FAR[claim.noise_law] * noise
    if not -far <= measured <= math.sqrt(claim.rows) * reach + far:
        yield "certificate: residual_root is impossible: no labels in their range leave that"


def _check_reach(release: Release, claim: ShapedFlagClaim) -> Iterator[str]:
    """|Σ c·x·y| ≤ n·L·max|y|, and noise adds little to that."""
    most = claim.rows * claim.length * max(map(abs, claim.label_range)) + _MOST * claim.noise_std
    if any(np.abs(labels).max(initial=0.0) > most for labels in release.label_chunks()):
        yield f"{AGGREGATES} has labels larger than those in the range can make them"


def _check_noise(release: Release, claim: ShapedFlagClaim) -> Iterator[str]:
    """Whether labels are as long as the noise alone: means only add to that (Anderson).

    Equal labels y = c have the means c·z, where z is the design column of the constant.
    """
    labels, grid = release.labels, rounded_noise.grid_for(claim.noise_std)
    if claim.noise_law == GAUSSIAN:
        constant = published_design(release)[:, : int(claim.intercept)]
        noise = np.full(len(labels), claim.noise_std)
        problems = {
            *check_scatter(labels, noise, grid, constant),
            *check_values(NORMAL, claim.noise_std, grid, labels),
        }
        yield from (f"{AGGREGATES} has {problem}" for problem in sorted(problems))
    else:
        rounding = math.sqrt(len(labels)) * math.ldexp(0.5, grid)
        length = float(np.linalg.norm(labels)) + rounding
        if gammainc(len(labels), length / claim.scale) < CHANCE:
            yield f"{AGGREGATES} has labels that are smaller than the noise demands"


def untested(release: Release) -> Iterator[str]:  # noqa: ARG001
    """What `check` cannot see."""
    yield (
        "whether noise was added to the labels: as many aggregates as columns fit any labels, so "
        "public files cannot show it"
    )


def _check_error(release: Release, weights: Weights, claim: ShapedFlagClaim) -> Iterator[str]:
    """Whether Z = C·G for some symmetric G, and the error stated follows: S = L²(C·G·Cᵀ)⁻¹.

    The trace of C·G·Cᵀ is Σ‖C x_i‖², so that L is less than no n-th part of it.
    """
    design = published_design(release)
    product = design @ weights.matrix.T
    rounding = 4 * (weights.rank + 8) * ROUNDOFF * _sizes(design, weights.matrix)
    if not (np.abs(product - product.T) <= rounding).all():
        yield f"{AGGREGATES} and {WEIGHTS} do not belong together"
        return
    if np.trace(product) - np.trace(rounding) > claim.rows * claim.length**2:
        yield "certificate: shape.length is less than what rows have on average"
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


def _sizes(design: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """|C|·|G|·|C|ᵀ, what rounding is a share of: C·G may cancel where columns are nearly alike.

    G is what Z is made of, up to rounding. `Weights.problem` has seen that C is invertible; what
    somebody made up may still be beyond all numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.abs(np.linalg.solve(weights, design))
        size: NDArray[np.float64] = np.abs(weights) @ np.maximum(sums, sums.T) @ np.abs(weights.T)
    return size


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, sums and the length of their weights are the table's: one pass."""
    features = release.features
    claim, weights = read_claim(release.certificate), published_weights(release)
    assert weights is not None  # as `check` found
    lengths = Lengths(claim, features, weights)
    gram, seen = engine.run_pass("feature sums", source, GramAccumulator(features), lengths.tally)
    if (problem := other_table(release, gram)) is not None:
        yield problem
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
    rounding = 4 * (weights.rank + 8) * ROUNDOFF * size
    if not (np.abs(design - weights.matrix @ exact) <= rounding).all():
        yield f"{AGGREGATES} has features that are not those of the table, weighed as it says"
