"""Logistic and Poisson regression (theory §19), against Newton's method on all labels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression as PlainLogistic

from labeldp import (
    DataError,
    InputError,
    LabelDPWarning,
    LinearRegressor,
    LocalEngine,
    LogisticRegression,
    PoissonRegressor,
    Release,
    scan,
)
from labeldp.accounting import radial
from labeldp.learners.generalized import ModelSumsAccumulator, Part, _settle, rows_sums
from labeldp.learners.models import FAMILIES
from labeldp.learners.normal_equations import NoisyNormalEquations
from labeldp.sampling.streams import Randomness
from tests.plans import plan

ENDS = {"logistic": (0.0, 1.0), "poisson": (0.0, 40.0)}
ESTIMATORS: dict[str, Any] = {"logistic": LogisticRegression, "poisson": PoissonRegressor}
BOTH = pytest.mark.parametrize("family", ["logistic", "poisson"])


def table(family: str, rows: int = 3000, seed: int = 0, dispersion: float = 1.0) -> pa.Table:
    random = np.random.default_rng(seed)
    x, town = random.normal(size=rows), random.choice(["A", "B", "C"], rows)
    means = FAMILIES[family].mean(0.3 + 0.8 * x - 1.0 * (town == "B"))
    if family == "logistic":
        y = (random.random(rows) < means).astype(float)
    elif dispersion > 1:
        y = random.negative_binomial(means / (dispersion - 1), 1 / dispersion).clip(0, 40)
    else:
        y = random.poisson(means).clip(0, 40)
    return pa.table({"x": x, "town": town, "y": y.astype(float)})


@cache
def released(
    family: str, epsilon: float = 1e4, seed: int = 0, mechanism: str = "shaped-flag", **more: Any
) -> Release:
    source = scan(table(family, seed=seed), label="y", label_range=ENDS[family])
    made = plan(source, epsilon=epsilon, delta=1e-6, mechanism=mechanism, **more)
    return made.release(source, randomness=Randomness.experiment(seed))


def newton(design: np.ndarray, y: np.ndarray, family: str) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest coefficients, and the inverse of the information there."""
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        means = FAMILIES[family].mean(design @ beta)
        information = (design.T * FAMILIES[family].variance(means)) @ design
        beta += np.clip(np.linalg.solve(information, design.T @ (y - means)), -1, 1)
    return beta, np.linalg.inv(information)


@BOTH
def test_without_noise_it_is_the_likeliest_fit(family: str) -> None:
    data, release = table(family), released(family)
    model = ESTIMATORS[family]().fit(release, data)
    design = release.features.design(data)
    beta, inverse = newton(design, data["y"].to_numpy(), family)
    means = FAMILIES[family].mean(design @ beta)
    found = model.predict_proba(data)[:, 1] if family == "logistic" else model.predict(data)
    assert found == pytest.approx(means, rel=2e-3)
    _, change = release.features.to_original_units()
    values = [each.value for each in model.coefficients_]
    errors = [each.sampling_error for each in model.coefficients_]
    assert values == pytest.approx(change @ beta, abs=2e-3)
    expected = np.sqrt(np.diagonal(change @ inverse @ change.T))
    assert errors == pytest.approx(expected, rel=0.03 if family == "poisson" else 1e-3)
    assert all(each.privacy_error < 1e-2 * each.sampling_error for each in model.coefficients_)


def test_it_is_scikit_learns_fit() -> None:
    data, release = table("logistic"), released("logistic")
    model = LogisticRegression().fit(release, data)
    design = release.features.design(data)
    peer = PlainLogistic(C=1e9, fit_intercept=False, tol=1e-9).fit(design, data["y"].to_numpy())
    assert model.predict_proba(data) == pytest.approx(peer.predict_proba(design), abs=1e-3)
    same = model.predict(data) == peer.predict(design)
    assert same.mean() > 0.999
    assert model.classes_.tolist() == [0.0, 1.0]
    assert model.score(data, data["y"].to_numpy()) == pytest.approx(
        peer.score(design, data["y"].to_numpy()), abs=1e-3
    )


@BOTH
def test_no_label_of_the_table_is_read(family: str) -> None:
    release, data = released(family, 1.0), table(family)
    model = ESTIMATORS[family]()
    with_labels = model.fit(release, data).coef_.tolist()
    assert model.fit(release, data.drop(["y"])).coef_.tolist() == with_labels


def test_the_table_must_be_that_of_the_release() -> None:
    data = table("logistic")
    x = data["x"].to_numpy().copy()
    x[7] += 1.0
    with pytest.raises(DataError, match="feature sums"):
        LogisticRegression().fit(released("logistic"), data.set_column(0, "x", pa.array(x)))
    with pytest.raises(InputError, match="features of the released table"):
        LogisticRegression().fit(released("logistic"))


