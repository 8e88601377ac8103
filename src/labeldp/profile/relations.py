"""What rows and columns are to each other: duplicates, rows of one person, dependent columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.data.columns import is_number, to_float
from labeldp.features.column_type import named_like_an_id, names_a_person

_MANY_IDS, _MANY_NUMBERS = 12, 100
"""Different values from which a column can hold ids, and from which numbers can be some."""
_REPEATED = 1.2
"""Rows per id from which ids repeat."""
_GROUP = 20.0
"""Rows per id from which an id that does not name a person is a place or a thing, not one."""
_SAME = 1e-9
_ENOUGH_ROWS = 20
_SOME_ROWS, _MOST_NUMBERS, _MOST_PAIRS = 20_000, 60, 500


def count_duplicates(table: pa.Table) -> int:
    """Return how many rows repeat another in every feature."""
    groups = table.group_by(table.column_names, use_threads=False).aggregate([([], "count_all")])
    return int(table.num_rows - groups.num_rows)


def find_persons(table: pa.Table, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return columns of ids that repeat, those first that name a person.

    An id with many rows that does not name a person is rather a shop's or a ward's. The first that
    is named like an id is `advised`: the command protects all rows of one together.
    """
    persons = []
    for name in table.column_names:
        kind, named, person = kinds[name], named_like_an_id(name), names_a_person(name)
        if kind in ("date", "time", "constant") or not (named or kind in ("id", "text")):
            continue
        if kind == "number" and not pa.types.is_integer(table[name].type):
            continue
        counts = table[name].drop_null().value_counts().field("counts").to_numpy()
        mean = float(counts.mean()) if len(counts) else 0.0
        fewest = _MANY_IDS if person or kind != "number" else _MANY_NUMBERS
        if len(counts) <= fewest or mean < _REPEATED or (mean > _GROUP and not person):
            continue
        facts = {"column": name, "mean": mean, "most": int(counts.max())}
        persons.append(facts | {"person": person, "advised": named})
    persons.sort(key=lambda each: (not (each["person"] and each["advised"]), not each["advised"]))
    for each in persons[1:]:
        each["advised"] = False
    return persons


def find_twins(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield pairs of columns of which one follows from the other."""
    numbers = _numbers(table, kinds)
    for one, other in _multiples(numbers):
        yield {"columns": [one, other], "why": "each is a multiple of the other"}
    categories = [name for name in table.column_names if kinds[name] == "category"]
    sizes = {n: pc.count_distinct(table[n], mode="all").as_py() for n in categories}
    same_size = (pair for pair in combinations(categories, 2) if sizes[pair[0]] == sizes[pair[1]])
    for pair, _ in zip(same_size, range(_MOST_PAIRS), strict=False):
        both = table.select(pair).group_by(list(pair), use_threads=False).aggregate([])
        if both.num_rows == sizes[pair[0]] > 1:
            yield {"columns": [*pair], "why": "their levels are the same under other names"}


def find_sums(table: pa.Table, kinds: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield numbers that are made of two or more columns before them, such as totals."""
    numbers = _numbers(table, kinds)
    if len(numbers) < 3:
        return
    names, values = [*numbers], np.column_stack([*numbers.values()])
    complete = values[~np.isnan(values).any(axis=1)]
    spread = complete.std(axis=0) if len(complete) > 10 * len(names) else np.zeros(len(names))
    used = np.flatnonzero(spread > 0)
    if len(used) < 3:
        return
    # Of columns that are standardised, R of a QR factorisation has on its diagonal what each
    # column adds to those before it.
    standard = (complete[:, used] - complete[:, used].mean(axis=0)) / spread[used]
    upper: Any = np.linalg.qr(standard, mode="r")
    for place in range(2, len(used)):
        if abs(upper[place, place]) > 1e-7 * np.linalg.norm(upper[:, place]):
            continue
        before = upper[:place, :place]
        weights = np.linalg.lstsq(before, upper[:place, place], rcond=1e-9)[0]
        parts = [names[used[k]] for k in np.flatnonzero(np.abs(weights) > 1e-6)]
        if len(parts) > 1:
            yield {"column": names[used[place]], "of": parts}


def _numbers(table: pa.Table, kinds: Mapping[str, str]) -> dict[str, NDArray[np.float64]]:
    """Return the numeric columns of some rows."""
    some = table.slice(0, _SOME_ROWS)
    names = [n for n in table.column_names if kinds[n] in ("number", "category", "date")]
    numeric = [n for n in names if is_number(table[n].type)][:_MOST_NUMBERS]
    return {name: to_float(some[name].combine_chunks(), name) for name in numeric}


def _multiples(numbers: Mapping[str, NDArray[np.float64]]) -> Iterator[tuple[str, str]]:
    """Yield pairs of columns with correlation ±1 on the rows that both have."""
    standard = {}
    for name, values in numbers.items():
        spread = np.nanstd(values) if not np.isnan(values).all() else 0.0
        if spread > 0:
            standard[name] = (values - np.nanmean(values)) / spread
    for one, other in combinations(standard, 2):
        x, y = standard[one], standard[other]
        common = ~(np.isnan(x) | np.isnan(y))
        if common.sum() < _ENOUGH_ROWS:
            continue
        x, y = x[common] - x[common].mean(), y[common] - y[common].mean()
        square = float(x @ x) * float(y @ y)
        if square > 0 and abs(float(x @ y)) > (1 - _SAME) * square**0.5:
            yield one, other
