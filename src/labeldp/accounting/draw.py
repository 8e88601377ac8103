"""A guarantee over the draw of the bags as well (theory §4, §14).

The bags are drawn without looking at the labels and are published, so δ over the draw is the mean
of δ given the bags: the chance mk/n that the row is in a bag at all, times it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from labeldp.accounting.bounds import Bounds, round_up
from labeldp.accounting.curve import Curve, How, Range, Steps
from labeldp.errors import InputError, at_least


@dataclass(frozen=True)
class OverDraw(Curve):
    """`curve` given the bags, times the `chance` to be in one.

    One of several labels is in a bag with at most as many times the chance.
    """

    curve: Curve
    chance: float

    def __post_init__(self) -> None:
        if not 0.0 < self.chance <= 1.0:
            raise InputError(f"chance must lie above 0 and not above 1, not {self.chance}")

    def delta(self, epsilon: float) -> Bounds:
        return self.curve.delta(epsilon).times(self.chance)

    def guess(self, epsilon: float) -> Bounds:
        return self.curve.guess(epsilon).times(self.chance)

    def group(self, size: int) -> Curve:
        given = self.curve.group(size)
        if isinstance(given, Steps):  # steps over the draw cost less: each has the chance of one
            return Steps(self, size)
        return OverDraw(given, min(1.0, size * self.chance))

    def drawn(self) -> tuple[float, Curve]:
        return self.chance, self.curve

    def inside(self, delta: float) -> tuple[Curve, float]:
        return self.curve, affordable_delta(delta, self.chance)


@dataclass(frozen=True)
class BagDraw(Curve):
    """`curve` given the bags, over the draw of `bags` disjoint bags of `bag_size` rows each."""

    curve: Curve
    rows: int
    bag_size: int
    bags: int = 1

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows, bag_size=self.bag_size, bags=self.bags)

    @property
    def over(self) -> OverDraw:
        return OverDraw(self.curve, membership(self.rows, self.bags, self.bag_size))

    def delta(self, epsilon: float) -> Bounds:
        return self.over.delta(epsilon)

    def guess(self, epsilon: float) -> Bounds:
        return self.over.guess(epsilon)

    def group(self, size: int) -> Curve:
        return self.over.group(size)

    def drawn(self) -> tuple[float, Curve]:
        return self.over.drawn()

    def inside(self, delta: float) -> tuple[Curve, float]:
        return self.over, delta

    def search(self, name: str, epsilon: float, delta: float) -> Range | float:
        """All bags that fit if one is private given the draw; else as few as make mk/n small."""
        if name != "bags":
            return super().search(name, epsilon, delta)
        given = Fraction(max(self.curve.delta(epsilon).upper, 5e-324))
        start = math.floor(Fraction(delta) * self.rows / (self.bag_size * given))
        fitting = self.rows // self.bag_size
        return Range(0, fitting, min(start, fitting), grows=True, whole=True, how=How.STEPS)


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
