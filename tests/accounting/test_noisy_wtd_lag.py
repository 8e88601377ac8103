"""sampled-noisy-wtd-LAg: smallest bags, inverses, and simulated bags, weights and noise."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labeldp.accounting import gaussian, weighted_bags
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import SubsampledProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile, realised_mu
from labeldp.errors import InputError, PlanError

UNIT = (-1.0, 1.0)


def delta_of(facts, epsilon, chance=1.0):
    return SubsampledProfile(facts, chance).delta(epsilon)


def epsilon_of(facts, delta, chance=1.0):
    return epsilon_at(SubsampledProfile(facts, chance), delta)


def min_bag_size(label_range, noisy_fraction, epsilon, delta, noise_std=1.0):
    def is_private(rows):
        law = RandomWeightsProfile(rows, label_range, noisy_fraction, noise_std)
        return law.delta(epsilon).upper <= delta

    return 1 + bisect_left(range(1, 10**6), True, key=is_private)


def min_noise_std(facts, epsilon, delta):
    return calibrate(facts, "noise_std", epsilon, delta)


def realised(mu, chance=1.0):
    return SubsampledProfile(GaussianProfile(float(np.max(mu))), chance)


@pytest.mark.parametrize(
    ("rho", "epsilon", "bag_size"),
    [(0.1, 1, 2551), (0.1, 4, 356), (0.5, 1, 509), (0.5, 4, 69), (1.0, 1, 245), (1.0, 4, 22)],
)
def test_smallest_bags(rho, epsilon, bag_size):
    """At ε = 1 earlier figures were 2,560, 512 and 248; 30 digits say these (test_…_random_mu)."""
    assert min_bag_size(UNIT, rho, epsilon, 1e-5) == bag_size
    assert min_bag_size((0.0, 20.0), rho, epsilon, 1e-5, noise_std=10) == bag_size


def test_labels_of_criteo_have_no_useful_epsilon():
    """Unit noise on a tenth of the labels, range 254: no ε worth the name for small bags."""
    assert epsilon_of(RandomWeightsProfile(32, (0.0, 254.0), 0.1), 1e-5) == math.inf
    assert epsilon_of(RandomWeightsProfile(256, (0.0, 254.0), 0.1), 1e-5) > 1e4


@settings(max_examples=6)
@given(
    st.floats(0.3, 5), st.floats(-16, -5).map(math.exp), st.sampled_from([0.2, 0.6, 1.0]),
    st.floats(0.01, 1),
)  # fmt: skip
def test_answers_are_inverse_and_private(epsilon, delta, rho, chance):
    found = min_bag_size(UNIT, rho, epsilon, delta)
    facts = RandomWeightsProfile(found, UNIT, rho)
    assert delta_of(facts, epsilon).upper <= delta
    if found > 1:
        fewer = delta_of(replace(facts, bag_size=found - 1), epsilon)
        assert fewer.upper > delta
    smallest = epsilon_of(facts, delta, chance)
    assert smallest <= epsilon
    assert delta_of(facts, smallest, chance).upper <= delta
    if smallest > 0:
        assert delta_of(facts, smallest * 0.999, chance).upper > delta
    std = min_noise_std(facts, epsilon, delta)
    assert std <= 1.0 + 1e-9
    assert delta_of(replace(facts, noise_std=std), epsilon).upper <= delta
    assert delta_of(replace(facts, noise_std=std * 0.999), epsilon).upper > delta


def simulate(random, facts, noisy_row, draws):
    """μ of the first row of a bag, from weights and coins of noisy rows drawn."""
    noisy = random.random((draws, facts.bag_size)) < facts.noisy_fraction
    noisy[:, 0] = noisy_row
    weights = random.standard_normal(noisy.shape)
    noise = (weights**2 * noisy).sum(axis=1)
    with np.errstate(divide="ignore"):
        mu = np.abs(weights[:, 0]) * facts.width / (facts.noise_std * np.sqrt(noise))
    return mu, weights, noisy


@pytest.mark.parametrize("noisy_row", [False, True])
def test_simulated_bags_agree_with_the_a_priori_law(noisy_row):
    """60,000 draws, four deviations; one noisy row more or fewer would be seen."""
    random, facts, epsilon = (
        np.random.default_rng(5),
        RandomWeightsProfile(9, UNIT, 0.5),
        1.0,
    )
    mu = simulate(random, facts, noisy_row, 60_000)[0]
    delta = np.ones(len(mu))
    seen = np.isfinite(mu)
    delta[seen] = [gaussian.delta(epsilon, float(m)) for m in mu[seen]]
    mean, error = delta.mean(), 4 * delta.std() / math.sqrt(len(delta))

    def law(shift):
        lowest, weights = weighted_bags.binomial(8, 0.5)
        return weighted_bags.mean_delta(2.0, epsilon, (lowest + shift, weights), noisy_row)

    right = law(0)
    assert right.lower - error <= mean <= right.upper + error
    for wrong in (
        law(1),
        weighted_bags.mean_delta(2.0, epsilon, (3, np.ones(1)), noisy_row),
    ):
        assert not wrong.lower - error <= mean <= wrong.upper + error
    claim = delta_of(facts, epsilon)
    assert mean - error <= claim.upper
    kinds = [
        weighted_bags.mean_delta(2.0, epsilon, weighted_bags.binomial(8, 0.5), kind)
        for kind in (False, True)
    ]
    assert claim == max(kinds, key=lambda bounds: bounds.upper) == kinds[0]


def test_simulated_releases_have_the_realised_loss():
    """Noise drawn for bags as published: the loss of both neighbours, both directions."""
    random, facts = np.random.default_rng(6), RandomWeightsProfile(40, UNIT, 0.3, 0.7)
    _, weights, noisy = simulate(random, facts, False, 4)
    mu = realised_mu(weights, noisy, 2.0, 0.7)
    assert mu.shape == (4,)
    bag = int(np.argmax(mu))
    row = int(np.argmax(np.abs(weights[bag])))
    noise = random.standard_normal((200_000, int(noisy[bag].sum()))) * 0.7
    std = 0.7 * math.sqrt(np.sum(weights[bag][noisy[bag]] ** 2))
    labels = random.uniform(-1, 1, 40)
    labels[row] = 1.0
    other = labels.copy()
    other[row] = -1.0
    for first, second in ((labels, other), (other, labels)):
        released = weights[bag] @ first + noise @ weights[bag][noisy[bag]]
        loss = _log(released, weights[bag] @ first, std) - _log(
            released, weights[bag] @ second, std
        )
        gains = np.maximum(0.0, -np.expm1(0.5 - loss))
        mean, error = gains.mean(), 4 * gains.std() / math.sqrt(len(gains))
        claim = realised(mu).delta(0.5).upper
        assert claim - error <= mean <= claim + error
        assert realised(0.9 * mu).delta(0.5).upper < mean - error


def _log(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2


def test_what_cannot_be_done_says_so():
    with pytest.raises(InputError, match="noisy_fraction"):
        RandomWeightsProfile(10, UNIT, 1.01)
    with pytest.raises(InputError, match="bag_size"):
        RandomWeightsProfile(10**9 + 1, UNIT, 0.5)
    with pytest.raises(PlanError, match=r"no noise std is private: δ is 0.0382 at best"):
        min_noise_std(RandomWeightsProfile(32, UNIT, 0.1), 1.0, 1e-5)
