"""The inner loops of a pass: look up, count, add up.

`Kernels` are written in NumPy. The module `numba_kernels` has the same functions, several times
faster; it needs the extra `fast`: pip install 'labeldp[fast]'. Both have the same results to the
last bit, so the choice is one of speed alone: sums are integers, and the only floating-point
kernels add one term per row and call. Codes and dictionary positions are as narrow as they can be.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
"""Non-negative integers of a `code_kind`."""
Positions = NDArray[Any]
"""Non-negative integers of a type that `positions` gives."""
Numbers = NDArray[np.float64]

UNBOUNDED = -math.inf, math.inf
"""The range of `to_grid` that moves nothing."""
WORTH_COMPILING = 1_000_000
"""Below so many rows, loading numba takes longer than it saves."""


class Kernels:
    """The kernels in NumPy."""

    @staticmethod
    def lookup(out: NDArray[Any], table: NDArray[Any], positions: Positions) -> None:
        """out = table[positions], integers or floats."""
        table.take(positions, out=out, mode="clip")  # other modes copy `out` first

    @staticmethod
    def add_lookup(out: NDArray[Any], table: NDArray[Any], positions: Positions) -> None:
        """out += table[positions], integers or floats."""
        out += table.take(positions)

    @staticmethod
    def to_grid(
        out: Numbers, values: Numbers, factor: float, centre: float, low: float, high: float
    ) -> bool:
        """out = rint(values·factor), moved into the range, − centre; return whether all finite."""
        with np.errstate(over="ignore"):  # where there is a range, infinity is moved into it
            np.multiply(values, factor, out=out)
        np.rint(out, out=out)
        if low > -np.inf or high < np.inf:
            np.clip(out, low, high, out=out)
        out -= centre
        return bool(np.isfinite(out).all())

    @staticmethod
    def confine(out: Numbers, values: Numbers, low: float, high: float) -> int:
        """out = values moved into the range, NaN and infinities to its lower end.

        Return 1 for NaN + 2 for an infinity + 4 for a finite value outside.
        """
        nan, inf = np.isnan(values), np.isinf(values)
        outside = ((values < low) | (values > high)) & ~inf
        np.clip(values, low, high, out=out)
        out[nan | inf] = low
        return int(1 * nan.any() + 2 * inf.any() + 4 * outside.any())

    @staticmethod
    def count(counts: NDArray[np.int64], codes: Positions) -> None:
        """counts[code] += 1 for every row."""
        counts += np.bincount(codes, minlength=len(counts))

    @staticmethod
    def count_pairs(counts: NDArray[np.int64], left: Codes, right: Codes) -> None:
        """counts[left, right] += 1 for every row."""
        cells = _flat_places(counts, left, right)
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)

    @staticmethod
    def add_sums(sums: NDArray[np.int64], codes: Codes, values: Numbers) -> None:
        """sums[code] += value; whole values, under 2**53 in all, so that doubles are exact."""
        sums += np.bincount(codes, weights=values, minlength=len(sums)).astype(np.int64)

    @staticmethod
    def add_pair_lookup(out: Numbers, table: Numbers, left: Codes, right: Codes) -> None:
        """out += table[left, right]."""
        out += table.ravel().take(_flat_places(table, left, right))


def _flat_places(table: NDArray[Any], left: Codes, right: Codes) -> NDArray[np.int64]:
    """Return places in the flattened table."""
    cells = left.astype(np.int64)
    cells *= table.shape[1]
    cells += right
    return cells


def kernels_for(rows: int | None = None) -> Kernels:
    """Return the faster kernels for a table of so many rows: numba's if installed and worth it."""
    if not numba_available() or (rows is not None and rows < WORTH_COMPILING):
        return Kernels()
    from labeldp import numba_kernels  # loading it takes half a second

    return cast(Kernels, numba_kernels)  # a module of the same functions


@cache
def numba_available() -> bool:
    """Return whether numba is installed, without loading it."""
    return importlib.util.find_spec("numba") is not None


def code_kind(count: int) -> np.dtype[Any]:
    """Return the narrowest type for codes below `count`, of those that `positions` gives."""
    return next(
        np.dtype(kind)
        for kind in (np.uint8, np.uint16, np.int32, np.int64)
        if count - 1 <= np.iinfo(kind).max
    )


def positions(indices: NDArray[Any]) -> Positions:
    """Return non-negative integers as uint8, uint16, int32 or int64, without copying.

    Compiled kernels are compiled once for each type they are called with: fewer types are better.
    """
    kind = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64}[indices.dtype.itemsize]
    return indices.view(kind)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a fixed hash of each number, all different: the finaliser of SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def keep_freed_memory() -> None:
    """Let the C library keep freed arrays of some MiB for the next use.

    glibc raises its limit for that to the size of the largest array ever freed (up to
    32 MiB), so one array that is never touched will do. Elsewhere this does nothing.
    """
    np.empty(31 << 20, dtype=np.uint8)


class Scratch:
    """Uninitialised arrays by name, used again from batch to batch; for one thread.

    The next array of a name overwrites the last. A fresh array of some hundred KiB comes from the
    operating system and goes back to it, and its first use costs a page fault every 4 KiB: several
    times the work of most kernels.
    """

    def __init__(self) -> None:
        self._held: dict[object, NDArray[np.uint8]] = {}

    def __call__(self, name: object, shape: tuple[int, ...], kind: type[Any]) -> NDArray[Any]:
        size = math.prod(shape) * np.dtype(kind).itemsize
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size, dtype=np.uint8)
        array: NDArray[Any] = held[:size].view(kind).reshape(shape)
        return array
