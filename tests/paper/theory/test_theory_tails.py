"""Concentration bounds: above what is simulated, exact where a closed form exists, not idle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from labeldp.errors import InputError
from labeldp_paper.theory.tails import (
    Tail,
    gaussian_squares_tail,
    hanson_wright_tail,
    hoeffding_tail,
    matrix_chernoff_tail,
    normal_tail,
    union,
)

DRAWS = 20_000


def frequency(events):
    """A frequency and four of its standard errors."""
    rate = float(np.mean(events))
    return rate, 4 * math.sqrt(max(rate, 1 / len(events)) / len(events))


def without_replacement(random, population, count):
    keys = random.random((DRAWS, len(population)))
    return population[np.argpartition(keys, count - 1, axis=1)[:, :count]]


@pytest.mark.parametrize("kind", ["normal", "coins", "heavy"])
@pytest.mark.parametrize("deviation", [0.05, 0.1, 0.15])
def test_hoeffding_without_replacement(kind, deviation):
    random = np.random.default_rng(1)
    population = {
        "normal": np.clip(0.5 + 0.2 * random.standard_normal(300), 0, 1),
        "coins": (np.arange(300) < 150).astype(float),
        "heavy": (np.arange(300) < 15).astype(float),
    }[kind]
    means = without_replacement(random, population, 60).mean(axis=1) - population.mean()
    both, error = frequency(np.abs(means) > deviation)
    above, above_error = frequency(means > deviation)
    bound = hoeffding_tail(60, 1.0, deviation)
    assert both - error <= bound.probability
    assert above - above_error <= hoeffding_tail(60, 1.0, deviation, sides=1).probability
    assert bound.log == pytest.approx(math.log(2) - 120 * deviation**2)


def test_hoeffding_needs_its_exponent():
    """With replacement the exponent cannot be doubled: 600 coins, far out, exactly."""
    exact = 2 * stats.binom.sf(360, 600, 0.5)
    assert exact <= hoeffding_tail(600, 1.0, 0.1).probability
    assert exact > hoeffding_tail(1200, 1.0, 0.1).probability


@pytest.mark.parametrize("shortfall", [0.3, 0.5, 0.7])
def test_matrix_chernoff_without_replacement(shortfall):
    """Rows of a fixed matrix, λ_min of the Gram matrix of a sample; d = 1 and d = 3."""
    random = np.random.default_rng(2)
    for table in (random.exponential(1.0, (200, 1)) ** 0.5, random.standard_normal((200, 3))):
        sample = without_replacement(random, table, 40)[:4000]
        smallest = np.linalg.eigvalsh(np.einsum("nki,nkj->nij", sample, sample))[:, 0]
        mean_min = float(np.linalg.eigvalsh(table.T @ table)[0]) * 40 / 200
        largest = float((table**2).sum(axis=1).max())
        rate, error = frequency(smallest <= (1 - shortfall) * mean_min)
        bound = matrix_chernoff_tail(table.shape[1], mean_min, largest, shortfall)
        assert rate - error <= bound.probability


def test_matrix_chernoff_at_half_is_the_root_of_two_over_e():
    """(2/e)^{μ/2R}; (2/e)^{μ/R} is below what 0-1 rows of a large population attain."""
    bound = matrix_chernoff_tail(1, 40.0, 1.0, 0.5)
    assert bound.log == pytest.approx(20.0 * math.log(2 / math.e))
    attained = stats.hypergeom.logcdf(20, 10**9, 10**5, 4 * 10**5)  # mean 40, half of it
    assert 40.0 * math.log(2 / math.e) < attained <= bound.log


@given(st.integers(1, 300), st.floats(0.02, 20))
def test_squares_of_equal_weights_against_chi_square(count, relative):
    deviation = relative * count
    exact = stats.chi2.sf(count + deviation, count) + stats.chi2.cdf(count - deviation, count)
    assert exact <= gaussian_squares_tail(count, 1.0, deviation).probability * (1 + 1e-12)


def test_squares_of_unequal_weights_by_simulation():
    random = np.random.default_rng(3)
    for v in (np.geomspace(1, 1e-3, 30), np.r_[5.0, np.full(200, 0.1)]):
        sums = (random.standard_normal((DRAWS, len(v))) ** 2 - 1) @ v
        for deviation in np.array([0.5, 2.0, 4.0, 8.0]) * np.linalg.norm(v):
            rate, error = frequency(np.abs(sums) > deviation)
            bound = gaussian_squares_tail(float(v @ v), float(v.max()), float(deviation))
            assert rate - error <= bound.probability


def test_one_half_is_no_constant_for_squares():
    """The paper's e^{−θ²r/2} for less than (1−θ)r, at θ = 1/2 and r = 1000: too small."""
    log_exact = stats.chi2.logcdf(500, 1000)
    assert log_exact > -1000 / 8
    assert log_exact <= gaussian_squares_tail(1000, 1.0, 500).log


def test_normal_tail():
    for threshold in (0.1, 0.5, 1.0, 3.0, 10.0):
        exact = 2 * stats.norm.sf(threshold)
        assert exact <= normal_tail(threshold).probability <= 1.0
    assert normal_tail(10.0).probability < 1.02 * 2 * stats.norm.sf(10.0)


def test_tails_add_in_log_space():
    assert union([Tail(-2000.0), Tail(-2000.0)]).log == pytest.approx(-2000.0 + math.log(2))
    assert union([Tail(math.log(0.25)), Tail(math.log(0.5))]).probability == pytest.approx(0.75)
    assert union([Tail(3.0), Tail(-1.0)]).vacuous
    assert Tail(3.0).probability == 1.0
    assert not Tail(-1e-9).vacuous
    assert Tail(-5.0).times(2.0) == Tail(-3.0)
    assert Tail(-math.log(1000)).log10 == pytest.approx(-3)
    assert union([Tail(-math.inf)]).probability == 0.0


def test_bad_arguments():
    with pytest.raises(InputError, match="shortfall"):
        matrix_chernoff_tail(3, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="sides"):
        hoeffding_tail(10, 1.0, 0.1, sides=3)
    with pytest.raises(InputError, match="deviation"):
        gaussian_squares_tail(1.0, 1.0, 0.0)


@pytest.mark.parametrize("deviation", [20.0, 60.0, 120.0])
def test_hanson_wright_is_above_what_is_simulated(deviation):
    """Signs (K = 1/√ln 2) and a matrix that is not diagonal; the frequency less four errors."""
    random = np.random.default_rng(4)
    matrix = random.normal(size=(30, 30))
    signs = random.choice([-1.0, 1.0], size=(DRAWS, 30))
    quadratic = np.einsum("di,ij,dj->d", signs, matrix, signs) - np.trace(matrix)
    rate, error = frequency(np.abs(quadratic) > deviation)
    bound = hanson_wright_tail(
        float(np.linalg.norm(matrix)), float(np.linalg.norm(matrix, 2)), deviation,
        1 / math.sqrt(math.log(2)),
    )  # fmt: skip
    assert rate - error <= bound.probability


def test_hanson_wright_with_unit_norm_is_the_lemma_for_squares():
    v = np.array([1.0, 2.0, 0.5])
    for t in (0.3, 3.0, 30.0):
        general = hanson_wright_tail(float(np.linalg.norm(v)), 2.0, t, 1.0)
        assert general.log == pytest.approx(gaussian_squares_tail(float(v @ v), 2.0, t).log)
    assert hanson_wright_tail(1.0, 1.0, 50.0, 2.0).log > hanson_wright_tail(1.0, 1.0, 50.0, 1.0).log
