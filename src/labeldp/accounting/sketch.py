"""Profiles of aggregates with secret Gaussian weights (theory §3, §4, §6).

`SketchProfile` is wtd-FLAg: m aggregates of a table whose residual sum of squares is at least
`floor`. sampled-wtd-FLAg given its bags is a `SketchProfile` with bags = 1, disjoint = True and
these bounds,

    rows           k, the size of a bag (not of the table)
    features       the largest rank of a bag's features
    max_leverage   the largest leverage of a row within its bag, over all bags drawn

and a floor that every bag's residual sum of squares reaches.

A measured floor (theory §6.2) costs a Gaussian mechanism of parameter `mu` and a failure
probability `slack`: the total is the sketch composed with that Gaussian, plus δ0. Added noise that
depends on the measured floor needs no adaptive composition: unless the measurement fails (δ0), the
noise is at least max(0, F − σ²), and adding more is post-processing of adding just that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import special

from labeldp.accounting import gaussian
from labeldp.accounting.neighbors import NeighborFamily, residual_cosine
from labeldp.accounting.privacy_profile import (
    MOST_EPSILON,
    Bounds,
    LossFactors,
    PrivacyProfile,
    SearchRange,
    round_up,
)
from labeldp.errors import (
    InputError,
    PlanError,
    at_least,
    in_range,
    positive,
    to_int,
    to_range,
)

MOST_BAGS = 10**12
_LEAST_LOG_FLOOR, _MOST_LOG_FLOOR = -60.0, 120.0
"""Range of log(residual floor / squared label width)."""


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
        # 1e-12 and 1e-15 are far above the rounding of ndtri and of these operations
        bound = measured - self.noise(width) * quantile * (1.0 + 1e-12) - grid_half_width
        return max(0.0, bound * (1.0 - 1e-15))


def measurement_cost(measurement: Measurement | None) -> tuple[float, float]:
    """Return μ0 and δ0 of a measured floor; zeros without a measurement."""
    return (measurement.mu, measurement.slack) if measurement else (0.0, 0.0)


def added_variance(needed: float, lower_bound: float) -> float:
    """Return s² = max(0, F − σ_lb²), rounded up, for a needed floor F and a lower bound of σ."""
    positive(needed=needed)
    at_least(0.0, lower_bound=lower_bound)
    square = math.nextafter(lower_bound * lower_bound, 0.0)  # down: less floor is taken as given
    if square >= needed:
        return 0.0
    return math.nextafter(needed - square, math.inf)


def default_measurement(epsilon: float, delta: float, labels: int = 1) -> Measurement:
    """Return a measurement for a tenth of the budget: μ0² = μ²/10, δ0 = δ/10.

    μ is that of the Gaussian mechanism with (ε, δ). Several labels that change at once move σ by
    √labels·Δ, so the cost per label is smaller.
    """
    positive(epsilon=epsilon)
    mu = gaussian.largest_mu(epsilon, delta)
    return Measurement(math.sqrt(0.1) * mu / math.sqrt(labels), delta / 10.0)


@dataclass(frozen=True)
class DatasetBounds:
    """Public bounds of a data set.

    features: rank of the feature columns, None if unknown.
    max_leverage: the largest h_i, None if the accountant must assume the worst.
    centred: the column space holds the constant vector, so labels may be shifted freely.
    inflation: margin for the rounding of aggregated features, as a fraction of u and v.
    """

    rows: int
    label_range: tuple[float, float]
    features: int | None = None
    max_leverage: float | None = None
    centred: bool = True
    inflation: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_range", to_range("label_range", self.label_range))
        if self.features is not None:
            object.__setattr__(self, "features", to_int("features", self.features))
        positive(rows=self.rows)
        at_least(0.0, inflation=self.inflation)
        if (leverage := self.max_leverage) is not None:
            at_least(0.0, max_leverage=leverage)
            # leverages are at most 1, and features/rows on average
            if leverage > 1.0 or (self.features or 0) > leverage * self.rows * (1.0 + 1e-9):
                raise InputError(
                    f"`max_leverage` must lie between features/rows and 1, not {leverage}; "
                    "recompute it from the features"
                )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def radius(self) -> float:
        """B of theory §3e: the largest distance of a label from a constant in the column space."""
        return 0.5 * self.width if self.centred else max(map(abs, self.label_range))


@dataclass(frozen=True)
class SketchProfile(PrivacyProfile):
    """`bags` aggregates of all rows, the residual sum of squares being at least `floor`.

    mu, slack: what a measured floor costs. labels: how many change at once; σ then moves by up to
    √labels·Δ, and so does what the measurement sees. disjoint: this is one of many disjoint bags,
    with one aggregate from each: one label touches one bag, several may lie in several.
    """

    facts: DatasetBounds
    bags: float = 1
    floor: float = 1.0
    mu: float = 0.0
    slack: float = 0.0
    labels: int = 1
    disjoint: bool = False

    def __post_init__(self) -> None:
        positive(bags=self.bags, floor=self.floor)
        at_least(1, labels=self.labels)

    @property
    def family(self) -> NeighborFamily:
        """All neighbours that the facts and the floor allow.

        A change of k labels is t·e with e a unit vector on k rows and |t| ≤ √k·Δ. Theory 3b
        holds for any unit vector, with h = eᵀHe ≤ k·h_max and |rᵀe| ≤ √k·max|r_i|.
        """
        facts, root = self.facts, math.sqrt(self.labels)
        # δ grows with τ, the leverage and the cosine: rounding each up is safe (theory §3c)
        tau = root * facts.width / math.sqrt(self.floor) * (1.0 + 1e-15)
        if facts.max_leverage is None or self.labels * facts.max_leverage >= 1.0:
            return NeighborFamily(self.bags, tau, inflation=facts.inflation)
        cosine = root * residual_cosine(facts.rows, facts.radius, facts.max_leverage, self.floor)
        leverage = self.labels * facts.max_leverage
        return NeighborFamily(self.bags, tau, leverage, min(1.0, cosine), facts.inflation)

    @property
    def seen(self) -> float:
        """μ of the floor's measurement for this many labels."""
        return math.sqrt(self.labels) * self.mu

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        return self.family.delta(epsilon, self.seen, certified=certified).plus(self.slack)

    def group(self, size: int) -> PrivacyProfile:
        if self.disjoint and size > 1:
            return DisjointBagsProfile(self, size)
        return replace(self, labels=size * self.labels)

    def factors(self) -> LossFactors:
        return LossFactors((self.family,), self.seen, slack=self.slack)

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, MOST_EPSILON, float(self.labels))

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange:
        scale = 2.0 * math.log(self.facts.width)
        if name == "bags":
            log_start = min(max(0.0, math.log(self.floor) - scale - 3.0), math.log(MOST_BAGS))
            start = round(math.exp(log_start))
            return SearchRange(1, MOST_BAGS, start, increasing=True, integer=True)
        if name != "floor":
            return super().parameter_search(name, epsilon, delta)
        # Even an infinite floor leaves the cost of its measurement.
        if gaussian.upper(epsilon, self.seen) + self.slack >= delta:
            raise PlanError(
                f"measuring the floor alone spends delta {delta} at epsilon {epsilon}; "
                "measure it with more noise or a smaller slack"
            )
        ends = scale + _LEAST_LOG_FLOOR, scale + _MOST_LOG_FLOOR
        return SearchRange(*ends, scale + math.log(self.bags) + 3.0, math.exp)


