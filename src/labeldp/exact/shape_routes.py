"""Two ways to a better C from the rows that passes bring (theory §9).

`FullRoute` solves the problem itself; its steps cost d³. With a limit on its rows it corrects
isotropic noise in the span of the worst ones only, whatever d. `DesignRoute` is for wide tables:
CᵀC is diagonal in coordinates w = Bx that one-hot columns share with the design, while numbers
are whitened against each other and all else. The row's constraint Σ a_k·w_ik² ≤ 1 is then linear
in a, the noise is Σ c_k/a_k with c_k = ((BGBᵀ)⁻¹)_kk, and with m_k = Σ p_i·w_ik² the dual is

    max over p of (Σ √(c_k·m_k))²,   a_k ∝ √(c_k/m_k):

the same multiplicative steps at the cost of one product with the rows. Its dual bounds diagonal
shapes only; the p it ends with bounds all shapes, by the eigenvalues of M. Levels that no row at
hand has must not seem free: part of m is that of levels drawn from every category by themselves,
each with chance c_k. That alone would give a category's levels the same a, which any row obeys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import LARGE, VerifiedCholesky
from labeldp.exact.shape_dual import Mixture, by_leverage, lower_bound, solve
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]

_LEAST_UNIFORM = (0.03, 0.003, 1e-4)
"""Weight of the uniform measure, round by round: few rows must not speak for all at first."""
_TOLERANCE = (0.04, 0.02, 0.015, 0.01)
_LEAST_SPREAD = (0.03, 0.01, 0.003, 0.001)
"""Share of levels drawn by themselves, round by round."""
_STEPS, _LEAST_STEPS, _CHEAP_STEPS = 40, 4, 80
_WORK = 8e10
"""Floating-point operations of a round: some 3 s on two cores."""
_TURNS = 2
"""Solutions between two passes, each with the rows in reserve that object to the one before."""
_SHARE = 0.2
"""Weight of the rows that a pass brings."""
_INSURANCE, _LEAST_INSURANCE = 0.05, 0.005
_INSURED_ROWS = 50.0
"""Few rows need the whole insurance of the mean; with many a tenth does as well."""
_SPARSE = 0.02
"""Share of entries up to which rows are multiplied entry by entry."""
_IDLE, _LOW = 1e-4, 0.9
"""Rows left out: less of the mean weight, and of the largest length."""


class Route(Protocol):
    """Proposes C for scaled codes x·2**-e, and learns which rows are longer than 1."""

    kind: str

    def propose(self, number: int) -> Array:
        """Lower triangular C of round `number`, of length 1 on the rows known so far."""

    def take_in(self, rows: Array, reserve: Array) -> None:
        """Rows that a pass with that C found, as scaled codes, and some in reserve."""

    def trace(self) -> float:
        """tr S of that C, before it is rounded."""

    def bound(self) -> float:
        """A lower bound of the trace of every shape, from the weights at hand."""


class FullRoute:
    """The S of least trace on the rows at hand; of at most `limit` of them at a time."""

    def __init__(
        self,
        factor: VerifiedCholesky,
        mean: Array | None,
        rows: Array,
        reserve: Array | None = None,
        limit: int | None = None,
        even: Array | None = None,
    ) -> None:
        """`even` is Σ u_i u_iᵀ over the table, where the factor is one with a ridge."""
        self.kind = "full" if limit is None else "low-rank"
        self._factor, self._mean, self._limit = factor, mean, limit
        rows = rows if limit is None else rows[:limit]
        self._mixture = by_leverage(_white(rows, factor), _LEAST_UNIFORM[0], even)
        self._reserve = rows[:0] if reserve is None else _white(reserve, factor)
        self._root = self._weights = np.empty((0, 0))
        self._bound = self._trace = 0.0

    def propose(self, number: int) -> Array:
        """Solved anew as long as rows of the reserve object."""
        for turn in range(_TURNS):
            self._solve(number + turn)
            if not self._call_up(1 + _at(_TOLERANCE, number + turn)):
                break
        weights = _divided(self._root, self._factor.inverse)
        if self._limit is not None:  # which serve as the root does
            self._root, self._weights = self._root[:0], weights
        return weights

    def _solve(self, number: int) -> None:
        rows, columns = self._mixture.rows.shape
        span = min(rows, columns)
        cost = 4.0 * rows * span**2 + 12.0 * span**3
        solution = solve(
            self._mixture,
            self._factor.rows,
            steps=int(min(_STEPS, max(_LEAST_STEPS, _WORK / cost))),
            tolerance=_at(_TOLERANCE, number),
            least_uniform=_at(_LEAST_UNIFORM, number),
        )
        self._mixture, self._bound = solution.mixture, max(self._bound, solution.bound)
        covariance = insured(solution.covariance(), self._mean, self._factor.rows)
        self._trace = float(np.trace(covariance))
        self._root = np.asarray(np.linalg.cholesky(covariance), np.float64)

    def _call_up(self, most: float) -> bool:
        """Let rows of the reserve join that are longer than 1, if one is longer than `most`."""
        if not len(self._reserve):
            return False
        lengths = self._lengths(self._reserve)
        if lengths.max() <= most:
            return False
        longer = lengths > 1.0
        self._mixture = _joined(self._mixture, self._reserve[longer], lengths[longer])
        self._reserve = self._reserve[~longer]
        return True

    def _lengths(self, white: Array) -> Array:
        return np.asarray(np.square(_divided(self._root, white.T)).sum(axis=0))

    def take_in(self, rows: Array, reserve: Array) -> None:
        if self._limit is not None:
            self._take_few(rows)
            return
        white = _white(rows, self._factor)
        lengths = self._lengths(white)
        chosen = _longer(lengths)
        self._mixture = _joined(self._mixture, white[chosen], lengths[chosen])
        self._reserve = np.concatenate([self._reserve, _white(reserve, self._factor)])

    def _take_few(self, rows: Array) -> None:
        """Of the longest as many as there is room for; only they are whitened."""
        assert self._limit is not None
        self._mixture = _heaviest(self._mixture, self._limit // 2)
        lengths = np.square(_product(rows, self._weights)).sum(axis=1)
        chosen = _longer(lengths)[: self._limit - len(self._mixture.weights)]
        white = _white(rows[chosen], self._factor)
        self._mixture = _joined(self._mixture, white, lengths[chosen])

    def trace(self) -> float:
        return self._trace

    def bound(self) -> float:
        return self._bound


class DesignRoute:
    """CᵀC diagonal in the coordinates of the design, numbers whitened."""

    kind = "design"

    def __init__(
        self, factor: VerifiedCholesky, features: FeatureMap, rows: Array, insure: bool
    ) -> None:
        self._factor, self._insure = factor, insure
        self._coordinates = _Coordinates.of(factor, features)
        self._even = self._coordinates.mean_squares(factor)
        self._spread = _spread(factor, features, self._coordinates.costs, self._even)
        share = (1 - _LEAST_UNIFORM[0]) / len(rows)
        self._mixture = Mixture(rows, np.full(len(rows), share), _LEAST_UNIFORM[0])
        self._diagonal = np.ones(factor.rank)

    def propose(self, number: int) -> Array:
        mixture, least = self._mixture, _at(_LEAST_UNIFORM, number)
        spread = _at(_LEAST_SPREAD, number)
        squares = np.square(self._coordinates.of_rows(mixture.rows))
        weights, uniform = mixture.weights, mixture.uniform
        for _ in range(_CHEAP_STEPS):
            moments = weights @ squares + uniform * self._even
            diagonal = np.sqrt(
                self._coordinates.costs / (moments + spread * (self._spread - moments))
            )
            total = float(diagonal @ moments)
            ratios = squares @ diagonal / total
            largest = float(ratios.max())
            if largest <= 1 + _at(_TOLERANCE, number):
                break
            weights = weights * ratios**2
            uniform = max(least, uniform * (float(self._even @ diagonal) / total) ** 2)
            weights, uniform = _shares(weights, uniform)
        self._diagonal = diagonal / (total * largest)
        idle = (weights < _IDLE * weights.mean()) & (ratios < _LOW * largest)
        self._mixture = Mixture(mixture.rows, weights, uniform).take(~idle)
        if self._insure:
            share = _insurance(self._factor.rows)
            self._diagonal *= 1 - share
            self._diagonal[0] += share
        return self._coordinates.weighted(np.sqrt(self._diagonal))

    def take_in(self, rows: Array, reserve: Array) -> None:  # noqa: ARG002
        lengths = np.square(self._coordinates.of_rows(rows)) @ self._diagonal
        longer = lengths > 1.0
        self._mixture = _joined(self._mixture, rows[longer], lengths[longer])

    def trace(self) -> float:
        return float((self._coordinates.costs / self._diagonal).sum())

    def bound(self) -> float:
        white = _white(self._mixture.rows, self._factor)
        return lower_bound(white, self._mixture.weights, self._factor.rows)


@dataclass(frozen=True)
class _Coordinates:
    """w = Bx: BᵀB is Γ, the part of G⁻¹ between numbers, there, and the identity elsewhere."""

    numbers: list[int]
    block: Array
    """B between numbers: lower triangular."""
    costs: Array
    """c."""

    @classmethod
    def of(cls, factor: VerifiedCholesky, features: FeatureMap) -> _Coordinates:
        known = set(features.number_columns)
        numbers = [place for place, column in enumerate(factor.kept) if column in known]
        columns = factor.inverse[:, numbers]
        flipped = np.linalg.cholesky((columns.T @ columns)[::-1, ::-1])
        costs = np.square(factor.inverse).sum(axis=0)
        costs[numbers] = 1.0
        return cls(numbers, np.asarray(flipped[::-1, ::-1].T, np.float64), costs)

    def of_rows(self, rows: Array) -> Array:
        moved = rows.copy()
        moved[:, self.numbers] = rows[:, self.numbers] @ self.block.T
        return moved

    def mean_squares(self, factor: VerifiedCholesky) -> Array:
        """Of every coordinate, over all rows of the table."""
        scaled = np.ldexp(factor.gram.astype(np.float64), -factor.exponents)
        scaled = np.ldexp(scaled.T, -factor.exponents)
        squares = np.diagonal(scaled).copy()
        inner = scaled[np.ix_(self.numbers, self.numbers)]
        squares[self.numbers] = ((self.block @ inner) * self.block).sum(axis=1)
        return np.asarray(squares / factor.rows)

    def weighted(self, factors: Array) -> Array:
        """diag(factors)·B."""
        matrix = np.diag(factors)
        place = np.ix_(self.numbers, self.numbers)
        matrix[place] = factors[self.numbers][:, None] * self.block
        return matrix


def insured(covariance: Array, mean: Array | None, rows: int) -> Array:
    """S with S⁻¹ ← (1 − w)·S⁻¹ + w·n·q0q0ᵀ: little noise on the mean (theory §9).

    Feasible, since (q0·u_i)² = 1/n where the constant is spanned. The mean's own error has then
    at most the variance (Δ/μ)²/(wn²), and the trace grows at most by 1/(1 − w). Theory's w is
    .05; from 10,000 rows on a tenth of it serves, and costs half a per cent. Nothing changes
    where the mean has as little noise anyway.
    """
    if mean is None:
        return covariance
    share = _insurance(rows)
    along = covariance @ mean
    noise = float(mean @ along)
    if noise <= 1 / (share * rows):
        return covariance
    pull = share * rows / (1 - share)
    less = np.outer(along, along) * (pull / (1 + pull * noise))
    return np.asarray((covariance - less) / (1 - share))


def _insurance(rows: int) -> float:
    return min(_INSURANCE, max(_LEAST_INSURANCE, _INSURED_ROWS / rows))


def _spread(factor: VerifiedCholesky, features: FeatureMap, costs: Array, even: Array) -> Array:
    """Mean squares of coordinates if every category draws a level by itself."""
    spread = even.copy()
    kept = np.array(factor.kept)
    for block in features.category_blocks:
        here = (kept >= block.start) & (kept < block.stop)
        if here.any():
            spread[here] = costs[here] / costs[here].sum()
    return spread


def _white(rows: Array, factor: VerifiedCholesky) -> Array:
    """u of scaled codes."""
    return _product(rows, factor.inverse)


def _product(rows: Array, matrix: Array) -> Array:
    """matrix·x of every row x; of a wide table's one-hot rows by the few entries they have."""
    if len(matrix) < LARGE or np.count_nonzero(rows) > _SPARSE * rows.size:
        return np.asarray(rows @ matrix.T)
    from scipy.sparse import csr_array

    return np.asarray(csr_array(rows) @ matrix.T)


def _longer(lengths: Array) -> NDArray[np.intp]:
    """Rows that are longer than 1, the longest first."""
    order = np.argsort(-lengths, kind="stable")
    return order[lengths[order] > 1.0]


def _divided(root: Array, rows: Array) -> Array:
    """K⁻¹·rows of a lower triangle K."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(root, rows, lower=True))


def _heaviest(mixture: Mixture, count: int) -> Mixture:
    if len(mixture.weights) <= count:
        return mixture
    chosen = np.zeros(len(mixture.weights), dtype=bool)
    chosen[np.argsort(-mixture.weights, kind="stable")[:count]] = True
    return mixture.take(chosen)


def _joined(mixture: Mixture, rows: Array, lengths: Array) -> Mixture:
    """With rows that are longer than 1, by how much they are."""
    return mixture.joined(rows, lengths - 0.98, _SHARE) if len(rows) else mixture


def _shares(weights: Array, uniform: float) -> tuple[Array, float]:
    total = float(weights.sum()) + uniform
    return weights / total, uniform / total


def _at(values: tuple[float, ...], place: int) -> float:
    return values[min(place, len(values) - 1)]
