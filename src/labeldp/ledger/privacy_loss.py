"""A curve as a privacy loss in points, which never promises more: what other accountants take.

δ(ε) of neighbours, the larger of both directions, is a convex function of e^ε. Certified upper
bounds of it at some ε, joined by straight lines in e^ε, lie above it; so does the largest convex
function below those points, which takes away what rounding does to them. Straight pieces are the
curve of a loss that takes the values at their ends alone: a drop of the slope by q is the
probability q there under Q, and q·e^ε under P. What is left of δ at the last point is a loss
without bound. Either direction has the same curve, so the loss −ε has under P what ε has under Q.

Points stand on the multiples of `step`, as `dp_accounting` needs them, and are closer where the
curve bends: by straight lines ε at any δ moves by `within` at most.
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

from labeldp.accounting.limits import MOST_LOSS
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.errors import InputError, MissingExtraError, positive

Reals = npt.NDArray[np.float64]
Upper = Callable[[int], float]
"""δ at a multiple of the step, certified."""
Point = tuple[int, float, float]
"""A multiple of the step, its e^ε, and δ."""

STEP, WITHIN = 1e-4, 5e-5
_LEAST = 1e-15  # of δ: what is below it is one coarse piece
_FLAT = 1e-9  # a relative fall of δ over twice the ε: a curve that has come to its end


@dataclass(frozen=True)
class PrivacyLoss:
    """A loss in points: `losses` grow, `probabilities` are those under P.

    infinite: the probability of a loss without bound.
    """

    step: float
    places: tuple[int, ...]
    """Of the losses, as multiples of `step`."""
    masses: tuple[float, ...]
    infinite: float

    @cached_property
    def losses(self) -> Reals:
        return self.step * np.array(self.places, dtype=np.float64)

    @cached_property
    def probabilities(self) -> Reals:
        return np.array(self.masses)

    def delta(self, epsilon: float) -> float:
        """δ(ε), never below that of the curve."""
        gain = -np.expm1(np.minimum(0.0, epsilon - self.losses))
        return min(1.0, self.infinite + float(self.probabilities @ gain))

    def cdf(self, loss: float) -> float:
        """P(L ≤ loss), for accountants that take a distribution function."""
        return float(self.probabilities[self.losses <= loss].sum())

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        points = {"losses": self.losses.tolist(), "probabilities": list(self.masses)}
        return {"step": self.step, **points, "infinite": self.infinite}

    def to_pld(self) -> Any:
        """The same as a pessimistic `PrivacyLossDistribution` of `dp_accounting`."""
        try:
            from dp_accounting.pld import pld_pmf, privacy_loss_distribution
        except ImportError:
            raise MissingExtraError("a loss for dp-accounting", "accountants") from None
        first, last = self.places[0], self.places[-1]
        dense = np.zeros(last - first + 1)
        dense[np.array(self.places) - first] = self.masses
        pmf = pld_pmf.DensePLDPmf(self.step, first, dense, self.infinite, pessimistic_estimate=True)
        return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def privacy_loss(curve: PrivacyProfile, step: float = STEP, within: float = WITHIN) -> PrivacyLoss:
    """The loss of a curve in points: ε at any δ above 1e-15 grows by `within` at most."""
    positive(step=step, within=within)

    @cache
    def upper(place: int) -> float:
        return curve.delta(place * step).upper

    last = _last(curve, upper, step)
    nodes = _nodes(upper, last, step, within)
    corners = _hull([(place, math.exp(place * step), upper(place)) for place in nodes])
    slopes = [(left[2] - right[2]) / (right[1] - left[1]) for left, right in pairwise(corners)]
    places = [place for place, _, _ in corners[1:]]
    under_q = [before - after for before, after in pairwise([*slopes, 0.0])]
    under_p = [q * math.exp(place * step) for place, q in zip(places, under_q, strict=True)]
    infinite = corners[-1][2]
    still = max(0.0, 1.0 - infinite - math.fsum(under_p) - math.fsum(under_q))
    back = [-place for place in reversed(places)]
    return PrivacyLoss(step, (*back, 0, *places), (*reversed(under_q), still, *under_p), infinite)


def _last(curve: PrivacyProfile, upper: Upper, step: float) -> int:
    """Where the curve ends: at its pure ε, at next to nothing, or where it falls no further.

    A power of two will do, since it is how far points reach and not what they promise. `invert`
    finds the least ε at a δ, and none for a curve that ends above it.
    """
    if curve.pure_epsilon() <= MOST_LOSS:
        place = math.ceil(curve.pure_epsilon() / step * (1.0 - 1e-15))
        return place + (upper(place) > 0.0)  # a multiple may round below
    for power in range(round(math.log2(MOST_LOSS))):
        place = math.ceil(2.0**power / step)
        if upper(place) <= _LEAST:
            return place
        far = upper(math.ceil(2.0 ** (power + 1) / step))
        if far >= upper(place) * (1.0 - _FLAT):
            return place
    raise InputError(f"δ is {far:.2g} at ε = {MOST_LOSS:g}: nothing that a loss could say")


def _nodes(upper: Upper, last: int, step: float, within: float) -> list[int]:
    """Pieces are halved while a straight line in e^ε moves ε by more than `within`."""
    done, open_pieces = [0], [(0, last)]
    while open_pieces:
        low, high = open_pieces.pop()
        middle = (low + high) // 2
        if high - low > 1 and _moves(upper, (low, middle, high), step) > within:
            open_pieces += [(middle, high), (low, middle)]
        else:
            done.append(high)
    return done


def _moves(upper: Upper, piece: tuple[int, int, int], step: float) -> float:
    """By how much ε moves at the middle, by the slope after it, where the curve is flatter."""
    low, middle, high = piece
    if upper(low) <= _LEAST or upper(low) == upper(high):
        return 0.0
    here, ahead = math.expm1((middle - low) * step), math.expm1((high - low) * step)
    line = upper(low) + (upper(high) - upper(low)) * here / ahead
    fall = (upper(middle) - upper(high)) / ((high - middle) * step)
    return (line - upper(middle)) / fall if fall > 0.0 else math.inf


def _hull(points: list[Point]) -> list[Point]:
    """The corners of the largest convex function below all points; the first one stays."""
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and _above(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return kept


def _above(
    left: Point,
    middle: Point,
    right: Point,
) -> bool:
    """Whether the middle point lies on the line between the others, or above it."""
    (_, a, f), (_, b, g), (_, c, h) = left, middle, right
    return (g - f) * (c - a) >= (h - f) * (b - a)
