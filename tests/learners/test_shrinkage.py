"""The average over priors against the textbook formulas written out, one prior at a time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp import InputError, LinearRegressor, Plan, Release, scan
from labeldp.learners.shrinkage import (
    HIDDEN,
    MODELS,
    NOTHING,
    SCALES,
    Posterior,
    Prior,
    PriorMixture,
    prior_family,
)
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.plans import plan
from tests.tables import RANGE, source, table

Array = NDArray[np.float64]

LARGEST = 1e6
"""Of τ."""
DEGREES = (0, 0, 0, 1, 1, 1, 2, 2)


class Problem:
    """A design with a constant, whitened, and a noise covariance of its own shape."""

    def __init__(self, seed: int, columns: int = 5, noise: float = 1.0, curves: bool = False):
        rng, rows = np.random.default_rng(seed), 200
        design = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-1, 1, columns)
        design[:, 0] = 1.0
        if curves:  # a constant, two lines, three hinges, two waves
            x = rng.normal(size=(rows, 2))
            hinges = np.maximum(0, x[:, [0, 0, 1]] - [-0.5, 0.5, 0.0])
            design = np.hstack([design[:, :1], x, hinges, np.cos(x @ rng.normal(size=(2, 2)))])
        self.root: Array = np.asarray(np.linalg.qr(design)[1])
        self.mean: Array = np.linalg.solve(self.root.T, design.sum(axis=0)) / np.sqrt(rows)
        spread = rng.normal(size=(len(self.mean), len(self.mean)))
        self.noise: Array = noise * (spread @ spread.T + 0.1 * np.eye(len(self.mean)))
        self.variance = rows * 10.0**2 / 12
        self.family = prior_family(self.root, self.mean, 0, DEGREES if curves else ())
        self.rng = rng

    def mixture(self, largest: float = LARGEST, radial: int | None = None) -> PriorMixture:
        return PriorMixture(
            self.noise, self.family, self.mean, self.variance, largest=largest, radial=radial
        )

    def scales(self, prior: Prior, noise: float = 1.0) -> Array:
        """From a tenth of the noise in the direction that shows most."""
        known = noise * self.noise + self.variance * np.outer(self.mean, self.mean)
        shown = np.linalg.eigvals(np.linalg.solve(known, prior.matrix)).real.max()
        return np.geomspace(min(LARGEST / 10, HIDDEN / shown), LARGEST, SCALES)

    def draw(self, prior: Array) -> Array:
        values, vectors = np.linalg.eigh(prior)
        spread = np.sqrt(np.maximum(values, 0.0)) * self.rng.normal(size=len(prior))
        return np.asarray(self.rng.multivariate_normal(vectors @ spread, self.noise))


def textbook(problem: Problem, estimate: Array, sizes: Array, chances: Array) -> Posterior:
    """Every prior, every τ and every size of the noise written out, then the law of the mixture."""
    free = problem.variance * np.outer(problem.mean, problem.mean)
    beliefs = sum(prior.belief for prior in problem.family)
    logs, gains, within, names, models = [], [], [], [], []
    for size, chance in zip(sizes, chances, strict=True):
        noise = size * problem.noise
        known = [(NOTHING, free, "none", "none")]
        for prior in problem.family:
            belief = (1 - NOTHING) * prior.belief / beliefs / SCALES
            for scale in problem.scales(prior, size):
                known.append((belief, free + scale * prior.matrix, prior.name, prior.model))
        for belief, covariance, name, model in known:
            total = noise + covariance
            square = estimate @ np.linalg.solve(total, estimate)
            logs.append(np.log(chance * belief) - (np.linalg.slogdet(total)[1] + square) / 2)
            gains.append(covariance @ np.linalg.inv(total))
            within.append(gains[-1] @ noise)
            names.append(name)
            models.append(model)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    means = np.array([each @ estimate for each in gains])
    mean = weights @ means
    between = (means - mean).T @ (weights[:, None] * (means - mean))
    signal = 1 - weights[np.array(names) == "none"].sum()
    return Posterior(
        mean,
        np.tensordot(weights, within, 1) + between,
        np.tensordot(weights, gains, 1),
        signal,
        max(set(names), key=lambda name: weights[np.array(names) == name].sum()),
        {m: weights[np.array(models) == m].sum() / signal for m in set(models) - {"none"}},
    )


def assert_same(found: Posterior, expected: Posterior, close: float) -> None:
    deviations = np.sqrt(np.diag(expected.covariance))
    assert np.all(np.abs(found.mean - expected.mean) < close * deviations)
    assert np.allclose(found.covariance, expected.covariance, atol=close * deviations.max() ** 2)
    assert np.allclose(found.smoother, expected.smoother, atol=close)
    assert found.signal == pytest.approx(expected.signal, abs=close)
    assert found.models == pytest.approx(expected.models, abs=close)


@given(seed=st.integers(0, 10_000), noise=st.sampled_from([1e-4, 1.0, 100.0]), curves=st.booleans())
@settings(max_examples=15)
def test_the_posterior_is_the_mixture_of_the_textbook(
    seed: int, noise: float, curves: bool
) -> None:
    problem = Problem(seed, noise=noise, curves=curves)
    estimate = problem.draw(problem.family[seed % 3].matrix * 10.0 ** (seed % 5 - 2))
    found, mixture = textbook(problem, estimate, np.ones(1), np.ones(1)), problem.mixture()
    assert_same(mixture.posterior(estimate), found, 1e-5)
    assert mixture.posterior(estimate).prior == found.prior
    assert np.allclose(mixture.mean(estimate), mixture.posterior(estimate).mean)


@pytest.mark.parametrize("seed", range(3))
def test_of_radial_noise_it_is_the_textbooks_over_all_sizes(seed: int) -> None:
    """On a finer grid of χ²₅/5 than ours, evenly spaced in logarithm."""
    problem = Problem(seed, columns=4)
    estimate = problem.draw(problem.family[1].matrix * 10.0 ** (2 * seed - 3))
    sizes = np.geomspace(1e-2, 12, 40)
    expected = textbook(problem, estimate, sizes, sizes**2.5 * np.exp(-2.5 * sizes))
    mixture = problem.mixture(radial=4)
    assert_same(mixture.posterior(estimate), expected, 0.01)
    assert np.allclose(mixture.mean(estimate), mixture.posterior(estimate).mean)
    many, normal = problem.mixture(radial=10**6), problem.mixture()
    assert np.array_equal(many.mean(estimate), normal.mean(estimate))


def test_the_family_is_that_of_the_theory() -> None:
    problem = Problem(3)
    inside = np.eye(5) - np.outer(problem.mean, problem.mean)
    columns = inside @ problem.root[:, 1:]
    even, by_columns, square_root = (prior.matrix for prior in problem.family)
    assert np.allclose(even, inside)
    outer = columns @ columns.T
    assert np.allclose(by_columns, outer * 4 / np.trace(outer))
    square = square_root @ square_root
    assert np.allclose(square, outer * square.trace() / np.trace(outer))
    for prior in problem.family:
        assert np.trace(prior.matrix) == pytest.approx(4.0)
        assert np.allclose(prior.matrix @ problem.mean, 0.0)


def test_every_sub_model_has_the_same_belief_and_its_own_columns() -> None:
    problem = Problem(1, curves=True)
    for degree, model in enumerate(MODELS):
        mine = [prior for prior in problem.family if prior.model == model]
        assert sum(prior.belief for prior in mine) == pytest.approx(1)
        there = problem.root[:, np.array(DEGREES) <= degree]
        outside = np.eye(8) - there @ np.linalg.pinv(there)
        for prior in mine:
            assert np.trace(prior.matrix) == pytest.approx(7)
            assert np.abs(outside @ prior.matrix).max() < 1e-9


def test_strong_signals_are_left_alone_and_noise_is_not_taken_for_one() -> None:
    """At most a few percent of the noise, however large; the likeliest prior alone takes ten times
    as much."""
    for noise in (1e-2, 1.0, 1e4):
        problem = Problem(9, columns=12, noise=noise)
        mixture, taken = problem.mixture(), []
        for _ in range(40):
            found = mixture.mean(problem.draw(1e-12 * np.eye(12)))
            slopes = found - problem.mean * (problem.mean @ found)
            taken.append(float(slopes @ slopes))
        assert np.mean(taken) < 0.05 * np.trace(problem.noise)
    strong = problem.draw(1e8 * noise * problem.family[0].matrix)
    found = problem.mixture(largest=1e12).mean(strong)
    assert np.allclose(found, strong, rtol=1e-2, atol=np.sqrt(noise))


def test_the_probability_of_a_signal_is_that_of_its_draws() -> None:
    """Truths drawn from the belief itself: among releases that say p, a share p has a signal.

    4 deviations: a right law is refused with probability 2e-4.
    """
    problem = Problem(4)
    mixture, said, true = problem.mixture(), [], []
    for _ in range(1000):
        signal = problem.rng.random() < 0.8
        chosen = problem.family[problem.rng.integers(3)]
        prior = chosen.matrix * problem.rng.choice(problem.scales(chosen))
        start = problem.mean * problem.rng.normal() * np.sqrt(problem.variance)
        said.append(mixture.posterior(problem.draw(prior * signal) + start).signal)
        true.append(signal)
    told, truth = np.array(said), np.array(true)
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (told >= low) & (told < high)
        error = np.sqrt((told * (1 - told))[inside].sum() + 1)
        assert abs((told - truth)[inside].sum()) < 4 * error
    assert np.mean(told[~truth] > 0.995) < 0.02


def test_radial_noise_is_seldom_taken_for_a_signal() -> None:
    """Where there is nothing to explain; noise that is taken for normal is, several times more."""
    problem = Problem(4, columns=4)
    mixtures = {law: problem.mixture(radial=law) for law in (4, None)}
    called = dict.fromkeys(mixtures, 0)
    lower = np.linalg.cholesky(problem.noise)
    for _ in range(600):
        mean = problem.mean * problem.rng.normal() * np.sqrt(problem.variance)
        size = np.sqrt(problem.rng.chisquare(5) / 5)
        estimate = mean + size * lower @ problem.rng.normal(size=4)
        for law, mixture in mixtures.items():
            called[law] += mixture.posterior(estimate).signal > 0.95
    assert called[None] > 4, "or the test would show nothing"
    assert called[4] <= 0.4 * called[None]


def test_no_mean_no_columns_and_priors_of_lower_rank() -> None:
    problem = Problem(2)
    family = prior_family(problem.root, None, None)
    assert [round(float(np.trace(prior.matrix)), 9) for prior in family] == [5.0] * 3
    found = PriorMixture(problem.noise, family, largest=1e-9).posterior(np.ones(5))
    assert np.allclose(found.mean, np.zeros(5), atol=1e-6)
    assert prior_family(np.array([[10.0]]), np.array([1.0]), 0) == []
    alone = PriorMixture(np.array([[1.0]]), [], np.array([1.0]), 1e9, largest=1.0)
    found = alone.posterior(np.array([3.0]))
    assert found.mean == pytest.approx([3.0])
    assert (found.prior, found.signal) == ("none", 0.0)
    flat = Prior("one direction", np.diag([1.0, 0.0, 0.0]))
    mean = PriorMixture(np.eye(3), [flat], largest=1e3).mean(np.array([50.0, 4.0, -3.0]))
    assert mean == pytest.approx([50.0, 0.0, 0.0], rel=0.02)


# --- releases ---

ROWS, RELEASES = 300, 12


@cache
def planned(epsilon: float) -> Plan:
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism="shaped-flag")


@cache
def released(epsilon: float, seed: int) -> Release:
    return planned(epsilon).release(source(ROWS), randomness=Randomness.experiment(seed))


@cache
def sketch() -> Release:
    return plan(source(ROWS), epsilon=1, delta=1e-5, bags=40).release(source(ROWS))


def error(epsilon: float, **options: bool) -> float:
    """Mean squared distance to the fit with all labels, over releases."""
    rows = table(ROWS)
    design = planned(epsilon).features.design(rows)
    best = design @ np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    models = [
        LinearRegressor(**{"clip": False} | options).fit(released(epsilon, seed))
        for seed in range(RELEASES)
    ]
    return float(np.mean([np.square(model.predict(rows) - best).mean() for model in models]))


def test_shrinkage_helps_where_noise_dominates_and_does_little_elsewhere() -> None:
    assert 3 * error(0.1, shrink=True) < error(0.1, shrink=False)
    assert error(1e3, shrink=True) == pytest.approx(error(1e3, shrink=False), rel=0.5, abs=1e-9)
    assert error(0.1, shrink=False, clip=True) < error(0.1, shrink=False)


def test_it_is_the_default_where_noise_is_known_and_nothing_else_holds_back() -> None:
    release = released(0.1, 3)
    default, asked = LinearRegressor().fit(release), LinearRegressor(shrink=True).fit(release)
    assert np.array_equal(default.coef_, asked.coef_)
    assert default.rule_["rule"] == "posterior mean"
    plain = LinearRegressor(shrink=False).fit(release)
    assert default.coefficients_ == plain.coefficients_  # never shrunk
    assert not np.allclose(default.coef_, plain.coef_)
    assert plain.rule_ == LinearRegressor().fit(sketch()).rule_ == {"rule": "least squares"}
    assert LinearRegressor(penalty=2.0).fit(release).rule_ == {"rule": "ridge", "penalty": 2.0}


def test_predictions_stay_in_the_public_range_unless_asked_otherwise() -> None:
    release, rows = released(0.1, 3), table(ROWS)
    free = LinearRegressor(shrink=False, clip=False).fit(release)
    kept = LinearRegressor(shrink=False).fit(release)
    far = free.predict(rows)
    assert far.min() < RANGE[0]
    assert kept.predict(rows) == pytest.approx(np.clip(far, *RANGE), abs=1e-3)
    assert np.array_equal(kept.coef_, free.coef_)
    assert LinearRegressor().fit(np.eye(3), np.ones(3)).label_range_ is None


def test_it_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    for data in ((sketch(),), (np.eye(3), np.ones(3))):
        with pytest.raises(InputError, match="`shrink=True` needs a release"):
            LinearRegressor(shrink=True).fit(*data)
    with pytest.raises(InputError, match="`shrink=True` exclude each other"):
        LinearRegressor(shrink=True, penalty=1.0).fit(released(0.1, 3))
    sketch().save(tmp_path / "sketch")
    assert "--shrink needs a release" in labeldp("fit", tmp_path / "sketch", "--shrink").error


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (("--no-shrink",), {"shrink": False}),
        (("--shrink", "--no-clip"), {"shrink": True, "clip": False}),
    ],
)
def test_a_model_keeps_its_rule_and_range(
    tmp_path: Path, flags: tuple[str, ...], options: dict[str, bool]
) -> None:
    released(0.1, 1).save(tmp_path / "shaped")
    assert labeldp("fit", tmp_path / "shaped", *flags, "--out", tmp_path / "model").code == 0
    model = LinearRegressor.load(tmp_path / "model")
    fitted = LinearRegressor(**options).fit(released(0.1, 1))
    assert model.get_params() == fitted.get_params()
    assert model.rule_ == fitted.rule_
    assert model.label_range_ == fitted.label_range_ == pytest.approx(RANGE, abs=1e-3)
    assert np.array_equal(model.predict(table(20)), fitted.predict(table(20)))


def test_a_fit_reports_the_sub_model_that_the_release_supports() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (10_000, 2))
    straight = np.clip(0.4 * x[:, 0] + random.normal(0, 0.1, len(x)), -3, 3)
    bent = np.clip(np.abs(x[:, 1]) + random.normal(0, 0.1, len(x)), -3, 3)
    for labels, model in ((straight, "linear"), (bent, "splines")):
        rows = pa.table({"a": x[:, 0], "b": x[:, 1], "y": labels})
        data = scan(rows, label="y", label_range=(-3, 3))
        curved = plan(data, 2.0, 1e-6, mechanism="shaped-flag", basis="splines:3+fourier:5")
        fit = LinearRegressor().fit(curved.release(data, randomness=Randomness.experiment(1)))
        assert fit.rule_["supported"] == model
        assert sum(fit.rule_[name] for name in MODELS) == pytest.approx(1)
        assert np.sqrt(np.mean((fit.predict(rows) - labels) ** 2)) < 0.2
    assert "supported" not in LinearRegressor().fit(released(0.1, 1)).rule_
