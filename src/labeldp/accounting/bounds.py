"""The shape of every numerical answer: a bracket whose upper end is the claim."""

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
            min(1.0, math.nextafter(self.upper + slack, math.inf)),
        )


NO_GUARANTEE = Bounds(1.0, 1.0, 1.0)
