"""What every kind of release gives a linear learner: normal equations with noise (theory §9, §10).

With RᵀR = XᵀX and β̂ the fit with all labels, a release shows

    b̃ ~ N(b, E·Eᵀ),   b = Rβ̂.

To fit b̃ by R, or by some of its columns, is to fit all rows by them with noise on Xᵀy, whatever
is asked of the coefficients. Privacy adds ‖b̂ − b‖² to the squared error of a prediction b̂.

    sum_equations     sums with public weights and public noise: shaped-flag
    row_equations     every row's label with public noise: noisy-rows
    sketch_equations  sums with secret weights: wtd-flag, sampled-wtd-flag
    bag_equations     sums of labels over bags of rows: sampled-noisy-wtd-lag
    plain_equations   plain rows with their labels, not private

The first two know their noise. The others estimate it on the directions that no column explains
(theory §5), and their intervals are Student's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve, solve_triangular
from scipy.special import ndtri, stdtrit

from labeldp.accounting import radial
from labeldp.arrow_util import column_numbers
from labeldp.data.batches import take_rows
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.features.encoder import Encoder
from labeldp.release.files import WANTS_TABLE, labelled_rows
from labeldp.release.label_model import BagLabels, RowLabels, SketchedLabels, SumLabels

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.release.files import Release

Array = NDArray[np.float64]
Columns = NDArray[np.bool_]

RANK_TOLERANCE = 1e-9
"""Features are quantised to about 20 bits, so a true direction stands far above this, while the
float noise of an exactly collinear one (one-hot levels and a constant) stays far below."""
_BLOCK_NUMBERS = 1 << 22
"""Entries of [X | y] that are factored at once: 32 MB."""


@dataclass(frozen=True)
class NoisyValue:
    """A number, and the standard deviation of its error."""

    value: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it stands out of its error, so that it makes sense to divide by it."""
        return self.value > 2 * self.error


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise that is not public but estimated from what no column explains."""

    variance: float
    """Of a published label about its prediction, in label units; NaN without degrees of freedom."""
    dof: int
    """Degrees of freedom of that estimate: published labels less the rank of the columns."""
    unit: float
    """Squared published labels per unit of ‖b̃‖²: m times the share of rows that a sum holds."""


@dataclass(frozen=True, eq=False)
class NoisyNormalEquations:
    """b̃ ~ N(R·β̂, E·Eᵀ)."""

    root: Array = field(repr=False)
    """R, for columns in the feature map's scales."""
    estimate: Array = field(repr=False)
    """b̃."""
    spread: Array = field(repr=False)
    """E."""
    rows: int | None
    """n; None if RᵀR is not XᵀX of all rows of a table, so that nothing is known about them."""
    residual_ss: NoisyValue | None
    """‖y − Xβ̂‖² of the fit with all labels; None if it was not published."""
    radial: int | None = None
    """In how many dimensions the noise is radial; None: it is normal."""
    noise_estimate: NoiseEstimate | None = None
    """How the noise was estimated; None: it is public."""
    rank_tolerance: float = RANK_TOLERANCE
    """Directions below this share of the largest count as absent."""

    @property
    def noise(self) -> Array:
        """The covariance E·Eᵀ of b̃."""
        return np.asarray(self.spread @ self.spread.T)

    @property
    def knows_noise(self) -> bool:
        """Whether the noise is public, or degrees of freedom were left to estimate it."""
        return self.noise_estimate is None or self.noise_estimate.dof >= 1

    @property
    def residual_variance(self) -> float | None:
        """σ² per row, for the degrees of freedom that it has; None if it is hardly known."""
        residual = self.residual_ss
        if residual is None or self.rows is None or not residual.is_clear:
            return None
        return residual.value / max(1, self.rows - len(self.estimate))

    def deviations(self, confidence: float) -> float:
        """Return how many standard deviations hold the noise in one direction, that often."""
        if self.noise_estimate is not None:
            return float(stdtrit(self.noise_estimate.dof, (1 + confidence) / 2))
        if self.radial is not None:
            return radial.deviations(self.radial, confidence)
        return float(ndtri((1 + confidence) / 2))

    def mean_direction(self, constant: int | None) -> Array | None:
        """Return q0 = R·e/‖R·e‖, e the constant's coefficient: q0·b/√n is the mean prediction."""
        if constant is None:
            return None
        along = self.root[:, constant]
        length = float(np.linalg.norm(along))
        return np.asarray(along / length) if length > 0 else None

    def select(self, columns: Columns) -> NoisyNormalEquations:
        """Return the equations of the fit by these columns; the others count as unexplained."""
        if columns.all():
            return self
        left, values, right = np.linalg.svd(self.root[:, columns], full_matrices=False)
        kept = values > self.rank_tolerance * values.max(initial=0.0)
        inside, root = left[:, kept], (values[:, None] * right)[kept]
        estimate, spread = inside.T @ self.estimate, inside.T @ self.spread
        residual = self.residual_ss
        if residual is not None:
            more = square_norm(self.estimate - inside @ estimate, self.spread - inside @ spread)
            residual = NoisyValue(
                residual.value + more.value, math.hypot(residual.error, more.error)
            )
        return replace(self, root=root, estimate=estimate, spread=spread, residual_ss=residual)


