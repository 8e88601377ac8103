"""Facts about columns: what they hold, what that costs, and what to do about it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
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

Facts = dict[str, Any]

_OUTLIER = 8.0
"""Standard deviations from the mean; a normal distribution of 10⁹ rows does not reach it."""
_WINSOR = 0.001
_WINSOR_SHARES = (_WINSOR, 0.002, 0.005, 0.01, 0.02, 0.05)
_MANY_ROWS = 10_000
"""Rows of a table from which whole numbers that follow each other have a column each."""
_NO_ANSWER = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know" and the like: 99, 999, 98, 97, 88, 77, 99.9."""
_FEW_CODES = 8

_PLAIN_NUMBER = r"^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"
_DATE = (
    r"^\w{0,4}[ .,]*(\d{1,2}(st|nd|rd|th)?[ ./-]+([A-Za-zé]{3,10}\.?|\d{1,2})[ ,./-]+\d{2,4}"
    r"|[A-Za-zé]{3,10}\.? +\d{1,2}(st|nd|rd|th)?,? +\d{4}|\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?)\b"
)
_UNIT = r"^\W{0,2}\d[\d.,' ]*( ?[$€£¥%°]| ?[a-zµ]{2,8}\.?| [A-Za-zµ][\w/²³]{0,7}\.?)$"
_MENDS = (
    ("numbers", _PLAIN_NUMBER, "pandas.to_numeric({0})"),
    ("dates", _DATE, 'pandas.to_datetime({0}, format="mixed")'),
    ("times", r"^\d+:\d\d$", 'pandas.to_timedelta({0} + ":00").dt.total_seconds() / 3600'),
    ("times", r"^\d+:\d\d:\d\d(\.\d+)?$", "pandas.to_timedelta({0}).dt.total_seconds() / 3600"),
    ("numbers with units", _UNIT, '{0}.str.extract(r"([\\d.]+)")[0].astype(float)'),
)
"""What texts may be, how they look, and what pandas makes of them."""
_MOSTLY = 0.8
_SAMPLE = 2_000

_COMPACT_DATES = "%Y%m%d", "%d%m%Y", "%m%d%Y"
_YEARS = 1880, 2100

_MANY_IDS, _MANY_NUMBERS = 12, 100
"""Different values from which a column can hold ids, and from which numbers can be some."""
_REPEATED = 1.2
"""Rows per id from which ids repeat."""
_GROUP = 20.0
"""Rows per id from which an id that does not name a person is a place or a thing, not one."""


def describe_columns(source: Source, table: pa.Table) -> list[Facts]:
    """Return facts about every feature, as a plan of these rows would see it."""
    statistics = type_statistics(source.columns, source.reader.format)
    for batch in table.to_batches():
        statistics.add(batch, None, 0)
    return [_describe(column, table[column.name], statistics) for column in source.columns]


def _describe(column: Column, values: pa.ChunkedArray, statistics: ColumnStatistics) -> Facts:
    name, min_count = column.name, math.isqrt(statistics.rows)
    levels, notes = statistics.levels.get(name), list[str]()
    inferred = infer_column_type(column, statistics.extremes.get(name), levels, min_count)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    kind, why, advice = _kind(column, values, distinct, inferred)
    if kind == "category" and levels is not None and not levels.too_many:
        merge_levels(name, levels.counts, min_count, notes)
    facts: Facts = {
        "name": name,
        "type": column.type,
        "kind": kind,
        "why": why,
        "advice": advice,
        "distinct": distinct,
        "missing": values.null_count,
        "levels": notes,
        "no_answer": _no_answer_codes(values) if is_number_type(values.type) else [],
        "mend": _mend(name, values, distinct) if is_text_type(values.type) else None,
        "outlier": None,
    }
    if kind == "number" and is_number_type(values.type):
        facts |= _range(column_floats(values.combine_chunks(), name))
    return facts


def _kind(
    column: Column, values: pa.ChunkedArray, distinct: int, inferred: ColumnType
) -> tuple[str, str, str | None]:
    """Return the kind of a column, why, and the option of a release that suits it, if any."""
    rows, filled = len(values), len(values) - values.null_count
    if distinct == 0 or (distinct == 1 and filled == rows):
        return "constant", "one value" if distinct else "every value is missing", None
    if inferred.kind == "id":
        return "id", inferred.why, "drop"
    if is_text_type(values.type) and not column.declared and distinct > FEW[-1]:
        often = pc.max(values.drop_null().value_counts().field("counts")).as_py()
        if often < math.isqrt(rows) and distinct * math.isqrt(rows) >= filled:
            return "text", f"{distinct} texts, none in rows enough to be told apart", "drop"
    if inferred.kind == "category":
        why = "true or false" if pa.types.is_boolean(values.type) else inferred.why
        if column.undecided and distinct in FEW and rows < _MANY_ROWS:
            # Whole numbers that follow each other, as counts do, and are not named as codes.
            ends = pc.min_max(values).as_py()
            has_codes = name_hints(column.name) & {"code", "id", "cycle"}
            if ends["max"] - ends["min"] + 1 == distinct and not has_codes:
                return "number", f"{why} in a row: one column costs least", "numeric"
        return "category", why, None
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01", None
    if is_clock(values.type):
        return "time", "times of day or durations: hours", None
    if column.undecided and filled >= FEWEST:
        numbers = column_floats(values.drop_null().combine_chunks(), column.name)
        if np.mean(np.diff(numbers) == 1) > UNIQUE:
            return "id", "rises by one from row to row", "drop"
    return "number", "numbers", None


