"""What a privacy curve means for the person behind a label, in chances that people understand.

All of it follows from points (ε, δ(ε)) of a certificate's curve, so anyone can recompute it. The
attacker knows everything but one label (or one person's labels) and two values that it may have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from labeldp.accounting.privacy_profile import best_true_positive_rate

Points = Sequence[tuple[float, float]]

PRIORS = (0.01, 0.1, 0.5, 0.9)
FALSE_ALARMS = (0.001, 0.05)


def belief(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and largest belief in one value afterwards: its odds move by e^±ε."""

    def moved(by: float) -> float:
        odds = math.exp(min(by, 700.0)) * prior
        return odds / (odds + 1 - prior)

    return moved(-epsilon), moved(epsilon)


def exceeded(points: Points, epsilon: float) -> float:
    """Return how often a release may move beliefs by more than e^ε, at most.

    With L the privacy loss, δ(e) = E[(1 − e^{e−L})₊] ≥ P[L > ε]·(1 − e^{e−ε}) for every e < ε.
    """
    if any(delta == 0.0 and e <= epsilon for e, delta in points):
        return 0.0
    below = [delta / -math.expm1(e - epsilon) for e, delta in points if e < epsilon]
    return min([1.0, *below])


def right_guesses(points: Points, prior: float) -> float:
    """Return how often the best guess between two values is right, for this prior of one.

    A test with false alarms f and hits t is right with p·t + (1−p)(1−f), which is largest in a
    corner of what a point of the curve allows: both bounds met, or an answer that
    hardly ever changes.
    """
    bounds = []
    for epsilon, delta in points:
        met = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))  # f, and 1 − t
        cautious = prior * delta + (1 - prior)  # no false alarm, hits with probability δ
        bold = prior + (1 - prior) * delta
        bounds.append(max(1 - met, cautious, bold))
    return min(bounds)


def found(points: Points, false_alarms: float) -> float:
    """Return the share of cases in which the best attack finds the label, at these false alarms."""
    return min(1.0, best_true_positive_rate(points, false_alarms))


def at_most(value: float, digits: int = 3) -> str:
    """Return an upper bound with so many digits, never rounded down."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 3) -> str:
    """Return a lower bound with so many digits, never rounded up."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, way: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{float(Context(digits, way).create_decimal(repr(value))):.{digits}g}"
