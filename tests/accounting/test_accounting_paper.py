"""Theorem 1 as printed: the paper's table, its inverses, and no bag gained by rounding."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from labeldp.accounting.theorems import Answer, Theorem1

CENSUS = (131_903_910, (0.0, 51.0), 64.22)


@pytest.mark.parametrize(
    ("epsilon", "bags"), [(1, 247), (2, 988), (4, 3953), (6, 8894), (10, 24_706)]
)
def test_table_1_census(epsilon, bags):
    assert Theorem1(*CENSUS).max_bags(epsilon, 1e-8) == Answer(bags)


def test_criteo_lacks_rows_and_says_how_many():
    answer = Theorem1(1_732_721, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)
    assert answer.value == 0
    rows = int(answer.reason.split("needs ")[1].split(" rows")[0].replace(",", ""))
    assert 6_400_000 < rows < 6_600_000
    assert "has 1,732,721" in answer.reason
    assert Theorem1(rows, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5).value > 0
    assert Theorem1(rows - 1, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5).value == 0


def test_floor_at_an_exact_integer_neither_gains_nor_loses():
    """εγn/160B² is an exact integer of decimals here; in floats 0.03·32.8·… falls short."""
    for tenth in range(300, 400):  # εγn/160B² = 300ε with the minimum at 1
        epsilon = tenth / 10
        answer = Theorem1(1_600_000, (0.0, 2.0), 0.03).max_bags(epsilon, 0.5)
        assert answer.value == 30 * tenth


@settings(max_examples=60)
@given(st.floats(0.3, 12), st.floats(-25, -3).map(math.exp))
def test_inverses(epsilon, delta):
    bags = int(Theorem1(*CENSUS).max_bags(epsilon, delta).value)
    if bags == 0:
        return
    back = Theorem1(*CENSUS, bags).epsilon(delta).value
    assert back <= epsilon * (1 + 1e-12)
    assert Theorem1(*CENSUS).max_bags(back * (1 + 1e-12), delta).value >= bags
    assert Theorem1(*CENSUS, bags).answer(epsilon).value <= delta * (1 + 1e-10)
    again = Theorem1(*CENSUS, bags).answer(back).value
    assert again <= delta * (1 + 1e-9)


def test_impossible_questions_have_reasons():
    assert "rows" in Theorem1(100, (0.0, 51.0), 64.22, 1).epsilon(1e-8).reason
    assert Theorem1(100, (0.0, 51.0), 64.22, 1).epsilon(1e-8).value is None
    assert "needs 16 rows" in Theorem1(15, (0.0, 2.0), 1.0).max_bags(500.0, 0.5).reason
    assert "rows" in Theorem1(*CENSUS, 10**9).answer(0.01).reason
    assert "delta" in Theorem1(*CENSUS, 1).answer(1e-3).reason


def test_the_smallest_epsilon_needs_16_times_the_rows_and_no_more():
    """γn/B_Y² ≥ 16 is the theorem's condition; below it there is no ε at all."""
    short, enough = (Theorem1(rows, (0.0, 2.0), 1.0).epsilon(0.5) for rows in (15, 16))
    assert short.value is None
    assert "needs 16 rows" in short.reason
    assert enough.value > 0


@given(st.floats(0.01, 500), st.floats(-25, -0.01).map(math.exp))
def test_enough_rows_always_allow_a_bag(epsilon, delta):
    short = Theorem1(17, (0.0, 2.0), 1.0).max_bags(epsilon, delta)
    if short.reason:
        rows = int(short.reason.split("needs ")[1].split(" rows")[0].replace(",", ""))
        short = Theorem1(rows, (0.0, 2.0), 1.0).max_bags(epsilon, delta)
    assert short.value >= 1
