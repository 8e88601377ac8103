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

What has no such form (means over weights) is added by a split of the budget:
δ(ε) ≤ δ1(t1·ε) + δ2(t2·ε) + … for every t1 + t2 + … = 1, the best of a few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from labeldp.accounting import gaussian
from labeldp.accounting.neighbors import NeighborFamily, supremum
from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    Bounds,
    DiscreteLoss,
    LossFactors,
    PrivacyProfile,
    SubsampledProfile,
    round_up,
)
from labeldp.errors import InputError

Reals = npt.NDArray[np.float64]

_POINTS = 512  # of a bounded loss; more are shared out to so many
_FEW_POINTS = _POINTS, 32, 16  # the same beside so many kinds of sketches: each costs integrals
_SHARES = 16  # of ε, at least, which are dealt out to laws without factors
_SETS = 64  # of releases that a draw may have taken
_MARGIN = 1e-9
_ROUNDING = 1e-12  # of sums of a few losses


def compose(curves: Iterable[PrivacyProfile]) -> PrivacyProfile:
    """Return the profile of all of them together."""
    parts = [part for curve in curves for part in _parts(curve)]
    if not parts:
        raise InputError("there is nothing to compose: give at least one privacy profile")
    if len(parts) == 1:
        return parts[0]
    gaussians = [mu for part in parts if (mu := gaussian_mu(part)) is not None]
    if len(gaussians) == len(parts):
        return gaussian.GaussianProfile(round_up(math.sqrt(math.fsum(mu**2 for mu in gaussians))))
    return ComposedProfile(tuple(parts))


def gaussian_mu(curve: PrivacyProfile) -> float | None:
    """Return μ if this is the profile of a Gaussian mechanism, else None."""
    factors = curve.factors()
    return None if factors is None or factors != LossFactors(mu=factors.mu) else factors.mu


@dataclass(frozen=True)
class ComposedProfile(PrivacyProfile):
    """Independent releases; `compose` makes one."""

    curves: tuple[PrivacyProfile, ...]

    def group(self, size: int) -> PrivacyProfile:
        return compose(curve.group(size) for curve in self.curves)

    def pure_epsilon(self) -> float:
        return sum(curve.pure_epsilon() for curve in self.curves) * (1.0 + _ROUNDING)

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        """Return the mean over all sets of releases whose bags hold the label.

        Of equal releases only the number of those that hold the label matters. Inclusion
        probabilities are rounded up, which is safe: more releases see no less of a label. With too
        many sets a release is treated as a whole, by the split of ε.
        """
        sets: list[tuple[float, tuple[PrivacyProfile, ...]]] = [(1.0, ())]
        for curve, times in Counter(self.curves).items():
            if not isinstance(curve, SubsampledProfile) or len(sets) * (times + 1) > _SETS:
                sets = [(chance, laws + (curve,) * times) for chance, laws in sets]
                continue
            share, given, counts = curve.chance, _parts(curve.curve), range(times + 1)
            binomial = [
                math.comb(times, k) * share**k * (1.0 - share) ** (times - k) for k in counts
            ]
            sets = [
                (chance * binomial[k], laws + given * k) for chance, laws in sets for k in counts
            ]
        sets = [(chance, laws) for chance, laws in sets if chance > 0.0]
        found = [(_given(laws, epsilon, certified), chance) for chance, laws in sets]
        if len(sets) == 1:
            return found[0][0]
        lower, estimate, upper = (
            math.fsum(getattr(bounds, side) * chance for bounds, chance in found)
            for side in ("lower", "estimate", "upper")
        )
        upper = min(1.0, upper * (1.0 + _ROUNDING))
        return Bounds(min(lower * (1.0 - _ROUNDING), upper), min(estimate, upper), upper)


def _parts(curve: PrivacyProfile) -> tuple[PrivacyProfile, ...]:
    """Return the profiles that were composed into this one."""
    return curve.curves if isinstance(curve, ComposedProfile) else (curve,)


