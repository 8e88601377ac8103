"""Least squares on m aggregates (Z, t), as pure functions.

The rows of [Z | t] are iid N(0, AᵀA) with A = [X | y] (theory §1, §3a). Given Z this reads
t = Zβ̂ + e with e iid N(0, σ²) independent of Z, where β̂ is the least-squares fit on all the rows
and σ² its residual sum of squares. So ordinary least squares *without a further intercept* (the
aggregated constant is a column of Z) estimates β̂, and its t-intervals are exact (theory §5).

Scale. ZᵀZ ≈ m·XᵀX, hence a ridge penalty of m·α on the aggregates plays the part of α on the
rows. Norms are taken over the coefficients of the columns of Z as they are in the release: no
column is rescaled here, so a norm bound means what it means for the release's own encoding.

Rank. Directions whose singular value is below `rank_tolerance` times the largest count as absent:
the answer is the solution of least norm. X and Z have the same null space (almost surely, for
m ≥ rank X), so that is the least-norm fit on all the rows too, and the intervals are exact for it.

Cost. Only the triangular factor of [Z | t] is used, computed a block of rows at a time: O(m·p²)
work, and beyond the input a fixed block and O(p²) memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InputError, at_least, in_range, positive

Array: TypeAlias = NDArray[np.float64]

_BLOCK_ENTRIES = 1 << 22  # entries of Z factored at once: 32 MB
_INDEPENDENT = 1e-5  # smallest part of a column outside the span of those before it
_NEWTON_STEPS = 200  # five or six are usual; only a safeguard needs more


@dataclass(frozen=True, eq=False)
class Fit:
    """A linear fit r of the labels t by the design Z."""

    coefficients: Array
    """r, one per column of Z."""
    multiplier: float
    """λ in (ZᵀZ + λD)r = Zᵀt: the penalty, or the norm bound's price; 0 if nothing held r back."""
    residual_ss: float
    """‖t − Zr‖²."""
    rows: int
    """m."""
    rank: int
    """Numerical rank of Z."""
    dof: float
    """m less the trace of the hat matrix; m − rank if λ = 0."""
    covariance_factor: Array
    """F with Cov(r | Z) = σ²FFᵀ, λ taken as fixed: FFᵀ = (ZᵀZ)⁻¹ if λ = 0 and Z has full rank."""

    @property
    def residual_ms(self) -> float:
        """Residual mean square, NaN where no degree of freedom is left.

        On a release it estimates σ² (plus any added floor variance): the residual *sum* of squares
        on all the rows, because an aggregate has the scale of a sum.
        """
        return self.residual_ss / self.dof if self.dof > 0 else math.nan


def ridge(
    Z: ArrayLike,
    t: ArrayLike,
    penalty: float,
    *,
    intercept: int | None = None,
    rank_tolerance: float | None = None,
) -> Fit:
    """argmin ‖t − Zr‖² + penalty·‖r‖²; the column `intercept`, if given, is not penalised.

    At penalty 0 that is ordinary least squares, of least norm where it is not unique (the norm
    does not count `intercept`).
    """
    at_least(0, penalty=penalty)
    small = _compress(Z, t, rank_tolerance)
    constant = _Constant.of(small.design, intercept)
    spectrum = _Spectrum.of(constant.removed_from(small.design), small)
    factor = constant.restored_to(spectrum.factor(penalty), small.design)
    coordinates = np.append(spectrum.coordinates, constant.coordinate(small.labels))
    return _finish(
        small,
        factor @ coordinates,
        factor=factor,
        multiplier=float(penalty),
        rank=spectrum.rank + constant.rank,
        trace=spectrum.trace(penalty) + constant.rank,
    )


def bounded_norm(
    Z: ArrayLike, t: ArrayLike, radius: float, *, rank_tolerance: float | None = None
) -> Fit:
    """argmin ‖t − Zr‖ subject to ‖r‖₂ ≤ radius: the paper's class F_{B_r} with B_r = `radius`.

    The norm is over *all* coefficients of Z as they are, that of the constant column included.
    If the least-norm solution fits inside, it is the answer (multiplier 0); else
    r = (ZᵀZ + λI)⁻¹Zᵀt with the one λ > 0 at which ‖r‖ = radius.
    """
    positive(radius=radius)
    small = _compress(Z, t, rank_tolerance)
    spectrum = _Spectrum.of(small.design, small)
    multiplier = spectrum.secular_root(radius)
    factor = spectrum.factor(multiplier)
    coefficients = factor @ spectrum.coordinates
    norm = _norm(coefficients)
    if norm > radius:  # by rounding alone: the root is good to a few units in the last place
        coefficients = coefficients * (radius / norm)
    return _finish(
        small,
        coefficients,
        factor=factor,
        multiplier=multiplier,
        rank=spectrum.rank,
        trace=spectrum.trace(multiplier),
    )


