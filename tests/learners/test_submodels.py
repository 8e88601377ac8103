"""Sub-models of a rich design: their evidence, and what it does to predictions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import multivariate_normal

from labeldp import LinearRegressor, plan, scan
from labeldp.learners.shrinkage import (
    HIDDEN,
    MODELS,
    NOTHING,
    SCALES,
    PriorMixture,
    prior_family,
)
from labeldp.sampling.streams import Randomness

ROWS = 4000


def design(seed=1):
    """R, q0, noise and degrees: a constant, two lines, three hinges, two waves."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(ROWS, 2))
    hinges = np.maximum(0, x[:, [0, 0, 1]] - [-0.5, 0.5, 0.0])
    waves = np.cos(x @ random.normal(size=(2, 2)))
    root = np.linalg.qr(np.hstack([np.ones((ROWS, 1)), x, hinges, waves]), mode="r")
    scatter = random.normal(size=(8, 8))
    return root, root[:, 0] / np.linalg.norm(root[:, 0]), scatter @ scatter.T + np.eye(8)


DEGREES = (0, 0, 0, 1, 1, 1, 2, 2)


def bayes(root, mean, noise):
    family = prior_family(root, mean, 0, DEGREES)
    return family, PriorMixture.of(noise, family, mean, 1e6, largest=1e3)


def test_probabilities_are_those_of_the_densities():
    root, mean, noise = design()
    family, found = bayes(root, mean, noise)
    estimate = np.random.default_rng(3).normal(size=8) * 20
    weights = dict.fromkeys(MODELS, 0.0)
    total = sum(prior.belief for prior in family)
    free = noise + 1e6 * np.outer(mean, mean)
    for prior in family:
        shown = np.linalg.eigvals(np.linalg.solve(free, prior.matrix)).real.max()
        taus = np.geomspace(min(1e2, HIDDEN / shown), 1e3, SCALES)
        densities = [multivariate_normal(cov=free + t * prior.matrix).pdf(estimate) for t in taus]
        weights[prior.model] += prior.belief / total * np.mean(densities)
    nothing = NOTHING * multivariate_normal(cov=free).pdf(estimate)
    signal = (1 - NOTHING) * sum(weights.values())
    posterior = found.posterior(estimate)
    assert posterior.signal == pytest.approx(signal / (signal + nothing), rel=1e-6)
    for model, weight in weights.items():
        wanted = weight / sum(weights.values())
        assert posterior.models[model] == pytest.approx(wanted, rel=1e-6)


def test_every_sub_model_has_the_same_belief_and_its_own_columns():
    root, mean, noise = design()
    family, _ = bayes(root, mean, noise)
    for degree, model in enumerate(MODELS):
        mine = [prior for prior in family if prior.model == model]
        assert sum(prior.belief for prior in mine) == pytest.approx(1)
        there = root[:, np.array(DEGREES) <= degree]
        outside = np.eye(8) - there @ np.linalg.pinv(there)
        for prior in mine:
            assert np.trace(prior.matrix) == pytest.approx(7)
            assert np.abs(outside @ prior.matrix).max() < 1e-9


@pytest.mark.parametrize("degree", range(3))
def test_the_model_that_made_the_labels_is_supported(degree):
    root, mean, noise = design()
    _, found = bayes(root, mean, noise)
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(20):
        coefficients = random.normal(size=8) * (np.array(DEGREES) <= degree)
        estimate = root @ coefficients + np.linalg.cholesky(noise) @ random.normal(size=8)
        models = found.posterior(estimate).models
        hits += max(models, key=models.get) == MODELS[degree]
    assert hits >= 17


def test_a_fit_reports_what_the_release_supports():
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (20_000, 2))
    straight = np.clip(0.4 * x[:, 0] + random.normal(0, 0.1, len(x)), -3, 3)
    bent = np.clip(np.abs(x[:, 1]) + random.normal(0, 0.1, len(x)), -3, 3)
    for labels, model in ((straight, "linear"), (bent, "splines")):
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": labels})
        source = scan(table, label="y", label_range=(-3, 3))
        made = plan(source, 1.0, 1e-6, mechanism="shaped-flag", basis="splines:3+fourier:5")
        fit = LinearRegressor().fit(made.release(source, randomness=Randomness.experiment(1)))
        assert fit.rule_["supported"] == model
        assert sum(fit.rule_[name] for name in MODELS) == pytest.approx(1)
        error = fit.predict(table) - labels
        assert np.sqrt(np.mean(error**2)) < 0.2


def test_linear_releases_say_nothing_of_it():
    random = np.random.default_rng(0)
    table = pa.table({"a": random.normal(size=2000), "y": random.uniform(size=2000)})
    source = scan(table, label="y", label_range=(0, 1))
    made = plan(source, 1.0, 1e-6, mechanism="shaped-flag")
    assert "supported" not in LinearRegressor().fit(made.release(source)).rule_
