"""What every kind of release gives a linear learner: normal equations with noise (theory §9, §10).

With RᵀR = XᵀX and β̂ the fit with all labels, a release shows

    b̃ ~ N(b, E·Eᵀ),   b = Rβ̂.

To fit b̃ by R, or by some of its columns, is to fit all rows by them with noise on Xᵀy, whatever
is asked of the coefficients. Privacy adds ‖b̂ − b‖² to the squared error of a prediction b̂.

    sum_equations     sums with public weights and public noise: shaped-flag
    joint_equations   several releases of such sums, of different rows
    row_equations     every row's label with public noise: noisy-rows
    sketch_equations  sums with secret weights: wtd-flag, sampled-wtd-flag
    bag_equations     sums of labels over bags of rows: sampled-noisy-wtd-lag
    plain_equations   plain rows with their labels, not private

`release_equations` takes the one that suits a release. The first three know their noise. The others
estimate it on the directions that no column explains (theory §5); their intervals are Student's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, block_diag, cholesky, solve, solve_triangular
from scipy.special import ndtri, stdtrit

from labeldp.accounting import radial
from labeldp.arrow_util import column_numbers
from labeldp.data.source import Source, take_rows
from labeldp.errors import DataError, InputError
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.base import (
    BagLabels,
    NoisySecondMoment,
    RowLabels,
    SketchedLabels,
    SumLabels,
)
from labeldp.releases.files import WANTS_TABLE, labelled_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.releases.files import Release

Array = NDArray[np.float64]
ColumnMask = NDArray[np.bool_]

RANK_TOLERANCE = 1e-9
"""Features are quantised to about 20 bits, so a true direction stands far above this, while the
float noise of an exactly collinear one (one-hot levels and a constant) stays far below."""
_BLOCK_NUMBERS = 1 << 22
"""Entries of [X | y] that are factored at once: 32 MB."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class NoisyValue:
    """A number, and the standard deviation of its error."""

    value: float
    error: float

    def less(self, other: NoisyValue) -> NoisyValue:
        """Return the difference of two numbers whose errors are independent."""
        return NoisyValue(self.value - other.value, math.hypot(self.error, other.error))

    def exceeds(self, deviations: float) -> bool:
        """Whether it stands out of its error, so that it makes sense to divide by it."""
        return self.value > deviations * self.error


@dataclass(frozen=True, eq=False)
class NoisyNormalEquations:
    """b̃ ~ N(R·β̂, E·Eᵀ)."""

    root: Array = field(repr=False)
    """R, for columns in the feature map's scales."""
    estimate: Array = field(repr=False)
    """b̃."""
    spread: Array = field(repr=False)
    """E."""
    constant: int | None
    """Place of the constant among the columns."""
    rows: int | None = None
    """n; None if RᵀR is not XᵀX of all rows of a table, so that nothing is known about them."""
    residual_ss: NoisyValue | None = None
    """‖y − Xβ̂‖² of the fit with all labels; None if it was not published."""
    total_ss: NoisyValue | None = None
    """Σ(y − ȳ)², or Σy² without a constant; None if no second moment was published."""
    radial: int | None = None
    """In how many dimensions the noise is radial; None: it is normal."""
    dof: int | None = None
    """Degrees of freedom by which the noise was estimated: published labels less the rank of the
    columns; None: the noise is public."""
    label_variance: float = math.nan
    """Estimated variance of a published label about its prediction, in label units."""
    rank_tolerance: float = RANK_TOLERANCE
    """Directions below this share of the largest count as absent."""

    @property
    def knows_noise(self) -> bool:
        """Whether the noise is public, or degrees of freedom were left to estimate it."""
        return self.dof is None or self.dof >= 1

    @property
    def mean_direction(self) -> Array | None:
        """q0 = R·e/‖R·e‖, e the constant's coefficient: q0·b/√n is the mean prediction."""
        if self.constant is None:
            return None
        along = self.root[:, self.constant]
        length = float(np.linalg.norm(along))
        return np.asarray(along / length) if length > 0 else None

    def deviations(self, confidence: float) -> float:
        """Return how many standard deviations hold the noise in one direction, that often."""
        if self.dof is not None:
            return float(stdtrit(self.dof, (1 + confidence) / 2))
        if self.radial is not None:
            return radial.deviations(self.radial, confidence)
        return float(ndtri((1 + confidence) / 2))

    def select(self, columns: ColumnMask) -> NoisyNormalEquations:
        """Return the equations of the fit by these columns; the others count as unexplained."""
        if columns.all():
            return self
        inside, values, right = truncated_svd(self.root[:, columns], self.rank_tolerance)
        estimate, spread = inside.T @ self.estimate, inside.T @ self.spread
        residual = self.residual_ss
        if residual is not None:
            more = square_norm(self.estimate - inside @ estimate, self.spread - inside @ spread)
            error = math.hypot(residual.error, more.error)
            residual = NoisyValue(residual.value + more.value, error)
        return replace(
            self,
            root=values[:, None] * right,
            estimate=estimate,
            spread=spread,
            constant=_place(self.constant, columns),
            residual_ss=residual,
        )


