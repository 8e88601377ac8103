"""What rows and columns are to each other: duplicates, rows of one person, dependent columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import is_number, to_float
from labeldp.doctor.column import Traits
from labeldp.features.naming import named_like_an_id, names_a_person

_WHOSE = ("id", "category")
_MOST_PAIRS = 500
_MOST_NUMBERS, _SOME_ROWS = 60, 10_000


def duplicates(table: pa.Table) -> int:
    """Rows that repeat another in every feature."""
    names = table.column_names
    groups = table.group_by(names, use_threads=False).aggregate([([], "count_all")])
    return int(table.num_rows - groups.num_rows)


def persons(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[Traits]:
    """Columns named like ids that repeat: whose rows these are, persons before things."""
    named = [n for n in table.column_names if named_like_an_id(n) and kinds[n] in _WHOSE]
    for name in [n for n in named if names_a_person(n)] or named:
        counts = table[name].drop_null().value_counts().field("counts").to_numpy()
        if len(counts) > 12 and counts.mean() > 1.2:
            yield {"column": name, "mean": float(counts.mean()), "most": int(counts.max())}


def twins(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[Traits]:
    """Columns of which one follows from the other."""
    used = [n for n in table.column_names if kinds[n] in ("number", "date", "category")]
    numbers = {n: _standard(table[n]) for n in used if is_number(table[n].type)}
    pairs = list(combinations(used, 2))[:_MOST_PAIRS]
    for one, other in pairs:
        x, y = numbers.get(one), numbers.get(other)
        if x is not None and y is not None:
            if abs(float(np.nanmean(x * y))) > 1 - 1e-9:
                yield {"columns": [one, other], "why": "each is a multiple of the other"}
        elif kinds[one] == kinds[other] == "category" and _one_to_one(table, one, other):
            yield {"columns": [one, other], "why": "their levels are the same under other names"}


def dependent(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[Traits]:
    """Numbers that are made of two or more columns before them, such as totals."""
    names = [n for n in table.column_names if kinds[n] == "number" and is_number(table[n].type)]
    some = table.slice(0, _SOME_ROWS)
    columns = [np.nan_to_num(_standard(some[name])) for name in names[:_MOST_NUMBERS]]
    for place in range(2, len(columns)):
        before, column = np.column_stack(columns[:place]), columns[place]
        weights = np.linalg.lstsq(before, column, rcond=None)[0]
        parts = [names[k] for k in np.flatnonzero(np.abs(weights) > 1e-6)]
        left = np.linalg.norm(column - before @ weights)
        if len(parts) > 1 and left < 1e-6 * np.linalg.norm(column):
            yield {"column": names[place], "of": parts}


def _standard(values: pa.ChunkedArray) -> Any:
    numbers = to_float(values.combine_chunks(), "")
    spread = np.nanstd(numbers) if not np.isnan(numbers).all() else 0.0
    return (numbers - np.nanmean(numbers)) / spread if spread > 0 else np.zeros(len(numbers))


def _one_to_one(table: pa.Table, one: str, other: str) -> bool:
    sizes = [pc.count_distinct(table[name], mode="all").as_py() for name in (one, other)]
    if sizes[0] != sizes[1] or sizes[0] < 2:
        return False
    both = table.select([one, other]).group_by([one, other]).aggregate([])
    return bool(both.num_rows == sizes[0])
