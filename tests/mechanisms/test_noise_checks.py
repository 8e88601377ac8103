"""The tests of published noise: no honest labels fail them more often than they say.

Their probability of error is raised to 5 % here, where it can be seen; labels are chosen so that
the bounds are tight.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp.mechanisms import checks
from labeldp.mechanisms.checks import (
    LAPLACE_TAILS,
    NORMAL_TAILS,
    NoisyLabels,
    check_bag_labels,
    check_noise,
    check_repeats,
)

Reals = NDArray[np.float64]
LEVEL = 0.05
DRAWS = 100
MOST = stats.binom.isf(1e-7, DRAWS, LEVEL)
"""Alarms of one test at this level, but for a probability of 1e-7."""
LAWS = {"laplace": (LAPLACE_TAILS, stats.laplace), "gaussian": (NORMAL_TAILS, stats.norm)}


def grid_of(scale: float) -> int:
    return math.floor(math.log2(scale)) - 10


def on_grid(values: Reals, grid: int) -> Reals:
    return np.rint(values * 2.0**-grid) * 2.0**grid


@pytest.fixture
def _raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "CHANCE", LEVEL)
    monkeypatch.setattr(checks, "SCALE_CHANCE", LEVEL)


@pytest.mark.usefixtures("_raised")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("width", [0.001, 1.3, 6.0])
@pytest.mark.parametrize("labels", ["low", "middle", "high", "ends", "even"])
def test_honest_labels_fail_no_test_more_often_than_its_level(
    law: str, width: float, labels: str
) -> None:
    """What is tested at each end of the range and at both has three levels."""
    rng = np.random.default_rng([len(labels), int(10 * width), len(law)])
    rows, low = 200, -7.7
    shares = {"low": 0.0, "middle": 0.5, "high": 1.0}
    share = {
        "ends": np.arange(rows) % 2.0,
        "even": np.linspace(0, 1, rows),
    }.get(labels, np.full(rows, shares.get(labels, 0.0)))
    shape, sampler = LAWS[law]
    noisy = NoisyLabels(shape, 3.0, low, low + 3.0 * width, grid_of(3.0))
    alarms: Counter[str] = Counter()
    for _ in range(DRAWS):
        noise = sampler.rvs(scale=3.0, size=rows, random_state=rng)
        values = on_grid(low + 3.0 * width * share + noise, noisy.grid)
        alarms.update(set(check_noise(noisy, [values], rows)))
    assert all(count <= stats.binom.isf(1e-7, DRAWS, 3 * LEVEL) for count in alarms.values())
    if law == "laplace" and width < 5:
        assert alarms, "some tests have the level that they say"


@pytest.mark.usefixtures("_raised")
@pytest.mark.parametrize("rows", [1, 3, 50])
def test_sums_of_bags_fail_no_test_more_often_than_its_level(rows: int) -> None:
    rng = np.random.default_rng(rows)
    deviations = rng.uniform(1.0, 4.0, rows)
    middle, half = rng.normal(0, 5, rows), rng.uniform(0, 3, rows)
    design = rng.normal(size=(rows, 2))
    grid, alarms = grid_of(float(deviations.min())), Counter[str]()
    for draw in range(DRAWS):
        mean = middle + half * (1 if draw % 2 else -1)
        values = on_grid(mean + deviations * rng.normal(size=rows), grid)
        ends = (middle - half, middle + half)
        alarms.update(set(check_bag_labels(values, deviations, grid, ends, design)))
    assert all(count <= MOST for count in alarms.values()), alarms


@pytest.mark.usefixtures("_raised")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rows", [2, 30, 5000])
def test_values_of_equal_labels_repeat_no_more_than_allowed(law: str, rows: int) -> None:
    """Equal labels repeat values most."""
    rng = np.random.default_rng(rows)
    shape, sampler = LAWS[law]
    alarms: Counter[str] = Counter()
    for _ in range(DRAWS):
        noise = sampler.rvs(scale=1.1, size=rows, random_state=rng)
        values = on_grid(noise, grid_of(1.1))
        alarms.update(check_repeats(shape, 1.1, grid_of(1.1), values))
    assert all(count <= stats.binom.isf(1e-7, DRAWS, LEVEL) for count in alarms.values()), alarms


def test_the_number_of_different_values_is_near_its_bound_for_equal_labels() -> None:
    """So that the test is not idle: 20,000 labels have 6,000 to 9,000 values."""
    rng = np.random.default_rng(0)
    values = on_grid(rng.laplace(size=20_000), -10)
    assert not list(check_repeats(LAPLACE_TAILS, 1.0, -10, values))
    fewer = np.concatenate([values[:12_000], values[:8_000]])
    assert "fewer different values than the noise can produce" in list(
        check_repeats(LAPLACE_TAILS, 1.0, -10, fewer)
    )


def test_probabilities_outside_the_range_are_those_of_the_law() -> None:
    """By the textbook law of rounded labels, over labels throughout the range."""
    for law, (shape, sampler) in LAWS.items():
        noisy = NoisyLabels(shape, 1.5, 0.3, 4.0, grid_of(1.5))
        half, (below, above) = 2.0 ** (noisy.grid - 1), noisy.first
        assert (below * 2 * half + half, above * 2 * half - half) == pytest.approx(
            (0.3, 4.0), abs=2 * half
        )
        labels = np.linspace(0.3, 4.0, 2001)
        under = sampler.cdf((below * 2 * half + half - labels) / 1.5)
        over = sampler.sf((above * 2 * half - half - labels) / 1.5)
        each = np.array([under, over, under + over])
        least, most = noisy.outside()
        assert least[2] <= each[2].min() * (1 + 1e-12)
        assert least == pytest.approx(each.min(axis=1), rel=1e-6), law
        assert most == pytest.approx(each.max(axis=1))
        steps = np.array([1.0, 700.0, 4000.0])
        further = sampler.sf(((above + steps[:, None]) * 2 * half - half - labels) / 1.5) / over
        low, high = noisy.survival(1, steps)
        assert low == pytest.approx(further.min(axis=1), rel=1e-9)
        assert high == pytest.approx(further.max(axis=1), rel=1e-9)


def test_the_sum_of_distances_has_the_level_of_a_negative_binomial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """40 labels above the range, some steps of the grid more or fewer than the quantile."""
    noisy = NoisyLabels(LAPLACE_TAILS, 1.0, 0.0, 1.0, -10)
    monkeypatch.setattr(checks, "CHANCE", 1e-300)  # for the other tests
    count, step = 40, 2.0**-10
    law = stats.nbinom(count, 1 - math.exp(-step))
    for words, total, change in (
        ("nearer to it", int(law.ppf(5e-10)), -2),
        ("further from it", int(law.isf(5e-10)), 2),
    ):
        for move in (0, change):
            steps = np.full(count, (total + move) // count)
            steps[: (total + move) % count] += 1
            labels = np.append((noisy.first[1] + steps) * step, np.full(count, 0.5))
            found = [line for line in check_noise(noisy, [labels], 2 * count) if words in line]
            assert bool(found) is (move != 0), (words, move)


def said(noisy: NoisyLabels, labels: Reals) -> str:
    return " ".join(check_noise(noisy, [on_grid(labels, noisy.grid)], len(labels)))


def test_each_test_says_what_it_found() -> None:
    rng = np.random.default_rng(3)
    laplace = NoisyLabels(LAPLACE_TAILS, 1.0, 0.0, 1.0, -10)
    narrow = NoisyLabels(LAPLACE_TAILS, 1.0, 0.0, 40.0, -10)
    gaussian = NoisyLabels(NORMAL_TAILS, 1.0, 0.0, 0.5, -10)
    noise, normal = rng.laplace(size=5000), rng.normal(size=5000)
    honest = 0.5 + noise
    assert said(laplace, honest) == said(narrow, 20 + noise) == said(gaussian, normal) == ""
    far, often = honest.copy(), honest.copy()
    far[7], often[:60] = 60.0, 0.25
    assert "further from their range than the noise can take" in said(laplace, far)
    assert "stray less from their range" in said(laplace, 0.5 + 0.7 * noise)
    assert "more labels outside their range" in said(laplace, honest + 3)
    assert "differ less from one another" in said(gaussian, 0.85 * normal)
    assert "differ more from one another" in said(gaussian, 1.25 * normal)
    assert "one value more often" in said(laplace, often)
    assert "depend on those of other rows" in said(laplace, np.sort(honest))


def test_sums_of_bags_say_what_was_found() -> None:
    rng = np.random.default_rng(4)
    honest = rng.normal(size=80)
    ends, design = (np.full(80, -0.2), np.full(80, 0.2)), np.zeros((80, 0))

    def found(labels: Reals) -> str:
        values = on_grid(labels, -10)
        return " ".join(check_bag_labels(values, np.ones(80), -10, ends, design))

    assert found(honest) == ""
    assert "more labels outside" in found(np.abs(honest) + 0.3)
    assert "further from their range" in found(np.where(np.arange(80) == 5, 9.0, honest))
    assert "vary less about their fit" in found(0.3 * honest)
    assert "one value more often" in found(np.where(np.arange(80) < 9, 0.1, honest))


def test_a_value_repeats_as_often_as_the_binomial_allows() -> None:
    for law, cell in (
        (LAPLACE_TAILS, -math.expm1(-(2.0**-11))),
        (NORMAL_TAILS, 1 - 2 * stats.norm.sf(2**-11)),
    ):
        rows = 3000
        most = next(
            c for c in range(2, rows) if rows * stats.binom.sf(c - 2, rows - 1, cell) < 1e-12
        )
        for count in (most - 1, most):
            labels = np.arange(rows, dtype=np.float64)
            labels[:count] = 0.0
            found = list(check_repeats(law, 1.0, -10, labels))
            assert any("one value" in line for line in found) is (count == most)


def test_the_spread_of_gaussian_noise_is_that_of_chi_square() -> None:
    rows, width = 4000, 0.01
    noisy = NoisyLabels(NORMAL_TAILS, 1.0, 0.0, width, -10)
    base = stats.norm.ppf((np.arange(rows) + 0.5) / rows)
    base = np.random.default_rng(0).permutation(base / np.linalg.norm(base))
    least, most = stats.chi2.ppf(1e-12, rows - 1), stats.chi2.isf(1e-12, rows)
    for square, words in ((least, "differ less"), (most, "differ more")):
        for factor in (0.98, 1.02):
            outside = bool((factor < 1) == (square < rows))
            found = said(noisy, width / 2 + base * math.sqrt(square * factor))
            assert (words in found) is outside
