"""Empirical Bayes against the textbook formulas written out, one prior at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp.learners import shrinkage as module
from labeldp.learners.shrinkage import Prior, empirical_bayes, prior_family

Array = NDArray[np.float64]


class Problem:
    """A design with a constant, whitened, and a noise covariance of its own shape."""

    def __init__(self, seed: int, columns: int = 5, rows: int = 200, noise: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        design = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-1, 1, columns)
        design[:, 0] = 1.0
        self.root: Array = np.asarray(np.linalg.qr(design)[1])
        self.mean: Array = np.linalg.solve(self.root.T, design.sum(axis=0)) / np.sqrt(rows)
        spread = rng.normal(size=(columns, columns))
        self.noise: Array = noise * (spread @ spread.T + 0.1 * np.eye(columns))
        self.mean_variance = rows * 10.0**2 / 12
        self.family = prior_family(self.root, self.mean, 0)
        self.rng = rng

    def draw(self, prior: Array) -> Array:
        values, vectors = np.linalg.eigh(prior)
        spread = np.sqrt(np.maximum(values, 0.0)) * self.rng.normal(size=len(prior))
        return np.asarray(self.rng.multivariate_normal(vectors @ spread, self.noise))


def log_likelihood(estimate: Array, covariance: Array) -> float:
    _, size = np.linalg.slogdet(2 * np.pi * covariance)
    return float(-0.5 * (size + estimate @ np.linalg.solve(covariance, estimate)))


@given(seed=st.integers(0, 10_000), noise=st.sampled_from([1e-4, 1.0, 100.0]))
@settings(max_examples=30, deadline=None)
def test_the_choice_and_the_posterior_are_those_of_the_textbook(seed: int, noise: float) -> None:
    problem = Problem(seed, noise=noise)
    estimate = problem.draw(problem.family[seed % 3].matrix * 10.0 ** (seed % 5 - 2))
    found = empirical_bayes(
        estimate, problem.noise, problem.family, problem.mean, problem.mean_variance
    )
    free = problem.mean_variance * np.outer(problem.mean, problem.mean)
    choices = []
    for prior in problem.family:
        largest = np.linalg.eigvals(np.linalg.solve(problem.noise + free, prior.matrix)).real.max()
        for scale in np.append(0.0, np.geomspace(1e-2, 1e12, 60) / largest):
            known = free + scale * prior.matrix
            likelihood = log_likelihood(estimate, problem.noise + known)
            choices.append((likelihood, prior.name, scale, known))
    likelihood, name, scale, known = max(choices, key=lambda choice: choice[0])
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-6)
    assert len(choices) == 3 * 61
    if (found.prior, pytest.approx(found.scale, rel=1e-6)) == (name, scale):
        gain = known @ np.linalg.inv(problem.noise + known)
        assert np.allclose(found.mean, gain @ estimate, rtol=1e-6, atol=1e-8)
        assert np.allclose(found.covariance, gain @ problem.noise, atol=1e-6 * noise)
        assert found.kept == pytest.approx(float(np.trace(gain)), rel=1e-6)


def test_the_family_is_that_of_the_theory() -> None:
    problem = Problem(3)
    inside = np.eye(5) - np.outer(problem.mean, problem.mean)
    columns = inside @ problem.root[:, 1:]
    even, by_columns, square_root = (prior.matrix for prior in problem.family)
    assert np.linalg.norm(problem.mean) == pytest.approx(1.0)
    assert np.allclose(even, inside)
    outer = columns @ columns.T
    assert np.allclose(by_columns, outer * 4 / np.trace(outer))
    assert np.allclose(
        square_root @ square_root, outer * (square_root @ square_root).trace() / np.trace(outer)
    )
    for prior in problem.family:
        assert np.trace(prior.matrix) == pytest.approx(4.0)
        assert np.allclose(prior.matrix @ problem.mean, 0.0)


def test_pure_noise_is_shrunk_to_the_mean_and_strong_signals_are_left_alone() -> None:
    problem = Problem(1, noise=1.0)
    gone, kept = [], []
    for _ in range(50):
        nothing = problem.draw(1e-12 * np.eye(5)) + 300.0 * problem.mean
        found = empirical_bayes(
            nothing, problem.noise, problem.family, problem.mean, problem.mean_variance
        )
        gone.append(found.kept)
        assert found.mean @ problem.mean == pytest.approx(300.0, abs=20.0)
        strong = problem.draw(1e8 * problem.family[0].matrix)
        found = empirical_bayes(
            strong, problem.noise, problem.family, problem.mean, problem.mean_variance
        )
        kept.append(found.kept)
        assert np.allclose(found.mean, strong, rtol=1e-2, atol=1.0)
    assert np.median(gone) < 2.5
    assert min(kept) > 4.99


def test_shrinkage_pays_on_average() -> None:
    """Mean squared error of 300 draws at equal signal and noise, many directions: a third less."""
    problem = Problem(5, columns=30, rows=500)
    plain = shrunk = 0.0
    signal = problem.family[0].matrix * np.trace(problem.noise) / 30
    for _ in range(300):
        truth = problem.rng.multivariate_normal(np.zeros(30), signal) + 50 * problem.mean
        estimate = problem.rng.multivariate_normal(truth, problem.noise)
        found = empirical_bayes(
            estimate, problem.noise, problem.family, problem.mean, problem.mean_variance
        )
        plain += float(np.square(estimate - truth).sum())
        shrunk += float(np.square(found.mean - truth).sum())
    assert shrunk < 0.67 * plain


def test_the_posterior_variance_is_less_than_the_noise() -> None:
    problem = Problem(8)
    found = empirical_bayes(
        problem.draw(problem.family[1].matrix),
        problem.noise,
        problem.family,
        problem.mean,
        problem.mean_variance,
    )
    assert np.linalg.eigvalsh(problem.noise - found.covariance).min() >= -1e-9
    assert np.linalg.eigvalsh(found.covariance).min() >= -1e-9


def test_without_a_mean_everything_may_be_shrunk() -> None:
    problem = Problem(2)
    family = prior_family(problem.root, None, None)
    assert [round(float(np.trace(prior.matrix)), 9) for prior in family] == [5.0] * 3
    found = empirical_bayes(np.zeros(5), problem.noise, family)
    assert found.scale == 0.0
    assert np.array_equal(found.mean, np.zeros(5))
    assert found.kept == pytest.approx(0.0, abs=1e-9)


def test_a_constant_alone_is_left_as_it_is() -> None:
    family = prior_family(np.array([[10.0]]), np.array([1.0]), 0)
    assert family == ()
    found = empirical_bayes(np.array([3.0]), np.array([[1.0]]), family, np.array([1.0]), 1e9)
    assert found.mean == pytest.approx([3.0])
    assert (found.prior, found.scale) == ("none", 0.0)


def test_priors_of_lower_rank_are_fine() -> None:
    flat = Prior("one direction", np.diag([1.0, 0.0, 0.0]))
    found = empirical_bayes(np.array([5.0, 4.0, -3.0]), np.eye(3), [flat])
    assert found.mean[1:] == pytest.approx([0.0, 0.0])
    assert found.mean[0] == pytest.approx(5.0 * (1 - 1 / 25), rel=0.02)
    assert found.scale in module._scales(1.0)
