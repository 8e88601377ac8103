"""How much noise a budget asks for."""

from __future__ import annotations

import math

from labeldp.accounting import Gaussian, invert

_HEADROOM = 1 - 1e-9
"""μ is used up to this, so that rounding never breaks the budget."""


def split(epsilon: float, delta: float, residual_share: float) -> tuple[float, float]:
    """μ of the aggregates and of the residual that (ε, δ) buys; their squares add (theory §13)."""
    mu = invert.limit(Gaussian(1.0), "mu", epsilon, delta) * _HEADROOM
    return mu * math.sqrt(1 - residual_share), mu * math.sqrt(residual_share)
