"""The dual of the noise-shape problem on some rows, by multiplicative steps (theory §9).

With whitened rows u_i, so that Σ u_i u_iᵀ = I over all n rows of the table:

    min tr S  subject to  u_iᵀS⁻¹u_i ≤ 1      =      max over weights p of (tr M^½)²,
    M = Σ p_i u_i u_iᵀ + (p_0/n)·I,           S = M^½·max_i g_i,  g_i = u_iᵀM^{-½}u_i.

p_0 is the weight of the uniform measure over all rows. It keeps M regular; p_0 = 1 is isotropic
noise. With T = tr M^½ every Σ p_i g_i = T, and p is optimal where no g_i exceeds T. A step
multiplies every weight by a power of g_i/T; the square is known to ascend, the cube takes two
thirds of the steps on every table tried. Any p gives a lower bound of the optimum (weak duality),
and any M an S that is feasible for these rows, so nothing rests on convergence.

With a ridge in the whitening Σ u_i u_iᵀ is some W in place of I: so is the uniform measure's
share of M, and tr S is what the noise adds to a fit that shrinks so.

Fewer rows than columns span a subspace, and M is (p_0/n)·I outside it: then all work is in the
subspace. That keeps very wide tables tractable: a low-rank correction of isotropic noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF

Array = NDArray[np.float64]

_EIGENVALUE_FLOOR = 1e-15
"""Least eigenvalue of M, relative to the largest: M^{-½} must stay finite."""
_FIRST_POWER, _POWER = 2.0, 3.0
_DROP_AFTER = 4
"""Steps after which rows that carry no weight are dropped."""
_IDLE, _LOW = 1e-4, 0.9
"""Such rows have less than this share of the mean weight, and g/T below this."""
_UNIFORM_SHARES = np.linspace(0.0, 1.0, 41)
"""Shares of the uniform measure of which `lower_bound` takes the best."""


@dataclass(frozen=True)
class RowMixture:
    """Dual weights p of some rows and p_0 of the uniform measure; they add up to 1."""

    rows: Array = field(repr=False)
    """u_i, one row each."""
    weights: Array = field(repr=False)
    uniform: float
    second_moment: Array | None = field(default=None, repr=False)
    """W = Σ u_i u_iᵀ over all rows of the table; None: the identity."""

    def take(self, chosen: NDArray[np.bool_]) -> RowMixture:
        """Return these rows alone, with all the weight."""
        return replace(self, rows=self.rows[chosen], weights=self.weights[chosen]).normalized()

    def heaviest(self, count: int) -> RowMixture:
        """Return the rows of largest weight."""
        if len(self.weights) <= count:
            return self
        chosen = np.zeros(len(self.weights), dtype=bool)
        chosen[np.argsort(-self.weights, kind="stable")[:count]] = True
        return self.take(chosen)

    def joined(self, rows: Array, excess: Array, share: float) -> RowMixture:
        """Add rows, which get this share of the weight in proportion to `excess`."""
        weights = np.concatenate([(1 - share) * self.weights, share * excess / excess.sum()])
        together, uniform = np.concatenate([self.rows, rows]), (1 - share) * self.uniform
        return replace(self, rows=together, weights=weights, uniform=uniform).normalized()

    def normalized(self) -> RowMixture:
        """Return the same with weights that add up to 1."""
        total = float(self.weights.sum()) + self.uniform
        return replace(self, weights=self.weights / total, uniform=self.uniform / total)


def leverage_mixture(rows: Array, uniform: float, second_moment: Array | None = None) -> RowMixture:
    """Return weights in proportion to the leverage: where a search starts."""
    leverage = np.square(rows).sum(axis=1)
    weights = (1 - uniform) * leverage / leverage.sum()
    return RowMixture(rows, weights, uniform, second_moment).normalized()


@dataclass(frozen=True)
class DualSolution:
    """The best S found, and the mixture that the next search may start from."""

    trace: float
    """tr S, feasible for the rows that were given."""
    bound: float
    """No S that is feasible for all rows of the table has less."""
    mixture: RowMixture = field(repr=False)
    basis: Array | None = field(repr=False)
    """Orthonormal columns that span the rows; None: all of space."""
    values: Array = field(repr=False)
    vectors: Array = field(repr=False)
    """S is V·diag(values)·Vᵀ within the span..."""
    outside: float
    """...and so many times the identity outside."""

    def covariance(self) -> Array:
        """Return S."""
        inner = (self.vectors * self.values) @ self.vectors.T
        if self.basis is None:
            return np.asarray(inner)
        inner[np.diag_indices_from(inner)] -= self.outside
        whole = self.basis @ inner @ self.basis.T
        whole[np.diag_indices_from(whole)] += self.outside
        return np.asarray(whole)


def solve_dual(
    start: RowMixture, table_rows: int, *, steps: int, tolerance: float, least_uniform: float
) -> DualSolution:
    """Take multiplicative steps until no g_i exceeds T by more than `tolerance`."""
    basis = None
    if start.second_moment is None and start.rows.shape[0] < start.rows.shape[1]:
        basis = np.asarray(np.linalg.qr(start.rows.T)[0])
    mixture = start if basis is None else replace(start, rows=start.rows @ basis)
    missing = start.rows.shape[1] - mixture.rows.shape[1]
    kept, best, bound = np.arange(len(start.weights)), None, 0.0
    for step in range(steps):
        point = _DualPoint.at(mixture, table_rows, missing)
        bound = max(bound, point.bound)
        if best is None or point.trace < best[0].trace:
            best = point, mixture, kept
        if point.excess <= tolerance:
            break
        power = _FIRST_POWER if step == 0 else _POWER
        weights = mixture.weights * point.ratios**power
        uniform = max(least_uniform, mixture.uniform * point.uniform_ratio**power)
        mixture = replace(mixture, weights=weights, uniform=uniform).normalized()
        if step >= _DROP_AFTER:
            idle = (mixture.weights < _IDLE * mixture.weights.mean()) & (point.ratios < _LOW)
            mixture, kept = mixture.take(~idle), kept[~idle]
    assert best is not None  # at least one step
    point, mixture, kept = best
    top = point.trace / point.total  # max_i g_i
    return DualSolution(
        point.trace,
        bound,
        replace(mixture, rows=start.rows[kept]),
        basis,
        top * point.roots,
        point.vectors,
        top * point.outside,
    )


def lower_bound(rows: Array, weights: Array, table_rows: int) -> float:
    """Return (tr M^½)² of these weights, a lower bound like `DualSolution.bound`.

    The uniform measure only shifts eigenvalues, so the best share of it comes for free.
    """
    halves = rows * np.sqrt(weights / weights.sum())[:, None]
    eigenvalues = np.linalg.eigvalsh(halves.T @ halves)  # with itself: half the work
    return max(
        _safe_bound((1 - share) * eigenvalues + share / table_rows, 0.0)
        for share in _UNIFORM_SHARES
    )


@dataclass(frozen=True)
class _DualPoint:
    """M at some weights."""

    total: float
    """T = tr M^½."""
    roots: Array
    vectors: Array
    outside: float
    """Eigenvalues and eigenvectors of M^½ in the span, and its eigenvalue outside."""
    ratios: Array
    uniform_ratio: float
    """g_i/T, and that of the uniform measure."""
    bound: float

    @property
    def excess(self) -> float:
        """How far the largest g exceeds T, relative."""
        return max(float(self.ratios.max()), self.uniform_ratio) - 1.0

    @property
    def trace(self) -> float:
        """tr S of S = M^½·max g."""
        return self.total**2 * (1.0 + self.excess)

    @classmethod
    def at(cls, mixture: RowMixture, table_rows: int, missing: int) -> _DualPoint:
        rows, second_moment = mixture.rows, mixture.second_moment
        matrix = (rows * mixture.weights[:, None]).T @ rows
        if second_moment is None:
            least = mixture.uniform / table_rows
            matrix[np.diag_indices_from(matrix)] += mixture.uniform / table_rows
        else:
            least = 0.0
            matrix = matrix + second_moment * (mixture.uniform / table_rows)
        eigenvalues, vectors = np.linalg.eigh(matrix)
        floor = max(least, _EIGENVALUE_FLOOR * eigenvalues[-1])
        roots = np.sqrt(np.maximum(eigenvalues, floor))
        outside = least**0.5
        total = float(roots.sum()) + missing * outside
        values = np.square((rows @ vectors) / np.sqrt(roots)).sum(axis=1)
        if second_moment is None:
            spread = 1 / roots
        else:
            spread = ((second_moment @ vectors) * vectors).sum(axis=0) / roots
        mean = (float(spread.sum()) + (missing / outside if missing else 0.0)) / table_rows
        bound = _safe_bound(eigenvalues, missing * outside)
        return cls(total, roots, vectors, outside, values / total, mean / total, bound)


def _safe_bound(eigenvalues: Array, more: float) -> float:
    """Return (tr M^½)² rounded down: eigenvalues are off by a few roundings of the largest."""
    error = 4 * (len(eigenvalues) + 8) * ROUNDOFF * eigenvalues[-1]
    total = float(np.sqrt(np.maximum(eigenvalues - error, 0.0)).sum()) + more
    return total**2 * (1 - 1e-12)
