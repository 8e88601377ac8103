"""Randomised response, the worst release that is ε₀-DP: L = ±ε₀ with P(L = ε₀) = 1/(1 + e^{−ε₀}).

δ(ε) = (e^{ε₀} − e^ε)/(1 + e^{ε₀}) for 0 ≤ ε ≤ ε₀: two points, by which composition can be checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.accounting.privacy_profile import Bounds, DiscreteLoss
from labeldp.accounting.radial import BoundedLossProfile


@dataclass(frozen=True)
class PureProfile(BoundedLossProfile):
    """A loss of two values."""

    def _delta_within(self, epsilon: float) -> Bounds:
        value = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return Bounds(value * (1.0 - 1e-14), value, min(1.0, value * (1.0 + 1e-14)))

    def atoms(self) -> DiscreteLoss:
        rare = math.exp(-self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return (self.epsilon, 1.0 - rare), (-self.epsilon, rare)
