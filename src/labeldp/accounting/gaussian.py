"""The Gaussian mechanism: δ(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (theory §4).

μ is the sensitivity divided by the noise deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    MOST_EPSILON,
    Bounds,
    LossFactors,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import at_least

LEAST_MU, MOST_MU = 1e-12, 1e6
_MARGIN = 1e-11  # relative; `delta` is good to 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def delta(epsilon: float, mu: float) -> float:
    """Return δ at any real ε, with a relative error below 1e-12 down to δ = 1e-300.

    With x = ε/μ − μ/2 and Mills' ratio R(x) = Φ(−x)/φ(x), δ = φ(x)(R(x) − R(x+μ)).
    For small μ the difference is the integral of −R' = 1 − sR(s), which does not cancel.
    """
    at_least(0.0, mu=mu)
    if epsilon < 0.0:  # exchange P and Q
        return -math.expm1(epsilon) + math.exp(epsilon) * delta(-epsilon, mu)
    if mu == 0.0 or epsilon / mu > 1e8:
        return 0.0
    x = epsilon / mu - 0.5 * mu
    if x < -1.0:  # δ is not small: the difference of the two terms loses nothing
        return float(special.ndtr(-x) - np.exp(epsilon + special.log_ndtr(-x - mu)))
    if mu > 0.5:
        gain = _mills(x) - _mills(x + mu)
    else:  # the two ratios agree in so many digits that their difference would lose
        s = x + 0.5 * mu * (_NODES + 1.0)
        fall = 1.0 - s * np.sqrt(0.5 * np.pi) * special.erfcx(s / np.sqrt(2.0))
        gain = 0.5 * mu * (_WEIGHTS @ fall)
    return float(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * gain)


def _mills(x: float) -> float:
    """R(x) = Φ(−x)/φ(x): erfcx neither underflows nor cancels."""
    return math.sqrt(0.5 * math.pi) * float(special.erfcx(x / math.sqrt(2.0)))


def upper(epsilon: float, mu: float) -> float:
    """Return `delta` with its rounding error added: the number a claim may use."""
    value = delta(epsilon, mu)
    return min(1.0, max(value * (1.0 + _MARGIN), LEAST_CLAIM)) if mu > 0.0 else value


@dataclass(frozen=True)
class GaussianProfile(PrivacyProfile):
    """Numbers of sensitivity μ published with noise N(0, 1); k labels move them by at most k·μ."""

    mu: float

    def __post_init__(self) -> None:
        at_least(0.0, mu=self.mu)

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        value, above = delta(epsilon, self.mu), upper(epsilon, self.mu)
        return Bounds(min(above, value * (1.0 - _MARGIN)), min(above, value), above)

    def group(self, size: int) -> GaussianProfile:
        at_least(1, size=size)
        return GaussianProfile(size * self.mu)

    def factors(self) -> LossFactors:
        return LossFactors(mu=self.mu)

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, MOST_EPSILON, 0.0, method=SearchMethod.SHARP)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange:
        if name != "mu":
            return super().parameter_search(name, epsilon, delta)
        at_least(0.0, epsilon=epsilon)
        ends = math.log(LEAST_MU), math.log(MOST_MU)
        return SearchRange(*ends, 0.0, math.exp, increasing=True, method=SearchMethod.SHARP)


def largest_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ within (ε, δ); 0 for δ = 0, which no Gaussian noise satisfies."""
    return calibrate(GaussianProfile(1.0), "mu", epsilon, delta) if delta else 0.0
