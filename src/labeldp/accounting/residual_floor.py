"""Where the lower bound of the residual, the floor, comes from, and what it costs (theory §6).

declared        the curator asserts it; an assumption, named as such
measured        σ̂ = σ + N(0, s0²) is published and σ_lb read off it
added           noise N(0, s²) on every aggregate label is the floor, whatever the labels
measured+added  the noise adds only what the measured floor lacks
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from scipy import special

from labeldp.accounting.gaussian import largest_mu
from labeldp.errors import at_least, in_range, positive


class FloorMode(StrEnum):
    """How a release establishes its residual floor."""

    DECLARED = "declared"
    MEASURED = "measured"
    ADDED = "added"
    MEASURED_ADDED = "measured+added"

    @property
    def measures(self) -> bool:
        """Whether a part of the budget is spent on measuring σ."""
        return self in (FloorMode.MEASURED, FloorMode.MEASURED_ADDED)

    @property
    def adds(self) -> bool:
        """Whether noise may be added to aggregate labels."""
        return self in (FloorMode.ADDED, FloorMode.MEASURED_ADDED)


@dataclass(frozen=True)
class Measurement:
    """A private measurement of σ = ‖P⊥y‖, which one label moves by at most Δ (theory 6.2).

    mu: the Gaussian mechanism's parameter μ0, which the accountant composes.
    slack: δ0, the probability that the lower bound is above σ, which it adds.
    """

    mu: float
    slack: float

    def __post_init__(self) -> None:
        positive(mu=self.mu)
        in_range(0.0, 0.5, slack=self.slack)

    def noise(self, width: float) -> float:
        """Return the deviation of the noise, s0 = Δ/μ0, rounded up."""
        positive(width=width)
        return math.nextafter(width / self.mu, math.inf)

    def lower_bound(self, measured: float, grid_half_width: float, width: float) -> float:
        """Return σ_lb = σ̂ − s0·Φ⁻¹(1−δ0) − half a grid cell, at least 0, rounded down.

        Above σ with probability at most δ0: a σ_lb of 0 never is.
        """
        at_least(0.0, grid_half_width=grid_half_width)
        quantile = -float(special.ndtri(self.slack))
        bound = measured - self.noise(width) * quantile * (1.0 + 1e-12) - grid_half_width
        return max(0.0, bound * (1.0 - 1e-15))


def measurement_cost(measurement: Measurement | None) -> tuple[float, float]:
    """Return μ0 and δ0 of a measured floor; zeros without a measurement."""
    return (measurement.mu, measurement.slack) if measurement else (0.0, 0.0)


def added_variance(needed: float, lower_bound: float) -> float:
    """Return s² = max(0, F − σ_lb²), rounded up, for a needed floor F and a lower bound of σ."""
    positive(needed=needed)
    at_least(0.0, lower_bound=lower_bound)
    square = math.nextafter(lower_bound * lower_bound, 0.0)
    if square >= needed:
        return 0.0
    return math.nextafter(needed - square, math.inf)


def default_measurement(epsilon: float, delta: float, labels: int = 1) -> Measurement:
    """Return a measurement for a tenth of the budget: μ0² = μ²/10, δ0 = δ/10.

    μ is that of the Gaussian mechanism with (ε, δ). Several labels that change at once move σ by
    √labels·Δ, so the cost per label is smaller.
    """
    positive(epsilon=epsilon)
    mu = largest_mu(epsilon, delta)
    return Measurement(math.sqrt(0.1) * mu / math.sqrt(labels), delta / 10.0)
