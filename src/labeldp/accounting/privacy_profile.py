"""Privacy profiles: δ(ε) of a release, for one changed label or several, alone or composed.

A `PrivacyProfile` gives certified bounds of δ(ε). Inverse questions (ε at δ, most bags, least
noise, smallest bag) are answered in `calibrate`; a profile only says where to search
(`epsilon_search`, `parameter_search`). Only `Bounds.upper` may reach a certificate, and only that
of `delta` with certified=True.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from labeldp.errors import InputError, at_least, in_range

if TYPE_CHECKING:
    from labeldp.accounting.neighbors import NeighborFamily

MOST_EPSILON = 1e6
LEAST_DELTA = 1e-100
"""Smallest δ of a budget, if it is not 0."""
LEAST_CLAIM = 1e-300
"""Smallest δ that is claimed if it is not exactly 0: smaller doubles have fewer digits."""
LEAST_GROUP_EPSILON, MOST_GROUP_EPSILON = 1e-6, 1e4
"""For generic group privacy, whose δ grows like e^ε."""


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
        lower, estimate = min(1.0, self.lower + slack), min(1.0, self.estimate + slack)
        return Bounds(lower, estimate, min(1.0, round_up(self.upper + slack)))

    def times(self, chance: float) -> Bounds:
        """Return the bounds times the probability of being sampled, the upper end rounded up."""
        if chance == 1.0:
            return self
        return Bounds(self.lower * chance, self.estimate * chance, round_up(self.upper * chance))


NO_GUARANTEE = Bounds(1.0, 1.0, 1.0)


def round_up(value: float) -> float:
    """Return the next larger float, so that rounding never makes a claim smaller."""
    return math.nextafter(value, math.inf)


class SearchMethod(Enum):
    """How `calibrate` searches for a value."""

    NEAR = auto()
    """Find the root of the quick δ from `start`, then step until the certified δ passes."""
    SHARP = auto()
    """δ is closed form: find its root between the ends to the last digits."""
    STEPS = auto()
    """Use the certified δ from the beginning: growing steps from `start`, then bisection."""


@dataclass(frozen=True)
class SearchRange:
    """Where ε, or the best value of a parameter, lies, and how to search for it.

    low, high, start: the ends and the first guess, in the coordinate that suits the profile;
        `value` turns a coordinate into the parameter (a floor is searched by its logarithm, so
        there `value` is exp).
    increasing: δ increases with the parameter, so the largest value is wanted; else the smallest.
    integer: only whole numbers count.
    """

    low: float
    high: float
    start: float
    value: Callable[[Any], float] = lambda coordinate: coordinate
    increasing: bool = False
    integer: bool = False
    method: SearchMethod = SearchMethod.NEAR


DiscreteLoss = tuple[tuple[float, float], ...]
"""Values of a bounded privacy loss with their probabilities under P, or a law that dominates it."""


@dataclass(frozen=True)
class LossFactors:
    """A privacy loss as a sum of independent parts, by which profiles compose.

    families: sketches. mu: all Gaussian parts together. atoms: laws that dominate bounded losses,
    so that there is no lower bound with them. slack: a failure probability that is added to δ.
    """

    families: tuple[NeighborFamily, ...] = ()
    mu: float = 0.0
    atoms: tuple[DiscreteLoss, ...] = ()
    slack: float = 0.0

    def times(self, other: LossFactors) -> LossFactors:
        """Return the factors of both losses together."""
        return LossFactors(
            self.families + other.families,
            math.hypot(self.mu, other.mu),
            self.atoms + other.atoms,
            self.slack + other.slack,
        )


class PrivacyProfile(ABC):
    """δ(ε) of a release when one label changes, unless a subclass says otherwise."""

    @abstractmethod
    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        """Return certified bounds of δ(ε).

        With certified=False they may be faster to compute, and the upper end is never above the
        certified one: for searches and choices of utility, never for a claim.
        """

    def group(self, size: int) -> PrivacyProfile:
        """Return the profile for `size` labels changed at once.

        Generic group privacy (`size` single steps), unless a subclass knows a better bound.
        """
        return GroupPrivacy(self, size)

    def factors(self) -> LossFactors | None:
        """Return the loss as independent parts; None if it has no such form."""
        return None

    def pure_epsilon(self) -> float:
        """Return an ε from which on δ is exactly 0; inf if there is none."""
        return math.inf

    def epsilon_search(self, delta: float) -> SearchRange | float:  # noqa: ARG002
        """Return where to search for ε at δ > 0, or that ε if it is closed form."""
        return SearchRange(0.0, MOST_EPSILON, 1.0)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange:  # noqa: ARG002
        """Return where to search for the best value of a parameter."""
        raise InputError(f"{type(self).__name__} has no parameter {name!r} to solve for")

    def with_parameter(self, name: str, value: Any) -> PrivacyProfile:
        """Return this profile with another value of one parameter."""
        return replace(self, **{name: value})  # type: ignore[type-var]


@dataclass(frozen=True)
class GroupPrivacy(PrivacyProfile):
    """`size` labels as single steps: (ε/k, δ) at each gives (ε, δ(1 + … + e^{(k−1)ε/k})).

    The sum is returned as it is, even above 1, where it promises nothing. Every step must have
    this profile, so it rests on no promise about the labels.
    """

    curve: PrivacyProfile
    size: int = 1

    def __post_init__(self) -> None:
        at_least(1, size=self.size)

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:
        step = epsilon / self.size
        single = self.curve.delta(step, certified=certified)
        upper = group_delta(step, single.upper, self.size)
        if single is NO_GUARANTEE or math.isinf(upper):
            return NO_GUARANTEE
        return Bounds(0.0, upper, upper)

    def group(self, size: int) -> PrivacyProfile:
        return replace(self, size=self.size * size)

    def pure_epsilon(self) -> float:
        return round_up(self.size * self.curve.pure_epsilon())

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        least = LEAST_GROUP_EPSILON
        return SearchRange(least, MOST_GROUP_EPSILON, least, method=SearchMethod.STEPS)


@dataclass(frozen=True)
class SubsampledProfile(PrivacyProfile):
    """`curve` given the bags, over their draw; `chance` is the probability of being in a bag.

    Bags are drawn without looking at the labels and are published. So δ over the draw is the mean
    of δ given the bags: `chance`, mk/n, times δ of a row that is in one (theory §4, §14).
    """

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


@dataclass(frozen=True)
class StatedProfile(PrivacyProfile):
    """(ε, δ) for one label, and nothing else: of a claim whose accountant is gone."""

    epsilon: float
    stated_delta: float

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        if epsilon < self.epsilon:
            return NO_GUARANTEE
        return Bounds(0.0, self.stated_delta, self.stated_delta)

    def group(self, size: int) -> PrivacyProfile:
        """Promise nothing of several labels: a promise about the data may wear off with each."""
        return self if size == 1 else replace(self, epsilon=math.inf)

    def epsilon_search(self, delta: float) -> float:
        return self.epsilon if delta >= self.stated_delta else math.inf


def best_true_positive_rate(
    points: Iterable[tuple[float, float]], false_positive_rate: float = 0.001
) -> float:
    """Return the best true-positive rate of any attack at a false-positive rate.

    Every point (ε, δ) of a profile, in both directions, bounds it by e^ε·fpr + δ and by
    1 − e^{−ε}(1 − δ − fpr); the smallest bound counts.
    """
    in_range(0.0, 1.0, false_positive_rate=false_positive_rate)
    fpr = false_positive_rate
    return min(
        min(math.exp(min(e, 700.0)) * fpr + d, 1.0 - math.exp(-e) * max(0.0, 1.0 - d - fpr))
        for e, d in points
    )


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """Return δ of `size` steps of an (ε, δ) guarantee: δ(1 + e^ε + … + e^{(size−1)ε})."""
    if epsilon == 0.0:
        return size * delta
    if (size - 1) * epsilon > 700.0:
        return math.inf if delta > 0.0 else 0.0
    # 1e-12 is far above the rounding of three exponentials.
    if size * epsilon > 700.0:  # e^{size·ε} overflows, the sum does not
        return delta * math.exp((size - 1) * epsilon) / -math.expm1(-epsilon) * (1.0 + 1e-12)
    return delta * math.expm1(size * epsilon) / math.expm1(epsilon) * (1.0 + 1e-12)


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
