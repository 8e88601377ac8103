"""Numbers that stand for "no answer": 99 beside 1 to 5, −999 beside amounts, 0 beside years."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import numpy_numbers
from labeldp.data.columns import is_number
from labeldp.data.numerals import numbers_among
from labeldp.data.spelling import Spelling
from labeldp.doctor.strays import different
from labeldp.doctor.view import View

_CUSTOM = re.compile(r"9+|9*[78]|9+6|(6|7|8)\1+|9{2,}\.9{1,3}")
"""What people write for "does not know", "refuses" and the like: 99, 999, 98, 97, 88, 77, 99.9."""
_MANY = 20
"""Different numbers from which −1 alone below zero, or 0 far below them, is no quantity."""
_FEWEST = 2
"""Rows that have such a number: of one alone nobody knows."""


Codes = Mapping[str, Mapping[int | float, Sequence[str]]]
"""By column, the numbers, and how each is written."""


def find_codes(view: View, reader: Any) -> Codes:
    """Those of all columns, as the reader of their texts has them.

    Where somebody said what a column is, none.
    """
    said = (*view.known.numeric, *view.known.categorical)
    open_ = [name for name in view.table.column_names if name not in said]
    found = {name: stand_ins(view.table[name]) for name in open_}
    spellings = view.source.wording.spellings
    spelt = {name: way for name, way in spellings.items() if way.way == "numbers"}
    return {
        name: _written(reader, name, spelt[name], codes)
        if name in spelt
        else {code: [str(code)] for code in codes}
        for name, codes in found.items()
        if codes
    }


def _written(
    reader: Any, name: str, spelling: Spelling, codes: Sequence[int | float]
) -> dict[int | float, list[str]]:
    """How these numbers are written, separators, units and all: `na` is about what is written."""
    found: dict[int | float, set[str]] = {code: set() for code in codes}
    for texts in different(reader, name):
        texts = texts.filter(numbers_among(texts, spelling.decimal, spelling.thousands))
        values = spelling.read(texts, name).to_pylist()
        for text, value in zip(texts.to_pylist(), values, strict=True):
            if value in found:
                found[value].add(text)
    return {code: sorted(texts) for code, texts in found.items() if texts}


def as_missing(codes: Codes) -> list[str]:
    """As `na` has them."""
    return [
        f"{name}={text}"
        for name, found in codes.items()
        for texts in found.values()
        for text in texts
    ]


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