def intervals(
    fit: Fit, transform: ArrayLike | None = None, *, confidence: float = 0.95
) -> tuple[Array, Array, Array]:
    """(value, low, high) of `transform` @ coefficients: t-intervals on m − rank degrees of freedom.

    On a release of iid aggregates each interval holds its entry of transform @ β̂ with
    probability exactly `confidence`, whatever the law of the labels (theory §5).
    """
    from scipy.special import stdtrit

    in_range(0, 1, confidence=confidence)
    if fit.multiplier > 0:
        raise InputError(
            "intervals need a fit that nothing shrinks: drop the penalty or widen the norm bound"
        )
    require_freedom(fit)
    T = np.eye(len(fit.coefficients)) if transform is None else np.asarray(transform, float)
    value = T @ fit.coefficients
    spread = np.linalg.norm(T @ fit.covariance_factor, axis=1)
    reach = stdtrit(fit.dof, (1 + confidence) / 2) * math.sqrt(fit.residual_ms) * spread
    return value, value - reach, value + reach


def require_freedom(fit: Fit) -> None:
    """Refuse an unshrunk fit that passes through every aggregate: it tells nothing."""
    if fit.dof < 1:
        raise InputError(
            f"least squares needs more aggregates than columns: {fit.rows} for "
            f"{fit.rank} independent columns; publish more, or set a penalty or a norm bound"
        )


# --- the small problem: the triangle of [Z | t] has the same solutions as [Z | t] ---


@dataclass(frozen=True, eq=False)
class _Small:
    """The triangular factor of [Z | t], cut in two."""

    design: Array
    labels: Array
    rows: int
    rank_tolerance: float