def _range(values: NDArray[np.float64]) -> Facts:
    """Return the ends and, if one value lies far off, what it costs in leverage."""
    known = values[~np.isnan(values)]
    facts: Facts = {"low": float(known.min()), "high": float(known.max())}
    leverage, is_outlier = _largest_leverage(known)
    if is_outlier:
        # The default share, or the next that is at least one number and reaches all outliers.
        shares = [share for share in _WINSOR_SHARES if share * len(known) >= 1] or [_WINSOR]
        clipped = [np.clip(known, *np.quantile(known, [share, 1 - share])) for share in shares]
        after = [_largest_leverage(each) for each in clipped]
        best = next((place for place, (_, still) in enumerate(after) if not still), 0)
        facts["outlier"] = {
            "value": float(known[np.argmax(np.abs(known - known.mean()))]),
            "leverage": leverage,
            "leverage_winsorised": after[best][0],
            "typical": float(np.median(known)),
        }
        facts["winsor"] = None if shares[best] == _WINSOR else shares[best]
    return facts


def _largest_leverage(values: NDArray[np.float64]) -> tuple[float, bool]:
    """Return the largest leverage in a fit of this column and a constant; if it is an outlier's."""
    square = (values - values.mean()) ** 2
    share = float(square.max() / (square.sum() or 1.0))
    return 1 / len(values) + share, share > _OUTLIER**2 / len(values)


def _no_answer_codes(values: pa.ChunkedArray) -> list[int | float]:
    """Return numbers that custom has for "no answer" and that lie far from all others.

    99 beside 1 to 5, −999 beside amounts. They may be numbers all the same, so `look` only names
    them.
    """
    counted = values.drop_null().value_counts()
    numbers = counted.field("values").cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    order = np.argsort(numbers)
    numbers, often = numbers[order], counted.field("counts").to_numpy()[order]
    ends = {*range(len(numbers))[:_FEW_CODES], *range(len(numbers))[-_FEW_CODES:]}
    places = []
    for place in sorted(ends):
        size, is_code = abs(numbers[place]), not 0 <= numbers[place] < 10
        if often[place] >= 2 and is_code and size < 1e9 and _NO_ANSWER.fullmatch(f"{size:.10g}"):
            places.append(place)
    others = np.delete(numbers, places)
    if len(others) < 2 or not np.isfinite(numbers).all():
        return []
    low, high = others.min(), others.max()
    codes = list[int | float]()
    for code in numbers[places].tolist():
        away = min(abs(code - low), abs(code - high))
        far = away > 2 * (high - low) and abs(code) > 2 * max(abs(low), abs(high))
        if far or code < 0 <= low:
            codes.append(int(code) if code.is_integer() else code)
    return codes


def _mend(name: str, values: pa.ChunkedArray, distinct: int) -> Facts | None:
    """Return what texts that are kept as text may be, and two lines of pandas that mend them.

    Plain numbers are named only if every text is one: otherwise they are codes, and to make
    numbers of codes loses the others.
    """
    if distinct <= FEW[-1]:
        return None
    texts = pc.utf8_trim_whitespace(values.drop_null().unique()[:_SAMPLE])
    for kind, pattern, code in _MENDS:
        share = pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.float64())).as_py()
        if share == 1.0 or (share >= _MOSTLY and kind != "numbers"):
            column = f"table[{json.dumps(name, ensure_ascii=False)}]"
            lines = [f"{column} = {code.format(column)}", 'table.to_parquet("mended.parquet")']
            return {"kind": kind, "lines": lines}
    return None


def compact_date_format(values: pa.ChunkedArray) -> str | None:
    """Return the format of days such as 20210305 or 05032021, if all values are such."""
    values = values.drop_null()
    if pa.types.is_floating(values.type):  # pandas has integers with gaps as floats
        values = values.filter(pc.is_finite(values))
        if not pc.all(pc.equal(values, pc.round(values))).as_py():
            return None
        values = values.cast(pa.int64(), safe=False)
    if not (pa.types.is_integer(values.type) or is_text_type(values.type)):
        return None
    texts = values.unique().cast(pa.string())
    eight = pc.match_substring_regex(
        texts, r"^\d{8}$" if is_text_type(values.type) else r"^\d{7,8}$"
    )
    if len(texts) < FEWEST or not pc.all(eight).as_py():
        return None
    texts = pc.utf8_lpad(texts, 8, "0")  # a number has no leading zero
    for form in _COMPACT_DATES:
        years = pc.year(pc.strptime(texts, format=form, unit="s", error_is_null=True))
        known = pc.and_(pc.greater_equal(years, _YEARS[0]), pc.less_equal(years, _YEARS[1]))
        if pc.all(known, skip_nulls=False).as_py():
            return form
    return None


def find_persons(table: pa.Table, kinds: Mapping[str, str]) -> list[Facts]:
    """Return columns of ids that repeat, those first that name a person.

    An id with many rows that does not name a person is rather a shop's or a ward's. The first that
    is named like an id is `advised`: the command protects all rows of one together.
    """
    persons = []
    for name in table.column_names:
        kind, hints = kinds[name], name_hints(name)
        named, person = "like an id" in hints, "person" in hints
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
