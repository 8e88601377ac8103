"""The inner loops of a pass: look up, count, add up.

Results do not depend on how rows are batched: sums are integers, and the only floating-point
functions add one term per row and call. Codes and positions are as narrow as they can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
"""Non-negative integers of a `code_kind`."""
Numbers = NDArray[np.float64]


def count_pairs(counts: NDArray[np.int64], left: Codes, right: Codes) -> None:
    """counts[left, right] += 1 for every row."""
    cells = _flat_places(counts, left, right)
    counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)


def add_sums(sums: NDArray[np.int64], codes: Codes, values: Numbers) -> None:
    """sums[code] += value; whole values, under 2**53 in all, so that doubles are exact."""
    sums += np.bincount(codes, weights=values, minlength=len(sums)).astype(np.int64)


def add_pair_lookup(out: Numbers, table: Numbers, left: Codes, right: Codes) -> None:
    """out += table[left, right]."""
    out += table.ravel().take(_flat_places(table, left, right))


def _flat_places(table: NDArray[Any], left: Codes, right: Codes) -> NDArray[np.int64]:
    """Return places in the flattened table."""
    cells = left.astype(np.int64)
    cells *= table.shape[1]
    cells += right
    return cells


def code_kind(count: int) -> np.dtype[Any]:
    """Return the narrowest type for codes below `count`."""
    return next(
        np.dtype(kind)
        for kind in (np.uint8, np.uint16, np.int32, np.int64)
        if count - 1 <= np.iinfo(kind).max
    )


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
