"""Profiles over the random choice of bags (theory §4, §14).

Bags are drawn without looking at the labels and are published. So δ over the draw is the mean of δ
given the bags: the probability mk/n that the row is in a bag at all, times δ given that it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from labeldp.accounting.privacy_profile import Bounds, GroupPrivacy, PrivacyProfile, round_up
from labeldp.errors import InputError, at_least


@dataclass(frozen=True)
class SubsampledProfile(PrivacyProfile):
    """`curve` given the bags; `chance` is the probability of being in a bag."""

    curve: PrivacyProfile
    chance: float

    def __post_init__(self) -> None:
        if not 0.0 < self.chance <= 1.0:
            raise InputError(f"chance must lie above 0 and not above 1, not {self.chance}")

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        return self.curve.delta(epsilon, certified=certified).times(self.chance)

    def group(self, size: int) -> PrivacyProfile:
        """Return the profile of k labels: one of them is in a bag with at most k times the chance.

        Generic group privacy takes its steps over the draw instead: each has the chance of one.
        """
        several = self.curve.group(size)
        if isinstance(several, GroupPrivacy):
            return GroupPrivacy(self, size)
        return SubsampledProfile(several, min(1.0, size * self.chance))


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


def most_bags(
    profile: PrivacyProfile, rows: int, bag_size: int, epsilon: float, delta: float
) -> int:
    """Return the most disjoint bags within (ε, δ) over their draw; `profile` is given the bags."""
    at_least(1, rows=rows, bag_size=bag_size)
    given, bags = profile.delta(epsilon), rows // bag_size
    # δ_bag·mk/n ≤ δ in exact fractions bounds m from above: rounded up, δ is larger
    if given.upper > 0.0:
        exact = Fraction(delta) * rows / (bag_size * Fraction(given.upper))
        bags = min(bags, math.floor(exact))
    while bags and given.times(inclusion_probability(rows, bags, bag_size)).upper > delta:
        bags -= 1
    return bags
