"""The shapes of an answer: a bracket whose upper end is the claim, and a number or a reason."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """``0 <= lower <= estimate <= upper <= 1``; only `upper` may reach a certificate."""

    lower: float
    estimate: float
    upper: float

    def plus(self, slack: float) -> Bounds:
        """Add a failure probability, rounding the upper end up."""
        if slack == 0.0:
            return self
        return Bounds(
            min(1.0, self.lower + slack),
            min(1.0, self.estimate + slack),
            min(1.0, round_up(self.upper + slack)),
        )

    def times(self, chance: float) -> Bounds:
        """δ over a draw from δ given the draw, rounding the upper end up."""
        if chance == 1.0:
            return self
        return Bounds(self.lower * chance, self.estimate * chance, round_up(self.upper * chance))


NO_GUARANTEE = Bounds(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Answer:
    """A number, or why there is none. `value` is 0 bags, or None for anything else, if refused."""

    value: float | None
    reason: str = ""

    @property
    def or_infinite(self) -> float:
        """The answer as an ε."""
        return math.inf if self.value is None else self.value

    @property
    def bounds(self) -> Bounds:
        """The answer as a δ."""
        value = 1.0 if self.value is None else self.value
        return Bounds(value, value, value)


def round_up(value: float) -> float:
    """The next float: a claim never gains by rounding."""
    return math.nextafter(value, math.inf)
