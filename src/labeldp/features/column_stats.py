"""Exact statistics of public columns, from which features are fitted, and their accumulators.

All of them are the same for any order and any grouping of the rows: extremes, level counts,
integer sums of grid codes, and the tails of numeric columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, numpy_numbers, same_dictionary
from labeldp.data.columns import (
    Column,
    beyond_exact,
    floats_of,
    integer_ends,
    is_narrow,
    to_float,
    whole_ends,
)
from labeldp.errors import DataError
from labeldp.features.column_names import named_like_a_code, named_like_an_id
from labeldp.features.grid import Grid
from labeldp.features.levels import codes_of, names_of
from labeldp.kernels import Kernels, every_integer, kernels_for, positions, with_numpy
from labeldp.passes.accumulator import PassRequirements

_MOST_LEVELS = 1_000_000
"""Distinct values a category may have: counting them is the only thing that takes memory."""
_GLANCE = 1 << 10
FEW = range(3, 13)
"""An integer column with so many distinct values is taken for a category."""
CODES = 4096
"""So many are counted where a name hints at codes or ids: no category has more columns."""


@dataclass
class Extremes:
    """Smallest and largest value of a numeric column, and how many are missing."""

    name: str
    rows: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    doubted: bool = False
    """Whether it may turn out to be an id; then it matters whether all are whole and exact."""
    whole: bool = True
    exact: bool = True

    def add(self, array: pa.Array, first_row: int) -> None:
        """Count one batch, whose first row has this number."""
        self.rows += len(array)
        if pa.types.is_integer(array.type):
            self.missing += array.null_count
            self._reach(*self._integer_ends(array))
            return
        values = to_float(array, self.name, first_row)
        absent = int(np.isnan(values).sum())
        self.missing += absent
        if absent < len(values):
            self._reach(float(np.fmin.reduce(values)), float(np.fmax.reduce(values)))
        if self.doubted and self.whole and named_like_an_id(self.name):
            self.whole = not np.any(values != np.rint(values), where=~np.isnan(values))

    def merge(self, other: Extremes) -> None:
        """Add the statistics of other rows."""
        self.rows += other.rows
        self.missing += other.missing
        self.whole &= other.whole
        self.exact &= other.exact
        self._reach(other.low, other.high)

    def _integer_ends(self, array: pa.Array) -> tuple[float, float]:
        if not self.doubted:
            return integer_ends(array, self.name)
        low, high = whole_ends(array)
        self.exact &= not beyond_exact(low, high)
        return float(low), float(high)

    def _reach(self, low: float, high: float) -> None:
        # Adding 0.0 turns -0.0 into 0.0: which of the two is met first must not matter.
        self.low, self.high = min(self.low, low + 0.0), max(self.high, high + 0.0)

    @property
    def numbers(self) -> int:
        """How many values are not missing."""
        return self.rows - self.missing

    @property
    def empty(self) -> bool:
        """Whether every value is missing."""
        return self.numbers == 0


@dataclass
class Levels:
    """How often each value of a column occurs; stops counting past `limit` values."""

    name: str
    limit: int = _MOST_LEVELS
    kernels: Kernels = field(default_factory=with_numpy, repr=False)
    counts: Counter[str | None] = field(default_factory=Counter)
    too_many: bool = False
    _dictionary: pa.Array | None = None
    _pending: NDArray[np.int64] | None = None

    def add(self, array: pa.Array) -> None:
        """Count one batch; names are looked up only when the dictionary changes."""
        if self.limit < _MOST_LEVELS and not self.too_many:
            self.too_many = _clearly_many(array, self.limit)
        if self.too_many:
            return
        dictionary, positions = codes_of(array)
        if self._pending is None or not same_dictionary(dictionary, self._dictionary):
            self.flush()
            self._dictionary = dictionary
            self._pending = np.zeros(len(dictionary) + 1, dtype=np.int64)
        self.kernels.count(self._pending, positions)

    def merge(self, counts: Counter[str | None], too_many: bool) -> None:
        """Add the statistics of other rows."""
        self.flush()
        self.counts.update(counts)
        self.too_many |= too_many or self._beyond

    def flush(self) -> None:
        """Bring the counts up to date."""
        if self._pending is None or self._dictionary is None:
            return
        used = np.flatnonzero(self._pending[:-1])
        names = names_of(self._dictionary.take(arrow_numbers(used)))
        for name, count in zip(names, self._pending[used].tolist(), strict=True):
            self.counts[name] += count
        if self._pending[-1]:
            self.counts[None] += int(self._pending[-1])
        self._pending = self._dictionary = None
        self.too_many |= self._beyond

    @property
    def _beyond(self) -> bool:
        return len(self.counts) - (None in self.counts) > self.limit

    def checked(self) -> Counter[str | None]:
        """Return the counts of a declared category; refuse one that is an identifier."""
        if self.too_many:
            raise DataError(
                f"column {self.name!r} has more than {self.limit:,} distinct values; drop it if "
                f"it is an identifier"
            )
        return self.counts


def _clearly_many(array: pa.Array, limit: int) -> bool:
    """Return whether the first values alone are too many, or not whole: a cheap early exit."""
    some = array.slice(0, _GLANCE)
    if pa.types.is_floating(some.type):
        values = floats_of(some)
        if np.any(values != np.rint(values), where=~np.isnan(values)):
            return True
    return len(some.unique()) > limit + 2  # null and NaN are none of them


@dataclass
class Sums:
    """Integer sums of grid codes, counted from a base inside the range."""

    name: str
    grid: Grid
    base: int
    rows: int = 0
    total: int = 0
    squares: int = 0

    def add(self, array: pa.Array) -> None:
        """Add one batch: sums over at most 2**20 rows of codes below 2**20 fit 64 bits."""
        if is_narrow(array):
            self._add_counted(numpy_numbers(array))
            return
        codes = self._codes(to_float(array, self.name))
        codes = codes[~np.isnan(codes)].astype(np.int64)
        self.rows += len(codes)
        self.total += int(codes.sum())
        self.squares += int(np.dot(codes, codes))

    def _add_counted(self, values: NDArray[Any]) -> None:
        """Do the same for integers that repeat: each is multiplied once."""
        counts = np.bincount(positions(values))
        occurring = np.flatnonzero(counts)  # others may be far outside the range of the codes
        codes = self._codes(every_integer(values.dtype)[occurring].astype(np.float64)).astype(
            np.int64
        )
        self.rows += len(values)
        self.total += int(np.dot(codes, counts[occurring]))
        self.squares += int(np.dot(codes * codes, counts[occurring]))

    def _codes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        codes = np.empty(len(values))
        self.grid.put(codes, values, self.base)
        return codes

    def merge(self, other: Sums) -> None:
        """Add the sums of other rows."""
        self.rows += other.rows
        self.total += other.total
        self.squares += other.squares

    @property
    def mean_code(self) -> int:
        """The mean code, rounded half to even."""
        return round(self.base + Fraction(self.total, self.rows))

    def spread(self, around: int) -> float:
        """Root mean square distance of the codes from a code, correctly rounded throughout."""
        shift = around - self.base
        square = self.squares - 2 * shift * self.total + self.rows * shift * shift
        return math.sqrt(Fraction(square, self.rows))


State = dict[str, Any]


class LevelsAndRanges:
    """Accumulator of extremes and level counts; columns of undecided kind are counted both ways."""

    def __init__(self, columns: Sequence[Column], total_rows: int | None, format: str) -> None:
        self._columns, self._total_rows, self._format = tuple(columns), total_rows, format
        self.rows = 0
        self.extremes: dict[str, Extremes] = {}
        self.levels: dict[str, Levels] = {}
        # Where the number of rows is unknown (Spark), every worker would load numba.
        kernels = kernels_for(total_rows or 0)
        for column in columns:
            name = column.name
            if column.kind == "categorical":
                self.levels[name] = Levels(name, kernels=kernels)
                continue
            doubted = column.undecided and not column.wanted
            self.extremes[name] = Extremes(name, doubted=doubted)
            if column.undecided:
                hinted = named_like_a_code(name) or named_like_an_id(name)
                self.levels[name] = Levels(name, CODES if hinted else FEW.stop - 1, kernels)

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(tuple(column.name for column in self._columns), keep_columns=True)

    def new(self) -> LevelsAndRanges:
        return LevelsAndRanges(self._columns, self._total_rows, self._format)

    def add(self, batch: pa.RecordBatch, _labels: object, first: int) -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self.extremes:
                self.extremes[name].add(column, first)
            if name in self.levels:
                self.levels[name].add(column)

    def state(self) -> State:
        for levels in self.levels.values():
            levels.flush()
        counted = {name: (each.counts, each.too_many) for name, each in self.levels.items()}
        return {"rows": self.rows, "extremes": self.extremes, "levels": counted}

    def merge(self, state: State) -> None:
        self.rows += state["rows"]
        for name, extremes in state["extremes"].items():
            self.extremes[name].merge(extremes)
        for name, (counts, too_many) in state["levels"].items():
            self.levels[name].merge(counts, too_many)

    def result(self, *_: object) -> LevelsAndRanges:
        _refuse_empty(self.rows, self._format)
        return self


class GridSums:
    """Accumulator of integer sums of numeric codes on their grids."""

    def __init__(self, grids: Sequence[Sums], format: str) -> None:
        self.sums = {grid.name: replace(grid) for grid in grids}
        self._grids, self._format, self.rows = tuple(grids), format, 0

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(tuple(self.sums))

    def new(self) -> GridSums:
        return GridSums(self._grids, self._format)

    def add(self, batch: pa.RecordBatch, *_: object) -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self.sums[name].add(column)

    def state(self) -> State:
        return {"rows": self.rows, "sums": self.sums}

    def merge(self, state: State) -> None:
        self.rows += state["rows"]
        for name, sums in state["sums"].items():
            self.sums[name].merge(sums)

    def result(self, *_: object) -> dict[str, Sums]:
        _refuse_empty(self.rows, self._format)
        return self.sums


def _refuse_empty(rows: int, format: str) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise DataError(f"the {format} data have no rows; nothing can be learnt")


TailValues = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]
"""Of every column, its smallest and its largest numbers, from the outermost inwards."""


def depth_of(share: float, numbers: int) -> int:
    """Return ⌊share·numbers⌋, the share taken as it is written: 0.3 of ten are three."""
    return math.floor(Fraction(repr(float(share))) * numbers)


@dataclass
class Tail:
    """The `depth` smallest, or largest, of many numbers; holds at most twice as many."""

    depth: int
    largest: bool
    _kept: list[NDArray[Any]] = field(default_factory=list)
    _count: int = 0
    _bound: float | None = None
    """All that is kept is at most (least) this; numbers that are not beyond it do not matter."""

    def add(self, numbers: NDArray[Any]) -> None:
        """Take in numbers; NaN are none."""
        fresh = self._beyond(numbers)
        if len(fresh):
            self._kept.append(fresh.astype(np.float64))
            self._count += len(fresh)
        if self._count > 2 * self.depth:
            self._trim()

    def sorted(self) -> NDArray[Any]:
        """From the outermost inwards."""
        self._trim()
        kept = np.sort(np.concatenate([np.empty(0), *self._kept])) + 0.0  # no -0.0
        return kept[::-1] if self.largest else kept

    def _beyond(self, numbers: NDArray[Any]) -> NDArray[Any]:
        if self._bound is None:
            return numbers if numbers.dtype.kind != "f" else numbers[~np.isnan(numbers)]
        inwards = math.floor if self.largest else math.ceil
        bound = self._bound if numbers.dtype.kind == "f" else inwards(self._bound)
        beyond: NDArray[Any] = numbers[numbers > bound if self.largest else numbers < bound]
        return beyond

    def _trim(self) -> None:
        if self._count <= self.depth:
            return
        every, place = np.concatenate(self._kept), self.depth - 1
        if self.largest:
            kept = np.partition(every, -self.depth)[-self.depth :]
            self._bound = float(kept[0])
        else:
            kept = np.partition(every, place)[: self.depth]
            self._bound = float(kept[place])
        self._kept, self._count = [kept], self.depth


class TailQuantiles:
    """Accumulator of both tails of some columns: which public quantiles numbers are clipped to.

    Theory §9, "Winsorise first": clipping features at public quantiles costs no privacy and tames
    leverage. The lower end of a column of n numbers is the one that ⌊share·n⌋ others do not
    exceed, the upper end its mirror image: both occur in the table, whatever the order of rows.
    """

    def __init__(
        self, columns: tuple[str, ...], depths: Mapping[str, int], keep: bool = False
    ) -> None:
        self._columns, self._depths, self._keep = columns, dict(depths), keep
        self._tails = {
            name: (Tail(depth, largest=False), Tail(depth, largest=True))
            for name, depth in depths.items()
        }

    @property
    def requirements(self) -> PassRequirements:
        numbers = 2 * sum(self._depths.values())
        return PassRequirements(self._columns, keep_columns=self._keep, state_bytes=3 * 8 * numbers)

    def new(self) -> TailQuantiles:
        return TailQuantiles(self._columns, self._depths, self._keep)

    def add(self, batch: pa.RecordBatch, _labels: object, first: int) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._tails:
                numbers = _tail_numbers(column, name, first)
                for tail in self._tails[name]:
                    tail.add(numbers)

    def state(self) -> TailValues:
        return self.result()

    def merge(self, state: TailValues) -> None:
        for name, numbers in state.items():
            for tail, some in zip(self._tails[name], numbers, strict=True):
                tail.add(some)

    def result(self, *_: object) -> TailValues:
        return {name: (low.sorted(), high.sorted()) for name, (low, high) in self._tails.items()}


def _tail_numbers(array: pa.Array, name: str, first: int) -> NDArray[Any]:
    """Return integers as they are: most are not in a tail, and need not be converted.

    Those that float64 cannot tell apart are refused, or found to be ids, elsewhere.
    """
    if pa.types.is_integer(array.type):
        return floats_of(array) if array.null_count else numpy_numbers(array)
    return to_float(array, name, first)
