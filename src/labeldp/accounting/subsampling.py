"""Profiles over the random choice of bags (theory §4, §14).

Bags are drawn without looking at the labels and are published. So δ over the draw is the mean of δ
given the bags: the probability mk/n that the row is in a bag at all, times δ given that it is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from labeldp.accounting.privacy_profile import (
    Bounds,
    GroupPrivacy,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
    round_up,
)
from labeldp.errors import InputError, at_least


class ConditionalOnBags(PrivacyProfile):
    """δ given the bags, times the probability of being in one; `subsampling` returns both.

    For k labels that probability is at most k times as large.
    """

    @abstractmethod
    def subsampling(self) -> tuple[float, PrivacyProfile]: ...

    def delta(self, epsilon: float) -> Bounds:
        chance, profile = self.subsampling()
        return profile.delta(epsilon).times(chance)

    def quick_delta(self, epsilon: float) -> Bounds:
        chance, profile = self.subsampling()
        return profile.quick_delta(epsilon).times(chance)

    def group(self, size: int) -> PrivacyProfile:
        chance, profile = self.subsampling()
        several = profile.group(size)
        if isinstance(several, GroupPrivacy):
            # Steps over the draw cost less: each has the chance of one.
            return GroupPrivacy(SubsampledProfile(profile, chance), size)
        return SubsampledProfile(several, min(1.0, size * chance))

    def inner_profile(self, delta: float) -> tuple[PrivacyProfile, float]:
        chance, profile = self.subsampling()
        return profile, affordable_delta(delta, chance)


@dataclass(frozen=True)
class SubsampledProfile(ConditionalOnBags):
    """`curve` given the bags; `chance` is the probability of being in a bag."""

    curve: PrivacyProfile
    chance: float

    def __post_init__(self) -> None:
        if not 0.0 < self.chance <= 1.0:
            raise InputError(f"chance must lie above 0 and not above 1, not {self.chance}")

    def subsampling(self) -> tuple[float, PrivacyProfile]:
        return self.chance, self.curve


@dataclass(frozen=True)
class SubsampledBagsProfile(ConditionalOnBags):
    """`curve` given the bags, over the draw of `bags` disjoint bags of `bag_size` rows each."""

    curve: PrivacyProfile
    rows: int
    bag_size: int
    bags: int = 1

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows, bag_size=self.bag_size, bags=self.bags)

    def subsampling(self) -> tuple[float, PrivacyProfile]:
        return inclusion_probability(self.rows, self.bags, self.bag_size), self.curve

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        """Search the bags: all that fit if one is private given the draw, else as mk/n allows."""
        if name != "bags":
            return super().parameter_search(name, epsilon, delta)
        bag_delta = Fraction(max(self.curve.delta(epsilon).upper, 5e-324))
        start = math.floor(Fraction(delta) * self.rows / (self.bag_size * bag_delta))
        fitting = self.rows // self.bag_size
        return SearchRange(
            0,
            fitting,
            min(start, fitting),
            increasing=True,
            integer=True,
            method=SearchMethod.STEPS,
        )


def inclusion_probability(rows: int, bags: int, bag_size: int) -> float:
    """Return mk/n, rounded up: the probability that a given row is in some bag."""
    at_least(1, rows=rows, bags=bags, bag_size=bag_size)
    if bags * bag_size > rows:
        raise InputError(
            f"{bags:,} disjoint bags of {bag_size:,} rows need {bags * bag_size:,} rows and the "
            f"table has {rows:,}; ask for fewer or smaller bags"
        )
    return math.nextafter(float(Fraction(bags * bag_size, rows)), 1.0)


def affordable_delta(delta: float, chance: float) -> float:
    """Return the largest δ that a bag may have given the draw, so that δ·chance is affordable."""
    if chance <= delta:
        return 1.0
    if chance == 1.0:
        return delta
    bag_delta = delta / chance
    while round_up(bag_delta * chance) > delta:
        bag_delta = math.nextafter(bag_delta, 0.0)
    return bag_delta
