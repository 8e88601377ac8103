"""Facts about single columns: what they hold, what that costs, and what to do about it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.data.columns import Column, is_clock, is_moment, is_number, is_text, to_float
from labeldp.data.source import Source
from labeldp.features.column_stats import ColumnStatistics
from labeldp.features.column_type import (
    FEW,
    FEWEST,
    UNIQUE,
    ColumnType,
    cyclic,
    infer_column_type,
    named_like_a_code,
    surely_id,
    type_statistics,
)
from labeldp.features.rare_levels import merge_levels

Facts = dict[str, Any]

_LONG_TEXT = 40
_OUTLIER = 8.0
"""Standard deviations from the mean; a normal distribution of 10⁹ rows does not reach it."""
_WINSOR = 0.001
_WINSOR_SHARES = (_WINSOR, 0.002, 0.005, 0.01, 0.02, 0.05)
_MANY_ROWS, _ROWS_PER_COLUMN = 10_000, 250
"""Whole numbers in a row have a column each in a table of so many rows, and of so many more for
each such column."""

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

_NO_ANSWER = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know" and the like: 99, 999, 98, 97, 88, 77, 99.9."""
_FEW_CODES = 8
_MANY_NUMBERS = 20
"""Different numbers from which −1 alone below zero, or 0 far below them, is no quantity."""


def describe_columns(source: Source, table: pa.Table) -> list[Facts]:
    """Return facts about every feature, as a plan of these rows would see it."""
    statistics = type_statistics(source.columns, table.num_rows, source.reader.format)
    for batch in table.to_batches():
        statistics.add(batch, None, 0)
    statistics.state()
    scales = sum(_dummies(name, table[name]) for name in table.column_names)
    many = _MANY_ROWS + _ROWS_PER_COLUMN * scales
    return [_describe(column, table[column.name], statistics, many) for column in source.columns]


def _describe(
    column: Column, values: pa.ChunkedArray, statistics: ColumnStatistics, many: int
) -> Facts:
    name, min_count = column.name, math.isqrt(statistics.rows)
    levels = statistics.levels.get(name)
    inferred = infer_column_type(column, statistics.extremes.get(name), levels, min_count)
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    kind, why, advice = _kind(column, values, distinct, inferred, many)
    notes = list[str]()
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
        "no_answer": _no_answer_codes(values) if is_number(values.type) else [],
        "mend": _mend(name, values, distinct) if is_text(values.type) else None,
        "outlier": None,
    }
    if kind == "number" and is_number(values.type):
        facts |= _range(to_float(values.combine_chunks(), name))
    return facts


def _kind(
    column: Column, values: pa.ChunkedArray, distinct: int, inferred: ColumnType, many: int
) -> tuple[str, str, str | None]:
    """Return the kind of a column, why, and the option of a release that suits it, if any."""
    filled = len(values) - values.null_count
    if distinct < 2 and (distinct == 0 or filled == len(values)):
        return "constant", "every value is missing" if not filled else "one value", None
    if inferred.kind == "id":
        return "id", inferred.why, "drop"
    if is_text(values.type) and not column.declared:
        mean_length = pc.mean(pc.utf8_length(values)).as_py() or 0.0
        if distinct > filled / 2 and mean_length > _LONG_TEXT:
            return "text", "long texts that hardly repeat", "drop"
        if _all_rare(values, distinct):
            return "text", f"{distinct} texts, none in rows enough to be told apart", "drop"
    if inferred.kind == "category":
        scale = column.undecided and distinct in FEW and _is_scale(column.name, values)
        if scale and len(values) < many:
            return "number", f"{inferred.why} in a row: one column costs least", "numeric"
        why = "true or false" if pa.types.is_boolean(values.type) else inferred.why
        return "category", why, None
    if is_moment(values.type):
        return "date", "dates: days since 1970-01-01", None
    if is_clock(values.type):
        return "time", "times of day or durations: hours", None
    if column.undecided and filled >= FEWEST:
        numbers = to_float(values.drop_null().combine_chunks(), column.name)
        if np.mean(np.diff(numbers) == 1) > UNIQUE:
            return "id", "rises by one from row to row", "drop"
    return "number", "numbers", None


def _dummies(name: str, values: pa.ChunkedArray) -> int:
    """Return how many design columns whole numbers in a row have as a category; 0 of others."""
    if not pa.types.is_integer(values.type):
        return 0
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    return distinct - 1 if distinct in FEW and _is_scale(name, values) else 0


def _is_scale(name: str, values: pa.ChunkedArray) -> bool:
    """Return whether whole numbers follow each other, as counts do, and are not named as codes."""
    ends = pc.min_max(values).as_py()
    scale = ends["max"] - ends["min"] + 1 == pc.count_distinct(values, mode="only_valid").as_py()
    return bool(scale) and not (named_like_a_code(name) or surely_id(name) or cyclic(name))


def _all_rare(values: pa.ChunkedArray, distinct: int) -> bool:
    """Return whether no text is as frequent as a level must be."""
    least = math.isqrt(len(values))
    if distinct <= FEW[-1] or distinct * least < len(values) - values.null_count:
        return False
    return bool(pc.max(values.drop_null().value_counts().field("counts")).as_py() < least)


