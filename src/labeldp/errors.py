"""What can go wrong, as one tree, and checks of arguments that say so.

    LabelDPError
    ├── InputError          the request is wrong; the command line exits with 2
    │   ├── DataError       a file, a column or a row is not what was said
    │   ├── PlanError       the budget and the data admit no such release
    │   │   └── SpentError  so a measurement says, and what it cost is spent
    │   ├── ReleaseError    a release directory is missing, incomplete or in the way
    │   └── LedgerError     the ledger is lost, altered, or has no budget left
    └── MissingExtraError   an optional package is needed; the message is the remedy

Every message is one line that names the thing, the cause and the cure. No message
ever contains a label, a residual or a fitted value: features, arguments and
certificates are public, labels are not. Arguments stand in backquotes, as Python spells them
(`bags`, `floor="declared"`); the command line shows them as its options. Checks take the
argument's name from their keyword: ``positive(bags=m)``.
"""

from __future__ import annotations

import math

__all__ = [
    "DataError",
    "InputError",
    "LabelDPError",
    "LedgerError",
    "MissingExtraError",
    "PlanError",
    "ReleaseError",
    "SpentError",
    "at_least",
    "end_share",
    "finite",
    "in_range",
    "ordered",
    "positive",
    "share",
]


class LabelDPError(Exception):
    """The root of every error this package raises on purpose."""


class InputError(LabelDPError, ValueError):
    """The request is wrong; nothing was written."""


class DataError(InputError):
    """A file, a column or a row is not what was said."""


class PlanError(InputError):
    """The budget and the public facts admit no such release."""


class SpentError(PlanError):
    """A run was refused by what it had measured: to try again is to measure, and pay, again."""


class ReleaseError(InputError):
    """A release directory is missing, incomplete or in the way."""


class LabelDPWarning(UserWarning):
    """Something works and is not what it seems."""


class LedgerError(InputError):
    """The ledger is lost, altered, or has no budget left for a release."""


class MissingExtraError(LabelDPError, ImportError):
    """An optional package is needed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'labeldp[{extra}]'")


def finite(**values: float) -> None:
    """Refuse NaN, infinities, and what is no number."""
    for name, value in values.items():
        try:
            number = math.isfinite(value) and not isinstance(value, bool)
        except OverflowError:
            raise InputError(f"`{name}` is too large a number; give a smaller one") from None
        except TypeError:
            kind = type(value).__name__
            raise InputError(f"`{name}` must be a number, not of type {kind}") from None
        if not number:
            raise InputError(f"`{name}` must be a finite number, not {value}")


def positive(**values: float) -> None:
    """Refuse anything that is not a finite number above zero."""
    finite(**values)
    for name, value in values.items():
        if value <= 0:
            raise InputError(f"`{name}` must be above 0, not {value}")


def at_least(low: float, **values: float) -> None:
    """Refuse anything below `low`."""
    finite(**values)
    for name, value in values.items():
        if value < low:
            raise InputError(f"`{name}` must be at least {low}, not {value}")


def in_range(low: float, high: float, **values: float) -> None:
    """Refuse anything outside the open interval (low, high)."""
    finite(**values)
    for name, value in values.items():
        if not low < value < high:
            raise InputError(f"`{name}` must lie between {low} and {high}, not {value}")


def share(**values: float) -> None:
    """Refuse anything outside [0, 1): a chance that may be none."""
    finite(**values)
    for name, value in values.items():
        if not 0 <= value < 1:
            raise InputError(f"`{name}` must be at least 0 and below 1, not {value}")


def end_share(**values: float) -> None:
    """Refuse anything outside [0, ½): a share at either end."""
    finite(**values)
    for name, value in values.items():
        if not 0 <= value < 0.5:
            raise InputError(f"`{name}` must be at least 0 and below 0.5, not {value}")


def ordered(low: float, high: float, name: str) -> None:
    """Refuse an empty range."""
    if not -math.inf < low < high < math.inf:
        raise InputError(
            f"`{name}` must be two finite numbers, the lower one first, not {low:g} {high:g}"
        )