def _given(laws: tuple[PrivacyProfile, ...], epsilon: float, certified: bool) -> Bounds:
    """Return δ of these releases together; δ = 0 if there is none.

    What has independent factors is one law. It and the others share ε: the least sum of δ over
    splits of ε into shares, by dynamic programming.
    """
    joint = LossFactors()
    parts: list[PrivacyProfile] = []
    for law in laws:
        factors = law.factors()
        if factors is None:
            parts.append(law)
        else:
            joint = joint.times(factors)
    if joint != LossFactors():
        parts.insert(0, _ProductProfile(joint))
    if not parts:
        return Bounds(0.0, 0.0, 0.0)

    @cache
    def at(law: PrivacyProfile, share: float) -> Bounds:
        return law.delta(share * epsilon, certified=certified)

    if len(parts) == 1:
        return at(parts[0], 1.0)
    count = max(_SHARES, 4 * len(parts))
    best = [0.0] * (count + 1)
    for law in parts:
        costs = [at(law, share / count).upper for share in range(count + 1)]
        # best[k]: the least sum of δ of the laws so far at k shares of ε together
        best = [min(best[k - s] + costs[s] for s in range(k + 1)) for k in range(count + 1)]
    upper = min(1.0, best[-1] * (1.0 + _ROUNDING))
    # all releases together show no less than any one of them
    return Bounds(min(upper, max(at(law, 1.0).lower for law in parts)), upper, upper)


@dataclass(frozen=True)
class _ProductProfile(PrivacyProfile):
    """A loss in independent parts."""

    loss: LossFactors

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        loss, families = self.loss, _merge(self.loss.families)
        most = _FEW_POINTS[min(len(families), len(_FEW_POINTS) - 1)]
        points = _sum(loss.atoms, most)
        if families:
            bounds = supremum(families, epsilon, loss.mu, points, loss.slack, certified=certified)
        else:
            if loss.mu == 0.0:
                total = math.fsum(p * -math.expm1(min(0.0, epsilon - x)) for x, p in points)
            else:
                total = math.fsum(p * gaussian.delta(epsilon - x, loss.mu) for x, p in points)
            upper = min(1.0, total * (1.0 + _MARGIN) + (LEAST_CLAIM if loss.mu else 0.0))
            bounds = Bounds(total * (1.0 - _MARGIN), min(total, upper), upper)
        bounds = bounds.plus(loss.slack)
        # points that dominate the loss give no lower bound
        return Bounds(0.0, bounds.estimate, bounds.upper) if loss.atoms else bounds


def _sum(losses: tuple[DiscreteLoss, ...], most: int) -> DiscreteLoss:
    """Return the law of the sum of bounded losses, or one of at most `most` points above it."""
    values, weights = np.zeros(1), np.ones(1)
    for atoms in losses:
        more = np.array(atoms)
        values = np.add.outer(values, more[:, 0]).ravel()
        weights = np.multiply.outer(weights, more[:, 1]).ravel()
        if len(values) > most:
            values, weights = _fewer(values, weights, most)
        positive = weights > 0.0
        values, weights = values[positive], weights[positive]
    return tuple(zip(values.tolist(), weights.tolist(), strict=True))


def _fewer(values: Reals, weights: Reals, most: int) -> tuple[Reals, Reals]:
    """Return fewer points: each weight goes to the grid points beside it, which keeps both sums.

    δ of the rest is a convex function of e^{ε−L}, so a mean of it over points with the same
    E[e^{−L}] that lie further apart is no smaller.
    """
    grid = np.linspace(values.min(), values.max(), most)
    # Shares s and 1−s with s·e^{−high} + (1−s)·e^{−low} = e^{−value} keep both sums.
    right = np.clip(np.searchsorted(grid, values), 1, most - 1)
    low, high = grid[right - 1], grid[right]
    share = np.clip(np.expm1(low - values) / np.expm1(low - high), 0.0, 1.0)
    parts = (right, share), (right - 1, 1.0 - share)
    together = [np.bincount(place, weights * part, most) for place, part in parts]
    return grid, np.asarray(together, dtype=np.float64).sum(axis=0)


def _merge(families: tuple[NeighborFamily, ...]) -> tuple[NeighborFamily, ...]:
    """Sketches under the same facts and floor are one, their bags added.

    Their residuals may differ by what each had added. u − v and u·v are 1/σ² times what they share,
    so u and v grow with 1/σ²: the one of least residual, which is above the floor, bounds all.
    """

    def kind(family: NeighborFamily) -> tuple[float, ...]:
        return family.tau, family.leverage, family.cosine, family.inflation

    groups = groupby(sorted(families, key=kind), key=kind)
    return tuple(NeighborFamily(sum(each.bags for each in group), *key) for key, group in groups)
