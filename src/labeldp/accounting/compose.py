"""Several releases of one table: what they cost together (theory §6, §13).

Losses of independent releases add, so E[e^{zL}] multiplies. Sketches and Gaussians are one contour
integral; Gaussians alone are one of √Σμ²; sketches of one family are one with the bags added. A
bounded loss (pure ε, Laplace noise) is a law in points, on which one conditions:
δ(ε) = E[δ_rest(ε − L)], δ at any real ε. The supremum over the neighbours of several families of
sketches is certified by branch and bound, a parameter for each family, as in `family`.

What has no such form (theorems, means over weights or draws) is added by a split of the budget:
δ(ε) ≤ δ1(tε) + δ2((1−t)ε) for every t, the best of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, product

import numpy as np
import numpy.typing as npt

from labeldp.accounting import contour, gaussian
from labeldp.accounting.bounds import NO_GUARANTEE, Bounds, round_up
from labeldp.accounting.curve import Atoms, Curve, Factors
from labeldp.accounting.family import Chart, SketchFamily, scales
from labeldp.errors import InputError

Reals = npt.NDArray[np.float64]

_POINTS = 512  # of a bounded loss; more are moved up to the next of so many
_SPLITS = np.linspace(0.0, 1.0, 17).tolist()
_AGREE = 1e-9
_ROUNDS, _CELLS = 60, 2000
_MARGIN = 1e-9
_ROUNDING = 1e-12  # of sums of a few losses


def compose(curves: Iterable[Curve]) -> Curve:
    """The guarantee of all of them together."""
    parts = [part for curve in curves for part in curve.parts()]
    if not parts:
        raise InputError("there is nothing to compose: give at least one curve")
    if len(parts) == 1:
        return parts[0]
    factors = [part.factors() for part in parts]
    if all(each is not None and each == Factors(mu=each.mu) for each in factors):
        square = math.fsum(each.mu**2 for each in factors if each is not None)
        return gaussian.Gaussian(round_up(math.sqrt(square)))
    return Composed(tuple(parts))


@dataclass(frozen=True)
class Composed(Curve):
    """Independent releases; `compose` makes one."""

    curves: tuple[Curve, ...]

    def delta(self, epsilon: float) -> Bounds:
        return self._total(epsilon, certified=True)

    def guess(self, epsilon: float) -> Bounds:
        return self._total(epsilon, certified=False)

    def group(self, size: int) -> Curve:
        return compose(curve.group(size) for curve in self.curves)

    def parts(self) -> tuple[Curve, ...]:
        return self.curves

    def pure(self) -> float:
        return sum(curve.pure() for curve in self.curves) * (1.0 + _ROUNDING)

    def _total(self, epsilon: float, *, certified: bool) -> Bounds:
        whole, others = Factors(), []
        for curve in self.curves:
            factors = curve.factors()
            if factors is None:
                others.append(curve)
            else:
                whole = whole.times(factors)
        laws: list[Curve] = [_Product(whole, certified), *others]
        return _split(laws if whole != Factors() else others, epsilon, certified)


def _split(laws: list[Curve], epsilon: float, certified: bool) -> Bounds:
    """The sum of δ over the best split of ε that is tried."""

    def at(law: Curve, share: float) -> Bounds:
        return law.delta(share) if certified else law.guess(share)

    first, *rest = laws
    if not rest:
        return at(first, epsilon)
    sums = []
    for share in _SPLITS:
        one, more = at(first, share * epsilon), _split(rest, (1.0 - share) * epsilon, certified)
        upper = min(1.0, round_up(one.upper + more.upper))
        sums.append(Bounds(max(one.lower, more.lower), upper, upper))
    lower = max(at(law, epsilon).lower for law in laws)
    best = min(sums, key=lambda bounds: bounds.upper)
    return Bounds(min(lower, best.upper), best.upper, best.upper)


@dataclass(frozen=True)
class _Product(Curve):
    """A loss in independent parts."""

    whole: Factors
    certified: bool

    def delta(self, epsilon: float) -> Bounds:
        factors, points = self.whole, _sum(self.whole.atoms)
        found = self._of(points, epsilon).plus(factors.slack)
        exact = factors.exact and math.prod(map(len, factors.atoms)) <= _POINTS
        return found if exact else Bounds(0.0, found.estimate, found.upper)

    def _of(self, points: Atoms, epsilon: float) -> Bounds:
        mu, families = self.whole.mu, _merged(self.whole.families)
        if not families:
            return _without_sketches(mu, points, epsilon)
        if len(families) == 1 and len(points) == 1 and epsilon >= points[0][0]:
            law = families[0].delta if self.certified else families[0].guess
            return law(epsilon - points[0][0], mu)
        return _supremum(families, mu, points, epsilon, self.certified)


def _sum(losses: tuple[Atoms, ...]) -> Atoms:
    """The law of the sum of bounded losses, moved up where there are too many points."""
    values, weights = np.zeros(1), np.ones(1)
    for atoms in losses:
        more = np.array(atoms)
        values = np.add.outer(values, more[:, 0]).ravel()
        weights = np.multiply.outer(weights, more[:, 1]).ravel()
        if len(values) > _POINTS:
            grid = np.linspace(values.min(), values.max(), _POINTS)
            places = np.minimum(np.searchsorted(grid, values), _POINTS - 1)
            values, weights = grid, np.bincount(places, weights, _POINTS).astype(float)
        kept = weights > 0.0
        values, weights = values[kept], weights[kept]
    return tuple(zip(values.tolist(), weights.tolist(), strict=True))


def _without_sketches(mu: float, points: Atoms, epsilon: float) -> Bounds:
    if mu == 0.0:
        total = math.fsum(p * -math.expm1(min(0.0, epsilon - x)) for x, p in points)
    else:
        total = math.fsum(p * gaussian.delta(epsilon - x, mu) for x, p in points)
    upper = min(1.0, total * (1.0 + _MARGIN) + (1e-300 if mu else 0.0))
    return Bounds(total * (1.0 - _MARGIN), min(total, upper), upper)


def _merged(families: tuple[SketchFamily, ...]) -> list[SketchFamily]:
    """Sketches under the same facts and floor are one, their bags added."""

    def kind(family: SketchFamily) -> tuple[float, ...]:
        return family.tau, family.leverage, family.cosine, family.inflation

    groups = groupby(sorted(families, key=kind), key=kind)
    together = ((key, sum(each.bags for each in group)) for key, group in groups)
    return [SketchFamily(bags, *key) for key, bags in together]


@dataclass(frozen=True)
class _Joint:
    """Several families at once, each in a chart of its own."""

    families: list[SketchFamily]
    charts: tuple[Chart, ...]
    mu: float
    points: Atoms
    epsilon: float

    def value(self, left: Reals, right: Reals) -> Reals:
        """δ of boxes, rows lower, estimate and upper: arrays are (families, boxes)."""
        size = left.shape[1]
        sides, inside = [], np.ones(size, dtype=bool)
        for family, chart, low, high in zip(self.families, self.charts, left, right, strict=True):
            u, v = (side * (1.0 + family.inflation) for side in chart.cells(low, high))
            inside &= (v < 1.0 - 1e-15) & (u < 1e15)
            sides.append((u, v))
        out = np.ones((3, size))
        if not inside.any():
            return out
        factors = []
        for family, (u, v) in zip(self.families, sides, strict=True):
            alpha, beta = scales(u[inside], v[inside])
            both = np.concatenate([alpha, u[inside]]), np.concatenate([beta, v[inside]])
            factors.append((family.bags, *both))
        loss = contour.compose(factors, self.mu)
        total = sum(p * contour.delta(loss, self.epsilon - x, patient=True) for x, p in self.points)
        out[:, inside] = np.asarray(total).reshape(3, 2, -1).max(axis=1)
        return np.minimum(np.nan_to_num(out, nan=1.0), 1.0)

    def corners(self) -> Reals:
        ends = [(chart.low, chart.high) for chart in self.charts]
        return np.array(list(product(*ends))).T


def _supremum(
    families: list[SketchFamily], mu: float, points: Atoms, epsilon: float, certified: bool
) -> Bounds:
    """The sup over all neighbours, by the best way of bounding each family."""
    ways = product(*(list(family.charts()) for family in families))
    best = NO_GUARANTEE
    for joint in [_Joint(families, charts, mu, points, epsilon) for charts in ways]:
        corners = joint.corners()
        at_corners = _largest(joint.value(corners, corners))
        if at_corners.upper < best.upper:
            found = _certify(joint, at_corners) if certified else at_corners
            best = min(best, found, key=lambda bounds: bounds.upper)
    return best


def _certify(joint: _Joint, best: Bounds) -> Bounds:
    """Branch and bound, as in `family`, but boxes are halved in every direction."""
    left = np.array([[chart.low] for chart in joint.charts])
    right = np.array([[chart.high] for chart in joint.charts])
    if len(joint.charts) == 1:
        edges = joint.charts[0].edges()
        left, right = edges[None, :-1], edges[None, 1:]
    ceiling = 0.0
    for _ in range(_ROUNDS):
        bound = joint.value(left, right)
        above = bound[1] > best.estimate * (1.0 + _AGREE)
        if not 0 < np.sum(above) <= _CELLS:
            break
        ceiling = max(ceiling, float(bound[2][~above].max(initial=0.0)))
        left, right = _halves(left[:, above], right[:, above])
        found = _largest(joint.value(left, left))
        best = max(best, found, key=lambda bounds: bounds.estimate)
    return Bounds(best.lower, best.estimate, max(ceiling, best.upper, float(bound[2].max())))


def _halves(left: Reals, right: Reals) -> tuple[Reals, Reals]:
    """Every box cut in two along each of its sides."""
    for side in range(len(left)):
        middle = 0.5 * (left[side] + right[side])
        below, above = right.copy(), left.copy()
        below[side] = above[side] = middle
        left, right = np.hstack([left, above]), np.hstack([below, right])
    return left, right


def _largest(values: Reals) -> Bounds:
    lower, estimate, upper = values[:, int(np.argmax(values[1]))].tolist()
    return Bounds(lower, estimate, upper)