def test_releases_of_two_halves_are_one_table() -> None:
    """Coefficients are those of all rows, and errors are smaller by the root of two."""
    releases, tables = [], []
    for seed in (1, 2):
        tables.append(table("logistic", seed=seed))
        releases.append(released("logistic", seed=seed))
    both = LogisticRegression().fit(releases, tables)
    data = pa.concat_tables(tables)
    design = releases[0].features.design(data)
    beta, _ = newton(design, data["y"].to_numpy(), "logistic")
    means = FAMILIES["logistic"].mean(design @ beta)
    assert both.predict_proba(data)[:, 1] == pytest.approx(means, abs=2e-3)
    one = LogisticRegression().fit(releases[0], tables[0])
    ratios = [
        double.sampling_error / single.sampling_error
        for double, single in zip(both.coefficients_, one.coefficients_, strict=True)
    ]
    assert ratios == pytest.approx([0.5**0.5] * len(ratios), rel=0.05)
    with pytest.raises(InputError, match="as many tables"):
        LogisticRegression().fit(releases, tables[:1])


@BOTH
def test_columns_are_a_fit_of_their_own(family: str) -> None:
    data, release = table(family), released(family)
    model = ESTIMATORS[family](columns=["x"]).fit(release, data)
    design = np.column_stack([np.ones(len(data)), data["x"].to_numpy()])
    beta, _ = newton(design, data["y"].to_numpy(), family)
    assert [each.value for each in model.coefficients_] == pytest.approx(beta, abs=5e-3)
    alone = pa.table({"x": data["x"]})
    assert np.array_equal(model.predict(alone), model.predict(data))


def test_rows_with_noise_serve_too() -> None:
    """Without a table if they have features, and with the same result."""
    data = table("logistic")
    bare = released("logistic", 2.0, mechanism="noisy-rows")
    full = released("logistic", 2.0, mechanism="noisy-rows", with_features=True)
    one, two = LogisticRegression().fit(bare, data), LogisticRegression().fit(full)
    assert one.coef_ == pytest.approx(two.coef_, rel=1e-9)
    beta, _ = newton(bare.features.design(data), data["y"].to_numpy(), "logistic")
    _, change = bare.features.to_original_units()
    for entry, expected in zip(one.coefficients_, change @ beta, strict=True):
        assert abs(entry.value - expected) < 4 * entry.privacy_error


def test_secret_weights_are_refused() -> None:
    with pytest.raises(InputError, match="noise is public"):
        LogisticRegression().fit(released("logistic", 4.0, mechanism="wtd-flag"), table("logistic"))


@BOTH
def test_threads_do_not_change_the_fit(family: str) -> None:
    data, release = table(family), released(family, 1.0)
    fits = []
    for threads in (1, 3):
        source = scan(data.drop(["y"]), batch_rows=256)
        model = ESTIMATORS[family]().fit(release, source, engine=LocalEngine(threads))
        fits.append(model.coef_)
    assert fits[0] == pytest.approx(fits[1], rel=1e-9)


@BOTH
def test_sums_do_not_depend_on_blocks(family: str) -> None:
    """Also through states of several accumulators, as threads and machines make them."""
    data, release = table(family, rows=9000), released(family)
    features = release.features
    beta = np.random.default_rng(0).normal(size=len(features.names))
    total = ModelSumsAccumulator(features, family, beta).new()
    for start in (0, 5000):
        part = total.new()
        for batch in data.slice(start, 5000 if not start else 4000).to_batches():
            part.add(features.encode(batch))
        total.merge(part.state())
    whole = rows_sums(features.design(data), family, beta)
    for name in ("moments", "information", "weight", "squares"):
        assert getattr(total.result(), name) == pytest.approx(getattr(whole, name), rel=1e-9)


@BOTH
def test_models_are_saved_and_read(family: str, tmp_path: Path) -> None:
    data, kind = table(family), ESTIMATORS[family]
    model = kind(confidence=0.9).fit(released(family, 1.0), data)
    model.save(tmp_path / "model.json")
    loaded = kind.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(data), model.predict(data))
    assert str(loaded.summary()) == str(model.summary())
    assert loaded.confidence == 0.9
    other = ESTIMATORS["poisson" if family == "logistic" else "logistic"]
    with pytest.raises(InputError, match=f"a {family} model"):
        other.load(tmp_path / "model.json")
    with pytest.raises(InputError, match="not a model file"):
        LinearRegressor.load(tmp_path / "model.json")


def test_separated_classes_have_finite_coefficients() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=2000)
    data = pa.table({"x": x, "y": (x > 0).astype(float)})
    source = scan(data, label="y", label_range=(0, 1))
    release = plan(source, epsilon=1.0, delta=1e-6).release(
        source, randomness=Randomness.experiment(0)
    )
    model = LogisticRegression().fit(release, data)
    assert np.isfinite(model.coef_).all()
    assert (model.predict(data) == data["y"].to_numpy()).mean() > 0.97


