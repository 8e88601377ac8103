"""The paper's theorems: its table, reference sizes, slips that were corrected, no bag gained."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.theorems import Theorem1, Theorem2, Theorem3
from labeldp.errors import PlanError

CENSUS = (131_903_910, (0.0, 51.0), 64.22)
UNIT = (-1.0, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "bags"), [(1, 247), (2, 988), (4, 3953), (6, 8894), (10, 24_706)]
)
def test_table_1_census(epsilon, bags):
    assert Theorem1(*CENSUS).max_bags(epsilon, 1e-8) == bags


def test_criteo_lacks_rows_and_says_how_many():
    with pytest.raises(PlanError, match="has 1,732,721") as refusal:
        Theorem1(1_732_721, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)
    rows = int(str(refusal.value).split("needs ")[1].split(" rows")[0].replace(",", ""))
    assert 6_400_000 < rows < 6_600_000
    assert Theorem1(rows, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5) > 0
    with pytest.raises(PlanError):
        Theorem1(rows - 1, (0.0, 254.0), 195.5).max_bags(6.0, 1e-5)


def test_floor_at_an_exact_integer_neither_gains_nor_loses():
    """εγn/160B² is an exact integer of decimals here; in floats 0.03·32.8·… falls short."""
    for tenth in range(300, 400):  # εγn/160B² = 300ε with the minimum at 1
        epsilon = tenth / 10
        answer = Theorem1(1_600_000, (0.0, 2.0), 0.03).max_bags(epsilon, 0.5)
        assert answer == 30 * tenth


@pytest.mark.parametrize("feature_bound", [1.0, 121.73, 1000.0, 4300.0])
def test_census_needs_128_million_rows_whatever_the_feature_bound_up_to_4300(feature_bound):
    size = Theorem2(*CENSUS, feature_bound, 40).min_bag_size(1.0, 1e-5)
    assert f"{size:.2e}" == "1.28e+08"


def test_the_spectral_term_has_the_factor_of_the_matrix_chernoff_bound():
    """At half the mean (e^{−θ}/(1−θ)^{1−θ}) is (2/e)^{1/2}: the failure chance must be δ/2."""
    rows, bound, features, delta = 10**9, 20_000.0, 40, 1e-5
    k = Theorem2(rows, (0.0, 51.0), 60.0, bound, features).min_bag_size(10.0, delta)
    both = 25.5**2 + bound**2
    mean = (k - 1) * (rows * 60.0 - both) / (rows - 1)
    failure = (features + 1) * math.exp(-mean / both * (0.5 + 0.5 * math.log(0.5)))
    assert delta / 2 * 0.999 < failure <= delta / 2
    assert failure > (features + 1) * (2 / math.e) ** (mean / both) * 1e3  # as printed


def test_theorem3_asks_for_75_billion_rows():
    size = calibrate(Theorem3(UNIT, 0.1), "bag_size", 1.0, 1e-5)
    assert f"{size:.1e}" == "7.5e+10"
    assert Theorem3(UNIT, 0.1, int(size)).least_delta(1.0) <= 1e-5
    assert Theorem3(UNIT, 0.1, int(size) - 1).least_delta(1.0) > 1e-5


def test_little_noise_is_bounded_by_chernoff_and_not_by_the_printed_rate():
    """Pr[χ²_r ≤ r/2] at large r: above e^{−r/8}, below (½e^{½})^{r/2}."""
    mp.mp.dps = 40
    for r in (200, 1000):
        chance = mp.gammainc(mp.mpf(r) / 2, 0, mp.mpf(r) / 4, regularized=True)
        assert mp.exp(-mp.mpf(r) / 8) < chance < (mp.sqrt(mp.e) / 2) ** (mp.mpf(r) / 2)
    assert Theorem3(UNIT, 1.0, 10**6, 1, 1e6).least_delta(1e9) < 1e-200
