"""How far the accountants look: within the limits an answer is found, beyond them there is none."""

from __future__ import annotations

import math

import pytest

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.limits import (
    LEAST_CLAIM,
    LEAST_DELTA,
    LEAST_GROUP_EPSILON,
    LEAST_LOG_FLOOR,
    LEAST_MU,
    LEAST_NOISY_FRACTION,
    LEAST_THEOREM1_FLOOR,
    LEAST_THEOREM3_NOISE,
    MOST_BAG_SIZE,
    MOST_BAGS,
    MOST_EPSILON,
    MOST_GROUP_EPSILON,
    MOST_LOG_FLOOR,
    MOST_LOG_NOISE,
    MOST_LOSS,
    MOST_MEAN_EPSILON,
    MOST_MU,
    MOST_NOISY_BAG_SIZE,
    MOST_PUBLISHED_BAGS,
    MOST_THEOREM2_EPSILON,
    MOST_THEOREM3_BAG_SIZE,
    MOST_THEOREM3_NOISE,
    MOST_TRIED_BAG_SIZE,
)
from labeldp.accounting.privacy_profile import GroupPrivacy, SearchRange
from labeldp.accounting.sketch import BagOfSizeProfile, DatasetBounds, SketchProfile
from labeldp.accounting.theorems import Theorem1, Theorem3
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.options import check_budget


def test_an_epsilon_is_looked_for_up_to_a_million():
    assert 8e5 < epsilon_at(GaussianProfile(1280.0), 1e-6) < MOST_EPSILON == 1e6
    assert epsilon_at(GaussianProfile(1500.0), 1e-6) == math.inf


def test_a_mu_is_looked_for_between_1e_12_and_a_million():
    assert calibrate(GaussianProfile(1.0), "mu", 4e11, 0.5) == pytest.approx(
        math.sqrt(8e11), rel=1e-3
    )
    assert (LEAST_MU, MOST_MU) == (1e-12, 1e6)


def test_steps_are_looked_for_from_a_millionth_to_ten_thousand():
    assert epsilon_at(GroupPrivacy(GaussianProfile(1e-9), 2), 0.1) == LEAST_GROUP_EPSILON == 1e-6
    assert MOST_GROUP_EPSILON == 1e4
    assert MOST_MEAN_EPSILON == 1e5


def test_bags_are_counted_up_to_a_million_million():
    huge = SketchProfile(DatasetBounds(10**15, (0.0, 1.0)), 1, 1e30)
    assert calibrate(huge, "bags", 1.0, 1e-6) == MOST_BAGS == 10**12
    assert MOST_PUBLISHED_BAGS == 10**7


def test_bags_have_up_to_a_million_million_rows():
    assert MOST_BAG_SIZE == 10**12
    small = BagOfSizeProfile((0.0, 1.0), 1e-8)
    assert 1e8 < calibrate(small, "bag_size", 1.0, 1e-6) < 1e12
    with pytest.raises(PlanError, match="no bag size makes a bag private"):
        calibrate(BagOfSizeProfile((0.0, 1.0), 1e-11), "bag_size", 1.0, 1e-6)
    assert MOST_NOISY_BAG_SIZE == 10**9


def test_theorem_3_looks_for_bags_of_up_to_1e_18_rows():
    """κ = 2Δ/k^{1/4} must be about 1/40."""
    far = Theorem3((0.0, 300.0), 1.0)
    assert 1e17 < calibrate(far, "bag_size", 1.0, 1e-5) < MOST_THEOREM3_BAG_SIZE == 10**18
    with pytest.raises(PlanError, match=r"Theorem 3 needs bags of more than 1e\+18 rows here"):
        calibrate(Theorem3((0.0, 600.0), 1.0), "bag_size", 1.0, 1e-5)


def test_noise_is_looked_for_within_thirty_powers_of_e_and_theorem_2_up_to_ten():
    assert MOST_LOG_NOISE == 30.0
    assert MOST_THEOREM2_EPSILON == 10


def test_no_claim_is_below_the_smallest_and_no_budget_below_its_own():
    assert GaussianProfile(1e-9).delta(1.0).upper == LEAST_CLAIM == 1e-300
    check_budget(MOST_EPSILON, LEAST_DELTA)
    assert LEAST_DELTA == 1e-100
    for epsilon, delta in ((MOST_EPSILON * (1 + 1e-9), 0.1), (1.0, LEAST_DELTA * (1 - 1e-9))):
        with pytest.raises(InputError, match="must be at"):
            check_budget(epsilon, delta)


def test_floors_are_looked_for_between_e_60_and_e_120_squared_widths():
    sketch = SketchProfile(DatasetBounds(10**6, (0.0, 1.0)), 4).parameter_search("floor", 1.0, 1e-6)
    assert isinstance(sketch, SearchRange)
    assert (sketch.low, sketch.high) == (LEAST_LOG_FLOOR, MOST_LOG_FLOOR) == (-60.0, 120.0)
    theorem = Theorem1(10**6, (0.0, 2.0), 1.0).parameter_search("floor", 1.0, 1e-6)
    assert isinstance(theorem, SearchRange)
    assert (theorem.low, theorem.high) == (4.0 * LEAST_THEOREM1_FLOOR, math.inf) == (4e-6, math.inf)


def test_noise_and_noisy_rows_are_looked_for_as_far_as_doubles_and_theorem_3_go():
    fractions = RandomWeightsProfile(100, (0.0, 2.0), 0.5).parameter_search(
        "noisy_fraction", 1.0, 1e-6
    )
    assert isinstance(fractions, SearchRange)
    assert (fractions.low, fractions.high) == (LEAST_NOISY_FRACTION, 1.0) == (1e-300, 1.0)
    noise = Theorem3((0.0, 2.0), 0.5).parameter_search("noise_std", 1.0, 1e-6)
    assert isinstance(noise, SearchRange)
    assert (LEAST_THEOREM3_NOISE, MOST_THEOREM3_NOISE) == (1e-3, 1e9)
    assert (noise.low, noise.high) == (2e-3, 2e9)


def test_what_plans_try_and_what_a_loss_in_points_reaches():
    assert MOST_TRIED_BAG_SIZE == 16384
    assert MOST_LOSS == 64.0
