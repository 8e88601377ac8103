"""A guarantee is a curve: δ at every ε, for one label or several, alone or with others.

A law says what δ(ε) is; every inverse question (ε at δ, most bags, least noise, smallest bag) is
answered in `invert`, to which a law says no more than where to look: `epsilon_search`, and
`parameter_search` each of its parameters. Only `Bounds.upper` may reach a certificate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from labeldp.accounting.bounds import NO_GUARANTEE, Bounds, round_up
from labeldp.accounting.limits import LEAST_GROUP_EPSILON, MOST_EPSILON, MOST_GROUP_EPSILON
from labeldp.errors import InputError, at_least, in_range

if TYPE_CHECKING:
    from labeldp.accounting.neighbors import NeighborFamily


class SearchMethod(Enum):
    """How a limit is looked for, as suits the law."""

    NEAR = auto()
    """A root of the quick guess from `start`, then small steps until the certified δ passes."""
    SHARP = auto()
    """δ is closed form: a root between the ends, to the last digits."""
    DOUBLING = auto()
    """δ is slow far out: `start` is doubled until the root is bracketed."""
    STEPS = auto()
    """Certified from the first: growing steps from `start`, then halving."""
    HALVING = auto()
    """Halving the ratio of the ends."""


@dataclass(frozen=True)
class SearchRange:
    """Where ε, or the limit of a parameter, lies, and how to look for it.

    low, high, start: the ends, and where to begin, in the coordinate that suits the law; `value`
    makes the parameter of it. (Bags are looked for by their logarithm: `value` is exp.)
    grows: δ grows with the parameter, so that the largest is asked for; else the smallest.
    hopeless: what to say if there is none; "{least}" stands for the δ at the end of the range.
    """

    low: float
    high: float
    start: float
    value: Callable[[Any], float] = lambda coordinate: coordinate
    increasing: bool = False
    integer: bool = False
    method: SearchMethod = SearchMethod.NEAR
    error_message: str = ""


DiscreteLoss = tuple[tuple[float, float], ...]
"""The values of a bounded loss and their probabilities under P, or a law above it."""


@dataclass(frozen=True)
class LossFactors:
    """A loss in parts that add, by which curves compose: sketches, a Gaussian, bounded losses."""

    families: tuple[NeighborFamily, ...] = ()
    mu: float = 0.0
    atoms: tuple[DiscreteLoss, ...] = ()
    slack: float = 0.0
    exact: bool = True
    """Not so if the points of a bounded loss lie above it: then there is no lower bound."""

    def times(self, other: LossFactors) -> LossFactors:
        """Both losses together."""
        return LossFactors(
            self.families + other.families,
            math.hypot(self.mu, other.mu),
            self.atoms + other.atoms,
            self.slack + other.slack,
            self.exact and other.exact,
        )


class PrivacyProfile(ABC):
    """δ(ε) of a release, for a change of one label unless its law says otherwise."""

    @abstractmethod
    def delta(self, epsilon: float) -> Bounds:
        """δ(ε), certified."""

    def quick_delta(self, epsilon: float) -> Bounds:
        """A quicker δ(ε) that is never above `delta`."""
        return self.delta(epsilon)

    def group(self, size: int) -> PrivacyProfile:
        """The guarantee for `size` labels changed at once; for one, the curve (or a hair above).

        So many single steps, unless a law knows better.
        """
        return GroupPrivacy(self, size)

    def step(self, size: int) -> PrivacyProfile:  # noqa: ARG002
        """What each of `size` single steps has; less than one label where a promise wears off."""
        return self

    def factors(self) -> LossFactors | None:
        """The loss in parts that compose exactly; None if the law has no such form."""
        return None

    def subsampling(self) -> tuple[float, PrivacyProfile] | None:
        """The chance that a public draw takes the label, and the law then; None: no draw."""
        return None

    def parts(self) -> tuple[PrivacyProfile, ...]:
        """The releases that it is made of."""
        return (self,)

    def inner_profile(self, delta: float) -> tuple[PrivacyProfile, float]:
        """The curve inside, and the δ at which it answers the same question; else itself."""
        return self, delta

    def pure_epsilon(self) -> float:
        """The ε from which on δ is 0, as far as the law says; inf if it never is."""
        return math.inf

    def epsilon_search(self, delta: float) -> SearchRange | float:  # noqa: ARG002
        """Where to look for ε at δ > 0, or that ε if it is closed form."""
        return SearchRange(0.0, MOST_EPSILON, 1.0)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:  # noqa: ARG002
        """Where to look for the limit of a parameter at (ε, δ), or the limit in closed form."""
        raise InputError(f"{type(self).__name__} has no parameter {name!r} to solve for")

    def with_parameter(self, name: str, value: Any) -> PrivacyProfile:
        """The same law with another value of a parameter."""
        return replace(self, **{name: value})  # type: ignore[type-var]


@dataclass(frozen=True)
class GroupPrivacy(PrivacyProfile):
    """`size` labels as so many single steps: (ε/k, δ) at each gives (ε, δ(1 + … + e^{(k−1)ε/k})).

    The sum is shown as it is, also above 1, where it promises nothing. With a declared floor the
    promise must hold at every step; an added floor holds always.
    """

    curve: PrivacyProfile
    size: int = 1

    def __post_init__(self) -> None:
        at_least(1, size=self.size)

    def delta(self, epsilon: float) -> Bounds:
        step = epsilon / self.size
        each = self.curve.step(self.size).delta(step)
        upper = group_delta(step, each.upper, self.size)
        if each is NO_GUARANTEE or math.isinf(upper):
            return NO_GUARANTEE
        return Bounds(0.0, upper, upper)

    def group(self, size: int) -> PrivacyProfile:
        return replace(self, size=self.size * size)

    def pure_epsilon(self) -> float:
        return round_up(self.size * self.curve.step(self.size).pure_epsilon())

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        least = LEAST_GROUP_EPSILON
        return SearchRange(least, MOST_GROUP_EPSILON, least, method=SearchMethod.STEPS)


@dataclass(frozen=True)
class NonPrivate(PrivacyProfile):
    """No guarantee whatever."""

    def delta(self, epsilon: float) -> Bounds:  # noqa: ARG002
        return NO_GUARANTEE

    def group(self, size: int) -> PrivacyProfile:  # noqa: ARG002
        return self

    def epsilon_search(self, delta: float) -> float:  # noqa: ARG002
        return math.inf


def best_true_positive_rate(
    points: Iterable[tuple[float, float]], false_positive_rate: float = 0.001
) -> float:
    """The most any attack can detect at a false-positive rate, by every point of a curve.

    (ε, δ) both ways bounds it by e^ε·fpr + δ and by 1 − e^{−ε}(1 − δ − fpr).
    """
    in_range(0.0, 1.0, false_positive_rate=false_positive_rate)
    fpr = false_positive_rate
    return min(
        min(math.exp(min(e, 700.0)) * fpr + d, 1.0 - math.exp(-e) * max(0.0, 1.0 - d - fpr))
        for e, d in points
    )


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """δ of `size` steps of an (ε, δ) guarantee: δ(1 + e^ε + … + e^{(size−1)ε})."""
    if epsilon == 0.0:
        return size * delta
    if (size - 1) * epsilon > 700.0:
        return math.inf if delta > 0.0 else 0.0
    if size * epsilon > 700.0:  # e^{size·ε} overflows, the sum does not
        return delta * math.exp((size - 1) * epsilon) / -math.expm1(-epsilon) * (1.0 + 1e-12)
    return delta * math.expm1(size * epsilon) / math.expm1(epsilon) * (1.0 + 1e-12)
