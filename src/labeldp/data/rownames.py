"""Rows that begin with a name for which the header has none, as R's `write.table` makes them.

    "species" "mass" "age"          three names
    "1" "Adelie" 3750 4             four fields: the first is the row's name
    "2" "Gentoo" 5000 2

By how many fields a row has nobody may tell it: a label with a delimiter in it has one more too. So
only fields that stand before the label's, whether rows have names or not, are looked at: the first
ones must count 1, 2, 3, … in quotes, beside numbers without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labeldp.data.columns import NUMBER

LOOKED_AT = 20
_FEWEST = 2
_QUOTED = re.compile(r'"(\d+)"')


def rows_are_named(lines: Sequence[str], delimiter: str, before: int) -> bool:
    """Whether these first rows have names, by the fields before the label's."""
    rows = [_first_fields(line, delimiter, before) for line in lines[:LOOKED_AT]]
    if len(rows) < _FEWEST or before < 2 or any(len(row) < before for row in rows):
        return False
    names = [_QUOTED.fullmatch(row[0]) for row in rows]
    counted = all(name and int(name[1]) == k for k, name in enumerate(names, 1))
    bare = (all(re.fullmatch(NUMBER, row[k]) for row in rows) for k in range(1, before))
    return counted and any(bare)


def _first_fields(line: str, delimiter: str, most: int) -> list[str]:
    """As they are written, quotes and all."""
    sign = re.escape(delimiter)
    field = re.compile(rf'("(?:[^"]|"")*"|[^"{sign}]*)(?:{sign}|$)')
    found: list[str] = []
    place = 0
    while len(found) < most and place < len(line) and (one := field.match(line, place)):
        found.append(one[1])
        place = one.end()
    return found
