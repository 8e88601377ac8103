"""The mean of δ(ε; μ) over a random μ: high precision, monotone sums, laws of the counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from labeldp.accounting import gaussian, weighted_bags

# E[δ(ε; 2·share)] with the number of other noisy rows Binomial(k−1, ρ), by 30-digit quadrature
# of the density of t_r (a row without noise; with noise for ρ = 1) and of the binomial sum.
REFERENCES = [
    (244, 1.0, 1, "1.00389575826e-5"), (245, 1.0, 1, "9.85177592877e-6"),
    (21, 1.0, 4, "1.16347569491e-5"), (22, 1.0, 4, "9.11408306599e-6"),
    (68, 0.5, 4, "1.09766136627e-5"), (69, 0.5, 4, "9.95390301745e-6"),
    (355, 0.1, 4, "1.01236891882e-5"), (356, 0.1, 4, "9.9314656395e-6"),
    (508, 0.5, 1, "1.00771035422e-5"), (509, 0.5, 1, "9.98427590181e-6"),
    (2550, 0.1, 1, "1.001350814e-5"), (2551, 0.1, 1, "9.99502594336e-6"),
]  # fmt: skip


@pytest.mark.parametrize(("bag_size", "rho", "epsilon", "want"), REFERENCES)
def test_against_30_digits(bag_size, rho, epsilon, want):
    counts = weighted_bags.binomial(bag_size - 1, rho)
    bounds = weighted_bags.mean_delta(2.0, epsilon, counts, row_is_noisy=rho == 1.0)
    assert bounds.estimate == pytest.approx(float(want), rel=2e-11, abs=0.0)
    assert bounds.lower <= float(want) <= bounds.upper <= bounds.lower * (1 + 3e-9)


def monotone_sums(scale, epsilon, counts, noisy, cells):
    """The slow obvious way: μ in cells, δ at their ends, probabilities from t or Beta."""
    top = scale if noisy else 60.0
    mu = np.concatenate([[0.0], np.geomspace(1e-6, top, cells)])
    exceed = np.zeros_like(mu)
    for r, weight in enumerate(counts[1], counts[0]):
        if noisy:
            exceed += weight * stats.beta.sf((mu / scale) ** 2, 0.5, r / 2)
        else:
            exceed += weight * 2 * stats.t.sf(mu / scale * math.sqrt(r), r)
    delta = np.array([gaussian.delta(epsilon, float(m)) for m in mu])
    chance = -np.diff(exceed)
    return float(chance @ delta[:-1]), float(chance @ delta[1:] + exceed[-1])


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("draws", "rate", "scale"), [(40, 0.5, 2.0), (120, 0.2, 5.0)])
def test_between_monotone_sums(draws, rate, scale, noisy):
    lowest, weights = weighted_bags.binomial(draws, rate)
    # without the empty bag, which the sums do not know
    counts = max(1, lowest), weights[1 if lowest == 0 else 0 :]
    low, high = monotone_sums(scale, 1.5, counts, noisy, 4_000)
    bounds = weighted_bags.mean_delta(scale, 1.5, counts, noisy)
    assert low <= bounds.lower <= bounds.upper <= high < 1.02 * low


@pytest.mark.parametrize(("draws", "rate"), [(5, 0.3), (2550, 0.1), (10**7, 1e-6), (10**8, 0.5)])
def test_binomial_counts(draws, rate):
    lowest, weights = weighted_bags.binomial(draws, rate)
    r = lowest + np.arange(len(weights))
    want = stats.binom.pmf(r, draws, rate)
    np.testing.assert_allclose(weights, want, rtol=2e-6, atol=1e-25)
    mean = math.fsum(weights * r)
    assert mean == pytest.approx(draws * rate, rel=1e-12)


def test_extreme_numbers_stay_sane():
    many = weighted_bags.binomial(10**6, 0.5)
    for scale, epsilon in ((1e-6, 1.0), (1e6, 1.0), (2.0, 0.0), (2.0, 50.0), (300.0, 1e4)):
        for noisy in (False, True):
            bounds = weighted_bags.mean_delta(scale, epsilon, many, noisy)
            assert 0.0 <= bounds.lower <= bounds.estimate <= bounds.upper <= 1.0
            assert bounds.upper > 0.0
    assert weighted_bags.mean_delta(2.0, 50.0, many, False).upper < 1e-30
    assert weighted_bags.mean_delta(1e6, 1.0, many, False).lower > 0.99


@pytest.mark.parametrize(
    ("draws", "rate"), [(200, 0.5), (2550, 0.1), (20_000, 0.998), (10**6, 1e-3), (10**6, 0.5)]
)
def test_counts_that_are_left_out_are_as_rare_as_the_claim_allows(draws, rate):
    lowest, weights = weighted_bags.binomial(draws, rate)
    law = stats.binom(draws, rate)
    beyond = law.cdf(lowest - 1) + law.sf(lowest + len(weights) - 1)
    assert beyond <= weighted_bags._LOST


def test_the_claim_allows_for_what_is_left_out():
    """By Bernstein's inequality, at any spread; and δ says so where nothing else is left."""
    spread = np.geomspace(1e-6, 1e6, 2000)
    reach = weighted_bags._DEVIATIONS * spread + weighted_bags._EXTRA
    bound = 2 * np.exp(-(reach**2) / (2 * spread**2 + 2 * reach / 3))
    assert bound.max() <= weighted_bags._LOST
    law = weighted_bags.RandomWeightsProfile(1000, (0.0, 1.0), 0.5, 1e6)
    assert law.delta(50.0).upper >= weighted_bags._LOST