@dataclass(frozen=True)
class DisjointBagsProfile(PrivacyProfile):
    """`labels` labels that change at once, with one aggregate from each of many disjoint bags.

    Bags are independent, so p1 + p2 + … labels in several bags cost at most
    δ(p1; ε1) + δ(p2; ε2) + … with ε1 + ε2 + … = ε, here in proportion to p. (Several bags can cost
    more than one: at small ε they do.) δ is that of the costliest partition of the labels into
    bags, by dynamic programming. `lower` has all labels in one bag.

    Each part counts a measurement of its own, of p labels: √p1·μ0, √p2·μ0, … The one measurement
    sees less, since the smallest residual root moves by at most the largest √p·Δ.
    """

    each: SketchProfile
    labels: int

    def __post_init__(self) -> None:
        at_least(1, labels=self.labels)

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        bag = replace(self.each, slack=0.0)  # the measurement fails once, not once a bag
        sizes = range(1, min(self.labels, self.each.facts.rows) + 1)
        parts = [
            replace(bag, labels=size).delta(epsilon * size / self.labels, certified=certified)
            for size in sizes
        ]
        dearest = [0.0]  # of 0, 1, 2, … labels
        for labels in range(1, self.labels + 1):
            some = range(1, min(labels, len(parts)) + 1)
            dearest.append(max(round_up(parts[p - 1].upper + dearest[labels - p]) for p in some))
        upper = min(1.0, dearest[self.labels])
        lower = parts[-1].lower if len(parts) == self.labels else 0.0
        return Bounds(lower, upper, upper).plus(self.each.slack)

    def group(self, size: int) -> DisjointBagsProfile:
        return replace(self, labels=size * self.labels)


def spans_labels(bag_size: int, features: int) -> str:
    """Return why bags of so few rows are not private at all, or "" if they may be private.

    With k ≤ d independent features the labels lie in the column space: an aggregate of
    features tells the aggregate label of D for certain, and that of D' differs.
    """
    if bag_size > features:
        return ""
    return (
        f"bags of {bag_size:,} rows with {features:,} independent features determine their labels: "
        f"no ε, no δ below 1; bags need more than {features:,} rows, or added noise as their floor"
    )
