"""Composition: the profile of several releases of one table together (theory §6, §13).

Losses of independent releases add, so E[e^{zL}] multiplies. Sketches and Gaussians are one contour
integral; Gaussians alone are one of √Σμ²; sketches of one family are one with the bags added. A
bounded loss (pure ε, Laplace noise) is a law in points, on which one conditions:
δ(ε) = E[δ_rest(ε − L)], δ at any real ε. The supremum over the neighbours of several families of
sketches is certified by branch and bound, a parameter for each family, as in `neighbors`.

A guarantee over the draw of bags is the mean over who is in one, which is public: independent draws
are a law for each set of releases that took the label, times the chance of that set. Releases that
share a draw are not independent: they are composed given the bags first (`SubsampledProfile`
around `compose`).

What has no such form (theorems, means over weights) is added by a split of the budget:
δ(ε) ≤ δ1(t1·ε) + δ2(t2·ε) + … for every t1 + t2 + … = 1, the best of a few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product

import numpy as np
import numpy.typing as npt

from labeldp.accounting import contour, gaussian
from labeldp.accounting.neighbors import NeighborFamily, Parametrization, largest, scales
from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    NO_GUARANTEE,
    Bounds,
    DiscreteLoss,
    LossFactors,
    PrivacyProfile,
    round_up,
)
from labeldp.errors import InputError

Reals = npt.NDArray[np.float64]

_POINTS = 512  # of a bounded loss; more are shared out to so many
_FEW_POINTS = _POINTS, 32, 16  # the same beside so many kinds of sketches: each costs integrals
_SHARES = 16  # of ε, at least, which are dealt out to laws without factors
_SETS = 64  # of releases that a draw may have taken
_AGREE = 1e-9
_ROUNDS, _CELLS = 60, 2000
_FEW_CELLS = 64  # at least, where each costs an integral for every point of a bounded loss
_MARGIN = 1e-9
_ROUNDING = 1e-12  # of sums of a few losses


def compose(curves: Iterable[PrivacyProfile]) -> PrivacyProfile:
    """Return the profile of all of them together."""
    parts = [part for curve in curves for part in curve.parts()]
    if not parts:
        raise InputError("there is nothing to compose: give at least one privacy profile")
    if len(parts) == 1:
        return parts[0]
    found = [mu for part in parts if (mu := gaussian_mu(part)) is not None]
    if len(found) == len(parts):
        return gaussian.GaussianProfile(round_up(math.sqrt(math.fsum(mu**2 for mu in found))))
    return ComposedProfile(tuple(parts))


def gaussian_mu(curve: PrivacyProfile) -> float | None:
    """Return μ if this is the profile of a Gaussian mechanism, else None."""
    factors = curve.factors()
    return None if factors is None or factors != LossFactors(mu=factors.mu) else factors.mu


@dataclass(frozen=True)
class ComposedProfile(PrivacyProfile):
    """Independent releases; `compose` makes one."""

    curves: tuple[PrivacyProfile, ...]

    def delta(self, epsilon: float) -> Bounds:
        return self._total(epsilon, certified=True)

    def quick_delta(self, epsilon: float) -> Bounds:
        return self._total(epsilon, certified=False)

    def group(self, size: int) -> PrivacyProfile:
        return compose(curve.group(size) for curve in self.curves)

    def parts(self) -> tuple[PrivacyProfile, ...]:
        return self.curves

    def pure_epsilon(self) -> float:
        return sum(curve.pure_epsilon() for curve in self.curves) * (1.0 + _ROUNDING)

    def _total(self, epsilon: float, *, certified: bool) -> Bounds:
        """The mean over all sets of releases whose draw took the label."""
        sets = _taken(self.curves)
        found = [(_given(laws, epsilon, certified), chance) for chance, laws in sets]
        lower, estimate, upper = (
            math.fsum(getattr(bounds, side) * chance for bounds, chance in found)
            for side in ("lower", "estimate", "upper")
        )
        if len(sets) == 1:
            return found[0][0]
        upper = min(1.0, upper * (1.0 + _ROUNDING))
        return Bounds(min(lower * (1.0 - _ROUNDING), upper), min(estimate, upper), upper)


Sets = list[tuple[float, tuple[PrivacyProfile, ...]]]
"""Chances, and the laws that then touch the label."""


def _taken(curves: tuple[PrivacyProfile, ...]) -> Sets:
    """Return, for every set of releases whose bags hold the label, its probability and profiles.

    Of equal releases only the number of those that hold the label matters. Inclusion probabilities
    are rounded up, which is safe: more releases see no less of a label. With too many sets a
    release is treated as a whole, by the split of ε.
    """
    sets: Sets = [(1.0, ())]
    for curve, times in Counter(curves).items():
        draw = curve.subsampling()
        if draw is None or len(sets) * (times + 1) > _SETS:
            sets = [(chance, laws + (curve,) * times) for chance, laws in sets]
            continue
        share, given = draw
        sets = [
            (chance * _binomial(times, k, share), laws + given.parts() * k)
            for chance, laws in sets
            for k in range(times + 1)
        ]
    return [(chance, laws) for chance, laws in sets if chance > 0.0]


def _binomial(times: int, count: int, share: float) -> float:
    return math.comb(times, count) * share**count * (1.0 - share) ** (times - count)


def _given(laws: tuple[PrivacyProfile, ...], epsilon: float, certified: bool) -> Bounds:
    """Return δ of these releases together; δ = 0 if there is none."""
    whole, others = LossFactors(), []
    for law in laws:
        factors = law.factors()
        if factors is None:
            others.append(law)
        else:
            whole = whole.times(factors)
    if whole != LossFactors():
        return _split([_Product(whole, certified), *others], epsilon, certified)
    return _split(others, epsilon, certified) if others else Bounds(0.0, 0.0, 0.0)


def _split(laws: list[PrivacyProfile], epsilon: float, certified: bool) -> Bounds:
    """Return the least sum of δ over splits of ε into shares, by dynamic programming."""

    @cache
    def at(law: PrivacyProfile, share: float) -> Bounds:
        return law.delta(share * epsilon) if certified else law.quick_delta(share * epsilon)

    if len(laws) == 1:
        return at(laws[0], 1.0)
    count = max(_SHARES, 4 * len(laws))
    best = [0.0] * (count + 1)
    for law in laws:
        costs = [at(law, share / count).upper for share in range(count + 1)]
        best = [min(best[k - s] + costs[s] for s in range(k + 1)) for k in range(count + 1)]
    upper = min(1.0, best[-1] * (1.0 + _ROUNDING))
    return Bounds(min(upper, max(at(law, 1.0).lower for law in laws)), upper, upper)


@dataclass(frozen=True)
class _Product(PrivacyProfile):
    """A loss in independent parts."""

    loss: LossFactors
    certified: bool

    def delta(self, epsilon: float) -> Bounds:
        factors = self.loss
        most = _FEW_POINTS[min(len(_merged(factors.families)), len(_FEW_POINTS) - 1)]
        found = self._of(_sum(factors.atoms, most), epsilon).plus(factors.slack)
        exact = factors.exact and math.prod(map(len, factors.atoms)) <= most
        return found if exact else Bounds(0.0, found.estimate, found.upper)

    def _of(self, points: DiscreteLoss, epsilon: float) -> Bounds:
        mu, families = self.loss.mu, _merged(self.loss.families)
        if not families:
            return _without_sketches(mu, points, epsilon)
        if len(families) == 1 and len(points) == 1 and epsilon >= points[0][0]:
            law = families[0].delta if self.certified else families[0].quick_delta
            return law(epsilon - points[0][0], mu)
        ways = product(*(list(family.charts()) for family in families))
        slack = self.loss.slack
        joints = [_Joint(families, charts, mu, points, epsilon, slack) for charts in ways]
        return _supremum(joints, self.certified)


def _sum(losses: tuple[DiscreteLoss, ...], most: int) -> DiscreteLoss:
    """The law of the sum of bounded losses, on fewer points above it where there are too many."""
    values, weights = np.zeros(1), np.ones(1)
    for atoms in losses:
        more = np.array(atoms)
        values = np.add.outer(values, more[:, 0]).ravel()
        weights = np.multiply.outer(weights, more[:, 1]).ravel()
        if len(values) > most:
            values, weights = _fewer(values, weights, most)
        kept = weights > 0.0
        values, weights = values[kept], weights[kept]
    return tuple(zip(values.tolist(), weights.tolist(), strict=True))


def _fewer(values: Reals, weights: Reals, most: int) -> tuple[Reals, Reals]:
    """Every weight shared out to the points beside it, its sums under P and under Q kept.

    δ of the rest is a convex function of e^{ε−L}, so a mean of it over points with the same
    E[e^{−L}] that lie further apart is no smaller.
    """
    grid = np.linspace(values.min(), values.max(), most)
    right = np.clip(np.searchsorted(grid, values), 1, most - 1)
    low, high = grid[right - 1], grid[right]
    share = np.clip(np.expm1(low - values) / np.expm1(low - high), 0.0, 1.0)
    parts = (right, share), (right - 1, 1.0 - share)
    together = [np.bincount(place, weights * part, most) for place, part in parts]
    return grid, np.asarray(together, dtype=np.float64).sum(axis=0)


def _without_sketches(mu: float, points: DiscreteLoss, epsilon: float) -> Bounds:
    if mu == 0.0:
        total = math.fsum(p * -math.expm1(min(0.0, epsilon - x)) for x, p in points)
    else:
        total = math.fsum(p * gaussian.delta(epsilon - x, mu) for x, p in points)
    upper = min(1.0, total * (1.0 + _MARGIN) + (LEAST_CLAIM if mu else 0.0))
    return Bounds(total * (1.0 - _MARGIN), min(total, upper), upper)


def _merged(families: tuple[NeighborFamily, ...]) -> list[NeighborFamily]:
    """Sketches under the same facts and floor are one, their bags added.

    Their residuals may differ by what each had added. u − v and u·v are 1/σ² times what they share,
    so u and v grow with 1/σ²: the one of least residual, which is above the floor, bounds all.
    """

    def kind(family: NeighborFamily) -> tuple[float, ...]:
        return family.tau, family.leverage, family.cosine, family.inflation

    groups = groupby(sorted(families, key=kind), key=kind)
    together = ((key, sum(each.bags for each in group)) for key, group in groups)
    return [NeighborFamily(bags, *key) for key, bags in together]


@dataclass(frozen=True)
class _Joint:
    """Several families at once, each in a chart of its own."""

    families: list[NeighborFamily]
    charts: tuple[Parametrization, ...]
    mu: float
    points: DiscreteLoss
    epsilon: float
    slack: float = 0.0
    """What is added to δ in any case: far below it no digit counts."""

    @property
    def most(self) -> int:
        """Boxes that are cut in one round; beyond it the bound is what it is, still valid."""
        few = len(self.charts) > 1 and len(self.points) > 1
        return max(_FEW_CELLS, _CELLS // len(self.points)) if few else _CELLS

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
        total = sum(p * contour.delta(loss, self.epsilon - x) for x, p in self.points)
        out[:, inside] = np.asarray(total).reshape(3, 2, -1).max(axis=1)
        return np.minimum(np.nan_to_num(out, nan=1.0), 1.0)

    def corners(self) -> Reals:
        ends = [(chart.low, chart.high) for chart in self.charts]
        return np.array(list(product(*ends))).T


def _supremum(joints: list[_Joint], certified: bool) -> Bounds:
    """The sup over all neighbours, by the best way of bounding each family."""
    best = NO_GUARANTEE
    for joint in joints:
        corners = joint.corners()
        at_corners = largest(joint.value(corners, corners))
        if at_corners.upper < best.upper:
            found = _certify(joint, at_corners) if certified else at_corners
            best = min(best, found, key=lambda bounds: bounds.upper)
    return best


def _certify(joint: _Joint, best: Bounds) -> Bounds:
    """Branch and bound, as in `neighbors`, but boxes are halved in every direction."""
    left = np.array([[chart.low] for chart in joint.charts])
    right = np.array([[chart.high] for chart in joint.charts])
    if len(joint.charts) == 1:
        edges = joint.charts[0].edges()
        left, right = edges[None, :-1], edges[None, 1:]
    ceiling = 0.0
    for _ in range(_ROUNDS):
        bound = joint.value(left, right)
        above = bound[1] > best.estimate * (1.0 + _AGREE) + _ROUNDING * joint.slack
        if not 0 < np.sum(above) <= joint.most:
            break
        ceiling = max(ceiling, float(bound[2][~above].max(initial=0.0)))
        left, right = _halves(left[:, above], right[:, above])
        found = largest(joint.value(left, left))
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
