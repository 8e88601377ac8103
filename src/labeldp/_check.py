"""Argument checks whose keyword is the message, ``positive(bags=m)``, and checks of JSON values."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from labeldp.errors import InputError

Check = Callable[[Any], bool]


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


def is_text(value: Any) -> bool:
    """Text, as JSON has it; those below are for other values that JSON has."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A number that is a finite double."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def is_positive(value: Any) -> bool:
    """A finite number above zero."""
    return is_number(value) and value > 0


def is_whole(value: Any) -> bool:
    """A whole number that is a double as well."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53


def is_count(value: Any) -> bool:
    """A whole number, zero or more."""
    return is_whole(value) and value >= 0


def list_of(check: Check) -> Check:
    """A list of what passes `check`."""
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def optional(check: Check) -> Check:
    """Null, or what passes `check`."""
    return lambda value: value is None or check(value)
