"""Codes of numbers on their grid, value by value."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from labeldp.features.columns import NumericColumn


def column(exponent: int, centre: int, **options: Any) -> NumericColumn:
    """A column of this grid; its range and the mean are of no account."""
    fields = {"fill": 0, "scale": 1.0, "low": 0.0, "high": 1.0, "missing": 0, "indicator": False}
    return NumericColumn("x", exponent, centre, **(fields | options))


@given(
    st.lists(st.floats(-1e9, 1e9), max_size=40),
    st.integers(-60, 20),
    st.integers(-(2**52), 2**52),
    st.sampled_from([None, np.nan, np.inf, -np.inf]),
)
@settings(max_examples=60)
def test_grids_round_half_to_even(
    some: list[float], power: int, centre: int, odd: float | None
) -> None:
    values = np.array([*some, 0.5, 1.5, -0.5, *([] if odd is None else [odd])])
    out = np.empty_like(values)
    column(power, centre).write_codes(out, values)
    want = [float(round(v * 2.0**-power)) - float(centre) for v in values if np.isfinite(v)]
    assert out[np.isfinite(values)].tolist() == want
    assert np.isnan(out).tolist() == np.isnan(values).tolist()


@given(st.lists(st.floats(allow_nan=True), max_size=40), st.integers(-9, 9), st.integers(0, 9))
@settings(max_examples=60)
def test_grids_move_codes_into_a_range(some: list[float], low: int, width: int) -> None:
    values, ends = np.array([*some, 0.5, -9.5, 1e308]), (low, low + width)
    with np.errstate(over="ignore"):
        moved = np.clip(np.rint(values * 4.0), *map(float, ends)) - 7.0
    out = np.empty_like(values)
    winsorised = column(-2, 7, low=ends[0] / 4, high=ends[1] / 4, winsorised=True)
    assert winsorised.ends == ends
    winsorised.write_codes(out, values)
    np.testing.assert_array_equal(out, moved)
