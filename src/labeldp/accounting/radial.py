"""Radial noise, of density ∝ e^{−‖x‖} in d dimensions: its guarantee, and its size (theory §9).

**The guarantee.** Neighbours are a = Δ/b apart. The loss L = ‖x−v‖ − ‖x‖, ‖v‖ = a, lies within
±a: pure ε = a. With s = ‖x−v‖ + ‖x‖ the pair (s, L) are spheroidal coordinates with foci 0 and v,
in which the volume is ∝ (s²−L²)·[(s²−a²)(a²−L²)]^{(d−3)/2} and the density e^{(L−s)/2}. To
integrate over s leaves Bessel functions: L = a·sin θ has the density

    ∝ e^{(a/2)·sin θ}·cos^{d−2}θ·(r − a²·sin²θ),   r = a² + 2a(d−1)·K_{d/2}(a/2)/K_{d/2−1}(a/2).

Neighbours that are less far apart are no worse: δ grows with a, since its derivative is an integral
of the density over the border of the set {L > ε}, whose normal has a part along v. In one dimension
it is Laplace noise.

**The size.** The noise is χ_{d+1}·N(0, I) (see `sample_rounded_radial`). A coordinate in any
direction is χ_{d+1}·N(0, 1), of variance d+1, and squares are products of two independent χ².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import special

from labeldp.accounting.bounds import Bounds
from labeldp.accounting.laplace import BoundedLossProfile, LaplaceProfile
from labeldp.accounting.limits import LEAST_CLAIM
from labeldp.accounting.privacy_profile import DiscreteLoss, PrivacyProfile
from labeldp.errors import at_least, in_range

Reals = npt.NDArray[np.float64]

_GAUSS = np.polynomial.legendre.leggauss(16)
_PANELS = 64
_CELLS = 256
_LEFT_OUT = 700.0  # e^−700 of the density, and less, is cut off and bounded by LEAST_CLAIM
_MARGIN = 1e-9  # relative; the quadrature is good to 1e-12
_NODES = 400
_CUT = 1e-20  # of a χ², left out at either end
_HALVINGS = 60


@dataclass(frozen=True)
class RadialProfile(BoundedLossProfile):
    """Radial noise in two dimensions or more."""

    dimensions: int

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, dimensions=self.dimensions)

    def delta(self, epsilon: float) -> Bounds:
        if epsilon >= self.epsilon:
            return Bounds(0.0, 0.0, 0.0)
        if epsilon < 0.0:  # exchange P and Q
            other, kept = self.delta(-epsilon), math.exp(epsilon)
            low, middle, high = (
                -math.expm1(epsilon) + kept * each
                for each in (other.lower, other.estimate, other.upper)
            )
            return Bounds(low, middle, min(1.0, high))
        value = self._above(epsilon) / self._whole()
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

    def _whole(self) -> float:
        edges = np.linspace(self._first, math.pi - self._first, _PANELS + 1)
        return math.fsum(weights @ self._density(angles) for angles, weights in _panels(edges))

    def _above(self, epsilon: float) -> float:
        """∫ (1 − e^{ε−L}) over L > ε; L − ε = a(cos η − cos η₀) as a product: no digit is lost."""
        last = 2.0 * math.asin(math.sqrt(0.5 * (1.0 - epsilon / self.epsilon)))
        if last <= self._first:
            return 0.0
        total = []
        for angles, weights in _panels(np.linspace(self._first, last, _PANELS + 1)):
            over = np.sin(0.5 * (last + angles)) * np.sin(0.5 * (last - angles))
            gain = -np.expm1(-2.0 * self.epsilon * over)
            total.append(weights @ (gain * self._density(angles)))
        return math.fsum(total)

    def _density(self, angles: Reals) -> Reals:
        """Of η = π/2 − θ, but for a factor."""
        a, loss = self.epsilon, np.cos(angles)
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


@lru_cache(maxsize=256)  # of every panel the same
def _bessel_ratio(dimensions: int, x: float) -> float:
    """K_{d/2}(x)/K_{d/2−1}(x), up from K_1/K_0 or K_{1/2}/K_{−1/2} = 1: all terms are positive."""
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
    logs = np.linspace(low, high, _NODES)  # of Gamma(b): its density there is smooth, ends are flat
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
