"""Exact arithmetic on decimal numbers as written, so that rounding never gains a bag or a row."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

from labeldp.errors import in_range


def exact(value: float) -> Fraction:
    """Return the decimal number as written: 64.22 is 6422/100."""
    return Fraction(repr(float(value)))


def log_ratio(numerator: int, delta: float) -> Fraction:
    """Return ln(numerator/δ), rounded up at the 50th digit."""
    in_range(0.0, 1.0, delta=delta)
    with localcontext() as context:
        context.prec = 50
        return Fraction((numerator / Decimal(repr(float(delta)))).ln().next_plus())
