"""Numbers that stand for "no answer": 99 beside 1 to 5, 999 beside hours, −999 beside amounts."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.common.arrow import numpy_numbers
from labeldp.source.kinds import is_number

_CUSTOM = re.compile(r"9+|9*[78]|(7|8)\1+")
"""What people write for "does not know", "refuses" and the like: 99, 999, 98, 97, 88, 77."""
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
    others = numbers[~likely]
    if not likely.any() or len(others) < _FEWEST or not np.isfinite(others).all():
        return []
    return sorted(int(n) for n in numbers[likely] if _apart(float(n), others.min(), others.max()))


def _customary(number: float) -> bool:
    whole = np.isfinite(number) and number.is_integer() and abs(number) < 1e9
    if not whole or 0 <= number < 10:
        return False
    return _CUSTOM.fullmatch(str(int(abs(number)))) is not None


def _apart(number: float, low: float, high: float) -> bool:
    """Twice as far from the others as they are from each other, or the only ones below zero."""
    if number < 0 <= low:
        return True
    near, largest = min(abs(number - low), abs(number - high)), max(abs(low), abs(high))
    return near > 2 * (high - low) and abs(number) > 2 * largest
