"""The convex problem behind shaped-flag on some rows: its dual, by multiplicative steps.

Whitened rows u_i, so that Σ u_i u_iᵀ = I over all n rows of the table. Theory §9:

    min tr S  subject to  u_iᵀS⁻¹u_i ≤ 1      =      max over weights p of (tr M^½)²,
    M = Σ p_i u_i u_iᵀ + (p_0/n)·I,           S = M^½·max_i g_i,  g_i = u_iᵀM^{-½}u_i.

p_0 is the weight of the uniform measure over all rows, which keeps M regular: p_0 = 1 is
isotropic noise. With T = tr M^½ every Σ p_i g_i = T, and p is optimal where no g_i exceeds T. A
step multiplies every weight by a power of g_i/T; the square is known to ascend, the cube takes
two thirds of the steps on every table tried. Any p gives a lower bound of the optimum (weak
duality), and any M an S that is feasible for these rows, so nothing rests on convergence.

With a ridge in the whitening (`ridge.py`) Σ u_i u_iᵀ is some W in place of I: so is the uniform
measure's share of M, and tr S is what the noise adds to a fit that shrinks so.

Fewer rows than columns span a subspace, and M is (p_0/n)·I outside it: then all work is in the
subspace. That is what keeps very wide tables bounded: a low-rank correction of isotropic noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF

Array = NDArray[np.float64]

_FLOOR = 1e-15
"""Of the eigenvalues of M, relative to the largest."""
_FIRST_POWER, _POWER = 2.0, 3.0
_SETTLED = 4
"""Steps after which rows that carry no weight are left out of the rest."""
_IDLE, _LOW = 1e-4, 0.9
"""Such rows: less of the mean weight, and of g/T."""
_UNIFORM = np.linspace(0.0, 1.0, 41)
"""Shares of the uniform measure that a bound is the best of."""


@dataclass(frozen=True)
class Mixture:
    """Weights p of the rows and p_0 of the uniform measure; they add up to 1."""

    rows: Array = field(repr=False)
    """u_i, one row each."""
    weights: Array = field(repr=False)
    uniform: float
    even: Array | None = field(default=None, repr=False)
    """Σ u_i u_iᵀ over all rows of the table; None: the identity."""

    def take(self, chosen: NDArray[np.bool_]) -> Mixture:
        """These rows alone, with all the weight."""
        rows, weights = self.rows[chosen], self.weights[chosen]
        return _normal(replace(self, rows=rows, weights=weights))

    def joined(self, rows: Array, excess: Array, share: float) -> Mixture:
        """With new rows, which get this share of the weight by how far they exceed the others."""
        fresh = share * excess / excess.sum()
        weights = np.concatenate([(1 - share) * self.weights, fresh])
        together, uniform = np.concatenate([self.rows, rows]), (1 - share) * self.uniform
        return _normal(replace(self, rows=together, weights=weights, uniform=uniform))


@dataclass(frozen=True)
class Solution:
    """The best S found, and the mixture that the next search may start from."""

    trace: float
    """tr S, feasible for the rows that were given."""
    bound: float
    """No S that is feasible for all rows of the table has less."""
    mixture: Mixture = field(repr=False)
    basis: Array | None = field(repr=False)
    """Orthonormal columns that span the rows; None: all of space."""
    values: Array = field(repr=False)
    vectors: Array = field(repr=False)
    """S is V·diag(values)·Vᵀ within the span..."""
    outside: float
    """...and so many times the identity outside."""

    def covariance(self) -> Array:
        """S."""
        inner = (self.vectors * self.values) @ self.vectors.T
        if self.basis is None:
            return np.asarray(inner)
        inner[np.diag_indices_from(inner)] -= self.outside
        whole = self.basis @ inner @ self.basis.T
        whole[np.diag_indices_from(whole)] += self.outside
        return np.asarray(whole)


def by_leverage(rows: Array, uniform: float, even: Array | None = None) -> Mixture:
    """Weights in proportion to the leverage: where a search starts."""
    leverage = np.square(rows).sum(axis=1)
    weights = (1 - uniform) * leverage / leverage.sum()
    return _normal(Mixture(rows, weights, uniform, even))


def solve(
    start: Mixture, table_rows: int, *, steps: int, tolerance: float, least_uniform: float
) -> Solution:
    """Multiplicative steps until no row exceeds the mean by more than `tolerance`."""
    basis = _basis(start.rows) if start.even is None else None
    inner = start if basis is None else replace(start, rows=start.rows @ basis)
    missing = start.rows.shape[1] - inner.rows.shape[1]
    everything = np.arange(len(start.weights))
    kept, best, bound = everything, None, 0.0
    for step in range(steps):
        point = _Point.at(inner, table_rows, missing)
        bound = max(bound, point.bound)
        if best is None or point.trace < best[0].trace:
            best = point, inner, kept
        if point.excess <= tolerance:
            break
        power = _FIRST_POWER if step == 0 else _POWER
        weights = inner.weights * point.ratios**power
        uniform = max(least_uniform, inner.uniform * point.uniform_ratio**power)
        inner = _normal(replace(inner, weights=weights, uniform=uniform))
        if step >= _SETTLED:
            idle = (inner.weights < _IDLE * inner.weights.mean()) & (point.ratios < _LOW)
            inner, kept = inner.take(~idle), kept[~idle]
    assert best is not None  # at least one step
    point, inner, kept = best
    mixture = replace(inner, rows=start.rows[kept])
    top = point.trace / point.total
    return Solution(
        point.trace, bound, mixture, basis, top * point.roots, point.vectors, top * point.outside
    )


def lower_bound(rows: Array, weights: Array, table_rows: int) -> float:
    """(tr M^½)² of these weights, as of `Solution.bound`, by the eigenvalues alone.

    The uniform measure only shifts them, so the best share of it comes for free.
    """
    halves = rows * np.sqrt(weights / weights.sum())[:, None]
    found = np.linalg.eigvalsh(halves.T @ halves)  # with itself: half the work
    return max(_sure((1 - share) * found + share / table_rows, 0.0) for share in _UNIFORM)


@dataclass(frozen=True)
class _Point:
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
        """How far the largest g exceeds the mean T."""
        return max(float(self.ratios.max()), self.uniform_ratio) - 1.0

    @property
    def trace(self) -> float:
        """Of S = M^½·max g."""
        return self.total**2 * (1.0 + self.excess)

    @classmethod
    def at(cls, mixture: Mixture, table_rows: int, missing: int) -> _Point:
        rows, even = mixture.rows, mixture.even
        least = mixture.uniform / table_rows if even is None else 0.0
        found, vectors = np.linalg.eigh(_matrix(mixture, table_rows))
        roots = np.sqrt(np.maximum(found, max(least, _FLOOR * found[-1])))
        outside = least**0.5
        total = float(roots.sum()) + missing * outside
        values = np.square((rows @ vectors) / np.sqrt(roots)).sum(axis=1)
        spread = 1 / roots if even is None else ((even @ vectors) * vectors).sum(axis=0) / roots
        mean = (float(spread.sum()) + (missing / outside if missing else 0.0)) / table_rows
        bound = _sure(found, missing * outside)
        return cls(total, roots, vectors, outside, values / total, mean / total, bound)


def _matrix(mixture: Mixture, table_rows: int) -> Array:
    """M."""
    rows = mixture.rows
    matrix = (rows * mixture.weights[:, None]).T @ rows
    if mixture.even is not None:
        return np.asarray(matrix + mixture.even * (mixture.uniform / table_rows))
    matrix[np.diag_indices_from(matrix)] += mixture.uniform / table_rows
    return np.asarray(matrix)


def _sure(eigenvalues: Array, more: float) -> float:
    """(tr M^½)², at most: eigenvalues are known to a few roundings of the largest."""
    error = 4 * (len(eigenvalues) + 8) * ROUNDOFF * eigenvalues[-1]
    total = float(np.sqrt(np.maximum(eigenvalues - error, 0.0)).sum()) + more
    return total**2 * (1 - 1e-12)


def _basis(rows: Array) -> Array | None:
    """Orthonormal columns that span the rows, where these are fewer than the columns."""
    if rows.shape[0] >= rows.shape[1]:
        return None
    return np.asarray(np.linalg.qr(rows.T)[0])


def _normal(mixture: Mixture) -> Mixture:
    total = float(mixture.weights.sum()) + mixture.uniform
    return replace(mixture, weights=mixture.weights / total, uniform=mixture.uniform / total)
