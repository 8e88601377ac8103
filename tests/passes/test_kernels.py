"""Every kernel against a loop, NumPy's and numba's: the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import kernels
from labeldp.kernels import UNBOUNDED, Kernels, Scratch

BOTH = [
    pytest.param(kernels.Kernels, id="numpy"),
    pytest.param(
        kernels.kernels_for,
        id="numba",
        marks=pytest.mark.skipif(not kernels.numba_available(), reason="needs numba"),
    ),
]
ROWS = st.integers(0, 200)
SIZES = st.sampled_from([1, 2, 9, 256, 257])
SEED = st.integers(0, 2**32 - 1)


@pytest.fixture(params=BOTH)
def kernel(request: pytest.FixtureRequest) -> Kernels:
    make: Callable[[], Kernels] = request.param
    return make()


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


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("code_kind", [np.uint8, np.uint16, np.int32])
def test_lookup_and_count_take_positions_of_any_width(
    kernel: Kernels, kind: Any, code_kind: Any
) -> None:
    rng = np.random.default_rng(1)
    table = rng.permutation(100).astype(code_kind)
    places = rng.integers(0, 100, 777).astype(kind)
    out = np.empty(777, code_kind)
    kernel.lookup(out, table, kernels.positions(places))
    assert out.tolist() == [int(table[place]) for place in places]
    kernel.add_lookup(out, table, kernels.positions(places))
    assert out.tolist() == [2 * int(table[place]) for place in places]
    counts = np.ones(100, np.int64)
    kernel.count(counts, kernels.positions(places))
    assert counts.tolist() == [1 + places.tolist().count(level) for level in range(100)]


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
    for kernel in available():
        found, added = np.zeros_like(counts), np.zeros_like(sums)
        kernel.count_pairs(found, one, two)
        kernel.add_sums(added, one, values)
        assert found.tobytes() == counts.tobytes()
        assert added.tobytes() == sums.tobytes()


@given(seed=SEED, rows=ROWS, left=SIZES, right=SIZES)
@settings(max_examples=40)
def test_entries_are_added_with_one_rounding_each(
    seed: int, rows: int, left: int, right: int
) -> None:
    rng = np.random.default_rng(seed)
    one, two = codes(rng, left, rows), codes(rng, right, rows)
    table, line = rng.normal(size=(left, right)), rng.normal(size=left)
    start = rng.normal(size=len(one))
    want = [
        float(begin) + float(table[a, b]) + float(line[a])
        for begin, a, b in zip(start, one, two, strict=True)
    ]
    for kernel in available():
        total = start.copy()
        kernel.add_pair_lookup(total, table, one, two)
        kernel.add_lookup(total, line, one)
        assert total.tolist() == want


@given(
    st.lists(st.floats(-1e9, 1e9), max_size=40),
    st.integers(-60, 20),
    st.integers(-(2**52), 2**52),
    st.sampled_from([None, np.nan, np.inf, -np.inf]),
)
@settings(max_examples=60)
def test_grids_round_half_to_even_and_say_what_is_not_finite(
    some: list[float], power: int, centre: int, odd: float | None
) -> None:
    values = np.array([*some, 0.5, 1.5, -0.5, *([] if odd is None else [odd])])
    factor = 2.0**-power
    for kernel in available():
        out = np.empty_like(values)
        assert kernel.to_grid(out, values, factor, float(centre), *UNBOUNDED) == (odd is None)
        want = [float(round(v * factor)) - float(centre) for v in values if np.isfinite(v)]
        assert out[np.isfinite(values)].tolist() == want
        assert np.isnan(out).tolist() == np.isnan(values).tolist()


@given(st.lists(st.floats(allow_nan=True), max_size=40), st.integers(-9, 9), st.integers(0, 9))
@settings(max_examples=60)
def test_grids_move_codes_into_a_range(some: list[float], low: int, width: int) -> None:
    values, ends = np.array([*some, 0.5, -9.5, 1e308]), (float(low), float(low + width))
    with np.errstate(over="ignore"):
        moved = np.clip(np.rint(values * 4.0), *ends) - 7.0
    for kernel in available():
        out = np.empty_like(values)
        assert kernel.to_grid(out, values, 4.0, 7.0, *ends) == (not np.isnan(values).any())
        np.testing.assert_array_equal(out, moved)


@given(st.lists(st.floats(width=32), max_size=40), st.floats(-1e3, 0), st.floats(0.5, 1e3))
@settings(max_examples=100)
def test_values_are_confined_and_what_was_wrong_is_said(
    some: list[float], low: float, high: float
) -> None:
    values = np.array(some, dtype=np.float64)
    finite = [v for v in some if math.isfinite(v)]
    wrong = [any(map(math.isnan, some)), any(map(math.isinf, some))]
    wrong += [any(not low <= v <= high for v in finite)]
    want = [min(max(v, low), high) if math.isfinite(v) else low for v in some]
    for kernel in available():
        out = np.empty_like(values)
        flags = kernel.confine(out, values, low, high)
        assert [bool(flags & bit) for bit in (1, 2, 4)] == wrong
        assert out.tolist() == want


def available() -> list[Kernels]:
    return [kernels.Kernels(), *([kernels.kernels_for()] if kernels.numba_available() else [])]


def test_small_tables_do_not_load_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(kernels.kernels_for(kernels.WORTH_COMPILING - 1)) is kernels.Kernels
    monkeypatch.setattr(kernels, "numba_available", lambda: False)
    assert type(kernels.kernels_for()) is kernels.Kernels


def test_scratch_reuses_its_memory_and_grows() -> None:
    scratch = Scratch()
    first = scratch("a", (10,), np.float64)
    assert np.shares_memory(first, scratch("a", (2, 4), np.int32))
    assert not np.shares_memory(first, scratch("b", (10,), np.float64))
    assert scratch("a", (1000,), np.float64).shape == (1000,)
