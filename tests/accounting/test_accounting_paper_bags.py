"""Theorems 2 and 3 with their constants: reference sizes, inverses, reasons, mended steps."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.theorems import Theorem2, Theorem3

CENSUS = (131_903_910, (0.0, 51.0), 64.22)
UNIT = (-1.0, 1.0)


def min_bag_size(*given, **more):
    """The smallest bag of Theorem 2."""
    budget = (more.pop("epsilon"), more.pop("delta")) if "epsilon" in more else given[-2:]
    return Theorem2(*(given if more else given[:-2]), **more).min_bag_size(*budget)


def delta3(label_range, noisy_fraction, bag_size, epsilon, bags=1, noise_std=1.0):
    return Theorem3(label_range, noisy_fraction, bag_size, bags, noise_std).least_delta(epsilon)


def min_bag_size3(label_range, noisy_fraction, epsilon, delta, bags=1, noise_std=1.0):
    law = Theorem3(label_range, noisy_fraction, bags=bags, noise_std=noise_std)
    return calibrate(law, "bag_size", epsilon, delta)


def terms(rows, width, eigenvalue, feature_bound, features, epsilon, delta):
    """The four terms of Theorem 2, by 40 digits."""
    mp.mp.dps = 40
    by, bx, eps, dl = (mp.mpf(str(x)) for x in (width / 2, feature_bound, epsilon, delta))
    q = (rows - 1) / (rows * mp.mpf(str(eigenvalue)) - by**2 - bx**2)
    spectral = 1 + 2 * q * (by**2 + bx**2) * mp.log((2 * features + 2) / dl) / (1 - mp.log(2))
    last = 1600 * by**2 * q * (mp.log(4 / dl) / (mp.mpf("0.145") * eps)) ** 2
    return mp.mpf(2), spectral, 640 * by**2 * q / eps, last


@pytest.mark.parametrize("feature_bound", [1.0, 121.73, 1000.0, 4300.0])
def test_census_needs_128_million_rows_whatever_the_feature_bound_up_to_4300(feature_bound):
    answer = min_bag_size(*CENSUS, feature_bound, 40, 1.0, 1e-5)
    assert f"{answer:.2e}" == "1.28e+08"
    want = max(terms(CENSUS[0], 51, 64.22, feature_bound, 40, 1, 1e-5))
    assert answer == mp.ceil(want)


def test_the_spectral_term_has_the_factor_of_the_matrix_chernoff_bound():
    """At half the mean (e^{−θ}/(1−θ)^{1−θ}) is (2/e)^{1/2}: the failure chance must be δ/2."""
    rows, bound, features, delta = 10**9, 20_000.0, 40, 1e-5
    k = min_bag_size(rows, (0.0, 51.0), 60.0, bound, features, 10.0, delta)
    both = 25.5**2 + bound**2
    mean = (k - 1) * (rows * 60.0 - both) / (rows - 1)
    failure = (features + 1) * math.exp(-mean / both * (0.5 + 0.5 * math.log(0.5)))
    assert delta / 2 * 0.999 < failure <= delta / 2
    assert failure > (features + 1) * (2 / math.e) ** (mean / both) * 1e3  # as printed


def theorem3(bag_size, rho, epsilon, bags=1, by=1):
    """δ of Theorem 3 by 40 digits, δ1 by bisection of its equation."""
    mp.mp.dps = 40
    k, rho = mp.mpf(bag_size), mp.mpf(str(rho))
    kappa = 4 * by / (mp.sqrt(rho) * k**0.25)

    def needed(log):  # ln(2/δ1)
        return kappa**2 + (2 + 2 * mp.sqrt(2)) * kappa * mp.sqrt(log) + 2 * kappa * log - epsilon

    first = 2 * mp.exp(-mp.findroot(needed, (mp.mpf("1e-9"), 1000), solver="anderson"))
    little = mp.exp(-rho * k * (2 * mp.log(2) - 1) / 8)
    large = k * mp.sqrt(2 / mp.pi) * mp.exp(-mp.sqrt(k) / 2)
    return first + bags * (little + mp.exp(-(rho**2) * k / 2) + large)


def test_theorem3_asks_for_75_billion_rows():
    answer = min_bag_size3(UNIT, 0.1, 1.0, 1e-5)
    assert f"{answer:.1e}" == "7.5e+10"
    assert theorem3(answer + 1, 0.1, 1) <= mp.mpf("1e-5")
    assert theorem3(answer - 2, 0.1, 1) > mp.mpf("1e-5")


@pytest.mark.parametrize(("k", "rho"), [(2000, 0.05), (400, 0.3), (100, 1.0)])
def test_what_is_rare_adds_up_over_bags(k, rho):
    """Hoeffding's e^{−2k(ρ/2)²}, Chernoff's (½e^{½})^{r/2} with half the rows, and a normal's tail,
    where none of them is next to nothing."""
    few = math.exp(-2 * k * (rho / 2) ** 2)
    little = (math.exp(0.5) / 2) ** (rho * k / 4)
    large = k * 2 * math.exp(-((k**0.25) ** 2) / 2) / math.sqrt(2 * math.pi)
    assert Theorem3(UNIT, rho, k, 3).rare == pytest.approx(3 * (few + little + large), rel=1e-9)


def test_little_noise_is_bounded_by_chernoff_and_not_by_the_printed_rate():
    """Pr[χ²_r ≤ r/2] at large r: above e^{−r/8}, below (½e^{½})^{r/2}."""
    mp.mp.dps = 40
    for r in (200, 1000):
        chance = mp.gammainc(mp.mpf(r) / 2, 0, mp.mpf(r) / 4, regularized=True)
        assert mp.exp(-mp.mpf(r) / 8) < chance < (mp.sqrt(mp.e) / 2) ** (mp.mpf(r) / 2)
    rare = delta3(UNIT, 1.0, 10**6, 1e9, noise_std=1e6)
    assert rare < 1e-200