def _place(constant: int | None, columns: ColumnMask) -> int | None:
    """Return the place of the constant among these columns, if it is one of them."""
    if constant is None or not columns[constant]:
        return None
    return int(columns[:constant].sum())


def truncated_svd(
    matrix: Array, tolerance: float, scale: float = 0.0
) -> tuple[Array, Array, Array]:
    """Return the SVD without directions below a share of the largest value or of `scale`."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept = values > tolerance * max(scale, float(values.max(initial=0.0)))
    return left[:, kept], values[kept], right[kept]


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
    step = max(4 * columns, _BLOCK_NUMBERS // columns)
    for block in blocks:
        if not np.isfinite(block).all():
            raise InputError("the release holds numbers that are not finite; get the original")
        for start in range(0, len(block), step):
            stacked = np.vstack([factor, block[start : start + step]])
            factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    signs = np.where(np.diagonal(factor) < 0, -1.0, 1.0)
    return np.asarray(factor * signs[: len(factor), None], dtype=np.float64)


def release_equations(
    release: Release, source: Source | None, columns: ColumnMask
) -> NoisyNormalEquations:
    """Return the normal equations of one release for these columns.

    A release of labels alone names rows of the source; no label of the source is read.
    """
    labels = release.label_model
    if isinstance(labels, RowLabels):
        return row_equations(release, labels, source).select(columns)
    if isinstance(labels, BagLabels):
        return bag_equations(release, labels, source, columns)
    if not release.aggregates_features:
        raise InputError(
            "the release has aggregates of other columns than its feature map; "
            "they do not belong together"
        )
    if isinstance(labels, SumLabels):
        return sum_equations(release, labels).select(columns)
    return sketch_equations(release, labels, columns)


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
        root = np.asarray(solve(sums.weights, lower)).T
    except (LinAlgError, ValueError):
        raise InputError(
            "the release's weights and aggregates do not belong together; verify it"
        ) from None
    estimate = np.asarray(solve_triangular(lower, labels, lower=True))
    spread = np.asarray(solve_triangular(lower, np.diag(sums.std), lower=True))
    total = residual = None
    if sums.second_moment is not None:
        total, residual = _variation(release, sums.second_moment, root, estimate, spread)
    if sums.residual is not None:  # σ̂ = σ + noise of deviation s₀ was published (theory §6.2)
        residual_root, std = sums.residual
        residual = square_norm(np.array([max(0.0, residual_root)]), np.array([[std]]))
        residual = _possible_residual(release, residual)
    return NoisyNormalEquations(
        root,
        estimate,
        spread,
        release.features.constant,
        release.features.rows,
        residual,
        total,
        radial=len(labels) if sums.radial else None,
    )


def _variation(
    release: Release, square: NoisySecondMoment, root: Array, estimate: Array, spread: Array
) -> tuple[NoisyValue, NoisyValue]:
    """Return Σ(y − ȳ)² and ‖y − Xβ̂‖² from a second moment (theory §15).

    With a constant e, q0 = Re/‖Re‖ and b − c·Re in place of b, the first is Σ(y − c)² − (q0·b)²,
    and the second Σ(y − c)² − ‖b‖². Without one c is 0, and labels vary about 0.
    """
    moment, constant = NoisyValue(square.value, square.std), release.features.constant
    mean = np.zeros((1, len(estimate)))
    if constant is not None:
        along = root[:, constant]
        estimate, mean[0] = estimate - square.centre * along, along / np.linalg.norm(along)
    total = moment.less(square_norm(mean @ estimate, mean @ spread))
    return _possible_residual(release, total), moment.less(square_norm(estimate, spread))


def row_equations(
    release: Release, labels: RowLabels, source: Source | None
) -> NoisyNormalEquations:
    """Return the equations of single rows, in one pass over them.

    To fit t = y + noise by least squares is to fit y with noise on the coefficients: with
    b̃ = R⁻ᵀXᵀt, b̃ − b is a projection of the noise, of variance Var(noise) in every direction. For
    Gaussian noise it is normal, for Laplace's nearly so, unless a few rows decide a direction.

    R is the verified factor of the exact XᵀX, which takes a fraction of a QR of all rows.
    """
    features, gram = release.features, GramAccumulator(release.features)
    encode, moments, square = features.encoder(), np.zeros(features.width), 0.0
    # Labels count from the middle of their range: ‖t‖² − ‖b̃‖² then loses no digits to their mean.
    middle = (
        0.0 if features.constant is None else float(np.mean(release.certificate["label_range"]))
    )
    for batch, noisy in labelled_rows(release, source):
        rows, shifted = encode(batch), noisy - middle
        gram.add(rows)
        square += float(shifted @ shifted)
        if features.intercept:
            moments[0] += shifted.sum()
        moments[list(features.number_columns)] += rows.numbers.T @ shifted
        for block, codes in zip(features.category_blocks, rows.categories, strict=True):
            moments[block] += np.bincount(codes, shifted, minlength=block.stop - block.start)
    factor = verified_cholesky(gram.result(), features, saturated=True)
    if factor.kept != features.kept_columns:
        raise InputError(
            "columns of the release depend on each other in these rows; give the table that it "
            "was made from"
        )
    root = factor.root() * features.kept_scales
    right = moments[list(features.kept_columns)] * features.kept_scales
    estimate = np.asarray(solve_triangular(root, right, trans="T"))
    # Noisy labels leave σ² + (n − d)·Var(noise) in expectation; with κ the kurtosis of the noise,
    # the variance of that is (κ − 1)(n − d)·Var(noise)² + 4·Var(noise)·σ².
    residual, columns, variance = None, len(estimate), labels.std**2
    dof = features.rows - columns
    if dof >= 1:
        value = square - float(estimate @ estimate) - dof * variance
        scatter = (labels.kurtosis - 1) * dof * variance**2 + 4 * variance * max(0.0, value)
        residual = _possible_residual(release, NoisyValue(value, math.sqrt(scatter)))
    if features.constant is not None:
        estimate += middle * root[:, features.constant]
    spread = labels.std * np.eye(columns)
    return NoisyNormalEquations(root, estimate, spread, features.constant, features.rows, residual)


def _possible_residual(release: Release, residual_ss: NoisyValue) -> NoisyValue:
    """Cut an estimate at n·Δ²/4, the most that labels in a range of width Δ can leave."""
    most = release.features.rows * release.certificate.get("label_width", math.inf) ** 2 / 4
    return replace(residual_ss, value=min(residual_ss.value, most))


# --- estimated noise ---


def sketch_equations(
    release: Release, sketch: SketchedLabels, columns: ColumnMask
) -> NoisyNormalEquations:
    """Return the equations of m aggregates with secret weights, for these columns.

    The rows of [Z | t] are independent N(0, AᵀA) with A = [X | y] (theory §1, §3a). Given Z that
    reads t = Zβ̂ + e with e iid N(0, σ²), where σ² is the residual *sum* of squares on all rows.
    So ZᵀZ/m stands for XᵀX, least squares on Z estimates β̂, and its t-intervals are exact (§5).
    With the other columns left out, what they explain is part of e.
    """
    blocks = (np.column_stack(chunk) for chunk in release.chunks())
    equations = _estimated_equations(
        blocks, columns, release.features.constant, release.bags, release.bags * sketch.share
    )
    residual, dof = None, equations.dof or 0
    if dof >= 1:  # less the variance that was added to every label to reach a floor
        value = (equations.label_variance - sketch.added_variance) / sketch.share
        error = equations.label_variance * math.sqrt(2 / dof) / sketch.share
        residual = _possible_residual(release, NoisyValue(value, error))
    return replace(equations, rows=release.features.rows, residual_ss=residual)


def bag_equations(
    release: Release, labels: BagLabels, source: Source | None, columns: ColumnMask
) -> NoisyNormalEquations:
    """Return the equations of sums of labels over bags, whose rows the source holds.

    Every bag is divided by the public deviation of its noise. What labels scatter about the fit
    comes on top, so the variance is estimated. The source is read once.
    """
    if source is None:
        raise InputError(WANTS_TABLE)
    features = release.features
    bag, row, weight = bag_members(labels.bags, len(labels.std))
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    sums = np.zeros((len(labels.std), len(features.names)))
    for places, batch in take_rows(source, features.columns, row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(sums, bag[places], weight[places, None] * design)
    scaled = np.column_stack([sums, release.labels]) / labels.std[:, None]
    return _estimated_equations([scaled], columns, features.constant, release.bags, release.bags)


def bag_members(table: pa.Table, bags: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return the columns bag, row and weight of a table of the rows of so many bags."""
    names = ("bag", "row", "weight")
    if all(name in table.column_names and not table.column(name).null_count for name in names):
        bag, row, weight = (column_numbers(table.column(name)) for name in names)
        are_whole = bag.dtype.kind in "iu" and row.dtype.kind in "iu"
        are_places = np.array_equal(np.unique(bag), np.arange(bags)) and row.min(initial=0) >= 0
        if are_whole and are_places and np.isfinite(weight).all():
            return bag.astype(np.int64), row.astype(np.int64), weight
    raise DataError(
        f"the bag table must have a bag of 0 to {bags - 1}, a row and a finite weight in every "
        "line, and every bag in some line; restore the release"
    )


