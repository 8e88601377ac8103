"""The paper's own guarantees, in computable form (theory 2): accountant "paper".

Theorem 1 (wtd-FLAg). With |y_i| ≤ B_Y = Δ/2 and opt ≥ γn, m aggregates are (ε, δ)-label-DP if

    n ≥ (16B_Y²/γ)·max{1, 25 ln²(2/δ)/(c0²ε²)}   and
    m ≤ (εγn/160B_Y²)·min{1, 2c0ε/(5 ln(2/δ))}.

Everything is computed in exact fractions of the decimal numbers given, the logarithm to 50
digits, so that `floor` never gains a bag to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from labeldp.accounting.decimals import exact, log_ratio
from labeldp.errors import at_least, ordered, positive

HANSON_WRIGHT = Fraction(145, 1000)  # c0


@dataclass(frozen=True)
class Answer:
    """A number, or why there is none. `value` is 0 bags, or None for ε and δ, when refused."""

    value: float | None
    reason: str = ""


def theorem1_max_bags(
    rows: int, label_range: tuple[float, float], residual_ms: float, epsilon: float, delta: float
) -> Answer:
    """The most bags Theorem 1 allows; 0 with the reason when it has too few rows.

    Enough rows always allow a bag: then m ≥ ln(2/δ)/c0 > 4, or m ≥ ε/10 with ε > 12.
    """
    positive(epsilon=epsilon)
    ratio, log, eps = _ratio(rows, label_range, residual_ms), log_ratio(2, delta), exact(epsilon)
    short = _short_of_rows(rows, ratio, 400 * (log / (HANSON_WRIGHT * eps)) ** 2)
    if short:
        return Answer(0, short)
    factor = min(Fraction(1), 2 * HANSON_WRIGHT * eps / (5 * log))
    return Answer(math.floor(eps * ratio / 160 * factor))


def theorem1_epsilon(
    rows: int, label_range: tuple[float, float], residual_ms: float, bags: int, delta: float
) -> Answer:
    """The smallest ε Theorem 1 gives `bags` bags, rounded up; None when rows are too few."""
    at_least(1, bags=bags)
    promise = _ratio(rows, label_range, residual_ms)
    short = _short_of_rows(rows, promise, Fraction(16))
    if short:
        return Answer(None, short)
    log, ratio, c0 = float(log_ratio(2, delta)), float(promise), float(HANSON_WRIGHT)
    by_rows = 20.0 * log / (c0 * math.sqrt(ratio))
    by_bags = max(160.0 * bags / ratio, math.sqrt(400.0 * bags * log / (c0 * ratio)))
    return Answer(max(by_rows, by_bags) * (1.0 + 1e-14))


def theorem1_delta(
    rows: int, label_range: tuple[float, float], residual_ms: float, bags: int, epsilon: float
) -> Answer:
    """The smallest δ Theorem 1 gives, rounded up; None when no δ below 1 is promised."""
    at_least(1, bags=bags)
    positive(epsilon=epsilon)
    promise = _ratio(rows, label_range, residual_ms)
    short = _short_of_rows(rows, promise, 160 * bags / exact(epsilon))
    if short:
        return Answer(None, short)
    ratio, c0 = float(promise), float(HANSON_WRIGHT)
    log = c0 * min(epsilon * math.sqrt(ratio) / 20.0, epsilon**2 * ratio / (400.0 * bags))
    delta = 2.0 * math.exp(-log * (1.0 - 1e-14)) * (1.0 + 1e-14)
    if delta >= 1.0:
        return Answer(None, f"Theorem 1 promises no delta below 1 for {bags} bags")
    return Answer(max(delta, 1e-300))


def _ratio(rows: int, label_range: tuple[float, float], residual_ms: float) -> Fraction:
    """γn/B_Y², the only number of the data that enters the theorem."""
    positive(rows=rows, residual_ms=residual_ms)
    ordered(*label_range, name="label_range")
    low, high = map(exact, label_range)
    return 4 * exact(residual_ms) * rows / (high - low) ** 2


def _short_of_rows(rows: int, ratio: Fraction, wanted: Fraction) -> str:
    """How many rows are missing for γn/B_Y² to reach `wanted`, and 16 in any case."""
    wanted = max(Fraction(16), wanted)
    if ratio >= wanted:
        return ""
    return f"Theorem 1 needs {math.ceil(wanted * rows / ratio):,} rows here and has {rows:,}"
