"""Whether a budget, kept to the letter, still means little: the one place that decides it.

A guarantee may be true and weak. δ is the mass on which the factor e^ε may fail: a mechanism
that publishes every label outright with probability δ has it, and then exposes δ·rows of them.
Above ε = 10 the factor exceeds 22,000. And whatever ε and δ are called, the curve bounds what the
best attack achieves: told two values of a label, with even odds, it is right with probability
(e^ε + δ)/(e^ε + 1) at most, by every point of the curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

MOST_EXPOSED = 0.1
"""Of δ·rows."""
WEAK_EPSILON = 10.0
"""Above it a guarantee is called weak."""
MOST_SUCCESS = 0.95
"""Of the best attack on one label, from even odds."""
MOST_FOUND = 0.9
"""Of labels found by the best attack at the certificate's rate of false alarms."""


def weaknesses(
    epsilon: float,
    delta: float,
    rows: int,
    curve: Sequence[Sequence[float]],
    true_positive_rate: float,
) -> Iterator[str]:
    """Why a guarantee that holds protects little; nothing, if it protects.

    `curve` is that of a certificate: pairs of ε and δ.
    """
    if delta * rows > MOST_EXPOSED:
        yield (
            f"δ times rows is {delta * rows:.2g}: a mechanism that publishes some labels outright "
            f"could promise as much; take δ below {MOST_EXPOSED / rows:.1g}"
        )
    if epsilon > WEAK_EPSILON:
        yield f"ε = {epsilon:g} is above {WEAK_EPSILON:g}: it bounds next to nothing"
    success = best_guess(curve)
    if success > MOST_SUCCESS or true_positive_rate > MOST_FOUND:
        yield (
            f"the best attack is nearly certain: it tells two values of a label apart in up to "
            f"{success:.1%} of cases"
        )


def best_guess(curve: Sequence[Sequence[float]]) -> float:
    """With what probability the best attack names the right one of two values, at even odds.

    P[right] = (P[say D | D] + P[say D' | D'])/2, and either direction bounds one by the other.
    """
    return min(
        (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)) for epsilon, delta in curve
    )