def _range(values: NDArray[np.float64]) -> Facts:
    """Return the ends and, if one value lies far off, what it costs in leverage."""
    known = values[~np.isnan(values)]
    facts: Facts = {"low": float(known.min()), "high": float(known.max())}
    if not _has_outlier(known):
        return facts
    # The default share, or the next that is at least one number and reaches all outliers.
    shares = [share for share in _WINSOR_SHARES if share * len(known) >= 1] or [_WINSOR]
    share = next((s for s in shares if not _has_outlier(_clipped(known, s))), shares[0])
    facts["outlier"] = {
        "value": float(known[np.argmax(np.abs(known - known.mean()))]),
        "leverage": _largest_leverage(known),
        "leverage_winsorised": _largest_leverage(_clipped(known, share)),
        "typical": float(np.median(known)),
    }
    facts["winsor"] = None if share == _WINSOR else share
    return facts


def _has_outlier(known: NDArray[np.float64]) -> bool:
    return bool(np.abs(known - known.mean()).max() > _OUTLIER * known.std() > 0)


def _clipped(known: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    return np.clip(known, *np.quantile(known, [share, 1 - share]))


def _largest_leverage(values: NDArray[np.float64]) -> float:
    """Return the largest leverage of a row in a fit of this column and a constant."""
    square = (values - values.mean()) ** 2
    total = float(square.sum())
    return 1 / len(values) + (float(square.max()) / total if total > 0 else 0.0)


def _no_answer_codes(values: pa.ChunkedArray) -> list[int | float]:
    """Return numbers that custom has for "no answer" and that lie far from all others.

    99 beside 1 to 5, −999 beside amounts, 0 beside years. They may be numbers all the same, so
    `look` only names them.
    """
    counted = values.drop_null().value_counts()
    numbers = counted.field("values").cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    several = counted.field("counts").to_numpy() >= 2
    if len(numbers) < 3 or not np.isfinite(numbers).all():
        return []
    order = np.argsort(numbers)
    ends = {*order[:_FEW_CODES].tolist(), *order[-_FEW_CODES:].tolist()}  # codes are far from all
    customary = np.zeros(len(numbers), bool)
    customary[[k for k in ends if several[k] and _is_customary(float(numbers[k]))]] = True
    near = np.isin(numbers, (-1.0, 0.0)) & several
    codes = [*_far_from(numbers[customary], numbers[~customary])]
    others = numbers[~(customary | near)]
    if len(others) >= _MANY_NUMBERS:
        low, high = others.min(), others.max()
        found = np.where(numbers[near] < 0, low >= 0, low > 2 * (high - low))
        codes += [*numbers[near][found]]
    return [int(code) if float(code).is_integer() else float(code) for code in sorted(codes)]


def _is_customary(number: float) -> bool:
    if abs(number) >= 1e9 or 0 <= number < 10:
        return False
    return _NO_ANSWER.fullmatch(f"{abs(number):.10g}") is not None


def _far_from(codes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return codes twice as far from the others as these are apart, or alone below zero.

    Beside such a code, once as far is enough: 77 beside 99.
    """
    if len(others) < 2:
        return codes[:0]
    low, high = others.min(), others.max()
    away = np.minimum(np.abs(codes - low), np.abs(codes - high))
    far = (away > 2 * (high - low)) & (np.abs(codes) > 2 * max(abs(low), abs(high)))
    nearer = (away > high - low) & (codes > high) & np.any(codes[far] > high)
    found: NDArray[np.float64] = codes[far | nearer | ((codes < 0) & (low >= 0))]
    return found


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


_COMPACT_DATES = "%Y%m%d", "%d%m%Y", "%m%d%Y"
_YEARS = 1880, 2100


def compact_date_format(values: pa.ChunkedArray) -> str | None:
    """Return the format of days such as 20210305 or 05032021, if all values are such."""
    values = values.drop_null()
    if pa.types.is_floating(values.type):  # pandas has integers with gaps as floats
        values = values.filter(pc.is_finite(values))
        if not pc.all(pc.equal(values, pc.round(values))).as_py():
            return None
        values = values.cast(pa.int64(), safe=False)
    if not (pa.types.is_integer(values.type) or is_text(values.type)):
        return None
    texts = values.unique().cast(pa.string())
    eight = pc.match_substring_regex(texts, r"^\d{8}$" if is_text(values.type) else r"^\d{7,8}$")
    if len(texts) < FEWEST or not pc.all(eight).as_py():
        return None
    texts = pc.utf8_lpad(texts, 8, "0")  # a number has no leading zero
    for form in _COMPACT_DATES:
        years = pc.year(pc.strptime(texts, format=form, unit="s", error_is_null=True))
        known = pc.and_(pc.greater_equal(years, _YEARS[0]), pc.less_equal(years, _YEARS[1]))
        if pc.all(known, skip_nulls=False).as_py():
            return form
    return None
