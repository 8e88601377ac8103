"""Whether an undeclared column holds numbers, categories or ids, from its name and values alone.

    3 to 12 whole numbers                      a category: they are codes more often than not
    more, named like codes, with rows enough   a category: zip; or like ids, with many: store_id
    named like ids, and not often repeated     no feature, nor are texts that hardly repeat
    names of people                            no feature, unless they are few
    all others                                 numbers

The same rows give the same type in any order, in any format and on any engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from labeldp.data.columns import Column
from labeldp.features.column_names import (
    holds_names_of_people,
    named_like_a_code,
    named_like_an_id,
    surely_id,
)
from labeldp.features.column_stats import FEW, Extremes, Levels
from labeldp.features.rare_levels import merge_levels

UNIQUE = 0.95
"""Share of distinct values from which a column tells rows apart instead of describing them."""
FEWEST = 20
"""Rows from which that is said."""
_ENOUGH = 50
_SAMPLED = 2
"""Of rows that are numbered, half may be elsewhere."""


@dataclass(frozen=True)
class ColumnType:
    """What a column is, and why."""

    kind: Literal["number", "category", "id"]
    why: str


NUMBER = ColumnType("number", "numbers")


def infer_column_type(
    column: Column, extremes: Extremes | None, levels: Levels | None, min_count: int
) -> ColumnType:
    """Return the type of a column: what the user declared, or else what it looks like."""
    if column.kind == "categorical":
        assert levels is not None, "texts are counted"
        return _texts(column, levels, min_count)
    if not column.undecided:
        return NUMBER
    assert extremes is not None, "numbers have ends"
    assert levels is not None, "and are counted"
    few = _few(column, levels, min_count) or _code(column, extremes, levels, min_count)
    if few is not None:
        return few
    why = None if column.wanted else _id(column.name, extremes, levels)
    return NUMBER if why is None else ColumnType("id", why)


def _texts(column: Column, levels: Levels, min_count: int) -> ColumnType:
    """Return category, or id where nearly every text is different: that tells who a row is."""
    filled = levels.counts.total() - levels.counts[None]
    distinct = len(levels.counts) - (None in levels.counts)
    if column.declared or column.wanted:
        return ColumnType("category", f"{distinct} levels")
    if levels.too_many:
        return ColumnType("id", f"more than {levels.limit:,} different texts")
    if filled >= FEWEST and distinct >= UNIQUE * filled:
        return ColumnType("id", "nearly every text is different")
    if surely_id(column.name) and distinct > FEW[-1] and 2 * distinct * min_count > filled:
        return ColumnType("id", "named like an id")
    if distinct > FEW[-1] and holds_names_of_people(column.name):
        return ColumnType("id", "names of people")
    return ColumnType("category", f"{distinct} levels")


def _few(column: Column, levels: Levels, min_count: int) -> ColumnType | None:
    """Return category for few whole numbers, unless so rare that no two would have a column."""
    counts = levels.counts
    distinct = len(counts) - (None in counts)
    if levels.too_many or distinct not in FEW:
        return None
    if column.kind == "numeric" and not (_whole(counts) and counts.total() >= _ENOUGH):
        return None  # pandas has integers with gaps as floats, but quantities too
    if merge_levels(column.name, counts, min_count, []).size < 2:
        return None
    return ColumnType("category", f"{distinct} integer values")


def _code(column: Column, extremes: Extremes, levels: Levels, min_count: int) -> ColumnType | None:
    """Return category for many whole numbers that are named like codes, or ids, and repeated."""
    counts, name = levels.counts, column.name
    distinct = len(counts) - (None in counts)
    if levels.too_many or distinct <= FEW[-1] or not _whole(counts):
        return None
    words = f"{distinct} integer values, named like"
    if surely_id(name) and 2 * distinct * min_count <= extremes.numbers:
        return ColumnType("category", f"{words} an id but often repeated")
    frequent = sum(n for level, n in counts.items() if level is not None and n >= min_count)
    if named_like_a_code(name) and 2 * frequent >= extremes.numbers:
        return ColumnType("category", f"{words} a code")
    return None


def _id(name: str, extremes: Extremes, levels: Levels) -> str | None:
    """Return why whole numbers are ids; None where they are not."""
    if not extremes.exact:
        return "integers beyond 2**53"
    if extremes.numbers < FEWEST or not extremes.whole or not named_like_an_id(name):
        return None
    distinct = len(levels.counts) - (None in levels.counts)
    if surely_id(name):
        return "named like an id" if levels.too_many or distinct > FEW[-1] else None
    if levels.too_many:  # many, which number the rows if they fill their range
        width = extremes.high - extremes.low + 1
        return "numbers the rows" if UNIQUE <= width / extremes.numbers <= _SAMPLED else None
    unique = distinct >= UNIQUE * extremes.numbers
    return "named like an id, nearly every number is different" if unique else None


def _whole(counts: Counter[str | None]) -> bool:
    return all(name is None or name.lstrip("-").isdigit() for name in counts)