def square_norm(estimate: Array, spread: Array) -> NoisyValue:
    """Estimate ‖b‖² from b̃ ~ N(b, EEᵀ) without the bias that noise would bring."""
    value = float(estimate @ estimate - np.sum(spread**2))
    return NoisyValue(value, quadratic_error(spread.T @ estimate, spread.T @ spread))


def quadratic_error(slope: Array, form: Array) -> float:
    """Return the deviation of a quadratic form of x ~ N(x₀, I), by its half gradient and matrix.

    Its variance 4‖Fx₀‖² + 2‖F‖² is estimated by 4‖Fx‖² − 2‖F‖², and is at least 2‖F‖².
    """
    scatter = float(np.sum(form**2))
    return math.sqrt(max(4 * float(slope @ slope) - 2 * scatter, 2 * scatter))


def triangle(blocks: Iterable[Array], columns: int) -> Array:
    """Return the triangular factor of rows that come in blocks, with a positive diagonal.

    Its rows have the same inner products as all rows. Householder's QR is stable column by
    column: a column of large numbers does not blur one of small numbers. The signs make the
    factor unique, so that results do not depend on how rows are cut into blocks.
    """
    factor = np.empty((0, columns))
    for block in blocks:
        step = max(4 * columns, _BLOCK_NUMBERS // columns)
        for start in range(0, len(block), step):
            stacked = np.vstack([factor, block[start : start + step]])
            factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    signs = np.where(np.diagonal(factor) < 0, -1.0, 1.0)
    return np.asarray(factor * signs[: len(factor), None], dtype=np.float64)


# --- public noise ---


def sum_equations(release: Release, sums: SumLabels) -> NoisyNormalEquations:
    """Return the equations of sums with public weights.

    They are t = C·Xᵀy + S·N(0, I) beside Z = C·XᵀX, S the diagonal of the deviations. With
    P = Z·Cᵀ = C·XᵀX·Cᵀ = K·Kᵀ that is R = (C⁻¹K)ᵀ, b̃ = K⁻¹t and E = K⁻¹S. The noise may be radial
    instead, of the same covariance: intervals and shrinkage follow that law, all else takes it
    for normal.
    """
    design, labels = (np.concatenate(parts) for parts in zip(*release.chunks(), strict=True))
    product = design @ sums.weights.T
    try:
        lower = cholesky((product + product.T) / 2, lower=True)
        if np.triu(sums.weights, 1).any():
            root = np.asarray(solve(sums.weights, lower)).T
        else:
            root = np.asarray(solve_triangular(sums.weights, lower, lower=True)).T
    except (LinAlgError, ValueError):
        raise InputError(
            "the release's weights and aggregates do not belong together; verify it"
        ) from None
    residual = None
    if sums.residual is not None:  # σ̂ = σ + noise of deviation s₀ was published (theory §6.2)
        residual_root, std = sums.residual
        residual = square_norm(np.array([max(0.0, residual_root)]), np.array([[std]]))
        residual = _possible_residual(release, residual)
    return NoisyNormalEquations(
        root,
        np.asarray(solve_triangular(lower, labels, lower=True)),
        np.asarray(solve_triangular(lower, np.diag(sums.std), lower=True)),
        release.features.rows,
        residual,
        radial=len(labels) if sums.radial else None,
    )


def row_equations(
    release: Release, labels: RowLabels, source: Source | None
) -> NoisyNormalEquations:
    """Return the equations of single rows, in one pass over them; no label of the source is read.

    To fit t = y + noise by least squares is to fit y with noise on the coefficients: with
    b̃ = R⁻ᵀXᵀt, b̃ − b is a projection of the noise, of variance Var(noise) in every direction. For
    Gaussian noise it is normal, for Laplace's nearly so, unless a few rows decide a direction.
    """
    features, variance = release.features, labels.std**2
    encode, columns = Encoder(features), len(features.names)
    step = max(1, _BLOCK_NUMBERS // columns)

    def blocks() -> Iterator[Array]:
        for batch, noisy in labelled_rows(release, source):
            for start in range(0, len(noisy), step):
                part = features.integers(encode(batch.slice(start, step))) * features.kept_scales
                yield np.column_stack([part, noisy[start : start + step]])

    factor = triangle(blocks(), columns + 1)
    # Noisy labels leave σ² + (n − d)·Var(noise) in expectation; with κ the kurtosis of the noise,
    # the variance of that is (κ − 1)(n − d)·Var(noise)² + 4·Var(noise)·σ².
    residual, dof = None, features.rows - columns
    if dof >= 1:
        value = float(np.sum(factor[columns:, columns] ** 2)) - dof * variance
        scatter = (labels.kurtosis - 1) * dof * variance**2 + 4 * variance * max(0.0, value)
        residual = _possible_residual(release, NoisyValue(value, math.sqrt(scatter)))
    return NoisyNormalEquations(
        factor[:columns, :columns],
        factor[:columns, columns],
        labels.std * np.eye(columns),
        features.rows,
        residual,
    )


def _possible_residual(release: Release, residual_ss: NoisyValue) -> NoisyValue:
    """Cut an estimate at n·Δ²/4, the most that labels in a range of width Δ can leave."""
    most = release.features.rows * release.certificate.get("label_width", math.inf) ** 2 / 4
    return replace(residual_ss, value=min(residual_ss.value, most))


# --- estimated noise ---


def sketch_equations(
    release: Release, sketch: SketchedLabels, columns: Columns
) -> NoisyNormalEquations:
    """Return the equations of m aggregates with secret weights, for these columns.

    The rows of [Z | t] are independent N(0, AᵀA) with A = [X | y] (theory §1, §3a). Given Z that
    reads t = Zβ̂ + e with e iid N(0, σ²), where σ² is the residual *sum* of squares on all rows.
    So ZᵀZ/m stands for XᵀX, least squares on Z estimates β̂, and its t-intervals are exact (§5).
    With the other columns left out, what they explain is part of e.
    """
    blocks = (np.column_stack([design[:, columns], labels]) for design, labels in release.chunks())
    equations = _estimated_equations(
        triangle(_finite(blocks), int(columns.sum()) + 1),
        release.bags,
        unit=release.bags * sketch.share,
        rank_tolerance=RANK_TOLERANCE,
    )
    noise = equations.noise_estimate
    assert noise is not None
    residual = None
    if noise.dof >= 1:  # less the variance that was added to every label to reach a floor
        value = (noise.variance - sketch.added_variance) / sketch.share
        error = noise.variance * math.sqrt(2 / noise.dof) / sketch.share
        residual = _possible_residual(release, NoisyValue(value, error))
    return replace(equations, rows=release.features.rows, residual_ss=residual)


def bag_equations(
    release: Release, labels: BagLabels, source: Source | None, columns: Columns
) -> NoisyNormalEquations:
    """Return the equations of sums of labels over bags, whose rows the source holds.

    Every bag is divided by the public deviation of its noise. What labels scatter about the fit
    comes on top, so the variance is estimated. The source is read once, its labels are not.
    """
    if not isinstance(source, Source):
        raise InputError(WANTS_TABLE)
    features = release.features
    bag, row, weight = bag_members(labels.bags)
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    sums = np.zeros((len(labels.std), len(features.names)))
    for places, batch in take_rows(source.feature_batches(features.columns), row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(sums, bag[places], weight[places, None] * design)
    scaled = np.column_stack([sums[:, columns], release.labels]) / labels.std[:, None]
    return _estimated_equations(
        triangle(_finite([scaled]), int(columns.sum()) + 1),
        release.bags,
        unit=release.bags,
        rank_tolerance=RANK_TOLERANCE,
    )


def plain_equations(design: Array, labels: Array) -> NoisyNormalEquations:
    """Return the equations of plain rows, which are not private."""
    factor = triangle([np.column_stack([design, labels])], design.shape[1] + 1)
    tolerance = max(design.shape) * float(np.finfo(float).eps)  # as numpy.linalg.matrix_rank
    return _estimated_equations(factor, len(labels), unit=1.0, rank_tolerance=tolerance)


def _estimated_equations(
    factor: Array, count: int, *, unit: float, rank_tolerance: float
) -> NoisyNormalEquations:
    """Return the equations of `count` rows [Z | t] from their triangular factor.

    X and Z have the same null space (almost surely, if m is at least the rank of X), so the
    solution of least norm on Z is the one on all rows too.
    """
    design, labels = factor[:, :-1], factor[:, -1]
    columns = design.shape[1]
    left, values, right = np.linalg.svd(design, full_matrices=False)
    kept = values > rank_tolerance * values.max(initial=0.0)
    if kept.sum() == columns:  # the triangle keeps the columns' own scales apart
        root, estimate, rest = design[:columns], labels[:columns], labels[columns:]
    else:
        root, estimate = (values[:, None] * right)[kept], left[:, kept].T @ labels
        rest = labels - left[:, kept] @ estimate
    dof = count - len(estimate)
    variance = float(rest @ rest) / dof if dof >= 1 else math.nan
    scale = math.sqrt(unit)
    return NoisyNormalEquations(
        root / scale,
        estimate / scale,
        np.eye(len(estimate)) * (math.sqrt(variance) / scale if dof >= 1 else 0.0),
        rows=None,
        residual_ss=None,
        noise_estimate=NoiseEstimate(variance, dof, unit),
        rank_tolerance=rank_tolerance,
    )


def _finite(blocks: Iterable[Array]) -> Iterator[Array]:
    for block in blocks:
        if not np.isfinite(block).all():
            raise InputError("the release holds numbers that are not finite; get the original")
        yield block


def bag_members(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return the columns bag, row and weight of a bag table."""
    for name in ("bag", "row", "weight"):
        if name not in table.column_names or table.column(name).null_count:
            raise DataError(
                f"the bag table needs a column {name!r} without gaps; restore the release"
            )
    bag, row, weight = (column_numbers(table.column(name)) for name in ("bag", "row", "weight"))
    return bag, row, weight
