"""Numbers that stand for "no answer": 99 beside 1 to 5, −999 beside amounts, 0 beside years.

And digits that stand for days, 20210305, and for times of day, 0930.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.common import numpy_numbers
from labeldp.source import digits, is_number, is_text

_CUSTOM = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know", "refuses" and the like: 99, 999, 98, 97, 88, 77, 99.9."""
_MANY = 20
"""Different numbers from which −1 alone below zero, or 0 far below them, is no quantity."""
_COMPACT = "%Y%m%d", "%d%m%Y", "%m%d%Y"
_YEARS = 1880, 2100
_DAYS = 1880_01_01, 2100_12_31
_FEWEST = 2
"""Rows that have such a number: of one alone nobody knows."""


def stand_ins(values: pa.ChunkedArray) -> list[int | float]:
    """Numbers of a column that custom has for "missing", far from all others."""
    if not is_number(values.type):
        return []
    counted = pc.drop_null(values).value_counts()
    if len(counted) < _FEWEST + 1:
        return []
    numbers = numpy_numbers(counted.field("values").cast(pa.float64(), safe=False))
    often = numpy_numbers(counted.field("counts")) >= _FEWEST
    likely = np.array([_customary(float(number)) for number in numbers]) & often
    near = np.isin(numbers, (-1.0, 0.0)) & often
    found = numbers[likely][_apart(numbers[likely], numbers[~likely])]
    more = numbers[near][_below(numbers[near], numbers[~(likely | near)])]
    codes = sorted(map(float, (*found, *more)))
    return [int(code) if code.is_integer() else code for code in codes]


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


def _customary(number: float) -> bool:
    if not np.isfinite(number) or abs(number) >= 1e9 or 0 <= number < 10:
        return False
    return _CUSTOM.fullmatch(f"{abs(number):.10g}") is not None


def _apart(codes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Twice as far from the others as they are from each other, or the only ones below zero.

    Between such a code and the others, once as far is enough: 77 beside 99.
    """
    if len(others) < _FEWEST or not np.isfinite(others).all():
        return np.zeros(len(codes), bool)
    low, high = others.min(), others.max()
    away = np.minimum(np.abs(codes - low), np.abs(codes - high))
    far = (away > 2 * (high - low)) & (np.abs(codes) > 2 * max(abs(low), abs(high)))
    nearer = (away > high - low) & (codes > high) & np.any(codes[far] > high)
    alone: NDArray[np.bool_] = (codes < 0) & (low >= 0)
    found: NDArray[np.bool_] = far | nearer | alone
    return found


def _below(codes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """−1 where nothing else is below zero, and 0 where all others are far above it."""
    if len(others) < _MANY or not np.isfinite(others).all():
        return np.zeros(len(codes), bool)
    low, high = others.min(), others.max()
    found: NDArray[np.bool_] = np.where(codes < 0, low >= 0, low > 2 * (high - low))
    return found
