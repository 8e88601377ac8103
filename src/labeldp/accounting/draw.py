"""A guarantee over the draw of the bags as well (theory §4, §14).

The bags are drawn without looking at the labels and are published, so δ over the draw is the mean
of δ given the bags: the chance mk/n that the row is in a bag at all, times it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from labeldp.accounting.bounds import Bounds, round_up
from labeldp.accounting.privacy_profile import GroupPrivacy, PrivacyProfile, Range, SearchMethod
from labeldp.errors import InputError, at_least


class AfterDraw(PrivacyProfile):
    """A law given the bags, times the chance to be in one: `drawn` says both.

    One of several labels is in a bag with at most as many times the chance.
    """

    @abstractmethod
    def drawn(self) -> tuple[float, PrivacyProfile]: ...

    def delta(self, epsilon: float) -> Bounds:
        chance, given = self.drawn()
        return given.delta(epsilon).times(chance)

    def guess(self, epsilon: float) -> Bounds:
        chance, given = self.drawn()
        return given.guess(epsilon).times(chance)

    def group(self, size: int) -> PrivacyProfile:
        chance, given = self.drawn()
        several = given.group(size)
        if isinstance(
            several, GroupPrivacy
        ):  # steps over the draw cost less: each has the chance of one
            return GroupPrivacy(SubsampledProfile(given, chance), size)
        return SubsampledProfile(several, min(1.0, size * chance))

    def simpler(self, delta: float) -> tuple[PrivacyProfile, float]:
        chance, given = self.drawn()
        return given, affordable_delta(delta, chance)


@dataclass(frozen=True)
class SubsampledProfile(AfterDraw):
    """`curve` given the bags, over a draw of which only the `chance` is known."""

    curve: PrivacyProfile
    chance: float

    def __post_init__(self) -> None:
        if not 0.0 < self.chance <= 1.0:
            raise InputError(f"chance must lie above 0 and not above 1, not {self.chance}")

    def drawn(self) -> tuple[float, PrivacyProfile]:
        return self.chance, self.curve


@dataclass(frozen=True)
class BagDraw(AfterDraw):
    """`curve` given the bags, over the draw of `bags` disjoint bags of `bag_size` rows each."""

    curve: PrivacyProfile
    rows: int
    bag_size: int
    bags: int = 1

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows, bag_size=self.bag_size, bags=self.bags)

    def drawn(self) -> tuple[float, PrivacyProfile]:
        return membership(self.rows, self.bags, self.bag_size), self.curve

    def range_of(self, name: str, epsilon: float, delta: float) -> Range | float:
        """All bags that fit if one is private given the draw; else as few as make mk/n small."""
        if name != "bags":
            return super().range_of(name, epsilon, delta)
        given = Fraction(max(self.curve.delta(epsilon).upper, 5e-324))
        start = math.floor(Fraction(delta) * self.rows / (self.bag_size * given))
        fitting = self.rows // self.bag_size
        return Range(
            0, fitting, min(start, fitting), grows=True, whole=True, how=SearchMethod.STEPS
        )


def membership(rows: int, bags: int, bag_size: int) -> float:
    """mk/n, rounded up: the chance that a given row is in some bag."""
    at_least(1, rows=rows, bags=bags, bag_size=bag_size)
    if bags * bag_size > rows:
        raise InputError(
            f"{bags:,} disjoint bags of {bag_size:,} rows need {bags * bag_size:,} rows and the "
            f"table has {rows:,}; ask for fewer or smaller bags"
        )
    return math.nextafter(float(Fraction(bags * bag_size, rows)), 1.0)


def affordable_delta(delta: float, chance: float) -> float:
    """The largest δ a bag may have given the draw: its product with `chance` passes."""
    if chance <= delta:
        return 1.0
    if chance == 1.0:
        return delta
    given = delta / chance
    while round_up(given * chance) > delta:
        given = math.nextafter(given, 0.0)
    return given
