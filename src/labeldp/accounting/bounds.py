"""What accountants return: bounds whose upper end is the claim, or a number with a reason."""

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
        """Return the bounds plus a failure probability, the upper end rounded up."""
        if slack == 0.0:
            return self
        return Bounds(
            min(1.0, self.lower + slack),
            min(1.0, self.estimate + slack),
            min(1.0, round_up(self.upper + slack)),
        )

    def times(self, chance: float) -> Bounds:
        """Return the bounds times the probability of being sampled, the upper end rounded up."""
        if chance == 1.0:
            return self
        return Bounds(self.lower * chance, self.estimate * chance, round_up(self.upper * chance))


NO_GUARANTEE = Bounds(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Answer:
    """A number, or the reason why there is none (then `value` is 0 bags, or None)."""

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
    """Return the next larger float, so that rounding never makes a claim smaller."""
    return math.nextafter(value, math.inf)
