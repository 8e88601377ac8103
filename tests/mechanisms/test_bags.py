"""Bags, noisy_by_coins and weights: uniform, disjoint, decided by the seed, and blind to labels."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from labeldp.accounting.weighted_bags import realised_mu
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.bags import Draw, distinct
from labeldp.mechanisms.sampled_noisy_wtd_lag import draw_weights, noisy_by_coins
from labeldp.sampling.streams import public_stream


def drawn(rows: int, bags: int, size: int, seed: int = 0) -> Draw:
    return Draw.new(rows, bags, size, over_draw=False, seed=seed)


@pytest.mark.parametrize(("population", "count"), [(12, 4), (12, 9)], ids=["sparse", "dense"])
def test_samples_are_uniform_without_replacement(population: int, count: int) -> None:
    """χ² of positions and of ordered pairs in 20,000 samples, by either branch (p > 1e-4)."""
    trials = 20_000
    stream = public_stream("test", f"{population} {count}")
    samples = np.array([distinct(stream, population, count) for _ in range(trials)])
    assert all(len(set(sample)) == count for sample in samples[:500])
    for place in (0, 1, count - 1):
        seen = np.bincount(samples[:, place], minlength=population)
        assert stats.chisquare(seen).pvalue > 1e-4
    for left, right in ((0, 1), (1, count - 1)):
        pairs = samples[:, left] * population + samples[:, right]
        seen = np.bincount(pairs, minlength=population**2).reshape(population, population)
        assert np.trace(seen) == 0
        assert stats.chisquare(seen[~np.eye(population, dtype=bool)]).pvalue > 1e-4


def test_the_test_of_uniformity_rejects_a_biased_sampler() -> None:
    """Words modulo a population without the rejection step, in a small world of 4 bits."""
    words = np.random.default_rng(0).integers(0, 16, 20_000)
    assert stats.chisquare(np.bincount(words % 12, minlength=12)).pvalue < 1e-4


@settings(max_examples=60)
@given(st.integers(1, 400), st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**64))
def test_bags_are_disjoint_and_follow_from_the_seed(
    rows: int, bags: int, size: int, seed: int
) -> None:
    if bags * size > rows:
        with pytest.raises(InputError, match="disjoint"):
            drawn(rows, bags, size, seed)
        return
    members = drawn(rows, bags, size, seed).members
    assert members.shape == (bags, size)
    assert len(np.unique(members)) == bags * size
    assert 0 <= members.min() <= members.max() < rows
    assert np.array_equal(members, drawn(rows, bags, size, seed).members)


def test_seeds_differ_and_fresh_ones_are_random() -> None:
    first, second = drawn(1000, 5, 20, 1).members, drawn(1000, 5, 20, 2).members
    assert (first != second).mean() > 0.9
    fresh = [Draw.new(1000, 5, 20, over_draw=True, seed=None) for _ in range(2)]
    assert fresh[0].random
    assert fresh[0].seed != fresh[1].seed
    assert len(fresh[0].seed) == 64
    assert not drawn(1000, 5, 20).random


def test_few_bags_of_a_large_table_take_memory_of_their_own_size() -> None:
    """1,000 of 1e9 rows: nothing of the size of the table is held."""
    tracemalloc.start()
    try:
        members = drawn(10**9, 10, 100).members
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert members.max() > 5 * 10**8
    assert peak < 1_000_000


@pytest.mark.parametrize("fraction", [0.03, 0.5, 0.97])
def test_coins_have_their_rate(fraction: float) -> None:
    """100,000 coins: the two-sided binomial test accepts ρ and rejects ρ ± 0.01 (p of 1e-4)."""
    tossed = noisy_by_coins(drawn(100_000, 100, 1000), fraction)
    heads = int(tossed.sum())
    assert stats.binomtest(heads, tossed.size, fraction).pvalue > 1e-4
    for wrong in (fraction - 0.01, fraction + 0.01):
        assert stats.binomtest(heads, tossed.size, wrong).pvalue < 1e-4
    by_bag = tossed.sum(axis=1)
    assert stats.chisquare(by_bag * 1.0).pvalue > 1e-6
    assert noisy_by_coins(drawn(100_000, 100, 1000), 1.0).all()


def test_weights_are_standard_normal_and_independent_of_the_coins() -> None:
    draw = drawn(50_000, 50, 1000)
    weights = draw_weights(draw, noisy_by_coins(draw, 0.5), 10.0, 1.0, None)
    values = weights.values.reshape(-1)
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert stats.kstest(1.05 * values, "norm").pvalue < 1e-4
    noisy = weights.noisy.reshape(-1)
    assert stats.ks_2samp(values[noisy], values[~noisy]).pvalue > 1e-4


def test_redrawn_weights_keep_the_target_and_the_others_stay() -> None:
    draw = drawn(10_000, 300, 16)
    noisy = noisy_by_coins(draw, 0.8)
    first = draw_weights(draw, noisy, 10.0, 20.0, None)
    mu = realised_mu(first.values, noisy, 10.0, 20.0)
    target = float(np.median(mu))
    kept = draw_weights(draw, noisy, 10.0, 20.0, target)
    largest = float(realised_mu(kept.values, kept.noisy, 10.0, 20.0).max())
    assert largest <= target
    assert np.array_equal(kept.values[mu <= target], first.values[mu <= target])
    assert not (kept.values[mu > target] == first.values[mu > target]).any()
    again = draw_weights(draw, noisy, 10.0, 20.0, largest)
    assert np.array_equal(again.values, kept.values), "the realised μ repeats the draw"


def test_hopeless_targets_and_bags_without_noise_are_refused() -> None:
    draw = drawn(100, 5, 4)
    with pytest.raises(PlanError, match="however often"):
        draw_weights(draw, noisy_by_coins(draw, 1.0), 10.0, 1.0, 0.1)
    nothing = np.ones((5, 4), dtype=bool)
    nothing[2] = False
    with pytest.raises(PlanError, match="no noisy row"):
        draw_weights(draw, nothing, 10.0, 1.0, None)
