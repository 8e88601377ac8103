"""The functions of `kernels.Kernels`, compiled by numba; compiled code is cached between runs.

Codes are cast to unsigned before they index, which spares numba's test for negative indices.
`fastmath` stays off: without reassociation and fused multiply-add, sums round as NumPy's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _compile(kernel: Kernel) -> Kernel:
    return cast(Kernel, njit(cache=True, nogil=True)(kernel))


@_compile
def lookup(out: Any, table: Any, positions: Any) -> None:
    for row in range(positions.size):
        out[row] = table[np.uintp(positions[row])]


@_compile
def add_lookup(out: Any, table: Any, positions: Any) -> None:
    for row in range(positions.size):
        out[row] += table[np.uintp(positions[row])]


@_compile
def to_grid(out: Any, values: Any, factor: float, centre: float, low: float, high: float) -> bool:
    finite = True
    for row in range(values.size):
        code = np.rint(values[row] * factor)
        code = low if code < low else high if code > high else code
        code -= centre
        out[row] = code
        finite &= code - code == 0.0
    return finite


@_compile
def confine(out: Any, values: Any, low: float, high: float) -> int:
    nan = inf = outside = False
    for row in range(values.size):
        value = values[row]
        is_nan, is_inf = value != value, abs(value) == np.inf
        is_outside = (value < low) | (value > high)
        nan, inf, outside = nan | is_nan, inf | is_inf, outside | (is_outside & (not is_inf))
        inside = low if value <= low else high if value >= high else value
        out[row] = low if is_nan | is_inf else inside
    return 1 * nan + 2 * inf + 4 * outside


@_compile
def count(counts: Any, codes: Any) -> None:
    for row in range(codes.size):
        counts[np.uintp(codes[row])] += 1


@_compile
def count_pairs(counts: Any, left: Any, right: Any) -> None:
    for row in range(left.size):
        counts[np.uintp(left[row]), np.uintp(right[row])] += 1


@_compile
def add_sums(sums: Any, codes: Any, values: Any) -> None:
    for row in range(codes.size):
        sums[np.uintp(codes[row])] += np.int64(values[row])


@_compile
def add_pair_lookup(out: Any, table: Any, left: Any, right: Any) -> None:
    for row in range(left.size):
        out[row] += table[np.uintp(left[row]), np.uintp(right[row])]
