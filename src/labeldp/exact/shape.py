"""The public shape of shaped-flag (theory §9): which C adds least noise to the fit.

With C = S^{-½}R⁻ᵀ one label moves the aggregates by at most Δ·max ‖C x_i‖, and the expected
excess of the fit is (Δ/μ)²·tr S once that maximum is scaled to 1. The S of least trace is sought
on a few rows (`shape_routes.py`) and checked on all rows by a pass (`weight_scan.py`), which also
brings the rows that object; they join, and the search goes on. Kept is the C of least *certified*
trace: that of isotropic noise, C = R⁻ᵀ, is the first, so the result is never worse.

Nothing here reads labels, and no guarantee rests on it: L is measured on the C that is published,
whatever it is. With a ridge (`ridge.py`) it is another trace that is made least. Nor does anything
depend on clocks, on how rows are batched, or on the number of cores: LAPACK works with one thread
here, since its last digits follow its threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.ridge import Ridge
from labeldp.exact.shape_routes import DesignRoute, FullRoute, Route
from labeldp.exact.weight_scan import RowNormScan
from labeldp.exact.weights import Weights, weights_of
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]
Look = Callable[[Weights, int, int, float], RowNormScan]
"""look(C, keep, spare, floor): a pass over all rows; see `WeightScan`."""

FULL, ISOTROPIC = "full", "isotropic"
FULL_COLUMNS, MOST_FULL_COLUMNS = 1200, 2600
"""With more columns a shape of a simple form is sought first; with many more only that."""
_SIMPLE_ENOUGH = 1.2
"""The gap at which a simple shape is not worth the work on a full one."""
_LOW_RANK_ROWS = 768
_ROUNDING = 2.0**-30
"""Of a trace, by the rounding of weights to 40 bits: what it may be off, with much room."""
_SPARE = 3
"""Times as many rows are drawn again, in reserve."""
_PASSES, _WIDE_ROUNDS = 6, 3
"""In all; and with a full shape of so many columns that simpler ones were tried before."""
_SETTLED, _ROUNDS_TO_SETTLE = 0.01, 2
"""No row is longer by more than so much, in so late a round: the route has arrived."""
_ENOUGH, _WIDE_ENOUGH, _VERY_WIDE_ENOUGH, _WIDE = 1.04, 1.08, 1.15, 300
"""The gap at which no further pass is worth its time; from so many columns on a step is dear."""


@dataclass(frozen=True)
class NoiseCovariance:
    """Public weights with their certified sensitivity and noise."""

    weights: Weights
    length: float
    """L, at least ‖C x_i‖ of every row; at least ½ and less than 1."""
    trace: float
    """L²·tr((CᵀC)⁻¹(XᵀX)⁻¹): the expected excess is (Δ/μ)² times as much."""
    aim: float
    """What was made least: the trace, or with a ridge that of the noise which the ridge leaves."""
    isotropic: float
    """The aim of isotropic noise: without a ridge d·h_max."""
    bound: float
    """No C has a smaller aim."""
    kind: str
    """full, design (diagonal), low-rank or isotropic."""
    passes: int
    ridge: float = 0.0
    """Of the whitening; 0: none."""

    @property
    def gap(self) -> float:
        """How far from the best possible: certified, at least 1."""
        return self.aim / self.bound

    @property
    def gain(self) -> float:
        """How many times less the excess is than with isotropic noise."""
        return self.isotropic / self.aim


def find_shape(factor: VerifiedCholesky, features: FeatureMap, look: Look) -> NoiseCovariance:
    """The C of least certified trace after a few passes."""
    import scipy.linalg  # noqa: F401  (the limit holds for libraries loaded by then)

    with threadpool_limits(1, "blas"):
        return _Search(factor, features, look, _rows_wanted(factor.rank)).run()


def find_ridged(
    factor: VerifiedCholesky, features: FeatureMap, look: Look, ridge: float
) -> NoiseCovariance:
    """The C of least noise for fits that shrink as this ridge does (theory §12).

    Of at most `FULL_COLUMNS` columns; its trace, that of least squares, is larger.
    """
    import scipy.linalg  # noqa: F401  (as above)

    with threadpool_limits(1, "blas"):
        other = Ridge.of(factor, features, ridge)
        search = _Search(other.factor, features, look, _rows_wanted(factor.rank), other.even)
        found = search.run()
        trace = float(np.square(found.weights.noise_root(factor)).sum())
    trace *= found.length**2 * (1 + factor.defect)
    return replace(found, trace=trace, ridge=ridge)


class _Search:
    """Rounds of proposing a C on some rows and looking at it on all of them."""

    def __init__(
        self,
        factor: VerifiedCholesky,
        features: FeatureMap,
        look: Look,
        keep: int,
        even: Array | None = None,
    ) -> None:
        self._factor, self._features, self._even = factor, features, even
        self._look, self._keep, self._passes = look, keep, 0
        self._mean = mean_direction(factor, features)
        self._bound = _even_bound(factor, even)
        self._isotropic = math.inf
        self.best, sighting = self._seen(factor.inverse, 0.0, ISOTROPIC, float(factor.rank))
        self.best = replace(self.best, isotropic=self.best.aim)
        self._isotropic, self._first = self.best.aim, sighting

    def run(self) -> NoiseCovariance:
        """Follow all routes."""
        for route in self.routes():
            self.follow(route)
            del route  # which holds many rows, before the next one is made
        return self.best

    def routes(self) -> Iterator[Route]:
        """Ways to try, each only if none before it has led far enough."""
        factor, rows = self._factor, self._scaled(self._first.rows)
        if factor.rank > FULL_COLUMNS:
            yield DesignRoute(factor, self._features, rows, insure=self._mean is not None)
        simple = factor.rank > FULL_COLUMNS and self.best.gap <= _SIMPLE_ENOUGH
        if factor.rank <= MOST_FULL_COLUMNS and not simple:
            reserve = self._scaled(self._first.reserve)
            yield FullRoute(factor, self._mean, rows, reserve, even=self._even)
        if self.best.kind == ISOTROPIC and factor.rank > FULL_COLUMNS:
            yield FullRoute(factor, self._mean, rows, limit=_LOW_RANK_ROWS)

    def follow(self, route: Route) -> None:
        """Propose, look at all rows, take in those that object; until few do or none gains."""
        for number in range(self._rounds(route)):
            # of half the length C is mostly published as it is, and what the pass saw holds for it
            proposal = route.propose(number) / 2
            shape, sighting = self._seen(proposal, 0.25, route.kind, 4 * route.trace())
            if route.kind == FULL:
                self._raise_bound(route)
            self.best = min(self.best, shape, key=lambda one: one.aim)
            settled = 4 * sighting.maximum <= 1 + _SETTLED and number >= _ROUNDS_TO_SETTLE
            lost = self.best is not shape and number >= 1 and route.kind != FULL
            self._restate()
            if settled or lost or self.best.gap <= self._enough(route):
                break
            route.take_in(self._scaled(sighting.rows), self._scaled(sighting.reserve))
        if self.best.kind == route.kind:  # another route may do better, and has its own
            self._raise_bound(route)
            self._restate()

    def _rounds(self, route: Route) -> int:
        """What is left; a full shape after a simple one has some of its own."""
        wide = route.kind == FULL and self._factor.rank > FULL_COLUMNS
        return _WIDE_ROUNDS if wide else _PASSES - self._passes

    def _enough(self, route: Route) -> float:
        """The gap at which no further pass on this route is worth its time."""
        rank = self._factor.rank
        if rank > FULL_COLUMNS and route.kind == FULL:
            return _VERY_WIDE_ENOUGH
        return _ENOUGH if rank < _WIDE else _WIDE_ENOUGH

    def _seen(
        self, proposal: Array, floor: float, kind: str, trace: float
    ) -> tuple[NoiseCovariance, RowNormScan]:
        """A pass with this C, whose S has about this trace, and the shape that it certifies."""
        self._passes += 1
        weights = weights_of(self._factor, proposal)
        spare = _SPARE * self._keep if self._factor.rank <= MOST_FULL_COLUMNS else 0
        sighting = self._look(weights, self._keep, spare, floor)
        return self._shape(weights, sighting, kind, self._trace(weights, trace)), sighting

    def _trace(self, weights: Weights, trace: float) -> float:
        """tr S; of very many columns it is that of C before its rounding."""
        if self._factor.rank > FULL_COLUMNS:
            return trace * (1 + _ROUNDING)
        return float(np.square(weights.noise_root(self._factor)).sum())

    def _shape(
        self, weights: Weights, sighting: RowNormScan, kind: str, trace: float
    ) -> NoiseCovariance:
        """With C scaled by a power of two so that L is between ½ and 1."""
        scale = -math.frexp(sighting.length)[1]
        size = sighting.length**2 * trace * (1 + self._factor.defect)
        return NoiseCovariance(
            weights=weights.scaled(scale),
            length=math.ldexp(sighting.length, scale),
            trace=size,
            aim=size,
            isotropic=self._isotropic,
            bound=self._bound,
            kind=kind,
            passes=self._passes,
        )

    def _raise_bound(self, route: Route) -> None:
        self._bound = max(self._bound, route.bound() * (1 - self._factor.defect))

    def _restate(self) -> None:
        self.best = replace(self.best, bound=self._bound, passes=self._passes)

    def _scaled(self, rows: Array) -> Array:
        return np.asarray(np.ldexp(rows, -self._factor.exponents))


def mean_direction(factor: VerifiedCholesky, features: FeatureMap) -> Array | None:
    """q0 = R⁻ᵀXᵀ1/√n, a unit vector; None if the constant is not a column."""
    if not features.intercept or not factor.kept or factor.kept[0] != 0:
        return None
    sums = np.ldexp(factor.gram[:, 0].astype(np.float64), -factor.exponents)
    return np.asarray(factor.inverse @ sums / math.sqrt(factor.rows))


def _even_bound(factor: VerifiedCholesky, even: Array | None) -> float:
    """The dual at p_0 = 1."""
    if even is None:
        return factor.rank**2 / factor.rows
    roots = np.sqrt(np.linalg.eigvalsh(even).clip(0.0))
    return float(roots.sum() ** 2) / factor.rows * (1 - factor.defect)


def _rows_wanted(rank: int) -> int:
    """Of each kind, in a pass."""
    return min(2000, max(1000, 5 * rank))
