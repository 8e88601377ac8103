"""Names of columns that a message may hold: none that may be a value of a row.

Where a file has no header, or is divided by another sign than was said, its first row stands in the
place of the names, and one of its values is a label. Such a line shows a number somewhere, between
whatever signs; then only names without a digit are said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![\w.])[\d.]*\d")
"""A word that begins with a digit."""
LONG = 80
"""Characters of a name that are shown, or compared."""
NO_NAMES = "numbers: is there a line with their names?"


def tellable(names: Iterable[str]) -> list[str]:
    """Those that may be said."""
    names = list(names)
    if not any(_NUMBER.search(name) for name in names):
        return names
    return [name for name in names if name and not re.search(r"\d", name)]


def told(names: Iterable[str], most: int) -> str:
    """So many of them at most, in quotes; '' where none may be said."""
    found = [short(name) for name in tellable(names)]
    return ", ".join(map(repr, found[:most])) + (", ..." if len(found) > most else "")


def short(name: str) -> str:
    """As much of a name as tells it: a table that was given for a name may be long."""
    return name if len(name) <= LONG else name[:LONG] + "…"
