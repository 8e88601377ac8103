"""Exact statistics of public columns, from which features are fitted, and their accumulator.

All of them are the same for any order and any grouping of the rows: extremes, level counts,
integer sums of grid codes, and the tails of numeric columns.
"""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.columns import column_floats, floats_of, integer_ends
from labeldp.errors import DataError
from labeldp.features.categories import codes_of, names_of
from labeldp.features.columns import NumericColumn
from labeldp.passes.accumulator import PassRequirements

_MOST_LEVELS = 1_000_000
"""Distinct values a category may have: counting them is the only thing that takes memory."""
_GLANCE = 1 << 10


@dataclass
class Extremes:
    """Smallest and largest value of a numeric column, and how many are missing."""

    name: str
    maybe_id: bool = False  # integers beyond 2**53 are noted in `exact` instead of refused
    rows: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    exact: bool = True

    def add(self, array: pa.Array, first_row: int) -> None:
        """Count one batch, whose first row has this number."""
        self.rows += len(array)
        if pa.types.is_integer(array.type):
            self.missing += array.null_count
            low, high, exact = integer_ends(array, self.name, maybe_id=self.maybe_id)
            self.exact &= exact
            self._widen(low, high)
            return
        values = column_floats(array, self.name, first_row)
        absent = int(np.isnan(values).sum())
        self.missing += absent
        if absent < len(values):
            self._widen(float(np.fmin.reduce(values)), float(np.fmax.reduce(values)))

    def merge(self, other: Extremes) -> None:
        self.rows += other.rows
        self.missing += other.missing
        self.exact &= other.exact
        self._widen(other.low, other.high)

    def _widen(self, low: float, high: float) -> None:
        # Adding 0.0 turns -0.0 into 0.0: which of the two is met first must not matter.
        self.low, self.high = min(self.low, low + 0.0), max(self.high, high + 0.0)

    @property
    def numbers(self) -> int:
        """How many values are not missing."""
        return self.rows - self.missing


@dataclass
class Levels:
    """How often each value of a column occurs; stops counting past `limit` values."""

    limit: int = _MOST_LEVELS
    counts: Counter[str | None] = field(default_factory=Counter)
    too_many: bool = False

    def add(self, array: pa.Array, _first_row: int = 0) -> None:
        if self.limit < _MOST_LEVELS and not self.too_many:
            # A glance at the first values saves counting most columns of numbers; null and NaN are
            # no values.
            self.too_many = len(array.slice(0, _GLANCE).unique()) > self.limit + 2
        if self.too_many:
            return
        dictionary, places = codes_of(array)
        counts = np.bincount(places, minlength=len(dictionary) + 1)
        used = np.flatnonzero(counts[:-1])
        names = names_of(dictionary.take(arrow_numbers(used)))
        for name, count in zip(names, counts[used].tolist(), strict=True):
            self.counts[name] += count
        if counts[-1]:
            self.counts[None] += int(counts[-1])
        self.too_many |= self.distinct > self.limit

    def merge(self, other: Levels) -> None:
        self.counts.update(other.counts)
        self.too_many |= other.too_many or self.distinct > self.limit

    @property
    def distinct(self) -> int:
        """How many values were counted, without missing."""
        return len(self.counts) - (None in self.counts)


@dataclass
class NumberSums:
    """Integer sums of the codes of a column that is not centred yet."""

    column: NumericColumn
    rows: int = 0
    total: int = 0
    squares: int = 0

    def add(self, array: pa.Array, _first_row: int = 0) -> None:
        """Add one batch: sums over at most 2**20 rows of codes below 2**20 fit 64 bits."""
        values = np.empty(len(array))
        self.column.write_codes(values, column_floats(array, self.column.name))
        codes = values[~np.isnan(values)].astype(np.int64)
        self.rows += len(codes)
        self.total += int(codes.sum())
        self.squares += int(np.dot(codes, codes))

    def merge(self, other: NumberSums) -> None:
        self.rows += other.rows
        self.total += other.total
        self.squares += other.squares

    def spread(self, around: int) -> float:
        """Root mean square distance of the codes from a code, correctly rounded throughout."""
        shift = around - self.column.centre
        square = self.squares - 2 * shift * self.total + self.rows * shift * shift
        return math.sqrt(Fraction(square, self.rows))


class Tails:
    """The `depth` smallest and the `depth` largest numbers of a column.

    The largest are kept as the smallest of the negated numbers.
    """

    def __init__(self, name: str, depth: int) -> None:
        self.name, self.depth = name, depth
        self._kept = [np.empty(0), np.empty(0)]
        # Only a number below is in a tail that is full already; NaN never is.
        self._bounds = [math.inf, math.inf]

    def add(self, array: pa.Array, first_row: int = 0) -> None:
        """Take in one batch; integers that float64 cannot tell apart are found out elsewhere."""
        is_integer = pa.types.is_integer(array.type)
        values = floats_of(array) if is_integer else column_floats(array, self.name, first_row)
        self._take(values, -values)

    def _take(self, *numbers: NDArray[np.float64]) -> None:
        for end, values in enumerate(numbers):
            fresh = values[values < self._bounds[end]]
            if not len(fresh):
                continue
            kept = np.concatenate([self._kept[end], fresh])
            if len(kept) >= self.depth:
                kept = np.partition(kept, self.depth - 1)[: self.depth]
                self._bounds[end] = float(kept[-1])
            self._kept[end] = kept

    def merge(self, other: Tails) -> None:
        self._take(*other._kept)

    def sorted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and the largest numbers, from the outermost inwards; no -0.0."""
        least, most = map(np.sort, self._kept)
        return least + 0.0, 0.0 - most


@dataclass
class ColumnStatistics:
    """Accumulator of statistics of single columns, by name; those that are asked for."""

    extremes: dict[str, Extremes] = field(default_factory=dict)
    levels: dict[str, Levels] = field(default_factory=dict)
    tails: dict[str, Tails] = field(default_factory=dict)
    sums: dict[str, NumberSums] = field(default_factory=dict)
    rows: int = 0

    @property
    def requirements(self) -> PassRequirements:
        numbers = sum(2 * tails.depth for tails in self.tails.values())
        names = dict.fromkeys(name for kind in self._kinds for name in kind)
        return PassRequirements(tuple(names), state_bytes=3 * 8 * numbers)

    def new(self) -> ColumnStatistics:
        return deepcopy(self)

    def add(self, batch: pa.RecordBatch, _labels: object, first: int) -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for statistics in self._kinds:
                if name in statistics:
                    statistics[name].add(column, first)

    def state(self) -> ColumnStatistics:
        return self

    def merge(self, state: ColumnStatistics) -> None:
        self.rows += state.rows
        for ours, theirs in zip(self._kinds, state._kinds, strict=True):
            for name, statistic in theirs.items():
                ours[name].merge(statistic)

    def result(self, *_: object) -> ColumnStatistics:
        if self.rows == 0:
            raise DataError("the table has no rows; nothing can be learnt from it")
        return self

    @property
    def _kinds(self) -> tuple[dict[str, Any], ...]:
        return self.extremes, self.levels, self.tails, self.sums
