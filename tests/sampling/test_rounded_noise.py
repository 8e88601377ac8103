"""Exactly rounded noise: each draw against ball arithmetic, the right laws, pure ε cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

from labeldp.sampling import rounded_noise
from labeldp.sampling.rounded_noise import LAPLACE, NORMAL, NoiseLaw
from labeldp.sampling.streams import Randomness, words

Reals = NDArray[np.float64]
Z = 4.5  # two-sided error probability of each statistical test: 7e-6
GRID, COUNT = -3, 60
STEP = 2.0**GRID
both = pytest.mark.parametrize("noise", [NORMAL, LAPLACE], ids=["normal", "laplace"])


@dataclass
class Counted:
    """A mean and a scale known exactly, counting how often they are asked for."""

    mean: Reals
    scale: float | Reals
    calls: int = 0

    def __call__(self, row: int, precision: int) -> tuple[Any, Any]:
        self.calls += 1
        assert ctx.prec >= precision
        scale = self.scale if isinstance(self.scale, float) else float(self.scale[row])
        return arb(float(self.mean[row])), arb(scale)


def draw(
    mean: Reals,
    scale: float,
    grid: int,
    seed: int,
    noise: NoiseLaw = NORMAL,
    error: float = 0.0,
) -> tuple[Reals, Counted]:
    exact, errors = Counted(mean, scale), np.full(len(mean), error)
    randomness = Randomness.experiment(seed)
    values = rounded_noise.sample_rounded(
        mean, errors, (scale, scale), grid, randomness, exact, noise
    )
    return values, exact


def exact_cell(
    noise: NoiseLaw, bits: int, more: int, mean: float, scale: float, step: float
) -> int:
    """The slow obvious twin: the quantile of 128 bits of the uniform in 300 bits, then round."""
    ctx.prec = 300
    try:
        p = (arb(bits & (2**63 - 1)) + arb(more) / arb(2) ** 64) / arb(2) ** 64
        unit = (2 * p).log() if noise is LAPLACE else -(arb(2).sqrt()) * (2 * p).erfcinv()
        if bits >> 63:
            unit = -unit
        scaled = (arb(mean) + arb(scale) * unit) / arb(step) + arb(1) / 2
        return int(scaled.floor().unique_fmpz())
    finally:
        ctx.prec = 53


@both
def test_every_draw_is_the_rounding_of_the_ideal_number(noise: NoiseLaw) -> None:
    mean, scale = np.random.default_rng(0).normal(0, 1e6, 300), 1234.5
    values, _ = draw(mean, scale, 0, 1, noise)
    bits = words(Randomness.experiment(1).labels, 300)
    for value, word, centre in zip(values, bits, mean, strict=True):
        assert value == exact_cell(noise, int(word), 2**63, float(centre), scale, 1.0)


@both
def test_draws_in_doubt_are_settled_by_ball_arithmetic_to_the_same_answer(noise: NoiseLaw) -> None:
    """With a huge stated error every draw is in doubt, and nothing changes."""
    mean = np.random.default_rng(2).normal(0, 50, 400)
    quick, calls = draw(mean, 3.0, -8, 5, noise)
    slow, counted = draw(mean, 3.0, -8, 5, noise, error=1.0)
    assert calls.calls == 0
    assert counted.calls >= 800
    assert np.array_equal(quick, slow)


@both
def test_more_bits_are_drawn_when_the_first_64_do_not_decide(noise: NoiseLaw) -> None:
    """A first word of zeros says only p < 2**-64: the cell then follows the extra words."""

    class Zeros:
        def integers(self, low: int, high: int, size: int, dtype: Any) -> NDArray[np.uint64]:
            return np.full(size, low, dtype=dtype) * np.uint64(high > 0)

    seeded, zeros = Randomness.experiment(3), np.zeros(40)
    randomness = Randomness(seeded.features, Zeros(), seeded.refinement, private=False)  # type: ignore[arg-type]
    values = rounded_noise.sample_rounded(
        zeros, zeros, (1.0, 1.0), -5, randomness, Counted(zeros, 1.0), noise
    )
    more = words(Randomness.experiment(3).refinement, 40)
    expected = [exact_cell(noise, 0, int(extra), 0.0, 1.0, 2.0**-5) for extra in more]
    assert np.array_equal(values * 2.0**5, expected)


def units(noise: NoiseLaw, seed: int) -> Reals:
    """The noise of scale 1 that will be drawn from this seed, in doubles."""
    bits = words(Randomness.experiment(seed).labels, COUNT)
    below = (bits & np.uint64(2**63 - 1)).astype(float)
    return np.where(bits >> np.uint64(63), -1.0, 1.0) * noise.inverse((below + 0.5) * 2.0**-64)


@both
@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("doubt", [0.4, 2.0**-6, 2.0**-20])
@pytest.mark.parametrize("part", ["mean", "scale"])
def test_where_doubles_are_on_the_wrong_side_of_a_border_the_exact_numbers_decide(
    part: str, doubt: float, side: float, noise: NoiseLaw
) -> None:
    """`doubt` in grid steps: how far the number in doubles may be off, and half of it is.

    The border lies between what doubles say and the truth, which is not in the middle of what
    encloses it.
    """
    unit = units(noise, 1)
    cells = np.random.default_rng(1).integers(-1000, 1000, COUNT).astype(float)
    reach = np.zeros(COUNT) if part == "mean" else doubt * STEP / np.abs(unit)
    scale = 7.0 + side * np.sign(unit) * 0.5 * reach
    truth = (cells + 0.5 + side * 0.25 * doubt) * STEP - scale * unit
    error = doubt * STEP if part == "mean" else 0.0
    exact = Counted(truth, scale)
    found = rounded_noise.sample_rounded(
        truth - side * 0.5 * error,
        np.full(COUNT, error),
        (7.0 - reach, 7.0 + reach),
        GRID,
        Randomness.experiment(1),
        exact,
        noise,
    )
    assert exact.calls >= 2 * COUNT
    assert np.array_equal(found / STEP, cells + (side > 0))


def test_cells_too_large_for_doubles_are_settled_exactly() -> None:
    """2**52 steps away, where doubles have no room for half a cell."""
    _, exact = draw(np.full(COUNT, 2.0**52 * STEP), 7.0, GRID, 3)
    assert exact.calls >= 2 * COUNT


@both
def test_a_zero_has_no_sign(noise: NoiseLaw) -> None:
    """The sign of −0.0 would tell on which side of 0 the ideal number was."""
    values, _ = draw(np.zeros(1000), 0.3, 0, 6, noise)
    assert np.count_nonzero(values == 0.0) > 500
    assert not np.signbit(values[values == 0.0]).any()


def test_ordinary_draws_hardly_ever_need_ball_arithmetic() -> None:
    _, counted = draw(np.zeros(10**6), 1000.0, rounded_noise.grid_for(1000.0), 4)
    assert counted.calls <= 4


@pytest.mark.parametrize("std", [1.0, 1e-9, 3e12])
def test_the_law_is_the_rounded_gaussian_and_5_percent_off_is_seen(std: float) -> None:
    """Kolmogorov–Smirnov accepts σ (p > 1e-5) and rejects 1.05σ and a shift of 0.03σ."""
    grid = rounded_noise.grid_for(std)
    values, _ = draw(np.full(100_000, 7 * std), std, grid, 11)
    normal = (values - 7 * std) / std
    assert stats.kstest(normal, "norm").pvalue > 1e-5
    assert stats.kstest(normal / 1.05, "norm").pvalue < 1e-6
    assert stats.kstest(normal + 0.03, "norm").pvalue < 1e-6
    assert np.array_equal(values, np.rint(values / 2.0**grid) * 2.0**grid)


def test_tails_are_right_far_out() -> None:
    values, _ = draw(np.zeros(2_000_000), 1.0, -10, 12)
    for deviation in (3.0, 4.0):
        expected = 2e6 * 2 * stats.norm.sf(deviation - 2**-11)
        seen = np.count_nonzero(np.abs(values) >= deviation)
        assert abs(seen - expected) < Z * math.sqrt(expected)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 3e12])
def test_the_law_is_the_rounded_laplace_and_1_percent_off_is_seen(scale: float) -> None:
    """|x| is exponential: the mean of a million of them is 10 deviations from 1.01."""
    grid = rounded_noise.grid_for(scale)
    values, _ = draw(np.full(10**6, 7 * scale), scale, grid, 11, LAPLACE)
    noise = values / scale - 7
    z = 1000 * (np.abs(noise).mean() - 1)
    assert abs(z) < Z
    assert min(abs(z + 10), abs(z - 10)) > Z
    assert stats.kstest(noise[:100_000], "laplace").pvalue > 1e-5
    for deviation in (5.0, 9.0):
        expected = 1e6 * math.exp(2**-11 - deviation)
        seen = np.count_nonzero(np.abs(noise) >= deviation)
        assert abs(seen - expected) < Z * math.sqrt(expected)


@both
def test_the_inverse_is_far_better_than_the_bound_in_use(noise: NoiseLaw) -> None:
    """One Newton step in 200 bits from the inverse in doubles moves it by its error."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random(2000) / 2, 2.0 ** -rng.uniform(1, 64, 2000)])
    worst = 0.0
    ctx.prec = 200
    try:
        for p, x in zip(points, noise.inverse(points), strict=True):
            ball, target = arb(float(x)), arb(float(p))
            below = noise.below(ball)
            density = (
                below if noise is LAPLACE else (-ball * ball / 2).exp() / (2 * arb.pi()).sqrt()
            )
            step = (below - target) / density
            worst = max(worst, abs(float(step)) / max(abs(float(x)), 2.0**-6))
    finally:
        ctx.prec = 53
    assert worst < rounded_noise._INVERSE_ERROR / 16


def test_no_cell_is_impossible_and_none_is_likelier_by_more_than_e_to_the_epsilon() -> None:
    """Two neighbours, one scale apart (ε = 1): every cell within two scales of them is seen."""
    means = (np.full(2 * 10**6, 0.1), np.full(2 * 10**6, 1.1))
    values = [draw(mean, 1.0, -7, 20 + place, LAPLACE)[0] for place, mean in enumerate(means)]
    cells = [(np.clip(each, -2.0, 3.0) * 2.0**7).astype(int) + 256 for each in values]
    first, second = (np.bincount(each, minlength=641)[1:-1] for each in cells)
    assert min(first.min(), second.min()) > 0
    assert (first < math.e * second + Z * (math.e * np.sqrt(second) + np.sqrt(first))).all()
    below = [np.count_nonzero(each <= 0.0) for each in values]  # where the bound is attained
    ratio = math.log(below[0] / below[1])
    assert abs(ratio - 1.0) < Z * math.sqrt(1 / below[0] + 1 / below[1])