def compressed(Z: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
    """As many rows as columns, and one, with the same inner products."""
    small = _compress(Z, t, None)
    return small.design, small.labels


def _compress(Z: ArrayLike, t: ArrayLike, rank_tolerance: float | None) -> _Small:
    design, labels = _checked(Z, t)
    rows, columns = design.shape
    triangle = np.empty((0, columns + 1))
    step = max(4 * (columns + 1), _BLOCK_ENTRIES // (columns + 1))
    for start in range(0, rows, step):
        block = np.column_stack([design[start : start + step], labels[start : start + step]])
        triangle = _triangle(np.vstack([triangle, block]))
    noise = max(rows, columns) * float(np.finfo(float).eps)  # as numpy.linalg.matrix_rank
    tolerance = noise if rank_tolerance is None else rank_tolerance
    return _Small(triangle[:, :columns], triangle[:, columns], rows, tolerance)


def _triangle(block: Array) -> Array:
    """R of a QR factorisation, by Cholesky twice where that is as good as Householder.

    Cholesky of the Gram matrix, then of what it left to orthogonalise, is backward stable
    while the (scaled) columns have a condition below 1e8, and several times faster.
    """
    from scipy.linalg import solve_triangular  # late: a model predicts without it

    rows, columns = block.shape
    if rows > 4 * columns:
        scale = np.sqrt(np.einsum("ij,ij->j", block, block))
        if scale.min() > 0:
            unit = block / scale
            first = _cholesky(unit.T @ unit)
            if first is not None:
                rest = solve_triangular(first, unit.T, lower=True, check_finite=False)
                second = _cholesky(rest @ rest.T)
                if second is not None:
                    return np.asarray((first @ second).T * scale)
    return np.asarray(np.linalg.qr(block, mode="r"), dtype=np.float64)


def _cholesky(gram: Array) -> Array | None:
    """The lower factor, or None where columns are too nearly dependent for it."""
    try:
        lower: Array = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return lower if np.diagonal(lower).min() > _INDEPENDENT else None


def _checked(Z: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
    design, labels = np.asarray(Z, dtype=np.float64), np.asarray(t, dtype=np.float64)
    if design.ndim != 2 or labels.ndim != 1 or len(design) != len(labels):
        raise InputError(
            "design must be rows by columns and labels one per row, "
            f"not shapes {design.shape} and {labels.shape}"
        )
    if design.size == 0:
        raise InputError(f"design must have a row and a column, not shape {design.shape}")
    if not (np.isfinite(design).all() and np.isfinite(labels).all()):
        raise InputError("design and labels must be finite: drop or fill rows with missing values")
    return design, labels


def _finish(
    small: _Small, coefficients: Array, *, factor: Array, multiplier: float, rank: int, trace: float
) -> Fit:
    residual = small.labels - small.design @ coefficients
    dof = float(small.rows - rank) if multiplier == 0 else small.rows - trace
    return Fit(
        coefficients=coefficients,
        multiplier=multiplier,
        residual_ss=float(residual @ residual),
        rows=small.rows,
        rank=rank,
        dof=dof,
        covariance_factor=factor,
    )


@dataclass(frozen=True, eq=False)
class _Constant:
    """The unpenalised column: projected out before the SVD, put back after it."""

    column: int
    direction: Array
    """Its unit vector; empty if there is no such column."""
    length: float

    @classmethod
    def of(cls, design: Array, column: int | None) -> _Constant:
        if column is None:
            return cls(0, np.empty(0), 0.0)
        if not -design.shape[1] <= column < design.shape[1]:
            raise InputError(f"intercept must be a column of the design, not {column}")
        values = design[:, column]
        length = _norm(values)
        return cls(column, values / length if length > 0 else np.empty(0), length)

    @property
    def rank(self) -> int:
        return int(self.direction.size > 0)

    def coordinate(self, labels: Array) -> Array:
        return np.array([self.direction @ labels] if self.rank else [])

    def removed_from(self, design: Array) -> Array:
        if not self.rank:
            return design
        rest = design - np.outer(self.direction, self.direction @ design)
        rest[:, self.column] = 0.0
        return rest

    def restored_to(self, factor: Array, design: Array) -> Array:
        """The factor of the whole fit from that of the projected one, a column more."""
        if not self.rank:
            return factor
        own = np.zeros(len(factor))
        own[self.column] = 1 / self.length
        whole = np.column_stack([factor, own])
        slopes = self.direction @ design
        slopes[self.column] = 0.0
        whole[self.column, :-1] = -(slopes @ factor) / self.length
        return whole


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Thin SVD of the design, and the labels in its left vectors."""

    values: Array
    """Singular values that count, largest first."""
    right: Array
    """Right singular vectors as columns."""
    coordinates: Array
    """Uᵀt."""

    @classmethod
    def of(cls, design: Array, small: _Small) -> _Spectrum:
        left, values, right = np.linalg.svd(design, full_matrices=False)
        # relative to the whole design: projecting out the constant must not make noise look large
        scale = max(float(values[0]), float(np.linalg.norm(small.design, axis=0).max()))
        keep = values > small.rank_tolerance * scale
        return cls(values[keep], right[keep].T, left[:, keep].T @ small.labels)

    @property
    def rank(self) -> int:
        return len(self.values)

    def damped(self, multiplier: float) -> Array:
        """(s² + λ)/s, written so that s² cannot underflow."""
        return self.values + multiplier / self.values

    def factor(self, multiplier: float) -> Array:
        return self.right / self.damped(multiplier)

    def trace(self, multiplier: float) -> float:
        return float(np.sum(self.values / self.damped(multiplier)))

    def secular_root(self, radius: float) -> float:
        """λ ≥ 0 with ‖r(λ)‖ = radius, 0 if ‖r(0)‖ is within it already.

        φ(λ) = 1/‖r(λ)‖ − 1/radius is increasing and concave on λ ≥ 0, so Newton's steps from the
        left climb to the root without passing it; the bracket only guards against rounding. From
        ‖Zᵀt‖/(s₁² + λ) ≤ ‖r(λ)‖ ≤ ‖Zᵀt‖/λ the root is in [‖Zᵀt‖/radius − s₁², ‖Zᵀt‖/radius].
        """
        if _norm(self.coordinates / self.values) <= radius:  # an empty spectrum has norm 0
            return 0.0
        size, top = _norm(self.coordinates), self.values[0]
        unit = _Spectrum(self.values / top, self.right, self.coordinates / size)
        bound = float(radius / size * top)  # the radius in units where s₁ = ‖Uᵀt‖ = 1
        high = _norm(unit.values * unit.coordinates) / bound if bound > 0 else math.inf
        if not math.isfinite(high):
            raise InputError(f"radius {radius} is too small for double precision")
        root = unit._newton(max(0.0, high - 1.0), high, bound)
        return float(root * top * top)

    def _newton(self, low: float, high: float, bound: float) -> float:
        root = low
        for _ in range(_NEWTON_STEPS):
            damped = self.damped(root)
            solution = self.coordinates / damped
            norm = _norm(solution)
            if abs(norm - bound) <= 4 * np.finfo(float).eps * bound:
                break
            low, high = (root, high) if norm > bound else (low, root)
            weight = (solution / norm) ** 2
            slope = float(np.sum(weight / (self.values * damped)))
            step = root + (norm - bound) / (bound * slope)
            following = step if low < step < high else (low + high) / 2
            if following in (root, low, high):
                break
            root = following
        return root


def _norm(vector: Array) -> float:
    return float(np.linalg.norm(vector))
