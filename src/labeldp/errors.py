"""What can go wrong, as one tree.

    LabelDPError
    ├── InputError          the request is wrong; the command line exits with 2
    │   ├── DataError       a file, a column or a row is not what was said
    │   ├── PlanError       the budget and the data admit no such release
    │   └── ReleaseError    a release directory is missing, incomplete or in the way
    └── MissingExtraError   an optional package is needed; the message is the remedy

Every message is one line that names the thing, the cause and the cure. No message
ever contains a label, a residual or a fitted value: features, arguments and
certificates are public, labels are not.
"""

from __future__ import annotations


class LabelDPError(Exception):
    """The root of every error this package raises on purpose."""


class InputError(LabelDPError, ValueError):
    """The request is wrong; nothing was written."""


class DataError(InputError):
    """A file, a column or a row is not what was said."""


class PlanError(InputError):
    """The budget and the public facts admit no such release."""


class ReleaseError(InputError):
    """A release directory is missing, incomplete or in the way."""


class MissingExtraError(LabelDPError, ImportError):
    """An optional package is needed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'labeldp[{extra}]'")
