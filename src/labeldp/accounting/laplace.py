"""Profiles of bounded losses: pure ε-DP, and Laplace noise on one number (theory §9, §11, §13).

Of all pure-ε₀ releases the two-point law is the worst: L = ±ε₀ with P(L = ε₀) = 1/(1 + e^{−ε₀}),
so δ(ε) = (e^{ε₀} − e^ε)/(1 + e^{ε₀}) for |ε| ≤ ε₀. Laplace noise of scale Δ/ε₀ on a number that
moves by Δ is pure ε₀ too and better: δ(ε) = 1 − e^{(ε−ε₀)/2} for |ε| ≤ ε₀. Above ε₀ both are 0.
Exchanging P and Q gives the rest: δ(−ε) = 1 − e^{−ε}(1 − δ(ε)), which is 1 − e^ε below −ε₀.

`atoms` is the law of the loss in points: exact for the two-point law; for Laplace noise cells of
the loss stand at their upper ends, so that what is composed with them is an upper bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from labeldp.accounting.bounds import Bounds
from labeldp.accounting.privacy_profile import (
    DiscreteLoss,
    LossFactors,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import at_least, positive

_MARGIN = 1e-14  # relative, of a few elementary functions
_CELLS = 64


@dataclass(frozen=True)
class BoundedLossProfile(PrivacyProfile):
    """A privacy loss within ±`epsilon` (for noise: sensitivity over scale).

    k labels move the numbers by at most k times as much.
    """

    epsilon: float
    exact: ClassVar[bool] = False
    """Whether `atoms` are the law of the loss itself, not one that dominates it."""

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)

    @abstractmethod
    def atoms(self) -> DiscreteLoss:
        """Return the law of the loss as points with probabilities."""

    def group(self, size: int) -> Self:
        at_least(1, size=size)
        return replace(self, epsilon=size * self.epsilon)

    def pure_epsilon(self) -> float:
        return self.epsilon

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, self.epsilon, 0.0, method=SearchMethod.SHARP)

    def factors(self) -> LossFactors:
        return LossFactors(atoms=(self.atoms(),), exact=self.exact)


@dataclass(frozen=True)
class PureProfile(BoundedLossProfile):
    """Any release that is ε₀-DP with δ = 0; the two-point law is the worst of them."""

    exact = True

    def delta(self, epsilon: float) -> Bounds:
        if epsilon >= self.epsilon:
            return Bounds(0.0, 0.0, 0.0)
        if epsilon < -self.epsilon:
            return _bounds(-math.expm1(epsilon))
        # e^{ε₀} − e^ε over 1 + e^{ε₀}, both divided by e^{ε₀}
        return _bounds(-math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon)))

    def atoms(self) -> DiscreteLoss:
        rare = math.exp(-self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return (self.epsilon, 1.0 - rare), (-self.epsilon, rare)


@dataclass(frozen=True)
class LaplaceProfile(BoundedLossProfile):
    """Laplace noise on one number."""

    def delta(self, epsilon: float) -> Bounds:
        if epsilon >= self.epsilon:
            return Bounds(0.0, 0.0, 0.0)
        if epsilon < -self.epsilon:
            return _bounds(-math.expm1(epsilon))
        return _bounds(-math.expm1(0.5 * (epsilon - self.epsilon)))

    def atoms(self) -> DiscreteLoss:
        """½ at ε₀; P(L ≤ l) = ½e^{−(ε₀−l)/2} between the ends; ½e^{−ε₀} at −ε₀."""
        ends = np.linspace(-self.epsilon, self.epsilon, _CELLS + 1)
        below = 0.5 * np.exp(0.5 * (ends - self.epsilon))
        cells = zip(ends[1:].tolist(), np.diff(below).tolist(), strict=True)
        return (-self.epsilon, float(below[0])), *cells, (self.epsilon, 0.5)


def _bounds(value: float) -> Bounds:
    return Bounds(value * (1.0 - _MARGIN), value, min(1.0, value * (1.0 + _MARGIN)))
