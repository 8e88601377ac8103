"""Names of columns: what may be said of them, and which are label, person and features.

Where a file has no header, or another delimiter than was said, its first row stands in the place of
the names, and one of its values is a label. Such a line has a word that begins with a digit; then
messages hold only names without a digit.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from labeldp.errors import DataError, InputError

_NUMBER_IN_NAME = re.compile(r"(?<![\w.])[\d.]*\d")
_INDEX = re.compile(r"(__index_level_\d+__| \(\d+\))?")
"""Names of a stored pandas index and of columns without a name."""
_LONGEST = 80
"""Characters of a name that are shown, or compared: a table may have been given for a name."""
NO_NAMES = "numbers: is there a line with their names?"


def printable_names(names: Iterable[str]) -> list[str]:
    """Return the names that may be said."""
    names = list(names)
    if not any(_NUMBER_IN_NAME.search(name) for name in names):
        return names
    return [name for name in names if name and not re.search(r"\d", name)]


def quoted_names(names: Iterable[str], most: int) -> str:
    """Return so many of the names at most, in quotes; '' where none may be said."""
    found = [short_name(name) for name in printable_names(names)]
    return ", ".join(map(repr, found[:most])) + (", ..." if len(found) > most else "")


def short_name(name: str) -> str:
    """Return as much of a name as tells it."""
    return name if len(name) <= _LONGEST else name[:_LONGEST] + "…"


class UnknownColumnError(DataError):
    """A name that is no column of the table, where it stands, and what may be meant."""

    def __init__(self, part: str, column: str, hint: str) -> None:
        super().__init__(f"{part}: there is no column {short_name(column)!r}; {hint}")
        self.column, self._hint = column, hint

    def standing_in(self, part: str) -> UnknownColumnError:
        """Return the same for what whoever named it calls that part."""
        return UnknownColumnError(part, self.column, self._hint)


def unknown_column(name: str, part: str, known: Sequence[str]) -> UnknownColumnError:
    """Return the refusal of a name, with those that may be meant."""
    printable = printable_names(known)
    close = [each for each in printable if each.strip().casefold() == name.strip().casefold()]
    close = close or difflib.get_close_matches(name[:_LONGEST], printable, n=3, cutoff=0.5)
    if len(known) == 1 and name in re.split(r'[,;|\s"]+', known[0]):
        only = f"the only one is {short_name(known[0])!r}" if printable else "there is one alone"
        hint = f"{only}; name another `delimiter`"
    elif close:
        hint = f"did you mean {' or '.join(map(repr, map(short_name, close)))}?"
    else:
        hint = f"the columns are {quoted_names(known, 8) or NO_NAMES}"
    return UnknownColumnError(part, name, hint)


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Refuse a table in which a name stands for two columns."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        same = f"named {quoted_names(twice, 5)}" if printable_names(twice) else "of one name"
        raise DataError(
            f"{where} has several columns {same}; rename them, or add a header line if the file "
            f"has none"
        )


def check_roles(
    known: Sequence[str],
    roles: Mapping[str, str | None],
    repeated: Sequence[str],
    lists: Mapping[str, Sequence[str]],
) -> None:
    """Refuse names that are no columns, and columns that play two parts.

    `roles` are label and person, `lists` features, categorical, numeric and drop; `repeated` are
    names of several columns: the label under another name would be a public feature.
    """
    there = set(known)
    for part, names in lists.items():
        for name in names:
            if name not in there:
                raise unknown_column(name, part, known)
        for role, column in roles.items():
            if column in names and (role, part) != ("person", "drop"):  # no feature anyway
                raise InputError(f"column {column!r} is the {role} and cannot also stand in {part}")
    for role, column in roles.items():
        if column is not None and column not in there:
            raise unknown_column(column, role, known)
        if column in repeated:
            raise DataError(
                f"several columns are named {column!r}, the {role}; rename or remove all but one"
            )
    if roles["person"] is not None and roles["person"] == roles["label"]:
        raise InputError(f"column {roles['label']!r} is the label and cannot also be the person")
    both = sorted(set(lists["categorical"]) & set(lists["numeric"]))
    if both:
        raise InputError(f"column {both[0]!r} is declared both categorical and numeric; choose one")
    twice = sorted(name for name, times in Counter(lists["features"]).items() if times > 1)
    if twice:
        raise InputError(f"features names column {twice[0]!r} twice; once is enough")


def choose_features(
    known: Sequence[str],
    roles: Mapping[str, str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> list[str]:
    """Return the feature columns, in order: those named, or all but index columns."""
    if features is None:
        features = [n for n in known if n not in roles.values() and not _INDEX.fullmatch(n)]
    left_out = set(drop)
    names = [name for name in features if name not in left_out]
    if not names:
        raise InputError("no feature column is left; name fewer in drop or more in features")
    return names
