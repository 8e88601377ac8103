"""Laplace noise through the door: exactly rounded, the right law, pure ε cell by cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness, words
from tests.sampling.test_rounded_noise import Counted

Reals = NDArray[np.float64]
Z = 4.5  # two-sided error probability of each statistical test: 7e-6
GRID = -3
STEP = 2.0**GRID


def draw(
    mean: Reals, scale: float, grid: int, seed: int, error: float = 0.0
) -> tuple[Reals, Counted]:
    exact, errors = Counted(mean, scale), np.full(len(mean), error)
    randomness = Randomness.experiment(seed)
    values = rounded_noise.sample_rounded(
        mean, errors, (scale, scale), grid, randomness, exact, rounded_noise.LAPLACE
    )
    return values, exact


def exact_cell(bits: int, more: int, mean: float, scale: float, step: float) -> int:
    """The slow obvious twin: log(2p) in 300 bits of the uniform with 128 bits, then round."""
    ctx.prec = 300
    try:
        p = (arb(bits & (2**63 - 1)) + arb(more) / arb(2) ** 64) / arb(2) ** 64
        noise = -(2 * p).log() if bits >> 63 else (2 * p).log()
        scaled = (arb(mean) + arb(scale) * noise) / arb(step) + arb(1) / 2
        return int(scaled.floor().unique_fmpz())
    finally:
        ctx.prec = 53


def test_every_draw_is_the_rounding_of_the_ideal_number() -> None:
    mean = np.random.default_rng(0).normal(0, 1e6, 300)
    values, _ = draw(mean, 1234.5, 0, seed=1)
    bits = words(Randomness.experiment(1).labels, 300)
    for value, word, centre in zip(values, bits, mean, strict=True):
        assert value == exact_cell(int(word), 2**63, float(centre), 1234.5, 1.0)


def test_draws_in_doubt_are_settled_by_ball_arithmetic_to_the_same_answer() -> None:
    mean = np.random.default_rng(2).normal(0, 50, 400)
    quick, calls = draw(mean, 3.0, -8, seed=5)
    slow, counted = draw(mean, 3.0, -8, seed=5, error=1.0)
    assert calls.calls == 0
    assert counted.calls >= 800
    assert np.array_equal(quick, slow)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("doubt", [0.4, 2.0**-6, 2.0**-20])
def test_where_doubles_are_on_the_wrong_side_of_a_border_the_exact_mean_decides(
    doubt: float, side: float
) -> None:
    """`doubt` in grid steps: how far the mean in doubles may be off, and half of it is."""
    bits = words(Randomness.experiment(1).labels, 60)
    below = (bits & np.uint64(2**63 - 1)).astype(float)
    noise = np.where(bits >> np.uint64(63), -1.0, 1.0) * np.log((below + 0.5) * 2.0**-63)
    cells = np.random.default_rng(1).integers(-1000, 1000, 60).astype(float)
    truth = (cells + 0.5 + side * 0.25 * doubt) * STEP - 7.0 * noise
    rough, asked = truth - side * 0.5 * doubt * STEP, []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(truth[row])), arb(7.0)

    errors = np.full(60, doubt * STEP)
    found = rounded_noise.sample_rounded(
        rough, errors, (7.0, 7.0), GRID, Randomness.experiment(1), exact, rounded_noise.LAPLACE
    )
    assert set(asked) == set(range(60))
    assert np.array_equal(found / STEP, cells + (side > 0))


def test_more_bits_are_drawn_when_the_first_64_do_not_decide() -> None:
    """A first word of zeros says only p < 2**-64: the cell then follows the extra words."""

    class Zeros:
        def integers(self, low: int, high: int, size: int, dtype: Any) -> NDArray[np.uint64]:
            return np.full(size, low, dtype=dtype) * np.uint64(high > 0)

    seeded = Randomness.experiment(3)
    randomness = Randomness(seeded.features, Zeros(), seeded.refinement, private=False)  # type: ignore[arg-type]
    exact = Counted(np.zeros(20), 1.0)
    values = rounded_noise.sample_rounded(
        np.zeros(20), np.zeros(20), (1.0, 1.0), -5, randomness, exact, rounded_noise.LAPLACE
    )
    more = words(Randomness.experiment(3).refinement, 20)
    expected = [exact_cell(0, int(extra), 0.0, 1.0, 2.0**-5) for extra in more]
    assert np.array_equal(values * 2.0**5, expected)
    assert values.max() <= -63 * math.log(2)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 3e12])
def test_the_law_is_the_rounded_laplace_and_1_percent_off_is_seen(scale: float) -> None:
    """|x| is exponential: the mean of a million of them is 10 deviations from 1.01."""
    values, _ = draw(np.full(10**6, 7 * scale), scale, rounded_noise.grid_for(scale), seed=11)
    noise = values / scale - 7
    z = 1000 * (np.abs(noise).mean() - 1)
    assert abs(z) < Z
    assert min(abs(z + 10), abs(z - 10)) > Z
    assert stats.kstest(noise[:100_000], "laplace").pvalue > 1e-5
    assert stats.kstest(noise[:100_000] / math.sqrt(2), "norm").pvalue < 1e-6
    for deviation in (5.0, 9.0):
        expected = 1e6 * math.exp(2**-11 - deviation)
        seen = np.count_nonzero(np.abs(noise) >= deviation)
        assert abs(seen - expected) < Z * math.sqrt(expected)


def test_log_is_far_better_than_the_bound_the_filter_uses() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random(3000) / 2, 2.0 ** -rng.uniform(1, 64, 3000)])
    worst = 0.0
    ctx.prec = 200
    try:
        for p, found in zip(points, rounded_noise.LAPLACE.inverse(points), strict=True):
            missed = arb(float(found)) - (2 * arb(float(p))).log()
            worst = max(worst, abs(float(missed)) / max(abs(found), 2.0**-6))
    finally:
        ctx.prec = 53
    assert worst < rounded_noise._INVERSE_ERROR / 16


def test_no_cell_is_impossible_and_none_is_likelier_by_more_than_e_to_the_epsilon() -> None:
    """Two neighbours, one scale apart (ε = 1): every cell within two scales of them is seen."""
    means = (np.full(2 * 10**6, 0.1), np.full(2 * 10**6, 1.1))
    values = [draw(mean, 1.0, -7, seed=20 + place)[0] for place, mean in enumerate(means)]
    cells = [(np.clip(each, -2.0, 3.0) * 2.0**7).astype(int) + 256 for each in values]
    first, second = (np.bincount(each, minlength=641)[1:-1] for each in cells)
    assert min(first.min(), second.min()) > 0
    assert (first < math.e * second + Z * (math.e * np.sqrt(second) + np.sqrt(first))).all()
    below = [np.count_nonzero(each <= 0.0) for each in values]  # where the bound is attained
    ratio = math.log(below[0] / below[1])
    assert abs(ratio - 1.0) < Z * math.sqrt(1 / below[0] + 1 / below[1])
