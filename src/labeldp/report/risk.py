"""What a privacy curve means for the person behind a label, in chances that people understand.

All of it follows from points (ε, δ(ε)) of a certificate's curve, so anyone can recompute it. The
attacker knows everything but one label (or one person's labels) and two values that it may have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

PRIORS = (0.01, 0.1, 0.5, 0.9)
FALSE_ALARMS = (0.001, 0.05)


def belief(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and largest belief in one value afterwards: its odds move by e^±ε."""
    low, high = (math.exp(min(by, 700.0)) * prior for by in (-epsilon, epsilon))
    return low / (low + 1 - prior), high / (high + 1 - prior)


def exceeded(points: Sequence[tuple[float, float]], epsilon: float) -> float:
    """Return how often a release may move beliefs by more than e^ε, at most.

    With L the privacy loss, δ(e) = E[(1 − e^{e−L})₊] ≥ P[L > ε]·(1 − e^{e−ε}) for every e < ε.
    """
    if any(delta == 0.0 and e <= epsilon for e, delta in points):
        return 0.0
    below = [delta / -math.expm1(e - epsilon) for e, delta in points if e < epsilon]
    return min([1.0, *below])


def format_upper_bound(value: float, digits: int = 3) -> str:
    """Return an upper bound with so many digits, never rounded down."""
    return _rounded(value, Context(digits, ROUND_CEILING))


def format_lower_bound(value: float, digits: int = 3) -> str:
    """Return a lower bound with so many digits, never rounded up."""
    return _rounded(value, Context(digits, ROUND_FLOOR))


def _rounded(value: float, context: Context) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{float(context.create_decimal(repr(value))):.{context.prec}g}"
