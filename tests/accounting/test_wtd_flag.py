"""The exact accountant: published tables to the unit, inverses, the private side."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.sketch import MOST_BAGS, DatasetBounds, SketchProfile
from labeldp.errors import InputError, PlanError

CENSUS, CENSUS_FLOOR = DatasetBounds(131_903_910, (0.0, 51.0)), 64.22 * 131_903_910
CRITEO, CRITEO_FLOOR = DatasetBounds(1_732_721, (0.0, 254.0)), 195.5 * 1_732_721
EXAMPLE = DatasetBounds(100_000, (-1.0, 1.0), features=20, max_leverage=60 / 100_000)


def delta_of(facts, bags, floor, epsilon, mu=0.0, slack=0.0):
    return SketchProfile(facts, bags, floor, mu, slack).delta(epsilon)


def epsilon_of(facts, bags, floor, delta, mu=0.0, slack=0.0):
    return epsilon_at(SketchProfile(facts, bags, floor, mu, slack), delta)


def max_bags(facts, floor, epsilon, delta, mu=0.0, slack=0.0):
    return calibrate(SketchProfile(facts, 1, floor, mu, slack), "bags", epsilon, delta)


def min_floor(facts, bags, epsilon, delta, mu=0.0, slack=0.0):
    return calibrate(SketchProfile(facts, bags, 1.0, mu, slack), "floor", epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "bags"), [(1, 61_364), (2, 228_839), (6, 1_735_265), (10, 4_279_111)]
)
def test_census_table(epsilon, bags):
    assert max_bags(CENSUS, CENSUS_FLOOR, epsilon, 1e-8) == bags


@pytest.mark.parametrize(("epsilon", "bags"), [(1, 140), (2, 557), (6, 4_154), (10, 9_884)])
def test_criteo_table(epsilon, bags):
    assert max_bags(CRITEO, CRITEO_FLOOR, epsilon, 1e-5) == bags


def test_public_features_example():
    """Theory 3e: worst case 123. Its 21,000 put the largest u and largest v in one pair."""
    unknown = DatasetBounds(EXAMPLE.rows, EXAMPLE.label_range)
    assert max_bags(unknown, 25_000.0, 1.0, 1e-6) == 123
    assert max_bags(EXAMPLE, 25_000.0, 1.0, 1e-6) == 41_984


def smallest_bag(leverage_factor):
    """Rows a single bag needs when σ² ≥ 64.22 per row; leverage is a multiple of d/k."""
    low, high = 100, 100_000
    while high - low > 1:
        rows = (low + high) // 2
        leverage = None if leverage_factor is None else leverage_factor * 40 / rows
        facts = DatasetBounds(rows, (0.0, 51.0), 40, leverage)
        private = delta_of(facts, 1, 64.22 * rows, 1.0).upper <= 1e-5
        low, high = (low, rows) if private else (rows, high)
    return high


def test_smallest_private_bag():
    """Theory 4 says 10,320; 50 digits say δ(10,320) = 1.00016e-5 and δ(10,321) = 0.99970e-5."""
    assert smallest_bag(None) == 10_321
    assert 3_700 < smallest_bag(3.0) < 3_900


budgets = st.tuples(st.floats(0.1, 8), st.floats(-25, -4).map(math.exp))


@settings(max_examples=12)
@given(budgets, st.booleans(), st.sampled_from([(0.0, 0.0), (0.05, 0.1)]))
def test_answers_are_inverse_and_private(budget, public, measured):
    epsilon, delta = budget
    facts, floor = (EXAMPLE if public else CENSUS), (25_000.0 if public else CENSUS_FLOOR)
    extra = (measured[0] * epsilon / 3, measured[1] * delta)
    bags = max_bags(facts, floor, epsilon, delta, *extra)
    assert bags > 0
    assert delta_of(facts, bags, floor, epsilon, *extra).upper <= delta
    assert delta_of(facts, bags + 1, floor, epsilon, *extra).upper > delta
    lowest = min_floor(facts, bags, epsilon, delta, *extra)
    assert lowest <= floor
    assert delta_of(facts, bags, lowest, epsilon, *extra).upper <= delta
    assert delta_of(facts, bags, lowest * (1 - 1e-7), epsilon, *extra).upper > delta
    smallest = epsilon_of(facts, bags, lowest, delta, *extra)
    assert smallest == pytest.approx(epsilon, rel=1e-7, abs=0.0)
    assert delta_of(facts, bags, lowest, smallest, *extra).upper <= delta


def test_measurement_and_slack_cost():
    plain = delta_of(CENSUS, 50_000, CENSUS_FLOOR, 1.0)
    measured = delta_of(CENSUS, 50_000, CENSUS_FLOOR, 1.0, mu=0.05)
    with_slack = delta_of(CENSUS, 50_000, CENSUS_FLOOR, 1.0, mu=0.05, slack=1e-9)
    assert measured.lower > plain.upper
    assert with_slack.upper == pytest.approx(measured.upper + 1e-9, rel=1e-12, abs=0.0)


def test_what_cannot_be_done_says_so():
    assert epsilon_of(CENSUS, 10, 50.0**2, 1e-8) == math.inf  # τ > 1
    assert epsilon_of(CENSUS, 10, CENSUS_FLOOR, 1e-8, slack=1e-8) == math.inf
    assert max_bags(CENSUS, 52.0**2, 1.0, 1e-8) == 0
    with pytest.raises(PlanError, match="measuring the floor"):
        min_floor(CENSUS, 10, 1.0, 1e-8, mu=1.0)
    with pytest.raises(InputError, match="delta"):
        max_bags(CENSUS, CENSUS_FLOOR, 1.0, 0.0)
    with pytest.raises(InputError, match="floor"):
        delta_of(CENSUS, 1, 0.0, 1.0)
    with pytest.raises(InputError, match="max_leverage"):
        DatasetBounds(100, (0.0, 1.0), features=20, max_leverage=0.1)
    with pytest.raises(InputError, match="label_range"):
        DatasetBounds(100, (1.0, 1.0))


def test_a_huge_floor_buys_the_cap():
    assert max_bags(CENSUS, 1e30, 1.0, 1e-6) == MOST_BAGS


def test_uncentred_labels_cost_bags():
    shifted = DatasetBounds(100_000, (9.0, 11.0), 20, 60 / 100_000)
    uncentred = DatasetBounds(100_000, (9.0, 11.0), 20, 60 / 100_000, centred=False)
    centred_bags = max_bags(shifted, 25_000.0, 1.0, 1e-6)
    assert centred_bags == max_bags(EXAMPLE, 25_000.0, 1.0, 1e-6)
    assert max_bags(uncentred, 25_000.0, 1.0, 1e-6) < centred_bags / 10
