"""The inner loops of a pass: look up, count, add up.

    numpy_kernels.py   NumPy
    numba_kernels.py   numba, several times faster; the extra `fast`: pip install 'labeldp[fast]'

Both modules hold the same functions with the same results to the last bit, so the choice is one
of speed alone: sums are integers, and the only floating-point kernels add one term per row and
call. Codes and dictionary positions are as narrow as they can be.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from labeldp.kernels import numpy_kernels

Codes = NDArray[Any]
"""Non-negative integers of a `code_kind`."""
Positions = NDArray[Any]
"""Non-negative integers of a type that `positions` gives."""

UNBOUNDED = -math.inf, math.inf
"""The range of `to_grid` that moves nothing."""
WORTH_COMPILING = 1_000_000
"""Below so many rows, loading numba takes longer than it saves."""


class Kernels(Protocol):
    """The functions of both modules."""

    lookup: Callable[[NDArray[Any], NDArray[Any], Positions], None]
    """lookup(out, table, positions): out = table[positions], integers or floats."""
    add_lookup: Callable[[NDArray[Any], NDArray[Any], Positions], None]
    """add_lookup(out, table, positions): out += table[positions], integers or floats."""
    to_grid: Callable[[NDArray[np.float64], NDArray[np.float64], float, float, float, float], bool]
    """to_grid(out, values, factor, centre, low, high): out = rint(values·factor), moved into the
    range, − centre; whether finite."""
    confine: Callable[[NDArray[np.float64], NDArray[np.float64], float, float], int]
    """confine(out, values, low, high): out = values moved into the range, NaN and infinities to
    its lower end; returns 1 for NaN + 2 for an infinity + 4 for a finite value outside."""
    count: Callable[[NDArray[np.int64], Positions], None]
    """count(counts, codes): counts[code] += 1 for every row."""
    count_pairs: Callable[[NDArray[np.int64], Codes, Codes], None]
    """count_pairs(counts, left, right): counts[left, right] += 1 for every row."""
    add_sums: Callable[[NDArray[np.int64], Codes, NDArray[np.float64]], None]
    """add_sums(sums, codes, values): sums[code] += value; whole values, under 2**53 in all."""
    add_pair_lookup: Callable[[NDArray[np.float64], NDArray[np.float64], Codes, Codes], None]
    """add_pair_lookup(out, table, left, right): out += table[left, right]."""


def kernels_for(rows: int | None = None) -> Kernels:
    """Return the faster kernels for a table of so many rows: numba's if installed and worth it."""
    small = rows is not None and rows < WORTH_COMPILING
    return with_numpy() if small or not available() else with_numba()


@cache
def available() -> bool:
    """Return whether numba is installed, without loading it."""
    return importlib.util.find_spec("numba") is not None


def with_numpy() -> Kernels:
    """Return the kernels that need nothing more than NumPy."""
    return cast(Kernels, numpy_kernels)


def with_numba() -> Kernels:
    """Return the compiled kernels; loading them takes about half a second."""
    from labeldp.kernels import numba_kernels

    return cast(Kernels, numba_kernels)


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


def every_integer(kind: np.dtype[Any]) -> NDArray[Any]:
    """Return every number of a narrow integer type, in the order of `positions`."""
    places = np.arange(1 << 8 * kind.itemsize)
    return places.astype(f"u{kind.itemsize}").view(kind)


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
        size = prod(shape) * np.dtype(kind).itemsize
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size, dtype=np.uint8)
        array: NDArray[Any] = held[:size].view(kind).reshape(shape)
        return array
