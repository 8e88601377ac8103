"""A privacy profile as a discrete privacy loss that never promises more, for other accountants.

δ(ε) of neighbours, the larger of both directions, is a convex function of e^ε. Certified upper
bounds of it at some ε, joined by straight lines in e^ε, lie above it; so does the largest convex
function below these points, which removes what rounding does to them. A piecewise linear profile
belongs to a loss that takes only the values at the ends of its pieces: where the slope falls by q,
the loss has probability q under Q and q·e^ε under P. What is left of δ at the last point is the
probability of an infinite loss. Both directions have the same profile, so the loss −ε has under P
the probability that ε has under Q.

Values are multiples of `step`, as `dp_accounting` needs them. They are closer where the profile
bends: straight lines move ε at any δ by at most `within`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.errors import InputError, MissingExtraError, positive

Reals = npt.NDArray[np.float64]
Upper = Callable[[int], float]
"""δ at a multiple of the step, certified."""
Point = tuple[int, float, float]
"""A multiple of the step, its e^ε, and δ."""

MOST_LOSS = 64.0
"""Largest privacy loss in a discretised loss distribution for other accountants."""
STEP, WITHIN = 1e-4, 5e-5
_LEAST = 1e-15  # of δ: what is below it is one coarse piece
_FLAT = 1e-9  # a relative fall of δ over twice the ε: a profile that has come to its end


@dataclass(frozen=True)
class PrivacyLoss:
    """A discrete loss: `losses` increase, `probabilities` are those under P."""

    step: float
    places: tuple[int, ...]
    """Of the losses, as multiples of `step`."""
    masses: tuple[float, ...]
    infinite: float
    """The probability of an infinite loss."""

    @cached_property
    def losses(self) -> Reals:
        return self.step * np.array(self.places, dtype=np.float64)

    @cached_property
    def probabilities(self) -> Reals:
        return np.array(self.masses)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), never below that of the profile."""
        gain = -np.expm1(np.minimum(0.0, epsilon - self.losses))
        return min(1.0, self.infinite + float(self.probabilities @ gain))

    def cdf(self, loss: float) -> float:
        """Return P(L ≤ loss), for accountants that take a distribution function."""
        return float(self.probabilities[self.losses <= loss].sum())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        points = {"losses": self.losses.tolist(), "probabilities": list(self.masses)}
        return {"step": self.step, **points, "infinite": self.infinite}

    def to_pld(self) -> Any:
        """Return a pessimistic `PrivacyLossDistribution` of `dp_accounting`."""
        try:
            from dp_accounting.pld import pld_pmf, privacy_loss_distribution
        except ImportError:
            raise MissingExtraError("a loss for dp-accounting", "accountants") from None
        first, last = self.places[0], self.places[-1]
        dense = np.zeros(last - first + 1)
        dense[np.array(self.places) - first] = self.masses
        pmf = pld_pmf.DensePLDPmf(self.step, first, dense, self.infinite, pessimistic_estimate=True)
        return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def privacy_loss(
    profile: PrivacyProfile, step: float = STEP, within: float = WITHIN
) -> PrivacyLoss:
    """Return the loss of a profile: ε at any δ above 1e-15 grows by at most `within`."""
    positive(step=step, within=within)

    @cache
    def upper(place: int) -> float:
        return profile.delta(place * step).upper

    places = _places(upper, _last_place(profile, upper, step), step, within)
    corners = _convex_hull([(place, math.exp(place * step), upper(place)) for place in places])
    slopes = [(left[2] - right[2]) / (right[1] - left[1]) for left, right in pairwise(corners)]
    places = [place for place, _, _ in corners[1:]]
    under_q = [before - after for before, after in pairwise([*slopes, 0.0])]
    under_p = [q * math.exp(place * step) for place, q in zip(places, under_q, strict=True)]
    infinite = corners[-1][2]
    at_zero = max(0.0, 1.0 - infinite - math.fsum(under_p) - math.fsum(under_q))
    places = [-place for place in reversed(places)] + [0, *places]
    return PrivacyLoss(step, tuple(places), (*reversed(under_q), at_zero, *under_p), infinite)


def _last_place(profile: PrivacyProfile, upper: Upper, step: float) -> int:
    """Return where the profile ends: at its pure ε, at nearly nothing, or where it is flat.

    A power of two is precise enough: it is how far the points reach, not what they promise.
    """
    if profile.pure_epsilon() <= MOST_LOSS:
        place = math.ceil(profile.pure_epsilon() / step * (1.0 - 1e-15))
        return place + (upper(place) > 0.0)  # a multiple may round below
    for power in range(round(math.log2(MOST_LOSS))):
        place = math.ceil(2.0**power / step)
        far = upper(math.ceil(2.0 ** (power + 1) / step))
        if upper(place) <= _LEAST or far >= upper(place) * (1.0 - _FLAT):
            return place
    raise InputError(f"δ is {far:.2g} at ε = {MOST_LOSS:g}: nothing that a loss could say")


def _places(upper: Upper, last: int, step: float, within: float) -> list[int]:
    """Halve pieces while a straight line in e^ε moves ε by more than `within`."""
    places, pieces = [0], [(0, last)]
    while pieces:
        low, high = pieces.pop()
        middle = (low + high) // 2
        if high - low > 1 and _shift(upper, (low, middle, high), step) > within:
            pieces += [(middle, high), (low, middle)]
        else:
            places.append(high)
    return places


def _shift(upper: Upper, piece: tuple[int, int, int], step: float) -> float:
    """Return how far ε moves at the middle, by the slope after it, where the profile is flatter."""
    low, middle, high = piece
    if upper(low) <= _LEAST or upper(low) == upper(high):
        return 0.0
    here, ahead = math.expm1((middle - low) * step), math.expm1((high - low) * step)
    line = upper(low) + (upper(high) - upper(low)) * here / ahead
    slope = (upper(middle) - upper(high)) / ((high - middle) * step)
    return (line - upper(middle)) / slope if slope > 0.0 else math.inf


def _convex_hull(points: list[Point]) -> list[Point]:
    """Return the corners of the largest convex function below all points; the first one stays."""
    corners: list[Point] = []
    for point in points:
        _, c, h = point
        while len(corners) > 1:
            (_, a, f), (_, b, g) = corners[-2:]
            if (g - f) * (c - a) < (h - f) * (b - a):
                break  # the last corner is below the line from the one before it to the point
            corners.pop()
        corners.append(point)
    return corners