def plain_equations(design: Array, labels: Array, constant: int | None) -> NoisyNormalEquations:
    """Return the equations of plain rows, which are not private."""
    tolerance = max(design.shape) * float(np.finfo(float).eps)  # as numpy.linalg.matrix_rank
    every = np.ones(design.shape[1], dtype=bool)
    block = np.column_stack([design, labels])
    return _estimated_equations([block], every, constant, len(labels), 1.0, tolerance)


def _estimated_equations(
    blocks: Iterable[Array],
    columns: ColumnMask,
    constant: int | None,
    count: int,
    unit: float,
    rank_tolerance: float = RANK_TOLERANCE,
) -> NoisyNormalEquations:
    """Return the equations of `count` rows [Z | t], which come in blocks, for these columns.

    X and Z have the same null space (almost surely, if m is at least the rank of X), so the
    solution of least norm on Z is the one on all rows too.
    """
    used, width = np.append(columns, True), int(columns.sum())
    factor = triangle((block[:, used] for block in blocks), width + 1)
    design, labels = factor[:, :-1], factor[:, -1]
    left, values, right = truncated_svd(design, rank_tolerance)
    if len(values) == width:  # the triangle keeps the columns' own scales apart
        root, estimate, rest = design[:width], labels[:width], labels[width:]
    else:
        root, estimate = values[:, None] * right, left.T @ labels
        rest = labels - left @ estimate
    dof, scale = count - len(estimate), math.sqrt(unit)
    variance = float(rest @ rest) / dof if dof >= 1 else math.nan
    return NoisyNormalEquations(
        root / scale,
        estimate / scale,
        np.eye(len(estimate)) * (math.sqrt(variance) / scale if dof >= 1 else 0.0),
        _place(constant, columns),
        dof=dof,
        label_variance=variance,
        rank_tolerance=rank_tolerance,
    )


