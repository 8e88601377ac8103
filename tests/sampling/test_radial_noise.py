"""Radial noise, exactly rounded, of the right law, pure ε for every set."""

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


def draw(
    mean: Reals, scale: float, grid: int, seed: int, error: float = 0.0
) -> tuple[Reals, Counted]:
    exact, errors = Counted(mean, scale), np.full(len(mean), error)
    randomness = Randomness.experiment(seed)
    return rounded_noise.sample_rounded_radial(mean, errors, scale, grid, randomness, exact), exact


def draws(mean: Reals, scale: float, grid: int, count: int, seed: int) -> Reals:
    """Many, from one stream."""
    exact, errors, randomness = (
        Counted(mean, scale),
        np.zeros(len(mean)),
        Randomness.experiment(seed),
    )
    return np.array(
        [
            rounded_noise.sample_rounded_radial(mean, errors, scale, grid, randomness, exact)
            for _ in range(count)
        ]
    )


def noises(columns: int, count: int, scale: float = 1.0) -> Reals:
    """`count` draws with a fine grid, in units of the scale."""
    return (
        draws(np.zeros(columns), scale, rounded_noise.grid_for(scale), count, seed=columns) / scale
    )


def exact_cells(seed: int, mean: Reals, scale: float, step: float) -> list[int]:
    """The slow obvious twin: logarithms, cosine and erfcinv in 300 bits, then round.

    First words only, each with a half behind it: a cell that hangs on more bits is too rare here.
    """
    randomness, freedom = Randomness.experiment(seed), len(mean) + 1
    pairs, odd = divmod(freedom, 2)
    ctx.prec = 300
    try:
        first = [
            (arb(int(word)) + 0.5) / arb(2) ** 64
            for word in words(randomness.labels, pairs + 2 * odd)
        ]
        square = sum((-2 * p.log() for p in first[:pairs]), arb(0))
        if odd:
            square += -2 * first[pairs].log() * (2 * arb.pi() * first[pairs + 1]).cos() ** 2
        cells = []
        for word, centre in zip(words(randomness.labels, len(mean)), mean, strict=True):
            p = (arb(int(word) & (2**63 - 1)) + 0.5) / arb(2) ** 64
            normal = -(arb(2).sqrt()) * (2 * p).erfcinv() * (-1 if int(word) >> 63 else 1)
            scaled = (arb(float(centre)) + scale * square.sqrt() * normal) / step + arb(0.5)
            cells.append(int(scaled.floor().unique_fmpz()))
        return cells
    finally:
        ctx.prec = 53


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 41])
def test_every_number_is_the_rounding_of_the_ideal_one(columns: int) -> None:
    for seed in range(200 // columns):
        mean = np.random.default_rng(seed).normal(0, 1e6, columns)
        values, _ = draw(mean, 1234.5, 0, seed)
        assert np.array_equal(values, exact_cells(seed, mean, 1234.5, 1.0))


def test_draws_in_doubt_are_settled_by_ball_arithmetic_to_the_same_answer() -> None:
    for columns, seed in ((1, 1), (2, 2), (33, 3)):
        mean = np.random.default_rng(seed).normal(0, 50, columns)
        quick, calls = draw(mean, 3.0, -8, seed)
        slow, counted = draw(mean, 3.0, -8, seed, error=1e3)
        assert calls.calls == 0
        assert counted.calls >= 2 * columns
        assert np.array_equal(quick, slow)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("doubt", [0.4, 2.0**-6, 2.0**-20])
def test_where_doubles_are_on_the_wrong_side_of_a_border_the_exact_mean_decides(
    doubt: float, side: float
) -> None:
    """`doubt` in grid steps: how far the mean in doubles may be off, and half of it is."""
    step, columns = 2.0**-3, 20
    noise = draw(np.zeros(columns), 7.0, -40, seed=1)[0]  # to 2**-41
    cells = np.random.default_rng(1).integers(-1000, 1000, columns).astype(float)
    truth = (cells + 0.5 + side * 0.25 * doubt) * step - noise
    rough, asked = truth - side * 0.5 * doubt * step, []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(truth[row])), arb(7.0)

    errors = np.full(columns, doubt * step)
    found = rounded_noise.sample_rounded_radial(
        rough, errors, 7.0, -3, Randomness.experiment(1), exact
    )
    assert set(asked) == set(range(columns))
    assert np.array_equal(found / step, cells + (side > 0))


