"""Roots and ends of decreasing functions, wherever the search starts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting.invert import root

PLACES = st.floats(-50.0, 700.0)


@given(PLACES, PLACES)
def test_a_root_is_found_from_any_start(place, start):
    found = root(lambda x: math.atan(place - x), -50.0, 700.0, start)
    assert found == pytest.approx(place, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("start", [0.0, 0.3, 1.0, 9.0, 10.0])
def test_without_a_root_the_end_towards_it_is_returned(start):
    assert root(lambda x: 1.0 + x, 0.0, 10.0, start) == 10.0
    assert root(lambda x: -1.0 - x, 0.0, 10.0, start) == 0.0


def test_few_values_are_needed():
    asked = []

    def gap(x: float) -> float:
        asked.append(x)
        return 3.0 - x - 0.1 * x * x

    root(gap, 0.0, 1e6, 1.0)
    assert len(asked) < 15
