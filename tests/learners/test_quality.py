"""What a release says about its own predictions, against what all labels say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from labeldp import LabelDPWarning, LinearRegressor, Plan, Release
from labeldp.learners import fit_rules
from labeldp.learners.fit_rules import FitRule
from labeldp.learners.linear import estimate_quality
from labeldp.learners.models import Quality
from labeldp.learners.normal_equations import NoisyNormalEquations, NoisyValue
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import source, table

Array = NDArray[np.float64]
ROWS, RELEASES, DRAWS = 2000, 15, 150


class Known:
    """A table whose b, noise and residual are known, as a release would show them."""

    def __init__(self, seed: int, columns: int = 6, noise: float = 1.0) -> None:
        self.random = np.random.default_rng(seed)
        self.design = self.random.normal(size=(400, columns))
        self.design[:, 0] = 1.0
        self.labels = self.design @ self.random.normal(size=columns) + self.random.normal(size=400)
        inside, self.root = np.linalg.qr(self.design)
        self.signal = inside.T @ self.labels
        self.spread = noise * self.random.normal(size=(columns, columns))
        self.residual = float(self.labels @ self.labels - self.signal @ self.signal)

    def drawn(self) -> NoisyNormalEquations:
        estimate = self.signal + self.spread @ self.random.normal(size=len(self.signal))
        return NoisyNormalEquations(
            self.root, estimate, self.spread, 0, 400, NoisyValue(self.residual, 0.0)
        )

    def gain(self, coefficients: Array) -> float:
        """By the rows."""
        constant = np.mean((self.labels - self.labels.mean()) ** 2)
        return float(constant - np.mean((self.labels - self.design @ coefficients) ** 2))


RANGE = (-10.0, 10.0)


RULES: dict[str, Callable[[NoisyNormalEquations], FitRule]] = {
    "least squares": fit_rules.ridge,
    "ridge": lambda white: fit_rules.ridge(white, 150.0),
    "lasso": lambda white: fit_rules.lasso(white, 0.2),
    "shrunken": lambda white: fit_rules.posterior_mean(white, RANGE),
}


def judged(white: NoisyNormalEquations, rule: FitRule) -> Quality:
    found = estimate_quality(white, rule)
    assert found is not None
    return found


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("noise", [2.0, 10.0])
def test_the_gain_is_unbiased_and_its_error_is_right(name: str, noise: float) -> None:
    known = Known(7, noise=noise)
    found, errors = [], []
    for _ in range(DRAWS):
        white = known.drawn()
        rule = RULES[name](white)
        told = judged(white, rule)
        found.append(told.gain - known.gain(rule.coefficients))
        errors.append(told.gain_error)
    spread = float(np.std(found))
    assert abs(np.mean(found)) < 4 * spread / np.sqrt(DRAWS) + 0.02 * np.mean(errors)
    assert 0.6 * spread < np.sqrt(np.mean(np.square(errors))) < 2.5 * spread


def test_a_choice_that_is_taken_as_given_looks_too_good() -> None:
    """The test above can fail: without the part of the choice errors look smaller than they are."""
    known = Known(7, noise=10.0)
    found = []
    for _ in range(DRAWS):
        white = known.drawn()
        rule = replace(RULES["shrunken"](white), refit=None)
        found.append(judged(white, rule).gain - known.gain(rule.coefficients))
    assert np.mean(found) > 4 * np.std(found) / np.sqrt(DRAWS)


@given(st.integers(0, 10_000), st.sampled_from(sorted(RULES)))
@settings(max_examples=25)
def test_without_noise_everything_is_as_the_rows_say(seed: int, name: str) -> None:
    known = Known(seed, noise=1e-7)
    white = known.drawn()
    rule = RULES[name](white)
    told = judged(white, rule)
    variance = float(np.var(known.labels))
    assert told.gain == pytest.approx(known.gain(rule.coefficients), abs=1e-4)
    assert told.r2 == pytest.approx(known.gain(rule.coefficients) / variance, abs=1e-4)
    assert told.all_labels_r2 == pytest.approx(1 - known.residual / (400 * variance), abs=1e-4)
    assert told.residual_std == pytest.approx(np.sqrt(known.residual / (400 - 6)))


@given(st.integers(0, 10_000), st.integers(1, 5))
@settings(max_examples=25)
def test_some_columns_are_a_table_of_their_own(seed: int, count: int) -> None:
    known = Known(seed, noise=1e-9)
    used = np.arange(6) <= count
    white = known.drawn().select(used)
    assert white.residual_ss is not None
    fit, left, _, _ = np.linalg.lstsq(known.design[:, used], known.labels)
    assert white.residual_ss.value == pytest.approx(float(left[0]), rel=1e-6)
    assert np.linalg.lstsq(white.root, white.estimate)[0] == pytest.approx(fit, rel=1e-5, abs=1e-6)
    assert white.root.T @ white.root == pytest.approx(
        known.design[:, used].T @ known.design[:, used]
    )


@cache
def made(mechanism: str, epsilon: float) -> Plan:
    few = {"bags": 500} if mechanism == "wtd-flag" else {}
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism=mechanism, **few)


def released(mechanism: str, epsilon: float, seed: int) -> Release:
    return made(mechanism, epsilon).release(source(ROWS), randomness=Randomness.experiment(seed))


def truth(model: LinearRegressor) -> float:
    """By how much a fit beats the constant, in mean square, before it is clipped."""
    rows = table(ROWS)
    labels = rows["label"].to_numpy()
    assert model.features_ is not None
    predictions = model.features_.design(rows) @ model.coef_ + model.intercept_
    return float(np.var(labels) - np.mean((labels - predictions) ** 2))


@pytest.mark.parametrize("mechanism", ["shaped-flag", "wtd-flag"])
def test_a_release_says_whether_it_beats_the_constant(mechanism: str) -> None:
    """Labels with R² = 0.12: told in nearly every release where noise is small, denied where it
    is overwhelming."""
    for epsilon, good in ((10.0, True), (0.05, False)):
        releases = [released(mechanism, epsilon, seed) for seed in range(RELEASES)]
        models = [LinearRegressor().fit(release) for release in releases]
        told = [model.quality_ for model in models]
        says = [q.gain > 0 if q.worse is None else q.beats_the_constant for q in told]
        true = [truth(model) > 0 for model in models]
        assert np.mean(np.equal(true, good)) > 0.9
        assert np.mean(np.equal(says, true)) > 0.75


def test_a_gain_within_two_deviations_shows_nothing() -> None:
    assert Quality(1.0, 0.4).beats_the_constant
    assert not Quality(1.0, 0.6).beats_the_constant
    assert Quality(-1.0, 3.0, worse=0.04).beats_the_constant  # by the posterior, where there is one
    assert not Quality(5.0, 0.1, worse=0.06).beats_the_constant


def test_a_fit_warns_where_the_release_shows_nothing() -> None:
    with pytest.warns(LabelDPWarning, match="does not show that predictions beat the mean"):
        LinearRegressor().fit(released("shaped-flag", 0.05, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearRegressor().fit(released("shaped-flag", 10.0, 1))


def test_r_squared_needs_a_published_residual() -> None:
    silent = plan(
        source(ROWS), epsilon=5, delta=1e-5, mechanism="shaped-flag", residual_share=0.0
    ).release(source(ROWS))
    told = LinearRegressor().fit(silent).quality_
    assert told is not None
    assert told.r2 is told.residual_std is None
    assert told.gain_error > 0


@pytest.mark.parametrize(("error", "said"), [(0.4, True), (0.6, False)])
def test_r_squared_needs_a_residual_that_stands_out_of_its_noise(error: float, said: bool) -> None:
    white = Known(3).drawn()
    left = white.residual_ss
    assert left is not None
    vague = replace(white, residual_ss=replace(left, error=error * left.value))
    told = judged(vague, fit_rules.ridge(vague))
    assert (told.r2 is not None) is (told.residual_std is not None) is said


@pytest.mark.parametrize(("error", "said"), [(0.9, True), (1.1, False)])
def test_r_squared_needs_a_second_moment_that_stands_out_of_its_noise(
    error: float, said: bool
) -> None:
    """About the mean; then R² is the posterior's share of it, and no more than 1."""
    white = Known(3).drawn()
    total = NoisyValue(400.0, error * 400.0)
    told = judged(replace(white, total_ss=total), fit_rules.ridge(white))
    assert (told.r2 is not None) is said
    assert told.r2 is None or told.r2 <= 1.0


def test_there_is_none_without_a_constant_or_of_bags() -> None:
    options = {"epsilon": 5.0, "delta": 1e-5}
    bare = plan(source(ROWS), mechanism="shaped-flag", intercept=False, **options)  # type: ignore[arg-type]
    assert LinearRegressor().fit(bare.release(source(ROWS))).quality_ is None