# --- several releases of sums ---


def joint_equations(releases: Sequence[Release]) -> tuple[NoisyNormalEquations, FeatureMap]:
    """Return what releases of different rows say together, in the columns of the first."""
    changes, features = joint_columns(releases)
    parts = []
    for release, change in zip(releases, changes, strict=True):
        assert isinstance(release.label_model, SumLabels)  # joint_columns has checked it
        equations = sum_equations(release, release.label_model)
        parts.append(replace(equations, root=equations.root @ change))
    return pool(parts), features


def joint_columns(releases: Sequence[Release]) -> tuple[list[Array], FeatureMap]:
    """Return the matrix that turns coefficients of the first map into each release's own.

    The feature map beside them is the first one, with numbers winsorised no nearer than in any.
    Raise InputError where the releases do not belong together.
    """
    _check_together(releases)
    maps = [release.features for release in releases]
    ours, changes = _raw_combinations(maps[0]), list[Array]()
    for features in maps:
        theirs, change = _raw_combinations(features), np.identity(len(maps[0].names))
        if not np.array_equal(ours, theirs):
            change = np.asarray(np.linalg.lstsq(theirs, ours)[0], dtype=np.float64)
            if (np.abs(theirs @ change - ours) > _ROUNDING * np.abs(ours).max(axis=0)).any():
                raise InputError(
                    "the releases do not go together: they leave out different columns, because "
                    "in one a column depends on others; plan them without it"
                )
        changes.append(change)
    numeric = tuple(
        replace(
            columns[0],
            low=min(column.low for column in columns),
            high=max(column.high for column in columns),
            winsorised=all(column.winsorised for column in columns),
        )
        for columns in zip(*(each.numeric for each in maps), strict=True)
    )
    rows = sum(each.rows for each in maps)
    return changes, replace(maps[0], rows=rows, numeric=numeric)


