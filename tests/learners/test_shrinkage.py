"""The average over priors against the textbook formulas written out, one prior at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp.learners.shrinkage import (
    NoiseScaleMixture,
    Posterior,
    Prior,
    PriorMixture,
    prior_family,
)

Array = NDArray[np.float64]

LARGEST = 1e6
"""Of τ."""


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
        self.bayes = PriorMixture.of(
            self.noise, self.family, self.mean, self.mean_variance, largest=LARGEST
        )

    def scales(self, prior: Prior) -> Array:
        """From a tenth of the noise in the direction that shows most."""
        free = self.mean_variance * np.outer(self.mean, self.mean)
        shown = np.linalg.eigvals(np.linalg.solve(self.noise + free, prior.matrix)).real.max()
        return np.geomspace(min(LARGEST / 10, 0.1 / shown), LARGEST, 40)

    def posterior(self, estimate: Array) -> Posterior:
        return self.bayes.posterior(estimate)

    def draw(self, prior: Array) -> Array:
        values, vectors = np.linalg.eigh(prior)
        spread = np.sqrt(np.maximum(values, 0.0)) * self.rng.normal(size=len(prior))
        return np.asarray(self.rng.multivariate_normal(vectors @ spread, self.noise))


def log_likelihood(estimate: Array, covariance: Array) -> float:
    _, size = np.linalg.slogdet(2 * np.pi * covariance)
    return float(-0.5 * (size + estimate @ np.linalg.solve(covariance, estimate)))


@given(seed=st.integers(0, 10_000), noise=st.sampled_from([1e-4, 1.0, 100.0]))
@settings(max_examples=30)
def test_the_posterior_is_the_mixture_of_the_textbook(seed: int, noise: float) -> None:
    """Each prior written out: its likelihood, mean and covariance, then the law of the mixture."""
    problem = Problem(seed, noise=noise)
    estimate = problem.draw(problem.family[seed % 3].matrix * 10.0 ** (seed % 5 - 2))
    found = problem.posterior(estimate)
    free = problem.mean_variance * np.outer(problem.mean, problem.mean)
    priors = [(0.2, free, "none")]
    for prior in problem.family:
        scales = problem.scales(prior)
        priors += [(0.8 / 3 / 40, free + scale * prior.matrix, prior.name) for scale in scales]
    logs = [
        np.log(belief) + log_likelihood(estimate, problem.noise + known)
        for belief, known, _ in priors
    ]
    weights = np.exp(np.array(logs) - max(logs))
    assert found.log_likelihood == pytest.approx(max(logs) + np.log(weights.sum()), rel=1e-6)
    weights /= weights.sum()
    gains = [known @ np.linalg.inv(problem.noise + known) for _, known, _ in priors]
    gain = np.einsum("k,kij->ij", weights, gains)
    means = np.array([each @ estimate for each in gains])
    mean = weights @ means
    within = np.einsum("k,kij->ij", weights, [each @ problem.noise for each in gains])
    between = (means - mean).T @ (weights[:, None] * (means - mean))
    assert np.allclose(found.mean, mean, rtol=1e-6, atol=1e-8)
    assert np.allclose(found.smoother, gain, atol=1e-6)
    assert np.allclose(found.covariance, within + between, rtol=1e-6, atol=1e-6 * noise)
    assert found.kept == pytest.approx(float(np.trace(gain)), rel=1e-6)
    assert found.signal == pytest.approx(1 - weights[0], abs=1e-6)
    shares = {
        name: sum(w for w, (_, _, own) in zip(weights, priors, strict=True) if own == name)
        for _, _, name in priors
    }
    assert shares[found.prior] == pytest.approx(max(shares.values()), abs=1e-6)
    mean, likelihood = problem.bayes.mean(estimate)
    assert np.allclose(mean, found.mean)
    assert likelihood == found.log_likelihood


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
        found = problem.posterior(nothing)
        gone.append(found.kept)
        assert found.mean @ problem.mean == pytest.approx(300.0, abs=20.0)
        strong = problem.draw(1e8 * problem.family[0].matrix)
        found = problem.posterior(strong)
        kept.append(found.kept)
        assert np.allclose(found.mean, strong, rtol=1e-2, atol=1.0)
    assert np.median(gone) < 2.5
    assert min(kept) > 4.99


def test_shrinkage_pays_on_average() -> None:
    """Mean squared error of 300 draws at equal signal and noise, many directions: a third less."""
    problem = Problem(5, columns=30, rows=500)
    plain = shrunk = 0.0
    size = np.trace(problem.noise) / 30
    signal = problem.family[0].matrix * size
    bayes = PriorMixture.of(
        problem.noise, problem.family, problem.mean, problem.mean_variance, largest=30 * size
    )
    for _ in range(300):
        truth = problem.rng.multivariate_normal(np.zeros(30), signal) + 50 * problem.mean
        estimate = problem.rng.multivariate_normal(truth, problem.noise)
        found = bayes.posterior(estimate)
        plain += float(np.square(estimate - truth).sum())
        shrunk += float(np.square(found.mean - truth).sum())
    assert shrunk < 0.67 * plain


def test_it_is_never_much_worse_than_the_constant() -> None:
    """Nothing to explain, noise up to as large as labels can vary: at most a few percent of the
    noise is taken for signal, where the likeliest prior alone takes about ten times as much."""
    for noise in (1e-2, 1.0, 1e2, 1e4):
        problem = Problem(9, columns=12, rows=500, noise=noise)
        taken = []
        for _ in range(60):
            found = problem.posterior(problem.draw(1e-12 * np.eye(12)))
            slopes = found.mean - problem.mean * (problem.mean @ found.mean)
            taken.append(float(slopes @ slopes))
        assert np.mean(taken) < 0.05 * np.trace(problem.noise)
        assert found.signal < 0.995


def test_the_probability_of_a_signal_is_that_of_its_draws() -> None:
    """Truths drawn from the belief itself: among releases that say p, a share p has a signal."""
    problem = Problem(4, noise=1.0)
    said, true = [], []
    for _ in range(1500):
        signal = problem.rng.random() < 0.8
        chosen = problem.family[problem.rng.integers(3)]
        prior = chosen.matrix * problem.rng.choice(problem.scales(chosen))
        start = problem.mean * problem.rng.normal() * np.sqrt(problem.mean_variance)
        estimate = problem.draw(prior * signal) + start
        said.append(problem.posterior(estimate).signal)
        true.append(signal)
    told, truth = np.array(said), np.array(true)
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (told >= low) & (told < high)
        error = np.sqrt((told * (1 - told))[inside].sum() + 1)
        assert abs((told - truth)[inside].sum()) < 4 * error
    assert np.mean(told[~truth] > 0.995) < 0.02


def radial_draw(problem: Problem, prior: Array) -> tuple[Array, Array]:
    """A truth, and what a release with radial noise of the problem's covariance shows of it."""
    rng, width = problem.rng, len(prior)
    values, vectors = np.linalg.eigh(prior)
    truth = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=width))
    truth = truth + problem.mean * rng.normal() * np.sqrt(problem.mean_variance)
    size = np.sqrt(rng.chisquare(width + 1) / (width + 1))
    return truth, truth + size * np.linalg.cholesky(problem.noise) @ rng.normal(size=width)


