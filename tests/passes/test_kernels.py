"""Sums by codes against a loop: the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import kernels

ROWS = st.integers(0, 200)
SIZES = st.sampled_from([1, 2, 9, 256, 257])
SEED = st.integers(0, 2**32 - 1)


def codes(rng: np.random.Generator, size: int, rows: int) -> Any:
    """The largest code occurs, in a type that just holds it or in a wider one."""
    kind = rng.choice([kernels.code_kind(size), np.dtype(np.int32)])
    return np.append(rng.integers(0, size, rows), size - 1).astype(kind)


@pytest.mark.parametrize(
    ("count", "kind"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "i4"), (2**31, "i4")],
)
def test_codes_have_the_narrowest_type_that_holds_them(count: int, kind: str) -> None:
    assert kernels.code_kind(count) == np.dtype(kind)


@given(seed=SEED, rows=ROWS, left=SIZES, right=SIZES)
@settings(max_examples=40)
def test_pairs_and_sums_equal_the_loop(seed: int, rows: int, left: int, right: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = codes(rng, left, rows), codes(rng, right, rows)
    values = rng.integers(-(2**20), 2**20, len(one)).astype(np.float64)
    counts, sums = np.zeros((left, right), np.int64), np.zeros(left, np.int64)
    for a, b, value in zip(one, two, values, strict=True):
        counts[a, b] += 1
        sums[a] += int(value)
    found, added = np.zeros_like(counts), np.zeros_like(sums)
    kernels.count_pairs(found, one, two)
    kernels.add_sums(added, one, values)
    assert found.tobytes() == counts.tobytes()
    assert added.tobytes() == sums.tobytes()


@given(seed=SEED, rows=ROWS, left=SIZES, right=SIZES)
@settings(max_examples=40)
def test_entries_are_added_with_one_rounding_each(
    seed: int, rows: int, left: int, right: int
) -> None:
    rng = np.random.default_rng(seed)
    one, two = codes(rng, left, rows), codes(rng, right, rows)
    table, start = rng.normal(size=(left, right)), rng.normal(size=len(one))
    want = [float(begin) + float(table[a, b]) for begin, a, b in zip(start, one, two, strict=True)]
    total = start.copy()
    kernels.add_pair_lookup(total, table, one, two)
    assert total.tolist() == want