class Scripted:
    """A stream of words that are told."""

    def __init__(self, *told: int) -> None:
        self._told = list(told)

    def integers(self, low: int, high: int, size: int, dtype: Any) -> NDArray[np.uint64]:
        assert (low, high) == (0, 2**64)
        taken, self._told = self._told[:size], self._told[size:]
        return np.array(taken, dtype=dtype)


def test_all_numbers_in_doubt_see_one_radius_whose_bits_go_on() -> None:
    """Words of zeros say p < 2**-64 of the radius: it follows the extra words, for both numbers.

    Of the first number's uniform ¼, of the second's ¾: the normals are −.6745 and .6745.
    """
    seeded, quarter, more = Randomness.experiment(3), 2**62, 2**63
    # two dimensions: χ of three degrees is one pair and a Box–Muller pair of angle 0 (cosine 1)
    labels = Scripted(0, 0, 0, quarter, 2**63 + quarter)
    refinement = Scripted(*[more] * 200)
    randomness = Randomness(seeded.features, labels, refinement, private=False)  # type: ignore[arg-type]
    exact = Counted(np.zeros(2), 1.0)
    values = rounded_noise.sample_rounded_radial(
        np.zeros(2), np.full(2, 10.0), 1.0, -20, randomness, exact
    )
    square = -2 * 2 * math.log(2.0**-65)  # p = ½·2**-64 and a bit, twice
    assert values[0] == -values[1]
    assert values[1] == pytest.approx(math.sqrt(square) * stats.norm.ppf(0.75), rel=1e-5)


@pytest.mark.parametrize(("columns", "count"), [(1, 3000), (2, 3000), (3, 3000), (12, 3000)])
def test_the_radius_is_gamma_and_the_direction_uniform(columns: int, count: int) -> None:
    noise = noises(columns, count)
    radius = np.linalg.norm(noise, axis=1)
    assert stats.kstest(radius, "gamma", args=(columns,)).pvalue > 1e-5
    assert stats.kstest(radius / math.sqrt(columns + 1), "chi", args=(columns,)).pvalue < 1e-5
    if columns > 1:
        cosine = np.square(noise[:, 0] / radius)
        law = ("beta", (0.5, 0.5 * (columns - 1)))
        assert stats.kstest(cosine, law[0], args=law[1]).pvalue > 1e-5
        assert abs(stats.spearmanr(radius, cosine)[0]) < Z / math.sqrt(count)


def test_one_per_cent_of_the_scale_is_seen() -> None:
    """The sum of the radii in 1,500 dimensions is Gamma(1500·count): 1 % is 8.7 deviations."""
    columns, count, scale = 1500, 500, 3e-9
    total = np.linalg.norm(noises(columns, count, scale), axis=1).sum()
    for factor, right in ((1.0, True), (1.01, False), (0.99, False)):
        z = (factor * total / (columns * count) - 1) * math.sqrt(columns * count)
        assert bool(abs(z) < Z) is right


def test_no_cell_is_impossible_and_no_set_is_likelier_by_more_than_e_to_the_epsilon() -> None:
    """Two neighbours in the plane, one scale apart (ε = 1), on a coarse grid: counts of cells."""
    counts = []
    for seed, mean in enumerate((np.array([0.1, 0.2]), np.array([0.7, 1.0]))):  # 1 apart
        cells = np.clip(draws(mean, 1.0, 0, 6_000, seed), -3, 4).astype(int) + 3
        counts.append(np.bincount(cells[:, 0] * 8 + cells[:, 1], minlength=64))
    first, second = counts
    assert min(first.min(), second.min()) > 0
    for one, two in ((first, second), (second, first)):
        room = Z * (math.e * np.sqrt(two) + np.sqrt(one))
        assert (one < math.e * two + room).all()
        assert (one > 1.8 * two).any(), "and it does come near"


def test_many_columns_take_no_time() -> None:
    """One radius for all: the numbers themselves are drawn at once."""
    values, calls = draw(np.zeros(4096), 1.0, -10, seed=0)
    assert len(values) == 4096
    assert calls.calls == 0


def test_a_uniform_of_zeros_gets_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose logarithm is beyond all bounds otherwise; the other one gets them too."""
    drawn = iter([np.array([0, 5], np.uint64), np.array([7, 9], np.uint64)])
    monkeypatch.setattr(rounded_noise, "words", lambda _stream, _count: next(drawn))
    low, high = rounded_noise._ChiScale(4, Randomness.experiment(0)).bounds()
    first, second = math.log(7) - 128 * math.log(2), math.log(5 + 9 / 2**64) - 64 * math.log(2)
    assert low < high < low * 1.01
    assert low * 0.99 < math.sqrt(-2 * (first + second)) < high * 1.01
