"""Profiles of bounded losses: randomized response, Laplace noise, radial noise.

Theory §9, §11, §13, §16. Their losses lie within ±ε₀, so δ = 0 from ε₀ on. `atoms` is a law in
points, by which profiles compose: cells of the loss stand at their upper ends, so that δ of what is
composed with them is an upper bound.

Radial noise has the density ∝ e^{−‖x‖} in d dimensions; in one it is Laplace noise. It is
χ_{d+1}·N(0, I) (see `sample_rounded_radial`). A coordinate in any direction is χ_{d+1}·N(0, 1), of
variance d+1, and squares are products of two independent χ² (`product_quantile`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import special

from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    Bounds,
    DiscreteLoss,
    LossFactors,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import at_least, in_range, positive

Reals = npt.NDArray[np.float64]

_CLOSED_FORM_MARGIN = 1e-14  # relative, of a few elementary functions
_LAPLACE_CELLS = 64
_GAUSS = np.polynomial.legendre.leggauss(16)
_PANELS = 64
_CELLS = 256
_LEFT_OUT = 700.0  # e^−700 of the density, and less, is cut off and bounded by LEAST_CLAIM
_MARGIN = 1e-9  # relative; the quadrature is good to 1e-12
_NODES = 400
_CUT = 1e-20  # of a χ², left out at either end
_HALVINGS = 60


@dataclass(frozen=True)
class BoundedLossProfile(PrivacyProfile):
    """A privacy loss within ±`epsilon`: the sensitivity over the scale of the noise.

    k labels move the numbers by at most k times as much.
    """

    epsilon: float

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        at_least(0.0, epsilon=epsilon)
        if epsilon >= self.epsilon:
            return Bounds(0.0, 0.0, 0.0)
        return self._delta_within(epsilon)

    @abstractmethod
    def _delta_within(self, epsilon: float) -> Bounds:
        """Return δ for 0 ≤ ε < ε₀."""

    @abstractmethod
    def atoms(self) -> DiscreteLoss:
        """Return points with probabilities, whose law dominates the loss."""

    def group(self, size: int) -> Self:
        at_least(1, size=size)
        return replace(self, epsilon=size * self.epsilon)

    def pure_epsilon(self) -> float:
        return self.epsilon

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, self.epsilon, 0.0, method=SearchMethod.SHARP)

    def factors(self) -> LossFactors:
        return LossFactors(atoms=(self.atoms(),))


@dataclass(frozen=True)
class TwoPointProfile(BoundedLossProfile):
    """Randomized response: the loss is ε₀ with probability p = 1/(1 + e^{−ε₀}), else −ε₀.

    δ(ε) = p − e^ε(1 − p) = (1 − e^{ε−ε₀})/(1 + e^{−ε₀}). No pure ε₀ has a larger loss, so it bounds
    that of k labels, which is ±kε₀ at most.
    """

    def _delta_within(self, epsilon: float) -> Bounds:
        value = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        lower, upper = value * (1.0 - _CLOSED_FORM_MARGIN), value * (1.0 + _CLOSED_FORM_MARGIN)
        return Bounds(lower, value, min(1.0, upper))

    def atoms(self) -> DiscreteLoss:
        kept = 1.0 / (1.0 + math.exp(-self.epsilon))
        return (-self.epsilon, 1.0 - kept), (self.epsilon, kept)


@dataclass(frozen=True)
class LaplaceProfile(BoundedLossProfile):
    """Laplace noise of scale Δ/ε₀ on one number: δ(ε) = 1 − e^{(ε−ε₀)/2} for |ε| ≤ ε₀."""

    def _delta_within(self, epsilon: float) -> Bounds:
        value = -math.expm1(0.5 * (epsilon - self.epsilon))
        lower, upper = value * (1.0 - _CLOSED_FORM_MARGIN), value * (1.0 + _CLOSED_FORM_MARGIN)
        return Bounds(lower, value, min(1.0, upper))

    def atoms(self) -> DiscreteLoss:
        """½ at ε₀; P(L ≤ l) = ½e^{−(ε₀−l)/2} between the ends; ½e^{−ε₀} at −ε₀."""
        ends = np.linspace(-self.epsilon, self.epsilon, _LAPLACE_CELLS + 1)
        below = 0.5 * np.exp(0.5 * (ends - self.epsilon))
        cells = zip(ends[1:].tolist(), np.diff(below).tolist(), strict=True)
        return (-self.epsilon, float(below[0])), *cells, (self.epsilon, 0.5)


@dataclass(frozen=True)
class RadialProfile(BoundedLossProfile):
    """Radial noise in two dimensions or more.

    Neighbours are a = Δ/b apart. The loss L = ‖x−v‖ − ‖x‖, ‖v‖ = a, lies within ±a: pure ε₀ = a.
    With s = ‖x−v‖ + ‖x‖ the pair (s, L) are spheroidal coordinates with foci 0 and v, in which the
    volume is ∝ (s²−L²)·[(s²−a²)(a²−L²)]^{(d−3)/2} and the density e^{(L−s)/2}. To integrate over
    s leaves Bessel functions: L = a·sin θ has the density

        ∝ e^{(a/2)·sin θ}·cos^{d−2}θ·(r − a²·sin²θ),   r = a² + 2a(d−1)·K_{d/2}(a/2)/K_{d/2−1}(a/2).

    Neighbours that are less far apart are no worse: δ grows with a, since its derivative is an
    integral of the density over the border of {L > ε}, whose normal has a part along v.
    """

    dimensions: int

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, dimensions=self.dimensions)

    def _delta_within(self, epsilon: float) -> Bounds:
        value = self._above(epsilon) / self._whole
        return Bounds(value * (1 - _MARGIN), value, min(1.0, value * (1 + _MARGIN) + LEAST_CLAIM))

    @lru_cache(maxsize=256)  # noqa: B019  # a law is two numbers, and certificates ask it often
    def atoms(self) -> DiscreteLoss:
        """Cells of θ, each at the largest loss in it; what is cut off stands at the end."""
        edges = np.linspace(self._first, math.pi - self._first, _CELLS + 1)  # falling loss
        masses = [float(weights @ self._density(angles)) for angles, weights in _panels(edges)]
        losses = self.epsilon * np.cos(edges[:-1])
        cells = zip(losses.tolist(), (np.array(masses) / sum(masses)).tolist(), strict=True)
        return (self.epsilon, LEAST_CLAIM), *cells

    @property
    def _first(self) -> float:
        """Where π/2 − θ begins: below it log cos θ ≤ −θ²/2 leaves nothing of the density."""
        if self.dimensions == 2:
            return 0.0
        reach = math.sqrt(2.0 * (_LEFT_OUT + self.epsilon) / (self.dimensions - 2))
        return max(0.0, 0.5 * math.pi - reach)

    @cached_property
    def _whole(self) -> float:
        edges = np.linspace(self._first, math.pi - self._first, _PANELS + 1)
        return math.fsum(weights @ self._density(angles) for angles, weights in _panels(edges))

    def _above(self, epsilon: float) -> float:
        """∫ (1 − e^{ε−L}) over L > ε, with η = π/2 − θ and L = a·cos η."""
        # 1 − cos η₀ = 2 sin²(η₀/2): no digits cancel where ε is near a
        last = 2.0 * math.asin(math.sqrt(0.5 * (1.0 - epsilon / self.epsilon)))
        if last <= self._first:
            return 0.0
        total = []
        for angles, weights in _panels(np.linspace(self._first, last, _PANELS + 1)):
            # L − ε = a(cos η − cos η₀) as a product, which cancels no digits
            over = np.sin(0.5 * (last + angles)) * np.sin(0.5 * (last - angles))
            gain = -np.expm1(-2.0 * self.epsilon * over)
            total.append(weights @ (gain * self._density(angles)))
        return math.fsum(total)

    def _density(self, angles: Reals) -> Reals:
        """The density of η = π/2 − θ up to a constant factor."""
        a, loss = self.epsilon, np.cos(angles)
        # Everything is divided by e^{a/2}·a², or large a would overflow: r/a² is `rest`.
        rest = 1.0 + 2.0 * (self.dimensions - 1) / a * _bessel_ratio(self.dimensions, 0.5 * a)
        powers = (self.dimensions - 2) * np.log(np.sin(angles))
        return np.asarray(np.exp(0.5 * a * (loss - 1.0) + powers) * (rest - loss * loss))


def radial_profile(epsilon: float, dimensions: int) -> PrivacyProfile:
    """Return the profile of radial noise when a label moves the numbers by at most ε scales."""
    return LaplaceProfile(epsilon) if dimensions == 1 else RadialProfile(epsilon, dimensions)


def _panels(edges: Reals) -> list[tuple[Reals, Reals]]:
    """Return nodes and weights of the Gauss rule between every two edges."""
    nodes, weights = _GAUSS
    return [
        (0.5 * (high + low) + 0.5 * (high - low) * nodes, 0.5 * (high - low) * weights)
        for low, high in pairwise(edges.tolist())
    ]


@lru_cache(maxsize=256)  # the same for every panel
def _bessel_ratio(dimensions: int, x: float) -> float:
    """Return K_{d/2}(x)/K_{d/2−1}(x).

    Recurrence upwards from K_1/K_0 or K_{1/2}/K_{−1/2} = 1: all terms are positive, so nothing
    cancels.
    """
    order, ratio = (
        (0.0, float(special.k1e(x) / special.k0e(x))) if dimensions % 2 == 0 else (-0.5, 1.0)
    )
    while order < 0.5 * dimensions - 1.25:
        order += 1.0
        ratio = 1.0 / ratio + 2.0 * order / x
    return ratio


@lru_cache(maxsize=4096)  # plan, certificate and verification ask the same
def product_quantile(first: float, second: float, probability: float) -> float:
    """Return a quantile of the product of two independent χ² with these degrees of freedom.

    Used for statements about error (utility), so the bisection need not err to the private side.
    """
    at_least(1.0, first=first, second=second)
    in_range(0.0, 1.0, probability=probability)
    a, b = 0.5 * first, 0.5 * second
    low, high = math.log(special.gammaincinv(b, _CUT)), math.log(special.gammainccinv(b, _CUT))
    # In the logarithm of Gamma(b) the density is smooth and flat at its ends: the trapezoid rule.
    logs = np.linspace(low, high, _NODES)
    weights = np.exp(b * logs - np.exp(logs) - special.gammaln(b)) * (logs[1] - logs[0])

    def below(log: float) -> float:
        return float(weights @ special.gammainc(a, np.exp(log - logs)))

    low += math.log(special.gammaincinv(a, _CUT))
    high += math.log(special.gammainccinv(a, _CUT))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return 4.0 * math.exp(0.5 * (low + high))


def deviations(dimensions: int, confidence: float) -> float:
    """Return how many standard deviations contain a coordinate with this probability."""
    return math.sqrt(product_quantile(1.0, dimensions + 1.0, confidence) / (dimensions + 1.0))