def sizes(problem: Problem, radial: int | None) -> NoiseScaleMixture:
    known = (problem.family, problem.mean, problem.mean_variance)
    return NoiseScaleMixture.of(
        radial, lambda size: PriorMixture.of(size * problem.noise, *known, largest=LARGEST)
    )


@pytest.mark.parametrize("seed", range(6))
def test_of_radial_noise_it_is_the_textbook_s_over_all_sizes(seed: int) -> None:
    """The textbook's posterior of normal noise, on a fine grid of its size."""
    problem = Problem(seed, columns=4)
    _, estimate = radial_draw(problem, problem.family[1].matrix * 10.0 ** (seed - 3))
    found = sizes(problem, 4).posterior(estimate)
    tried = np.geomspace(1e-3, 40, 400)
    logs, each = [], []
    for size in tried:
        part = PriorMixture.of(
            size * problem.noise,
            problem.family,
            problem.mean,
            problem.mean_variance,
            largest=LARGEST,
        )
        each.append(part.posterior(estimate))
        logs.append(2.5 * np.log(size) - 2.5 * size + each[-1].log_likelihood)  # χ²₅/5
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    means = np.array([part.mean for part in each])
    mean = weights @ means
    inside = np.tensordot(weights, np.array([part.covariance for part in each]), 1)
    covariance = inside + ((means - mean).T * weights) @ (means - mean)
    deviations = np.sqrt(np.diag(covariance))
    assert found.signal == pytest.approx(weights @ [part.signal for part in each], abs=1e-3)
    assert np.all(np.abs(found.mean - mean) < 0.005 * deviations)
    assert np.allclose(found.covariance, covariance, atol=0.01 * deviations.max() ** 2)
    assert np.allclose(sizes(problem, 4).mean(estimate), found.mean)
    assert found.kept == pytest.approx(float(np.trace(found.smoother)))


def test_radial_noise_in_many_dimensions_is_normal() -> None:
    problem = Problem(3)
    estimate = problem.draw(problem.family[0].matrix)
    many = sizes(problem, 180).posterior(estimate)
    assert np.allclose(many.mean, problem.posterior(estimate).mean, atol=0.01)
    assert len(sizes(problem, 10**6).parts) == 1


def test_radial_noise_is_seldom_taken_for_a_signal() -> None:
    """Where there is nothing to explain; noise that is taken for normal is, several times more."""
    problem = Problem(4, columns=4, noise=1.0)
    laws = {law: sizes(problem, law) for law in (4, None)}
    called = dict.fromkeys(laws, 0)
    for _ in range(1000):
        _, estimate = radial_draw(problem, np.zeros((4, 4)))
        for law, bayes in laws.items():
            called[law] += bayes.posterior(estimate).signal > 0.95
    assert called[None] > 6, "or the test would show nothing"
    assert called[4] <= 0.4 * called[None]


def test_without_a_mean_everything_may_be_shrunk() -> None:
    problem = Problem(2)
    family = prior_family(problem.root, None, None)
    assert [round(float(np.trace(prior.matrix)), 9) for prior in family] == [5.0] * 3
    found = PriorMixture.of(problem.noise, family, largest=1e-9).posterior(np.ones(5))
    assert np.allclose(found.mean, np.zeros(5), atol=1e-6)
    assert found.kept == pytest.approx(0.0, abs=1e-6)


def test_a_constant_alone_is_left_as_it_is() -> None:
    family = prior_family(np.array([[10.0]]), np.array([1.0]), 0)
    assert family == ()
    bayes = PriorMixture.of(np.array([[1.0]]), family, np.array([1.0]), 1e9, largest=1.0)
    found = bayes.posterior(np.array([3.0]))
    assert found.mean == pytest.approx([3.0])
    assert (found.prior, found.signal) == ("none", 0.0)


def test_priors_of_lower_rank_are_fine() -> None:
    flat = Prior("one direction", np.diag([1.0, 0.0, 0.0]))
    found = PriorMixture.of(np.eye(3), [flat], largest=1e3).posterior(np.array([50.0, 4.0, -3.0]))
    assert found.mean[1:] == pytest.approx([0.0, 0.0])
    assert found.mean[0] == pytest.approx(50.0, rel=0.02)
