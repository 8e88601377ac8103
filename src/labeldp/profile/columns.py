"""Facts about columns: what they hold, what that costs, and what to do about it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.data.columns import (
    Column,
    column_floats,
    is_clock,
    is_moment,
    is_number_type,
    is_text_type,
)
from labeldp.data.source import Source
from labeldp.features.categories import merge_levels
from labeldp.features.column_stats import ColumnStatistics
from labeldp.features.column_type import (
    FEW,
    FEWEST,
    UNIQUE,
    ColumnType,
    infer_column_type,
    name_hints,
    type_statistics,
)
from labeldp.features.fit import DEFAULT_SHARE

Facts = dict[str, Any]

_OUTLIER = 8.0
"""Standard deviations from the mean; a normal distribution of 10⁹ rows does not reach it."""
_NO_ANSWER = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know" and the like: 99, 999, 98, 97, 88, 77, 99.9."""

_DAY = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_PLAIN_NUMBER = r"^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"
_DATE = (
    r"^\w{0,4}[ .,]*(\d{1,2}(st|nd|rd|th)?[ ./-]+([A-Za-zé]{3,10}\.?|\d{1,2})[ ,./-]+\d{2,4}"
    r"|[A-Za-zé]{3,10}\.? +\d{1,2}(st|nd|rd|th)?,? +\d{4}|\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?)\b"
)
_UNIT = r"^\W{0,2}\d[\d.,' ]*( ?[$€£¥%°]| ?[a-zµ]{2,8}\.?| [A-Za-zµ][\w/²³]{0,7}\.?)$"
_MENDS: tuple[tuple[str, str, str], ...] = (
    ("days", _DAY, 'pandas.to_datetime({0}.astype("string").str[:8], format="%Y%m%d")'),
    ("numbers", _PLAIN_NUMBER, "pandas.to_numeric({0})"),
    ("dates", _DATE, 'pandas.to_datetime({0}, format="mixed")'),
    ("times", r"^\d+:\d\d$", 'pandas.to_timedelta({0} + ":00").dt.total_seconds() / 3600'),
    ("times", r"^\d+:\d\d:\d\d(\.\d+)?$", "pandas.to_timedelta({0}).dt.total_seconds() / 3600"),
    ("numbers with units", _UNIT, '{0}.str.extract(r"([\\d.]+)")[0].astype(float)'),
)
"""What texts may be, how they look, and what pandas makes of them."""
_MOSTLY = 0.8
_SAMPLE = 2_000

_MANY_IDS, _MANY_NUMBERS = 12, 100
"""Different values from which a column can hold ids, and from which numbers can be some."""
_REPEATED = 1.2  # rows per id from which ids repeat
_GROUP = 20.0
"""Rows per id from which an id that does not name a person is a place or a thing, not one."""


def describe_columns(source: Source, table: pa.Table) -> list[Facts]:
    """Return facts about every feature, as a plan of these rows would see it."""
    statistics = type_statistics(source.columns)
    for batch in table.to_batches():
        statistics.add(batch, None, 0)
    return [_describe(column, table[column.name], statistics) for column in source.columns]


def _describe(column: Column, values: pa.ChunkedArray, statistics: ColumnStatistics) -> Facts:
    name, min_count = column.name, math.isqrt(statistics.rows)
    levels, findings = statistics.levels.get(name), list[str]()
    inferred = infer_column_type(column, statistics.extremes.get(name), levels, min_count)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    kind, why = _kind(column, values, distinct, inferred)
    if kind in ("id", "constant"):
        findings.append(f"{name}: {kind}, {why}")
    if distinct > FEW[-1] and (mend := _mend(name, values)) is not None:
        findings.append(f"{name}: {kind} of {mend}")
    facts: Facts = {"name": name, "type": column.type, "kind": kind, "why": why}
    facts |= {"distinct": distinct, "missing": values.null_count}
    if is_number_type(values.type):
        # Integers beyond 2**53 are ids, of which no last digit matters here.
        numbers = values.drop_null().cast(pa.float64(), safe=False).to_numpy()
        numbers = numbers[np.isfinite(numbers)]
        findings += _no_answer(name, numbers)
        if kind == "number":
            facts |= {"low": float(numbers.min()), "high": float(numbers.max())}
            findings += _outlier(name, numbers)
    if kind == "category" and levels is not None and not levels.too_many:
        merge_levels(name, levels.counts, min_count, findings)
    return facts | {"findings": findings}


