"""The kernels in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def lookup(out: NDArray[Any], table: NDArray[Any], positions: NDArray[Any]) -> None:
    table.take(positions, out=out, mode="clip")  # other modes copy `out` first


def add_lookup(out: NDArray[Any], table: NDArray[Any], positions: NDArray[Any]) -> None:
    out += table.take(positions)


def to_grid(
    out: NDArray[np.float64],
    values: NDArray[np.float64],
    factor: float,
    centre: float,
    low: float,
    high: float,
) -> bool:
    with np.errstate(over="ignore"):  # where there is a range, infinity is moved into it
        np.multiply(values, factor, out=out)
    np.rint(out, out=out)
    if low > -np.inf or high < np.inf:
        np.clip(out, low, high, out=out)
    out -= centre
    return bool(np.isfinite(out).all())


def confine(out: NDArray[np.float64], values: NDArray[np.float64], low: float, high: float) -> int:
    nan, inf = np.isnan(values), np.isinf(values)
    outside = ((values < low) | (values > high)) & ~inf
    np.clip(values, low, high, out=out)
    out[nan | inf] = low
    return int(1 * nan.any() + 2 * inf.any() + 4 * outside.any())


def count(counts: NDArray[np.int64], codes: NDArray[Any]) -> None:
    counts += np.bincount(codes, minlength=len(counts))


def count_pairs(counts: NDArray[np.int64], left: NDArray[Any], right: NDArray[Any]) -> None:
    counts += np.bincount(_cells(counts, left, right), minlength=counts.size).reshape(counts.shape)


def add_sums(sums: NDArray[np.int64], codes: NDArray[Any], values: NDArray[np.float64]) -> None:
    sums += np.bincount(codes, weights=values, minlength=len(sums)).astype(np.int64)


def add_pair_lookup(
    out: NDArray[np.float64],
    table: NDArray[np.float64],
    left: NDArray[Any],
    right: NDArray[Any],
) -> None:
    out += table.ravel().take(_cells(table, left, right))


def _cells(table: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """Places in the flattened table."""
    cells = left.astype(np.int64)
    cells *= table.shape[1]
    cells += right
    return cells
