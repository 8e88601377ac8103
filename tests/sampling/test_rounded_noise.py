"""The door: exact rounding against a ball-arithmetic twin, the right law, no gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import special, stats

from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness, words

Z = 4.5  # two-sided error probability of each statistical test: 7e-6


@dataclass
class Counted:
    """A mean and a standard deviation known exactly, counting how often they are asked for."""

    mean: NDArray[np.float64]
    std: float
    calls: int = 0

    def __call__(self, row: int, precision: int) -> tuple[Any, Any]:
        self.calls += 1
        assert ctx.prec >= precision
        return arb(float(self.mean[row])), arb(self.std)


def draw(
    mean: NDArray[np.float64], std: float, grid: int, seed: int, error: float = 0.0
) -> tuple[NDArray[np.float64], Counted]:
    exact = Counted(mean, std)
    values = rounded_noise.sample_rounded(
        mean,
        np.full(len(mean), error),
        (std, std),
        grid,
        Randomness.experiment(seed),
        exact,
    )
    return values, exact


def exact_cell(bits: int, more: int, mean: float, std: float, step: float) -> int:
    """The slow obvious twin: Φ⁻¹ in 300 bits of the uniform with 128 bits, then round."""
    ctx.prec = 300
    try:
        p = (arb(bits & (2**63 - 1)) + arb(more) / arb(2) ** 64) / arb(2) ** 64
        normal = -(arb(2).sqrt()) * (2 * p).erfcinv()
        if bits >> 63:
            normal = -normal
        scaled = (arb(mean) + arb(std) * normal) / arb(step) + arb(1) / 2
        return int(scaled.floor().unique_fmpz())
    finally:
        ctx.prec = 53


def test_every_draw_is_the_rounding_of_the_ideal_number() -> None:
    rng = np.random.default_rng(0)
    mean, std, grid = rng.normal(0, 1e6, 300), 1234.5, 0
    values, _ = draw(mean, std, grid, seed=1)
    stream = Randomness.experiment(1)
    bits = words(stream.labels, 300)
    for value, word, centre in zip(values, bits, mean, strict=True):
        assert value == exact_cell(int(word), 2**63, float(centre), std, 1.0)


def test_doubtful_draws_are_settled_by_ball_arithmetic_to_the_same_answer() -> None:
    """With a huge stated error every draw is in doubt, and nothing changes."""
    mean = np.random.default_rng(2).normal(0, 50, 400)
    quick, calls = draw(mean, 3.0, -8, seed=5)
    slow, counted = draw(mean, 3.0, -8, seed=5, error=1.0)
    assert calls.calls == 0
    assert counted.calls >= 800
    assert np.array_equal(quick, slow)


def test_more_bits_are_drawn_when_the_first_64_do_not_decide() -> None:
    """A first word of zeros says only p < 2**-64: the cell then follows the extra words."""

    class Zeros:
        def integers(self, low: int, high: int, size: int, dtype: Any) -> NDArray[np.uint64]:
            return np.full(size, low, dtype=dtype) * np.uint64(high > 0)

    seeded = Randomness.experiment(3)
    randomness = Randomness(seeded.features, Zeros(), seeded.refinement, private=False)  # type: ignore[arg-type]
    values = rounded_noise.sample_rounded(
        np.zeros(40), np.zeros(40), (1.0, 1.0), -10, randomness, Counted(np.zeros(40), 1.0)
    )
    more = words(Randomness.experiment(3).refinement, 40)
    expected = [exact_cell(0, int(extra), 0.0, 1.0, 2.0**-10) for extra in more]
    assert np.array_equal(values * 2.0**10, expected)
    assert -12 < values.min() < values.max() < -9


def test_ordinary_draws_hardly_ever_need_ball_arithmetic() -> None:
    _, counted = draw(np.zeros(10**6), 1000.0, rounded_noise.grid_for(1000.0), seed=4)
    assert counted.calls <= 4


@pytest.mark.parametrize("std", [1.0, 1e-9, 3e12])
def test_the_law_is_the_rounded_gaussian_and_5_percent_off_is_seen(std: float) -> None:
    """Kolmogorov–Smirnov accepts σ (p > 1e-5) and rejects 1.05σ and a shift of 0.03σ."""
    grid = rounded_noise.grid_for(std)
    values, _ = draw(np.full(100_000, 7 * std), std, grid, seed=11)
    normal = (values - 7 * std) / std
    assert stats.kstest(normal, "norm").pvalue > 1e-5
    assert stats.kstest(normal / 1.05, "norm").pvalue < 1e-6
    assert stats.kstest(normal + 0.03, "norm").pvalue < 1e-6
    assert np.array_equal(values, np.rint(values / 2.0**grid) * 2.0**grid)


def test_tails_are_right_far_out() -> None:
    values, _ = draw(np.zeros(4_000_000), 1.0, -10, seed=12)
    for deviation in (3.0, 4.0):
        expected = 4e6 * 2 * stats.norm.sf(deviation - 2**-11)
        seen = np.count_nonzero(np.abs(values) >= deviation)
        assert abs(seen - expected) < Z * math.sqrt(expected)


def test_ndtri_is_far_better_than_the_bound_the_filter_uses() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random(3000) / 2, 2.0 ** -rng.uniform(1, 64, 3000)])
    worst = 0.0
    ctx.prec = 200
    try:
        for p in points:
            x = special.ndtri(p)
            ball = arb(float(x))
            missed = (-ball / arb(2).sqrt()).erfc() / 2 - arb(float(p))
            density = (-(ball * ball) / 2).exp() / (2 * arb.pi()).sqrt()
            worst = max(worst, abs(float(missed / density)) / max(abs(x), 2.0**-6))
    finally:
        ctx.prec = 53
    assert worst < rounded_noise._INVERSE_ERROR / 16


def test_an_os_keyed_generator_is_private_and_never_repeats() -> None:
    first, second = Randomness.from_os(), Randomness.from_os()
    assert first.private
    assert not Randomness.experiment(1).private
    assert not np.array_equal(words(first.labels, 4), words(second.labels, 4))
    assert not np.array_equal(words(first.labels, 4), words(first.refinement, 4))


def test_the_key_is_not_shown_and_the_generator_cannot_travel() -> None:
    import pickle

    stream = Randomness.from_os()
    state = stream.labels.bit_generator.state["state"]
    secrets = [str(int(word)) for value in state.values() for word in np.atleast_1d(value) if word]
    assert secrets
    assert not any(secret in repr(stream) for secret in secrets if len(secret) > 3)
    with pytest.raises(TypeError, match="key"):
        pickle.dumps(stream)


@pytest.mark.parametrize("scale", [1.0, 1.5, 1.9999, 2.0, 1e-9, 3e7])
def test_the_step_is_the_largest_power_of_two_that_is_fine_enough(scale: float) -> None:
    steps = scale / math.ldexp(1.0, rounded_noise.grid_for(scale))
    assert 2**rounded_noise.FINENESS <= steps < 2 ** (rounded_noise.FINENESS + 1)
