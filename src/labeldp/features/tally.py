"""Exact aggregates of public columns: extremes, counts and integer sums.

All of them are the same for any order and any grouping of the rows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.features.levels import codes_of, names_of
from labeldp.source.values import to_float

_MOST_LEVELS = 1_000_000
"""Distinct values a category may have: counting them is the only thing that takes memory."""


@dataclass
class Extremes:
    """Smallest and largest value of a numeric column, and how many are missing."""

    name: str
    rows: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, array: pa.Array) -> None:
        """Count one batch."""
        values = to_float(array, self.name, self.rows)
        absent = int(np.isnan(values).sum())
        self.rows += len(values)
        self.missing += absent
        if absent < len(values):
            # Adding 0.0 turns -0.0 into 0.0: which of the two is met first must not matter.
            self.low = min(self.low, float(np.fmin.reduce(values)) + 0.0)
            self.high = max(self.high, float(np.fmax.reduce(values)) + 0.0)

    def merge(self, other: Extremes) -> None:
        """Take in what was found in another part of the rows."""
        self.rows += other.rows
        self.missing += other.missing
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    @property
    def empty(self) -> bool:
        """Whether every value is missing."""
        return self.missing == self.rows


@dataclass
class Levels:
    """How often each value of a column occurs; gives up quietly past `limit` values."""

    name: str
    limit: int = _MOST_LEVELS
    counts: Counter[str | None] = field(default_factory=Counter)
    too_many: bool = False
    _dictionary: pa.Array | None = None
    _pending: NDArray[np.int64] | None = None

    def add(self, array: pa.Array) -> None:
        """Count one batch; names are looked up only when the dictionary changes."""
        if self.too_many:
            return
        dictionary, positions = codes_of(array)
        counts = np.bincount(positions, minlength=len(dictionary) + 1)
        if self._pending is not None and dictionary.equals(self._dictionary):
            self._pending += counts
            return
        self.flush()
        self._dictionary, self._pending = dictionary, counts

    def flush(self) -> None:
        """Bring the counts up to date."""
        if self._pending is None or self._dictionary is None:
            return
        used = np.flatnonzero(self._pending[:-1])
        names = names_of(self._dictionary.take(pa.array(used)))
        for name, count in zip(names, self._pending[used].tolist(), strict=True):
            self.counts[name] += count
        if self._pending[-1]:
            self.counts[None] += int(self._pending[-1])
        self._pending = self._dictionary = None
        self.too_many = len(self.counts) - (None in self.counts) > self.limit

    def merge(self, other: Levels) -> None:
        """Take in the flushed counts of another part of the rows."""
        self.counts.update(other.counts)
        distinct = len(self.counts) - (None in self.counts)
        self.too_many |= other.too_many or distinct > self.limit

    def checked(self) -> Counter[str | None]:
        """Return the counts of a declared category; refuse one that is an identifier."""
        if self.too_many:
            raise DataError(
                f"column {self.name!r} has more than {self.limit:,} distinct values; drop it if "
                f"it is an identifier"
            )
        return self.counts


@dataclass
class Sums:
    """Integer sums of grid codes, counted from a base inside the range."""

    name: str
    exponent: int
    base: int
    rows: int = 0
    total: int = 0
    squares: int = 0

    def add(self, array: pa.Array) -> None:
        """Add one batch: at most 2**20 rows of codes below 2**20 in size fit 64 bits."""
        values = to_float(array, self.name)
        codes = np.rint(values * math.ldexp(1.0, -self.exponent)) - self.base
        codes = codes[~np.isnan(codes)].astype(np.int64)
        self.rows += len(codes)
        self.total += int(codes.sum())
        self.squares += int(np.dot(codes, codes))

    def merge(self, other: Sums) -> None:
        """Take in the sums of another part of the rows."""
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