def test_noise_that_hides_everything_leaves_the_constant() -> None:
    data = table("logistic")
    release = released("logistic", 1e-3, force=True)
    with pytest.warns(LabelDPWarning, match="does not show"):
        model = LogisticRegression().fit(release, data)
    probabilities = model.predict_proba(data)[:, 1]
    assert np.ptp(probabilities) < 0.2


def test_counts_may_spread_more_than_poissons() -> None:
    """Errors from sampling follow, where the residual is published."""
    data = table("poisson", dispersion=4.0)
    source = scan(data, label="y", label_range=ENDS["poisson"], clip=True)
    made = plan(source, epsilon=1e4, delta=1e-6, mechanism="shaped-flag")
    release = made.release(source, randomness=Randomness.experiment(0))
    model = PoissonRegressor().fit(release, data)
    design = release.features.design(data)
    _, inverse = newton(design, data["y"].to_numpy(), "poisson")
    _, change = release.features.to_original_units()
    plain = np.sqrt(np.diagonal(change @ inverse @ change.T))
    ratios = np.array([each.sampling_error for each in model.coefficients_]) / plain
    assert ratios == pytest.approx(np.full(len(ratios), 2.0), rel=0.1)
    assert model.rule_["dispersion"] == pytest.approx(4.0, rel=0.2)
    assert "variance is their mean" not in str(model.summary())
    noisy = plan(source, epsilon=1, delta=1e-6, residual_share=0).release(source)
    assert "variance is their mean" in str(PoissonRegressor().fit(noisy, data).summary())


def test_ranges_that_cannot_be_counts_are_refused() -> None:
    data = table("poisson")
    source = scan(data, label="y", label_range=(-1, 40))
    release = plan(source, epsilon=1, delta=1e-6).release(source)
    with pytest.raises(InputError, match="counts are 0 or more"):
        PoissonRegressor().fit(release, data)


def test_classes_may_be_any_two_numbers() -> None:
    data = table("logistic")
    shifted = data.set_column(2, "y", pa.array(data["y"].to_numpy() * 2 + 3))
    source = scan(shifted, label="y", label_range=(3, 5))
    release = plan(source, epsilon=1e4, delta=1e-6, mechanism="shaped-flag").release(source)
    model = LogisticRegression().fit(release, shifted)
    plain = LogisticRegression().fit(released("logistic"), data)
    assert model.classes_.tolist() == [3.0, 5.0]
    assert model.predict_proba(data) == pytest.approx(plain.predict_proba(data), abs=2e-3)


def test_intervals_for_the_population_know_the_law_of_the_noise() -> None:
    """That of radial noise in a few dimensions has longer tails than a normal one."""
    data, release = table("logistic"), released("logistic", 0.5, noise="radial")
    shown = LogisticRegression().fit(release, data).summary().to_dict()["coefficients"]
    reach = radial.deviations(4, 0.95)
    assert reach > 2.03
    for entry in shown:
        half = np.hypot(reach * entry["privacy_error"], 1.959964 * entry["sampling_error"])
        assert entry["high"] - entry["value"] == pytest.approx(half, rel=1e-6)


def coverage(family: str, rows: int, noise: float, tables: int) -> float:
    """How often 95 % intervals hold the coefficients of the population."""
    random, inside = np.random.default_rng(1), list[np.ndarray]()
    beta = np.array([-0.3, 0.6, -0.5, 0.4])
    for _ in range(tables):
        numbers = random.normal(size=(rows, 2))
        design = np.column_stack([np.ones(rows), numbers, random.random(rows) < 0.4])
        means = FAMILIES[family].mean(design @ beta)
        y = random.random(rows) < means if family == "logistic" else random.poisson(means)
        root = np.linalg.qr(design, mode="r")
        spread = noise * np.eye(4)
        estimate = np.linalg.solve(root.T, design.T @ y) + spread @ random.normal(size=4)
        equations = NoisyNormalEquations(root, estimate, spread, 0, rows)
        part = Part.of(
            equations, (0.0, 1.0), np.eye(4), lambda b, x=design: rows_sums(x, family, b)
        )
        high = 3.5 if family == "logistic" else np.log(40)
        working, _ = _settle([part], family, (high - 7, high), (), shrink=True)
        solve = np.linalg.inv(working.root)
        errors = np.hypot(
            np.linalg.norm(solve @ working.spread, axis=1), np.linalg.norm(solve, axis=1)
        )
        inside.append(np.abs(solve @ working.estimate - beta) < 1.96 * errors)
    return float(np.mean(inside))


@pytest.mark.parametrize(("family", "noise"), [("logistic", 0.5), ("poisson", 1.0)])
def test_intervals_hold_the_population(family: str, noise: float) -> None:
    assert 0.91 < coverage(family, 600, noise, 60) < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 0.5, 1.5])
@BOTH
def test_intervals_hold_the_population_as_often_as_they_say(family: str, noise: float) -> None:
    assert 0.93 <= coverage(family, 1500, noise, 500) <= 0.97
