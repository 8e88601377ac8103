"""Peers do what their formulas say: expectations against draws, bins against all bins."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from experiments.alternatives import (
    PEERS,
    Budget,
    Peer,
    Randomiser,
    Trial,
    ada_ssp,
    ada_ssp_as_published,
    best_bins,
    private_prior,
    shrunken,
    strongest,
)
from experiments.least_squares import BINS, Array, errors, fit

ONE = Budget(1.0, 1e-6)
RANGE = (-1.0, 3.0)
REPEATS = 20_000


def table(columns: int, rows: int = 60) -> list[tuple[Array, Array]]:
    """Rows with one of high leverage, in two blocks."""
    random = np.random.default_rng(columns)
    design = random.normal(size=(rows, columns))
    design[7] *= 4
    design[:, 0] = 1.0
    labels = np.clip(design @ random.normal(size=columns) / 3 + random.normal(size=rows), *RANGE)
    return [(design[:25], labels[:25]), (design[25:], labels[25:])]


def trial(columns: int, budget: Budget = ONE, repeats: int = REPEATS) -> Trial:
    blocks = table(columns)
    return Trial(fit(blocks, RANGE), blocks, budget, np.random.default_rng(1), repeats)


def whole(blocks: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    designs, labels = zip(*blocks, strict=True)
    return np.concatenate(designs), np.concatenate(labels)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.25, 0.0649), (0.5, 0.1241), (1, 0.2367), (2, 0.4483), (4, 0.8379)]
)
def test_a_budget_allows_the_known_gaussian(epsilon: float, mu: float) -> None:
    assert Budget(epsilon, 1e-6).mu == pytest.approx(mu, abs=6e-5)


def test_the_fit_with_all_labels_is_numpys() -> None:
    blocks = table(5)
    found, (design, labels) = fit(blocks, RANGE), whole(blocks)
    beta, residual, *_ = np.linalg.lstsq(design, labels)
    assert found.coefficients == pytest.approx(beta)
    assert found.residual_ss == pytest.approx(residual[0])
    assert found.constant_ss == pytest.approx(len(labels) * labels.var())
    assert found.counts.sum() == len(labels)
    assert found.counts @ np.linspace(*RANGE, BINS) == pytest.approx(labels.sum(), abs=1.0)
    leverages = np.diag(design @ np.linalg.pinv(design))
    assert found.largest_leverage == pytest.approx(leverages.max())
    assert found.largest_norm == pytest.approx(np.linalg.norm(design, axis=1).max())
    other = np.column_stack([beta, beta + 0.1])
    gaps = np.square(design @ other - (design @ beta)[:, None]).sum(axis=0)
    assert found.distance(other) == pytest.approx(gaps, abs=1e-9)
    clipped = np.square(np.clip(design @ other, 0, 1) - labels[:, None]).sum(axis=0)
    assert errors(blocks, other, (0, 1)) == pytest.approx(clipped)


def expected(peer: Peer, given: Trial) -> float:
    assert peer.excess is not None
    return peer.excess(given.fit, given.budget)


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize(
    "peer", [peer for peer in PEERS if peer.excess], ids=lambda peer: str(peer.name)
)
def test_the_mean_excess_of_draws_is_the_exact_one(peer: Peer, columns: int) -> None:
    """Within 5 deviations of a mean over 20,000; 7 % more or less is rejected."""
    given = trial(columns)
    found = errors(given.blocks, peer.draw(given), (-np.inf, np.inf)) - given.fit.residual_ss
    mean, error = found.mean(), found.std() / math.sqrt(len(found))
    value = expected(peer, given)
    assert abs(mean - value) < 5 * error
    if peer.name != "constant":  # whose noise is next to nothing
        assert min(abs(mean - 1.07 * value), abs(mean - 0.93 * value)) > 5 * error


def test_gaussian_rows_are_rows_with_gaussian_noise() -> None:
    """By hand: noise on labels, least squares, and what it adds to predictions."""
    given, random = trial(4), np.random.default_rng(2)
    design, labels = whole(given.blocks)  # type: ignore[arg-type]
    noisy = labels[:, None] + random.normal(scale=4 / ONE.mu, size=(len(labels), REPEATS))
    found = given.fit.distance(np.linalg.lstsq(design, noisy)[0])
    value = expected(PEERS[0], given)
    assert abs(found.mean() - value) < 5 * found.std() / math.sqrt(REPEATS)


def test_isotropic_noise_covers_the_worst_row() -> None:
    """A label that changes by Δ moves Rβ̂ by Δ√h of its row."""
    given = trial(20)
    design, _ = whole(given.blocks)  # type: ignore[arg-type]
    moves = 4 * np.linalg.norm(np.linalg.solve(given.fit.root.T, design.T), axis=0)
    isotropic = PEERS[2]
    assert isotropic.variance is not None
    assert math.sqrt(isotropic.variance(given.fit, ONE)) == pytest.approx(moves.max() / ONE.mu)


class Silent:
    """A stream without noise."""

    @staticmethod
    def normal(size: tuple[int, int]) -> Array:
        return np.zeros(size)


def test_ada_ssp_has_its_noise_and_its_ridge() -> None:
    given = trial(4, repeats=4000)
    design, labels = whole(given.blocks)  # type: ignore[arg-type]
    reach = np.linalg.norm(design, axis=1).max()
    gram = design.T @ design
    wanted = math.sqrt(4 * math.log(6e6) * math.log(32 / 0.05)) * reach**2
    ridged = gram + (wanted - np.linalg.eigvalsh(gram).min()) * np.eye(4)
    silent = ada_ssp(replace(given, stream=Silent(), repeats=1))[:, 0]  # type: ignore[arg-type]
    middle = np.array([1.0, 0, 0, 0])  # labels count from the middle of their range
    assert ridged @ (silent - middle) == pytest.approx(design.T @ (labels - 1.0))
    plain = ada_ssp_as_published(replace(given, stream=Silent(), repeats=1))  # type: ignore[arg-type]
    assert ridged @ plain[:, 0] == pytest.approx(design.T @ labels)
    noise = ridged @ (ada_ssp(given) - silent[:, None])
    scale = 4 * reach / ONE.mu
    assert np.cov(noise) / scale**2 == pytest.approx(np.eye(4), abs=0.12)


def test_with_much_budget_everyone_has_the_fit() -> None:
    given = trial(4, Budget(1e7, 1e-6), repeats=3)
    for peer in (*PEERS[:5], strongest(given.fit, given.budget)):
        assert given.fit.distance(peer.draw(given)).max() < 1e-3, peer.name
    assert given.fit.distance(shrunken(given)).max() < 1e-3


def channel(found: Randomiser) -> Array:
    """Pr[told | grid value]."""
    count = len(found.told)
    other = (1 - found.keep) / (count - 1) if count > 1 else 0.0
    return np.where(found.bin_of[:, None] == np.arange(count), found.keep, other)


def mean_error(chances: Array, told: Array, prior: Array, grid: Array) -> float:
    return float((prior[:, None] * chances * np.square(told - grid[:, None])).sum())


def all_bins(prior: Array, grid: Array, epsilon: float) -> float:
    """The least error of any bins of neighbours, each telling its best value."""
    size, least = len(grid), math.inf
    for cuts in itertools.product((0, 1), repeat=size - 1):
        bin_of = np.append(0, np.cumsum(cuts))
        count = bin_of[-1] + 1
        weight = np.where(bin_of[:, None] == np.arange(count), math.exp(epsilon), 1.0)
        chances = weight / (math.exp(epsilon) + count - 1)
        joint = prior[:, None] * chances
        told = (joint * grid[:, None]).sum(axis=0) / joint.sum(axis=0)
        least = min(least, mean_error(chances, told, prior, grid))
    return least


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_bins_are_the_best_plan_all_and_private(epsilon: float) -> None:
    random = np.random.default_rng(3)
    for _ in range(5):
        prior, grid = random.dirichlet(np.full(7, 0.5)), np.sort(random.normal(size=7))
        found = best_bins(prior, grid, epsilon)
        chances = channel(found)
        assert chances.sum(axis=1) == pytest.approx(1.0)
        assert (chances.max(axis=0) <= math.exp(epsilon) * chances.min(axis=0) * (1 + 1e-9)).all()
        error = mean_error(chances, found.told, prior, grid)
        assert error == pytest.approx(all_bins(prior, grid, epsilon))


def test_randomised_labels_follow_the_channel() -> None:
    """Frequencies of 40,000 draws within 5 deviations; a keep probability 5 % off is not."""
    found = Randomiser(np.array([0, 0, 1, 2]), np.array([-1.0, 0.5, 2.0]), keep=0.6)
    told = found(np.full(40_000, 2), np.random.default_rng(4))
    seen = np.array([(told == value).mean() for value in found.told])
    chances = channel(found)[2]
    errors_of = np.sqrt(chances * (1 - chances) / len(told))
    assert (np.abs(seen - chances) < 5 * errors_of).all()
    assert abs(seen[1] - 1.05 * 0.6) > 5 * errors_of[1]


def test_the_private_prior_has_noise_for_two_counts() -> None:
    """Scale 2/ε: a changed label leaves one count and enters another."""
    random, counts = np.random.default_rng(5), np.full(2000, 1e6)
    prior = private_prior(counts, 0.5, random)
    assert prior.sum() == pytest.approx(1.0)
    noise = prior / prior.mean() * 1e6 - 1e6
    assert noise.var() == pytest.approx(2 * 4.0**2, rel=0.25)
    assert (private_prior(np.zeros(50), 0.1, random) >= 0).all()


def test_shrinking_helps_where_noise_is_large() -> None:
    given = trial(20, repeats=20)
    peer = strongest(given.fit, ONE)
    plain = given.fit.distance(peer.draw(given)).mean()
    assert given.fit.distance(shrunken(given)).mean() < plain / 2
