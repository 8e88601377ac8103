"""Numbers that stand for "no answer": 99 beside 1 to 5, −999 beside amounts, 0 beside years.

And numbers that stand for days: 20210305.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.common.arrow import numpy_numbers
from labeldp.source.dates import digits
from labeldp.source.kinds import is_number

_CUSTOM = re.compile(r"9+|9*[78]|(7|8)\1+")
"""What people write for "does not know", "refuses" and the like: 99, 999, 98, 97, 88, 77."""
_MANY = 20
"""Different numbers from which −1 alone below zero, or 0 far below them, is no quantity."""
COMPACT = "%Y%m%d"
_DAYS = 1880_01_01, 2100_12_31
_FEWEST = 2
"""Rows that have such a number: of one alone nobody knows."""


def stand_ins(values: pa.ChunkedArray) -> list[int]:
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
    return sorted(int(number) for number in (*found, *more))


def compact_dates(values: pa.ChunkedArray) -> bool:
    """Whether all numbers of a column are days such as 20210305, of our days."""
    if not is_number(values.type) or len(values) - values.null_count < _MANY:
        return False
    ends = pc.min_max(values).as_py()
    if not (_DAYS[0] <= ends["min"] <= ends["max"] <= _DAYS[1]):
        return False
    texts = [digits(chunk.drop_null().unique()) for chunk in values.chunks]
    times = (pc.strptime(each, format=COMPACT, unit="s", error_is_null=True) for each in texts)
    return all(not each.null_count for each in times)


def _customary(number: float) -> bool:
    whole = np.isfinite(number) and number.is_integer() and abs(number) < 1e9
    if not whole or 0 <= number < 10:
        return False
    return _CUSTOM.fullmatch(str(int(abs(number)))) is not None


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
