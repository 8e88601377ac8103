"""Exceptions, and checks of arguments that raise them.

    LabelDPError
    ├── InputError          the request is wrong; the command line exits with 2
    │   ├── DataError       a file, a column or a row is not as described
    │   ├── PlanError       the budget and the data allow no such release
    │   ├── ReleaseError    a release directory is missing, incomplete or in the way
    │   └── LedgerError     the ledger is lost, altered, or has no budget left
    └── MissingExtraError   an optional package is needed; the message is the remedy

Every message is one line that names the thing, the cause and the remedy. No message contains a
label, a residual or a fitted value: features, arguments and certificates are public, labels are
not. Arguments stand in backquotes, as Python spells them (`bags`, `floor="declared"`); the command
line shows them as its options.

Two kinds of checks: `positive(bags=m)` takes the argument's name from the keyword and refuses a
value; `to_int("bags", m)` also returns the value as a plain Python value, because users pass NumPy
numbers, pandas columns and lists.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")


class LabelDPError(Exception):
    """The root of every error that this package raises on purpose."""


class InputError(LabelDPError, ValueError):
    """The request is wrong; nothing was written."""


class DataError(InputError):
    """A file, a column or a row is not as described."""


class PlanError(InputError):
    """The budget and the public facts allow no such release."""


class ReleaseError(InputError):
    """A release directory is missing, incomplete or in the way."""


class LedgerError(InputError):
    """The ledger is lost, altered, or has no budget left for a release."""


class MissingExtraError(LabelDPError, ImportError):
    """An optional package is needed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'labeldp[{extra}]'")


class LabelDPWarning(UserWarning):
    """The result is usable, but may not be what was expected."""


def finite(**values: float) -> None:
    """Refuse NaN, infinities, and what is no number."""
    in_range(-math.inf, math.inf, **values)


def positive(**values: float) -> None:
    """Refuse anything that is not a finite number above zero."""
    _require(values, "must be above 0", lambda value: value > 0)


def at_least(low: float, below: float = math.inf, /, **values: float) -> None:
    """Refuse anything below `low`, and `below` itself and above."""
    rule = f"must be at least {low}" + (f" and below {below}" if below < math.inf else "")
    _require(values, rule, lambda value: low <= value < below)


def in_range(low: float, high: float, **values: float) -> None:
    """Refuse anything outside the open interval (low, high)."""
    _require(values, f"must lie between {low} and {high}", lambda value: low < value < high)


def _require(values: Mapping[str, float], rule: str, holds: Callable[[float], bool]) -> None:
    """Refuse what is no finite number, and numbers for which the rule does not hold."""
    for name, value in values.items():
        if not math.isfinite(to_float(name, value)):
            raise InputError(f"`{name}` must be a finite number, not {value}")
        if not holds(value):
            raise InputError(f"`{name}` {rule}, not {value}")


def to_int(name: str, value: Any) -> int:
    """Return a whole number as an int; refuse anything else."""
    if not _is_bool(value):
        try:
            number = float(value) if isinstance(value, Real) else math.nan
            if number.is_integer() and abs(number) < 2**53:
                return int(number)
            return operator.index(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise _wrong_type(name, "a whole number", value)


def to_float(name: str, value: Any) -> float:
    """Return a number as a float; refuse anything else, but not NaN (see `finite`)."""
    if isinstance(value, Real | Decimal) and not _is_bool(value):
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"`{name}` must be a number below 1e308; give a smaller one") from None
    raise _wrong_type(name, "a number", value)


def to_bool(name: str, value: Any) -> bool:
    """Return a truth value of Python or NumPy as a bool; refuse anything else."""
    if not _is_bool(value):
        raise _wrong_type(name, "True or False", value)
    return bool(value)


def to_str(name: str, value: Any) -> str:
    """Return text; refuse anything else."""
    if not isinstance(value, str):
        raise _wrong_type(name, "text", value)
    return str(value)


def to_str_tuple(name: str, value: Any) -> tuple[str, ...]:
    """Return a sequence of texts as a tuple; refuse anything else, a single text too."""
    texts = _items(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise _wrong_type(name, "a list of texts", value)
    return tuple(map(str, texts))


def to_range(name: str, value: Any) -> tuple[float, float]:
    """Return two finite numbers, the lower one first; refuse anything else."""
    try:
        low, high = (to_float(name, end) for end in _items(value) or ())
    except ValueError:  # another number of them, or no numbers
        raise _wrong_type(name, "two numbers, the lower one first", value) from None
    if not -math.inf < low < high < math.inf:
        raise InputError(
            f"`{name}` must be two finite numbers, the lower one first, not {low:g} {high:g}"
        )
    return low, high


def to_path(name: str, value: Any) -> Path:
    """Return a path; refuse what is neither text nor a path."""
    if not isinstance(value, str | os.PathLike):
        raise _wrong_type(name, "text or a path", value)
    return Path(value)


def one_of(name: str, value: Any, choices: Sequence[Item]) -> Item:
    """Return a value that is among the choices; refuse any other."""
    for choice in choices:
        if isinstance(value, type(choice)) and value == choice:
            return choice
    raise _wrong_type(name, " or ".join(map(repr, choices)), value)


def describe_value(value: Any) -> str:
    """Return a value for a message; of a container only its type, because it may hold labels."""
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if value is None or _is_bool(value) or isinstance(value, Real):
        return str(value)
    package, name = type(value).__module__.partition(".")[0], type(value).__name__
    return f"a {name}" if package == "builtins" else f"a {package} {name}"


def _wrong_type(name: str, expected: str, value: Any) -> InputError:
    return InputError(f"`{name}` must be {expected}, not {describe_value(value)}")


def _items(value: Any) -> tuple[Any, ...] | None:
    """Return the items of a list; None of a text, a mapping and what has no items."""
    try:
        return None if isinstance(value, str | bytes | Mapping) else tuple(value)
    except TypeError:
        return None


def _is_bool(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # Python's or NumPy's
