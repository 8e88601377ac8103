"""Which columns of a table play which part: label, person, features; names that are none."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from labeldp.data.columns import (
    LONGEST_NAME,
    NO_NAMES,
    printable_names,
    quoted_names,
    short_name,
)
from labeldp.errors import DataError, InputError

_INDEX = re.compile(r"(__index_level_\d+__| \(\d+\))?")
"""Names of a stored pandas index and of columns without a name."""


class UnknownColumnError(DataError):
    """A name that is no column of the table, where it stands, and what may be meant."""

    def __init__(self, part: str, column: str, hint: str) -> None:
        super().__init__(f"{part}: there is no column {short_name(column)!r}; {hint}")
        self.column, self._hint = column, hint

    def standing_in(self, part: str) -> UnknownColumnError:
        """Return the same for what whoever named it calls that part."""
        return UnknownColumnError(part, self.column, self._hint)


def check_roles(
    known: Sequence[str],
    *,
    label: str | None,
    person: str | None,
    repeated: Sequence[str],
    **lists: Sequence[str],
) -> None:
    """Refuse names that are no columns, and columns that play two parts.

    `repeated` are names of several columns: the label under another name would be a public feature.
    """
    there = set(known)
    for part, names in lists.items():
        for name in names:
            if name not in there:
                raise unknown_column(name, part, known)
        for role, column in (("label", label), ("person", person)):
            if column in names and (role, part) != ("person", "drop"):  # no feature anyway
                raise InputError(f"column {column!r} is the {role} and cannot also stand in {part}")
    for role, column in (("label", label), ("person", person)):
        if column is None:
            continue
        if column not in there:
            raise unknown_column(column, role, known)
        if column in repeated:
            raise DataError(
                f"several columns are named {column!r}, the {role}; rename or remove all but one"
            )
    if person is not None and person == label:
        raise InputError(f"column {label!r} is the label and cannot also be the person")
    both = sorted(set(lists["categorical"]) & set(lists["numeric"]))
    if both:
        raise InputError(f"column {both[0]!r} is declared both categorical and numeric; choose one")
    twice = sorted(name for name, times in Counter(lists["features"]).items() if times > 1)
    if twice:
        raise InputError(f"features names column {twice[0]!r} twice; once is enough")


def unknown_column(name: str, part: str, known: Sequence[str]) -> UnknownColumnError:
    """Return the refusal of a name, with those that may be meant."""
    printable = printable_names(known)
    close = [each for each in printable if each.strip().casefold() == name.strip().casefold()]
    close = close or difflib.get_close_matches(name[:LONGEST_NAME], printable, n=3, cutoff=0.5)
    longer = next((each for each in printable if name in map(str.strip, each.split(","))), None)
    if len(known) == 1 and name in re.split(r'[,;|\s"]+', known[0]):
        only = f"the only one is {short_name(known[0])!r}" if printable else "there is one alone"
        hint = f"{only}; name another `delimiter`"
    elif longer is not None and len(printable) > 1:
        hint = f"a name that has a comma stands in double quotes: '\"{longer}\"'"
    elif close:
        hint = f"did you mean {' or '.join(map(repr, map(short_name, close)))}?"
    else:
        hint = f"the columns are {quoted_names(known, 8) or NO_NAMES}"
    return UnknownColumnError(part, name, hint)


def choose_features(
    known: Sequence[str],
    taken: Mapping[str, str | None],
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> list[str]:
    """Return the feature columns, in order: those named, or all but index columns."""
    if features is None:
        others = set(taken.values())
        features = [name for name in known if name not in others and not _INDEX.fullmatch(name)]
    left_out = set(drop)
    names = [name for name in features if name not in left_out]
    if not names:
        raise InputError("no feature column is left; name fewer in drop or more in features")
    return names
