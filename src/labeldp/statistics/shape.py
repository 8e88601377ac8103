"""The public shape of shaped-flag (theory §9): which C adds least noise to the fit.

With C = S^{-½}R⁻ᵀ one label moves the aggregates by at most Δ·max ‖C x_i‖, and the expected
excess of the fit is (Δ/μ)²·tr S once that maximum is scaled to 1. The S of least trace is found
on a few rows (`shape_dual.py`) and checked on all rows by a pass (`weight_scan.py`), which also
brings the rows that object; they join, and the search goes on. Kept is the C of least *certified*
trace: that of isotropic noise, C = R⁻ᵀ, is the first, so the result is never worse.

Nothing here reads labels, and no guarantee rests on it: L is measured on the C that is published,
whatever it is. Nor does anything depend on clocks, threads or how rows are batched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.features import FeatureMap
from labeldp.statistics.factor import Factor
from labeldp.statistics.shape_dual import Mixture, Solution, by_leverage, solve
from labeldp.statistics.weight_scan import Sighting
from labeldp.statistics.weights import Weights, weights_of

Look = Callable[[Weights, int, float], Sighting]
"""look(C, keep, floor): a pass over all rows; see `WeightScan`."""

FULL, LOW_RANK, ISOTROPIC = "full", "low-rank", "isotropic"
FULL_COLUMNS = 1200
"""With more columns only a low-rank correction of isotropic noise is sought."""
_LOW_RANK_ROWS = 768
"""Of rows at a time, and so the rank of the correction."""
_PASSES = 6
_ENOUGH = 1.04
"""The gap at which no further pass is worth its time."""
_LEAST_UNIFORM = (0.03, 0.003, 1e-4)
"""Weight of the uniform measure, round by round: few rows must not speak for all at first."""
_TOLERANCE = (0.04, 0.02, 0.015, 0.01)
_STEPS = 40
_WORK = 4e11
"""Floating-point operations of all rounds together: some 15 s on two cores."""
_SHARE = 0.2
"""Weight of the rows that a pass brings."""
_INSURANCE, _LEAST_INSURANCE = 0.05, 0.005
_INSURED_ROWS = 50.0
"""Few rows need the whole insurance of the mean; with many a tenth does as well."""


@dataclass(frozen=True)
class Shape:
    """Public weights with their certified sensitivity and noise."""

    weights: Weights
    length: float
    """L, at least ‖C x_i‖ of every row; between ½ and 1."""
    trace: float
    """L²·tr((CᵀC)⁻¹XᵀX): the expected excess is (Δ/μ)² times as much."""
    mean_noise: float
    """L²·q0ᵀSq0/n: (Δ/μ)² times as much is the variance of the mean prediction."""
    isotropic: float
    """The trace of isotropic noise, d·h_max."""
    bound: float = field(repr=False)
    """No C has a smaller trace."""
    kind: str
    passes: int

    @property
    def gap(self) -> float:
        """How far from the best possible: certified, at least 1."""
        return self.trace / self.bound

    @property
    def gain(self) -> float:
        """How many times less the excess is than with isotropic noise."""
        return self.isotropic / self.trace


def find_shape(
    factor: Factor,
    look: Look,
    mean: NDArray[np.float64] | None = None,
    told: Callable[[Shape], None] = lambda _best: None,
) -> Shape:
    """The C of least certified trace after a few passes.

    `mean` is Xᵀ1 over the kept columns (see `column_sums`), where the constant is among what
    they span; the mean is then insured. `told` hears of the best shape after every pass.
    """
    search = _Search(factor, look, mean)
    told(search.best)
    while not search.finished:
        search.round()
        told(search.best)
    return search.best


def isotropic(factor: Factor, look: Look, mean: NDArray[np.float64] | None = None) -> Shape:
    """The shape of plain output perturbation: what `find_shape` improves on."""
    return _Search(factor, look, mean, keep=0).best


class _Search:
    """Rounds of solving on some rows and looking at all of them."""

    def __init__(
        self,
        factor: Factor,
        look: Look,
        mean: NDArray[np.float64] | None,
        keep: int | None = None,
    ) -> None:
        self._factor, self._look = factor, look
        self._mean = None if mean is None else _whitened(factor, mean) / math.sqrt(factor.rows)
        self._wide = factor.rank > FULL_COLUMNS
        self._keep = _rows_wanted(factor.rank) if keep is None else keep
        self._bound = factor.rank**2 / factor.rows * (1 - factor.defect)  # p_0 = 1
        self._passes = 0
        weights = weights_of(factor)
        sighting = self._see(weights, 0.0)
        self._isotropic = weights.trace(factor) * sighting.maximum
        self.best = self._shape(weights, sighting, ISOTROPIC)
        self._mixture = by_leverage(_whitened(factor, sighting.rows), _LEAST_UNIFORM[0])
        self._content = False

    @property
    def finished(self) -> bool:
        return self._passes >= _PASSES or self.best.gap <= _ENOUGH or self._content

    def round(self) -> None:
        """Solve on the rows at hand, look at all rows, take in those that object."""
        solution = self._solve(self._passes - 1)
        self._bound = max(self._bound, solution.bound * (1 - self._factor.defect))
        covariance = insured(solution.covariance(), self._mean, self._factor.rows)
        root = np.linalg.cholesky(covariance)
        weights = weights_of(self._factor, root)
        sighting = self._see(weights, 1.0)
        shape = self._shape(weights, sighting, LOW_RANK if self._wide else FULL)
        self.best = min(self.best, shape, key=lambda one: one.trace)
        self.best = self._restated(self.best)
        self._content = sighting.maximum <= 1.0 + 1e-9 and self._passes > len(_TOLERANCE)
        self._take_in(solution, root, sighting)

    def _solve(self, number: int) -> Solution:
        rows, columns = self._mixture.rows.shape
        span = min(rows, columns)
        cost = 4.0 * rows * span**2 + 12.0 * span**3
        return solve(
            self._mixture,
            self._factor.rows,
            steps=int(min(_STEPS, max(4, _WORK / (_PASSES - 1) / cost))),
            tolerance=_at(_TOLERANCE, number),
            least_uniform=_at(_LEAST_UNIFORM, number),
        )

    def _take_in(
        self, solution: Solution, root: NDArray[np.float64], sighting: Sighting
    ) -> None:
        """Rows that the pass found to be longer than 1 join those that carry weight."""
        from scipy.linalg import solve_triangular

        rows = _whitened(self._factor, sighting.rows)
        lengths = np.square(solve_triangular(root, rows.T, lower=True)).sum(axis=0)
        order = np.argsort(-lengths, kind="stable")
        chosen = order[lengths[order] > 1.0]
        mixture = solution.mixture
        if self._wide:
            heavy = np.sort(mixture.weights)[-min(len(mixture.weights), _LOW_RANK_ROWS // 2)]
            mixture = mixture.take(mixture.weights >= heavy)
            chosen = chosen[: _LOW_RANK_ROWS - len(mixture.weights)]
        if len(chosen):
            mixture = mixture.joined(rows[chosen], lengths[chosen] - 1.0 + 0.02, _SHARE)
        self._mixture = mixture

    def _see(self, weights: Weights, floor: float) -> Sighting:
        self._passes += 1
        return self._look(weights, self._keep, floor)

    def _shape(self, weights: Weights, sighting: Sighting, kind: str) -> Shape:
        """With C scaled by a power of two so that L is between ½ and 1."""
        scale = -math.frexp(sighting.length)[1]
        length = math.ldexp(sighting.length, scale)
        root = weights.noise_root(self._factor)
        square = sighting.length**2
        trace = float(np.square(root).sum()) * (1 + self._factor.defect) * square
        mean = 0.0
        if self._mean is not None:
            mean = square * float(np.square(self._mean @ root).sum()) / self._factor.rows
        return Shape(
            weights.scaled(scale), length, trace, mean, self._isotropic, self._bound, kind,
            self._passes,
        )  # fmt: skip

    def _restated(self, shape: Shape) -> Shape:
        """With what is known by now."""
        return replace(shape, bound=self._bound, passes=self._passes)


def insured(
    covariance: NDArray[np.float64], mean: NDArray[np.float64] | None, rows: int
) -> NDArray[np.float64]:
    """S with S⁻¹ ← (1 − w)·S⁻¹ + w·n·q0q0ᵀ: little noise on the mean (theory §9).

    Feasible, since (q0·u_i)² = 1/n where the constant is spanned. The mean's own error has then
    at most the variance (Δ/μ)²/(wn²), and the trace grows at most by 1/(1 − w). Theory's w is
    .05; from 10,000 rows on a tenth of it serves, and costs half a per cent. Nothing changes
    where the mean has as little noise anyway.
    """
    if mean is None:
        return covariance
    share = min(_INSURANCE, max(_LEAST_INSURANCE, _INSURED_ROWS / rows))
    along = covariance @ mean
    noise = float(mean @ along)
    if noise <= 1 / (share * rows):
        return covariance
    pull = share * rows / (1 - share)
    less = np.outer(along, along) * (pull / (1 + pull * noise))
    return np.asarray((covariance - less) / (1 - share))


def column_sums(factor: Factor, features: FeatureMap) -> NDArray[np.float64] | None:
    """Xᵀ1 over the kept columns, if the constant is one of them."""
    if not features.intercept or factor.kept[0] != 0:
        return None
    return np.asarray(factor.gram[:, 0].astype(np.float64))


def _whitened(factor: Factor, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """u = L⁻¹x of dense integer rows."""
    return np.asarray(np.ldexp(rows, -factor.exponents) @ factor.inverse.T)


def _rows_wanted(rank: int) -> int:
    """Of each kind, in a pass."""
    return _LOW_RANK_ROWS // 2 if rank > FULL_COLUMNS else min(2000, max(1000, 5 * rank))


def _at(values: tuple[float, ...], place: int) -> float:
    return values[min(place, len(values) - 1)]
