"""Argument checks whose keyword is the message: ``positive(bags=m)``."""

from __future__ import annotations

import math

from labeldp.errors import InputError


def finite(**values: float) -> None:
    """Refuse NaN and infinities."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise InputError(f"{name} must be a finite number, not {value}")


def positive(**values: float) -> None:
    """Refuse anything that is not a finite number above zero."""
    finite(**values)
    for name, value in values.items():
        if value <= 0:
            raise InputError(f"{name} must be above 0, not {value}")


def at_least(low: float, **values: float) -> None:
    """Refuse anything below `low`."""
    finite(**values)
    for name, value in values.items():
        if value < low:
            raise InputError(f"{name} must be at least {low}, not {value}")


def in_range(low: float, high: float, **values: float) -> None:
    """Refuse anything outside the open interval (low, high)."""
    finite(**values)
    for name, value in values.items():
        if not low < value < high:
            raise InputError(f"{name} must lie between {low} and {high}, not {value}")


def ordered(low: float, high: float, name: str) -> None:
    """Refuse an empty range."""
    finite(**{f"{name} (low)": low, f"{name} (high)": high})
    if not low < high:
        raise InputError(f"{name} must be LO HI with LO below HI, not {low} {high}")