def pool(parts: Sequence[NoisyNormalEquations]) -> NoisyNormalEquations:
    """Return the equations of several tables of the same columns, with different rows.

    The XᵀX add. The coefficients are the mean of the tables' own, each weighed by how well it is
    known: by its noise and, where residuals are published, the sampling of its rows. If the tables
    differ in their coefficients, that mean is what is estimated, and the covariance is exactly its.
    Noise of several that is radial is taken for normal, which a sum of it nearly is.
    """
    stacked = np.concatenate([part.root for part in parts])
    estimate = np.concatenate([part.estimate for part in parts])
    spread = np.asarray(block_diag(*(part.spread for part in parts)), dtype=np.float64)
    root = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
    rows = sum(part.rows or 0 for part in parts)
    residuals = [part.residual_ss for part in parts if part.residual_ss is not None]
    all_known = len(residuals) == len(parts)
    within = sum(residual.value for residual in residuals)
    sampling = max(0.0, within) / max(1, rows - len(estimate)) if all_known else 0.0
    precision = np.linalg.inv(spread @ spread.T + sampling * np.eye(len(estimate)))
    weighted = stacked.T @ precision
    solution = np.linalg.solve(weighted @ stacked, weighted)  # b̃ of all parts → coefficients
    residual = total = None
    if all_known:
        outside = np.eye(len(estimate)) - stacked @ solution
        between = square_norm(outside @ estimate, outside @ spread)
        errors = [each.error for each in (*residuals, between)]
        residual = NoisyValue(within + between.value, math.hypot(*errors))
    totals = [part.total_ss for part in parts if part.total_ss is not None]
    if len(totals) == len(parts):  # within the tables, and between their means
        shares = np.sqrt([(part.rows or 0) / rows for part in parts])
        along = block_diag(*(_mean_row(part) for part in parts))
        apart = along - np.outer(shares, shares @ along)
        between = square_norm(apart @ estimate, apart @ spread)
        value = sum(each.value for each in totals) + between.value
        total = NoisyValue(value, math.hypot(*(each.error for each in (*totals, between))))
    joint, constant = root @ solution, parts[0].constant
    joint_spread = joint @ spread
    return NoisyNormalEquations(
        root, joint @ estimate, joint_spread, constant, rows, residual, total
    )


def _mean_row(part: NoisyNormalEquations) -> Array:
    """Return q0 as a row; 0 without a constant, where labels vary about 0."""
    mean = part.mean_direction
    return np.zeros((1, len(part.estimate))) if mean is None else mean[None]


def _check_together(releases: Sequence[Release]) -> None:
    """Refuse releases that cannot be fitted together.

    Numbers must be affine maps of each other, but for rows winsorised at other ends.
    """
    problem, forms = None, []
    for release in releases:
        features, label = release.features, release.certificate["labels"]["column"]
        numbers = [
            (each.indicator, each.log, each.missing and not each.indicator and each.imputed)
            for each in features.numeric
        ]
        forms.append((label, features.columns, features.intercept, features.categorical, numbers))
    rows = {release.certificate["digests"]["feature_sums"] for release in releases}
    if not all(isinstance(release.label_model, SumLabels) for release in releases):
        problem = (
            "one is not of sums with public weights, as those of shaped-flag are; fit it alone"
        )
    elif len(rows) < len(releases):
        problem = "two are of the same rows, and their privacy adds up; fit one of them"
    elif any(form != forms[0] for form in forms):
        problem = (
            "they differ in their label, in columns, in the levels of one, in what missing values "
            "of one count as, or in logarithms; plan them alike"
        )
    if problem is not None:
        raise InputError(f"the releases do not go together: {problem}")


def _raw_combinations(features: FeatureMap) -> Array:
    """Return every design column as a combination of raw ones, in raw units.

    A number that is missing counts as 0 and as what its indicator adds. With a constant the first
    level of each category is what the others leave of it, so a map may leave out any one of them.
    """
    names, matrix = features.to_original_units()
    added = len(names) - len(features.names)
    raw = np.zeros((features.width, matrix.shape[1]))
    raw[[0] * added + list(features.kept_columns)] = matrix
    place = int(features.intercept)
    for column in features.numeric:
        if column.indicator:
            raw[place + 1] += column.imputed * raw[place]
        place += len(column.design_columns)
    if not features.intercept:
        return raw
    for block in features.category_blocks:
        raw[0] += raw[block.start]
        raw[block.start + 1 : block.stop] -= raw[block.start]
    return np.delete(raw, [block.start for block in features.category_blocks], axis=0)
