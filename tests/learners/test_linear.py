"""LinearRegressor on releases and plain rows: what it learns, predicts, refuses and saves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp import BagRegressor, InputError, LinearRegressor, Plan, Release, scan
from labeldp.learners.models import seal_of
from labeldp.learners.normal_equations import release_equations
from labeldp.mechanisms.registry import mechanism_names
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.drawn import draw_release, features_of, pay_table, release_of
from tests.extras import extra
from tests.plans import plan
from tests.tables import source, table

PAY = pay_table()
PAID = PAY["pay"].to_numpy()
PERFECT = draw_release(PAY, 1000, None)
"""With ZᵀZ at its mean m·XᵀX a fit is that on all rows."""
X = PERFECT.features.design(PAY)[:, 1:]  # without the constant
RELEASE = draw_release(PAY, 60, 3)

ROWS = 1500
PLAIN = {"shrink": False, "clip": False}


# --- sketches with secret weights ---


@pytest.mark.parametrize("penalty", [0.0, 0.5, 30.0])
def test_a_perfect_release_gives_the_fit_on_all_rows(penalty: float) -> None:
    """And a penalty means what it means to Ridge on the rows."""
    model = LinearRegressor(penalty=penalty).fit(PERFECT)
    other = (Ridge(alpha=penalty) if penalty else LinearRegression()).fit(X, PAID)
    np.testing.assert_allclose(model.coef_[1:], other.coef_, rtol=1e-7, atol=1e-9)
    assert model.coef_[0] == 0  # the constant's coefficient is intercept_
    assert model.intercept_ == pytest.approx(other.intercept_, rel=1e-9)
    np.testing.assert_allclose(model.predict(PAY), other.predict(X), rtol=1e-9)
    if not penalty:
        squares = np.sum((PAID - other.predict(X)) ** 2)
        equations = release_equations(PERFECT, None, np.ones(6, dtype=bool))
        assert equations.dof == 1000 - 5  # six columns, of which one-hot and constant are collinear
        assert equations.label_variance * equations.dof == pytest.approx(1000 * squares)


@pytest.mark.parametrize("kept", [range(6), (0, 1, 2, 3, 4), (1, 2, 3, 4, 5)], ids=str)
def test_coefficients_are_in_original_units(kept: tuple[int, ...]) -> None:
    """All columns, one level pruned, or the constant pruned: the same predictions."""
    model = LinearRegressor().fit(draw_release(PAY, 1000, None, features_of(PAY).keep(kept)))
    values = {each.name: each.value for each in model.coefficients_}
    by_hand = values["intercept"] + sum(
        values[name] * PAY[name].to_numpy() for name in ("age", "hours")
    )
    by_hand += [values.get(f"job={job}", 0.0) for job in PAY["job"].to_pylist()]
    np.testing.assert_allclose(model.predict(PAY), by_hand, rtol=1e-7)
    expected = LinearRegression().fit(X, PAID).predict(X)
    np.testing.assert_allclose(model.predict(PAY), expected, rtol=1e-7)


def test_intervals_only_where_exact() -> None:
    def widths(**parameters: Any) -> list[float | None]:
        entries = LinearRegressor(**parameters).fit(RELEASE).coefficients_
        return [None if each.low is None else each.high - each.low for each in entries]

    for options in ({"penalty": 1e-3}, {"max_norm": 1e-3}):
        assert set(widths(**options)) == {None}
    assert widths(max_norm=1e9) == pytest.approx(widths())
    assert np.all(np.array(widths(confidence=0.5)) < np.array(widths(confidence=0.999)))


def test_max_norm_bounds_the_design_coefficients_with_the_constant() -> None:
    model = LinearRegressor(max_norm=2.0).fit(PERFECT)
    assert np.hypot(np.linalg.norm(model.coef_), model.intercept_) == pytest.approx(2.0)
    design = PERFECT.features.design(PAY)
    rows = LinearRegressor(max_norm=2.0, fit_intercept=False).fit(design, PAID)
    assert model.multiplier_ == pytest.approx(rows.multiplier_)  # in units of the rows
    np.testing.assert_allclose(model.coef_[1:], rows.coef_[1:], rtol=1e-7)
    assert model.intercept_ == pytest.approx(rows.coef_[0])


# --- releases of every mechanism ---


@cache
def planned(mechanism: str, epsilon: float) -> Plan:
    few = {"bags": 400} if mechanism == "wtd-flag" else {}
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism=mechanism, **few)


@cache
def released(mechanism: str, epsilon: float = 1e4, seed: int = 0) -> Release:
    randomness = Randomness.experiment(seed)
    return planned(mechanism, epsilon).release(source(ROWS), randomness=randomness)


def rows_of(*names: str) -> tuple[np.ndarray, np.ndarray]:
    """The design of some columns, made from the rows, without the constant; and the labels."""
    small, _ = released("shaped-flag").features.select(names)
    return small.design(table(ROWS).select(list(names)))[:, 1:], table(ROWS)["label"].to_numpy()


N = 600
RNG = np.random.default_rng(5)
NUMBERS = RNG.normal(size=N).round(3)
FRAME = pd.DataFrame(
    {"x": NUMBERS, "k": RNG.choice(["a", "b"], N), "y": np.clip(5 + NUMBERS, 0, 10)}
)


@cache
def of_frame(mechanism: str) -> Release:
    data = scan(FRAME, label="y", label_range=(0, 10))
    options = {"floor": "added", "bag_size": 30} if mechanism == "sampled-wtd-flag" else {}
    return plan(data, 4, 1e-6, mechanism=mechanism, force=True, **options).release(data)


@pytest.mark.filterwarnings("ignore::labeldp.errors.LabelDPWarning")
@pytest.mark.parametrize("mechanism", mechanism_names())
def test_a_table_is_right_whether_or_not_it_is_needed(mechanism: str, tmp_path: Path) -> None:
    release, path = of_frame(mechanism), tmp_path / "t.parquet"
    FRAME.to_parquet(path)
    tables: list[Any] = [FRAME, str(path), scan(FRAME, label="y", label_range=(0, 10))]
    fits = [LinearRegressor().fit(release, each).predict(FRAME) for each in tables]
    fits.append(LinearRegressor().fit([release], FRAME).predict(FRAME))
    if not release.needs_rows:
        fits.append(LinearRegressor().fit(release).predict(FRAME))
    assert all(np.array_equal(each, fits[0]) for each in fits)
    if not release.aggregates_features:
        extra("torch")
        network = BagRegressor(hidden=(), epochs=2).fit(release, FRAME)
        assert np.isfinite(network.predict(FRAME)).all()


@pytest.mark.parametrize("labels", [FRAME["y"], FRAME["y"].to_numpy(), FRAME["y"].to_list()])
def test_labels_are_no_table(labels: Any) -> None:
    with pytest.raises(InputError, match="carries its own labels; leave `y` out"):
        LinearRegressor().fit(of_frame("shaped-flag"), labels)


@pytest.mark.parametrize("names", [("height",), ("colour", "score")])
def test_some_columns_are_the_regression_on_them(names: tuple[str, ...]) -> None:
    """Hardly any noise is left at this ε."""
    model = LinearRegressor(columns=names, **PLAIN).fit(released("shaped-flag"))
    design, labels = rows_of(*names)
    expected = LinearRegression().fit(design, labels)
    assert model.coef_[1:] == pytest.approx(expected.coef_, abs=2e-3)
    only = table(ROWS).select(list(names))
    assert model.predict(only) == pytest.approx(expected.predict(design), abs=5e-3)
    assert set(model.features_.columns) == set(names)
    assert model.quality_.r2 == pytest.approx(expected.score(design, labels), abs=5e-3)


def test_aggregates_of_secret_weights_have_columns_to_choose_from_too() -> None:
    model = LinearRegressor(columns=["hours", "job"]).fit(PERFECT)
    small, chosen = PERFECT.features.select(["hours", "job"])
    design = small.design(PAY)
    expected = design @ np.linalg.lstsq(design, PAID)[0]
    assert model.predict(PAY.drop_columns(["age"])) == pytest.approx(expected, rel=1e-7)
    residual, equations = (
        float(np.sum((PAID - expected) ** 2)),
        release_equations(PERFECT, None, chosen),
    )
    assert equations.dof is not None
    assert equations.label_variance * equations.dof == pytest.approx(1000 * residual)


def test_intervals_hold_the_regression_on_some_columns() -> None:
    """80 % of 90 intervals: fewer than 55 have probability 3e-5."""
    truth, inside = LinearRegression().fit(*rows_of("height", "colour")).coef_, 0
    for seed in range(30):
        release = released("shaped-flag", 5.0, seed)
        model = LinearRegressor(columns=["height", "colour"], confidence=0.8).fit(release)
        scale = model.features_.to_original_units()[1].diagonal()[1:]
        for entry, value in zip(model.coefficients_[1:], truth * scale, strict=True):
            inside += entry.low <= value <= entry.high
    assert 55 <= inside <= 85


@pytest.mark.parametrize("mechanism", ["shaped-flag", "wtd-flag"])
@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"lasso": 0.02}, Lasso(alpha=0.02, tol=1e-10)),
        ({"lasso": 0.2}, Lasso(alpha=0.2, tol=1e-10)),
        ({"penalty": 300.0}, Ridge(alpha=300.0)),
    ],
)
def test_penalties_mean_what_they_mean_on_all_rows(
    mechanism: str, options: dict[str, Any], other: Any
) -> None:
    model = LinearRegressor(**options, clip=False).fit(released(mechanism))
    expected = other.fit(*rows_of("height", "score", "colour", "town"))
    close = 3e-3 if mechanism == "shaped-flag" else 0.25  # a sketch has noise of its own
    assert model.coef_[1:] == pytest.approx(expected.coef_, abs=close)
    assert all(entry.low is None for entry in model.coefficients_)
    assert model.multiplier_ == next(iter(options.values()))


# --- refusals ---


def test_too_few_bags() -> None:
    for bags in (1, 5):
        with pytest.raises(InputError, match="needs more aggregates than columns"):
            LinearRegressor().fit(draw_release(PAY, bags, 1))
        LinearRegressor(penalty=1.0).fit(draw_release(PAY, bags, 1))
        LinearRegressor(max_norm=1.0).fit(draw_release(PAY, bags, 1))
    LinearRegressor().fit(draw_release(PAY, 6, 1))  # rank 5 of 6 columns


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 1.0, "max_norm": 1.0}, "exclude each other"),
        ({"penalty": -1.0}, "penalty"),
        ({"fit_intercept": False}, "`fit_intercept` is for plain rows"),
        ({"penalty": "best"}, "`penalty` must be a number"),
        ({"lasso": -1.0}, "`lasso` must be at least 0"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"confidence": 95}, "confidence"),
        ({"shrink": True, "lasso": 0.1}, "exclude each other"),
        ({"columns": "height"}, "list of texts"),
        ({"columns": ["age", "weight"]}, "`columns` names 'weight', which the release lacks; it"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    model = LinearRegressor(**parameters)  # the constructor only stores
    with pytest.raises(InputError, match=message):
        model.fit(RELEASE)


def test_wrong_releases_and_rows(tmp_path: Path) -> None:
    nan = release_of(RELEASE.features, RELEASE.design, RELEASE.labels * np.nan)
    for data, message in (
        (replace(RELEASE, table=RELEASE.table.remove_column(1)), "belong together"),
        (nan, "finite"),
        ([RELEASE, 3], "holds something else"),
    ):
        with pytest.raises(InputError, match=message):
            LinearRegressor().fit(data)
    for options in ({"lasso": 0.1}, {"columns": ["height"]}):
        with pytest.raises(InputError, match="plain rows"):
            LinearRegressor(**options).fit(X, PAID)
    released("shaped-flag").save(tmp_path / "r")
    assert "--columns names 'weight'" in labeldp("fit", tmp_path / "r", "--columns", "weight").error
    shown = labeldp("fit", tmp_path / "r", "--columns", "height", "--json").json
    assert [entry["name"] for entry in shown["coefficients"]] == ["intercept", "height"]


# --- as a scikit-learn estimator ---


@parametrize_with_checks([LinearRegressor(), LinearRegressor(max_norm=1.0)])
def test_sklearn_checks_linear(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@parametrize_with_checks(
    [
        BagRegressor(hidden=(), epochs=40, learning_rate=0.1),  # 1e-3 suits networks
        BagRegressor(hidden=(8,), epochs=20, learning_rate=0.1),
    ]
)
def test_sklearn_checks_network(estimator: Any, check: Callable[[Any], None]) -> None:
    extra("torch")
    check(estimator)


def test_pipeline_and_grid() -> None:
    frame = pd.DataFrame(X, columns=["age", "hours", "a", "b", "c"])
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), LinearRegressor())
    names = [each.name for each in pipeline.fit(frame, PAID)[-1].coefficients_]
    assert names == ["intercept", *frame.columns]
    # Aggregates are iid rows, so cross-validation on them is sound; the constant is a column.
    search = GridSearchCV(LinearRegressor(fit_intercept=False), {"penalty": [0.0, 1e9]})
    assert search.fit(RELEASE.design, RELEASE.labels).best_params_ == {"penalty": 0.0}


# --- files ---


def test_save_and_load_plain_rows(tmp_path: Path) -> None:
    rows, y = np.random.default_rng(5).normal(size=(20, 2)), np.arange(20.0)
    model = LinearRegressor().fit(rows, y)
    model.save(tmp_path / "model.json")
    loaded = LinearRegressor.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert loaded.coefficients_ == model.coefficients_
    saturated = LinearRegressor().fit(rows[:3], y[:3])  # no degree of freedom is left
    saturated.save(tmp_path / "other.json")
    assert {each.low for each in saturated.coefficients_} == {None}


def reseal(path: Path, document: dict[str, Any]) -> None:
    """Write a file that somebody changed and sealed again."""
    path.write_text(json.dumps(document | {"seal": seal_of(document, {})}))


def test_load_needs_every_field(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    LinearRegressor().fit(RELEASE).save(path)
    document = json.loads(path.read_text())
    assert document["version"] == 1
    for field in set(document) - {"format", "version", "seal", "prediction_errors"}:
        reseal(path, {name: value for name, value in document.items() if name != field})
        with pytest.raises(InputError, match=f"damaged one: no field '{field}'"):
            LinearRegressor.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"coef": {"a": 1}}, {"intercept": None},
        {"intercept": 10**400}, {"coefficients": [{"name": "age"}]}, {"parameters": None},
        {"coefficients": [["age", 1, 2, 3]]}, {"parameters": {"fit_intercept": 1}},
        {"label_range": [1.0]}, {"features": {"rows": 3}},
    ],
    ids=str,
)  # fmt: skip
def test_load_refuses_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "model.json"
    LinearRegressor().fit(RELEASE).save(path)
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="model file"):
        LinearRegressor.load(path)
    reseal(path, document)
    with pytest.raises(InputError, match="model file"):
        LinearRegressor.load(path)
