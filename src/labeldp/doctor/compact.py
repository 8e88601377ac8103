"""Digits that stand for days, 20210305, and for times of day, 0930."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import is_number, is_text
from labeldp.data.dates import digits

_COMPACT = "%Y%m%d", "%d%m%Y", "%m%d%Y"
_YEARS = 1880, 2100
_DAYS = 1880_01_01, 2100_12_31
_MANY = 20
"""Values, or different ones, that are not such digits by chance."""


def compact_dates(values: pa.ChunkedArray) -> str | None:
    """The format of days such as 20210305 or 05032021, if all values of a column are such."""
    number = is_number(values.type)
    if not (number or is_text(values.type)) or len(values) - values.null_count < _MANY:
        return None
    if number and not _DAYS[0] <= pc.min(values).as_py() <= pc.max(values).as_py() <= _DAYS[1]:
        return None
    chunks = (chunk.drop_null().unique() for chunk in values.chunks)
    texts = [digits(chunk) if number else chunk for chunk in chunks]
    if not all(pc.all(pc.match_substring_regex(each, r"^\d{8}$")).as_py() for each in texts):
        return None
    return next((form for form in _COMPACT if all(_are_days(each, form) for each in texts)), None)


def _are_days(texts: pa.Array, form: str) -> bool:
    times = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    years = pc.year(times)
    ours = pc.and_(pc.greater_equal(years, _YEARS[0]), pc.less_equal(years, _YEARS[1]))
    return bool(pc.all(ours, skip_nulls=False).as_py())


def in_four_digits(values: pa.ChunkedArray, distinct: int) -> bool:
    """Whether texts are times of day such as 0930: too many of them to be so by chance."""
    found = pc.match_substring_regex(values, r"^([01]\d|2[0-3])[0-5]\d$")
    return distinct >= _MANY and bool(pc.all(found).as_py())