def _kind(
    column: Column, values: pa.ChunkedArray, distinct: int, inferred: ColumnType
) -> tuple[str, str]:
    """Return the kind of a column, and why; ids and constants are no features."""
    rows, filled = len(values), len(values) - values.null_count
    if distinct == 0 or (distinct == 1 and filled == rows):
        return "constant", "one value" if distinct else "every value is missing"
    if inferred.kind != "number":
        return inferred.kind, inferred.why
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01"
    if is_clock(values.type):
        return "time", "times of day or durations: hours"
    if column.undecided and filled >= FEWEST:
        numbers = column_floats(values.drop_null().combine_chunks(), column.name)
        if np.mean(np.diff(numbers) == 1) > UNIQUE:
            return "id", "rises by one from row to row"
    return "number", "numbers"


def _outlier(name: str, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield what one value that lies far off costs in leverage."""
    leverage, is_outlier = _largest_leverage(values)
    if is_outlier:
        value = values[np.argmax(np.abs(values - values.mean()))]
        winsorised = np.clip(values, *np.quantile(values, [DEFAULT_SHARE, 1 - DEFAULT_SHARE]))
        yield (
            f"{name}: {value:g} is far from the usual {np.median(values):g}: its row has leverage "
            f"{leverage:.2g}, winsorised {_largest_leverage(winsorised)[0]:.2g}"
        )


def _largest_leverage(values: NDArray[np.float64]) -> tuple[float, bool]:
    """Return the largest leverage in a fit of this column and a constant; if it is an outlier's."""
    square = (values - values.mean()) ** 2
    share = float(square.max() / (square.sum() or 1.0))
    return 1 / len(values) + share, share > _OUTLIER**2 / len(values)


def _no_answer(name: str, values: NDArray[np.float64]) -> Iterator[str]:
    """Yield the ends of a column that custom has for "no answer" and that lie far from the rest.

    99 beside 1 to 5, −999 beside amounts. They may be numbers all the same: they are only named.
    """
    numbers, often = np.unique(values, return_counts=True)
    for end, others in ((0, numbers[1:]), (-1, numbers[:-1])):
        if len(others) < 2 or often[end] < 2:
            continue
        code, low, high = float(numbers[end]), others.min(), others.max()
        away = min(abs(code - low), abs(code - high))
        is_far = away > 2 * (high - low) and abs(code) > 2 * max(abs(low), abs(high))
        is_custom = _NO_ANSWER.fullmatch(f"{abs(code):.10g}") and not 0 <= code < 10
        if is_custom and (is_far or code < 0 <= low):
            text = f"{code:.10g}"
            yield (
                f"{name}: {text} is far from all other numbers; if it means missing, add "
                f"`na={join_list([f'{name}={text}'])}`"
            )


def _mend(name: str, values: pa.ChunkedArray) -> str | None:
    """Return what texts, or digits such as 20210305, may be, and lines of pandas that mend them.

    Plain numbers are named only if every text is one: otherwise they are codes, and to make
    numbers of codes loses the others.
    """
    texts = values.drop_null().unique()[:_SAMPLE]
    patterns = _MENDS
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        patterns = _MENDS[:1]
        texts = texts.cast(pa.int64(), safe=False).cast(pa.string())
    elif not is_text_type(values.type):
        return None
    texts = pc.utf8_trim_whitespace(texts)
    for kind, pattern, code in patterns:
        share = pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.float64())).as_py()
        if share == 1.0 or (share >= _MOSTLY and kind not in ("days", "numbers")):
            column = f"table[{json.dumps(name, ensure_ascii=False)}]"
            return (
                f"values that look like {kind}; if they are that and no codes, in pandas:\n"
                f'{column} = {code.format(column)}\ntable.to_parquet("mended.parquet")'
            )
    return None


def find_persons(table: pa.Table, kinds: Mapping[str, str]) -> list[Facts]:
    """Return columns named like ids that repeat, those first that name a person.

    An id with many rows that does not name a person is rather a shop's or a ward's. The first is
    `advised`: the command protects all rows of one together.
    """
    persons = list[Facts]()
    for name in table.column_names:
        kind, hints = kinds[name], name_hints(name)
        if "like an id" not in hints or kind in ("date", "time", "constant"):
            continue
        if kind == "number" and not pa.types.is_integer(table[name].type):
            continue
        counts = table[name].drop_null().value_counts().field("counts").to_numpy()
        mean, person = float(counts.mean()) if len(counts) else 0.0, "person" in hints
        fewest = _MANY_IDS if person or kind != "number" else _MANY_NUMBERS
        if len(counts) > fewest and mean >= _REPEATED and (person or mean <= _GROUP):
            facts = {"column": name, "mean": mean, "most": int(counts.max()), "person": person}
            persons.append(facts)
    persons.sort(key=lambda each: not each["person"])
    return [each | {"advised": place == 0} for place, each in enumerate(persons)]


def join_list(value: Any) -> str:
    """Return the value of an option as the command line takes it; names with commas in quotes."""
    if isinstance(value, str | int):
        return str(value)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(dict.fromkeys(value))
    return text.getvalue()
