"""The inner loops of a pass: look up, count, add up.

    plain.py      NumPy
    compiled.py   numba, several times faster; the extra `fast`: pip install 'labeldp[fast]'
    scratch.py    arrays used again from batch to batch

Both hold the same functions with the same results to the last bit, so the choice is one of
speed alone: sums are integers, and the only floating-point kernels add one term per row and
call. Codes and dictionary positions are as narrow as they can be.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from labeldp.kernels import plain
from labeldp.kernels.scratch import Scratch, keep_freed_memory

__all__ = [
    "UNBOUNDED",
    "Codes",
    "Kernels",
    "Positions",
    "Scratch",
    "available",
    "code_kind",
    "every_integer",
    "keep_freed_memory",
    "kernels_for",
    "mixed",
    "positions",
    "with_numba",
    "with_numpy",
]

Codes = NDArray[Any]
"""Non-negative integers of a `code_kind`."""
Positions = NDArray[Any]
"""Non-negative integers of a type that `positions` gives."""

UNBOUNDED = -math.inf, math.inf
"""The range of `to_grid` that moves nothing."""
WORTH_COMPILING = 1_000_000
"""Below so many rows, loading numba takes longer than it saves."""


class Kernels(Protocol):
    """What both modules offer."""

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
    """The faster kernels for a table of so many rows: numba's if it is there and pays."""
    small = rows is not None and rows < WORTH_COMPILING
    return with_numpy() if small or not available() else with_numba()


@cache
def available() -> bool:
    """Whether numba is installed; looking does not load it."""
    return importlib.util.find_spec("numba") is not None


def with_numpy() -> Kernels:
    """The kernels that need nothing more than NumPy."""
    return cast(Kernels, plain)


def with_numba() -> Kernels:
    """The compiled kernels; loading them takes about half a second."""
    from labeldp.kernels import compiled

    return cast(Kernels, compiled)


def code_kind(count: int) -> np.dtype[Any]:
    """The narrowest type for codes below `count`, of those that `positions` gives."""
    return next(
        np.dtype(kind)
        for kind in (np.uint8, np.uint16, np.int32, np.int64)
        if count - 1 <= np.iinfo(kind).max
    )


def positions(indices: NDArray[Any]) -> Positions:
    """Non-negative integers as uint8, uint16, int32 or int64, without copying.

    Compiled kernels exist once for each type they meet, so fewer types are better.
    """
    kind = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64}[indices.dtype.itemsize]
    return indices.view(kind)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed hash that no two numbers share: the finaliser of SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def every_integer(kind: np.dtype[Any]) -> NDArray[Any]:
    """Every number of a narrow integer type, in the order of `positions`."""
    places = np.arange(1 << 8 * kind.itemsize)
    return places.astype(f"u{kind.itemsize}").view(kind)
