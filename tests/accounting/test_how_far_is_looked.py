"""How far the accountants look: within the limits an answer is found, beyond them there is none."""

from __future__ import annotations

import math

import pytest

from labeldp.accounting import Facts, Gaussian, SizedBag, Sketch, Steps, Theorem3, invert
from labeldp.accounting.limits import (
    LEAST_GROUP_EPSILON,
    LEAST_MU,
    MOST_BAG_SIZE,
    MOST_BAGS,
    MOST_EPSILON,
    MOST_GROUP_EPSILON,
    MOST_LOG_NOISE,
    MOST_MEAN_EPSILON,
    MOST_MU,
    MOST_NOISY_BAG_SIZE,
    MOST_PUBLISHED_BAGS,
    MOST_THEOREM2_EPSILON,
    MOST_THEOREM3_BAG_SIZE,
)
from labeldp.errors import PlanError


def test_an_epsilon_is_looked_for_up_to_a_million():
    assert 8e5 < invert.epsilon(Gaussian(1280.0), 1e-6) < MOST_EPSILON == 1e6
    assert invert.epsilon(Gaussian(1500.0), 1e-6) == math.inf


def test_a_mu_is_looked_for_between_1e_12_and_a_million():
    assert invert.limit(Gaussian(1.0), "mu", 4e11, 0.5) == pytest.approx(math.sqrt(8e11), rel=1e-3)
    assert (LEAST_MU, MOST_MU) == (1e-12, 1e6)


def test_steps_are_looked_for_from_a_millionth_to_ten_thousand():
    assert invert.epsilon(Steps(Gaussian(1e-9), 2), 0.1) == LEAST_GROUP_EPSILON == 1e-6
    assert MOST_GROUP_EPSILON == 1e4
    assert MOST_MEAN_EPSILON == 1e5


def test_bags_are_counted_up_to_a_million_million():
    huge = Sketch(Facts(10**15, (0.0, 1.0)), 1, 1e30)
    assert invert.limit(huge, "bags", 1.0, 1e-6) == MOST_BAGS == 10**12
    assert MOST_PUBLISHED_BAGS == 10**7


def test_bags_have_up_to_a_million_million_rows():
    assert MOST_BAG_SIZE == 10**12
    small = SizedBag((0.0, 1.0), 1e-8)
    assert 1e8 < invert.limit(small, "bag_size", 1.0, 1e-6) < 1e12
    with pytest.raises(PlanError, match="no bag size makes a bag private"):
        invert.limit(SizedBag((0.0, 1.0), 1e-11), "bag_size", 1.0, 1e-6)
    assert MOST_NOISY_BAG_SIZE == 10**9


def test_theorem_3_looks_for_bags_of_up_to_1e_18_rows():
    """κ = 2Δ/k^{1/4} must be about 1/40."""
    far = Theorem3((0.0, 300.0), 1.0)
    assert 1e17 < invert.limit(far, "bag_size", 1.0, 1e-5) < MOST_THEOREM3_BAG_SIZE == 10**18
    with pytest.raises(PlanError, match=r"Theorem 3 needs bags of more than 1e\+18 rows here"):
        invert.limit(Theorem3((0.0, 600.0), 1.0), "bag_size", 1.0, 1e-5)


def test_noise_is_looked_for_within_thirty_powers_of_e_and_theorem_2_up_to_ten():
    assert MOST_LOG_NOISE == 30.0
    assert MOST_THEOREM2_EPSILON == 10
