"""LinearRegressor on a release: what it learns, predicts, refuses, saves and loads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.data.source import scan
from labeldp.errors import InputError
from labeldp.features.fit import fit_features
from labeldp.learners.api import LinearRegressor
from labeldp.learners.models import Coefficient, seal_of
from tests.drawn import features_of, release_of

Make = Callable[..., Any]


@pytest.fixture
def release(make_release: Make, table: pa.Table) -> Any:
    return make_release(table, 60, 3)


def columns(design: np.ndarray) -> np.ndarray:
    return design[:, 1:]  # without the constant


# --- fitting a release ---


@pytest.mark.parametrize("penalty", [0.0, 0.5, 30.0])
def test_a_perfect_release_gives_the_fit_on_all_rows(
    make_release: Make, table: pa.Table, penalty: float
) -> None:
    """With ZᵀZ at its mean m·XᵀX the penalty means what it means to Ridge on the rows."""
    release = make_release(table, 1000, None)
    model = LinearRegressor(penalty=penalty).fit(release)
    X, y = columns(release.features.design(table)), table["pay"].to_numpy()
    other = (Ridge(alpha=penalty) if penalty else LinearRegression()).fit(X, y)
    np.testing.assert_allclose(model.coef_[1:], other.coef_, rtol=1e-7, atol=1e-9)
    assert model.intercept_ == pytest.approx(other.intercept_, rel=1e-9)
    np.testing.assert_allclose(model.predict(table), other.predict(X), rtol=1e-9)
    if not penalty:
        opt = np.sum((y - other.predict(X)) ** 2)
        assert model.residual_ms_ * model.dof_ == pytest.approx(1000 * opt)


def test_learnt_attributes(release: Any) -> None:
    model = LinearRegressor().fit(release)
    assert model.coef_.shape == (6,)
    assert model.coef_[0] == 0  # the constant's coefficient is intercept_
    assert model.n_features_in_ == 6
    assert tuple(model.feature_names_in_) == release.features.names
    assert model.dof_ == 60 - 5  # six columns, of which one-hot and constant are collinear
    assert model.multiplier_ == 0
    assert model.features_ is release.features
    assert all(type(c) is Coefficient for c in model.coefficients_)


def test_coefficients_are_in_original_units(release: Any, table: pa.Table) -> None:
    model = LinearRegressor().fit(release)
    values = {c.name: c.value for c in model.coefficients_}
    by_hand = values["intercept"] + sum(
        values[name] * table[name].to_numpy() for name in ("age", "hours")
    )
    by_hand += [values[f"job={job}"] for job in table["job"].to_pylist()]
    np.testing.assert_allclose(model.predict(table), by_hand, rtol=1e-9)
    for c in model.coefficients_:
        assert c.low is not None
        assert c.high is not None
        assert c.low < c.value < c.high


def test_more_confidence_is_wider(release: Any) -> None:
    narrow = LinearRegressor(confidence=0.5).fit(release).coefficients_
    wide = LinearRegressor(confidence=0.999).fit(release).coefficients_
    for a, b in zip(narrow, wide, strict=True):
        assert a.value == b.value
        assert b.low < a.low
        assert a.high < b.high


def test_intervals_only_where_exact(release: Any) -> None:
    def widths(**parameters: Any) -> set[bool]:
        model = LinearRegressor(**parameters).fit(release)
        return {c.low is None and c.high is None for c in model.coefficients_}

    assert widths() == {False}
    assert widths(penalty=1e-3) == {True}
    assert widths(max_norm=1e-3) == {True}
    assert widths(max_norm=1e9) == {False}


def test_max_norm_bounds_the_design_coefficients_with_the_constant(
    make_release: Make, table: pa.Table
) -> None:
    release = make_release(table, 1000, None)
    model = LinearRegressor(max_norm=2.0).fit(release)
    assert np.hypot(np.linalg.norm(model.coef_), model.intercept_) == pytest.approx(2.0)
    assert model.intercept_ != 0
    assert model.multiplier_ > 0
    rows = LinearRegressor(max_norm=2.0, fit_intercept=False).fit(
        release.features.design(table), table["pay"].to_numpy()
    )
    assert model.multiplier_ == pytest.approx(rows.multiplier_)  # in units of the rows
    np.testing.assert_allclose(model.coef_[1:], rows.coef_[1:], rtol=1e-7)
    assert model.intercept_ == pytest.approx(rows.coef_[0])


def test_without_intercept_the_constant_is_held_at_zero(
    make_release: Make, table: pa.Table
) -> None:
    release = make_release(table, 1000, None)
    model = LinearRegressor(fit_intercept=False).fit(release)
    X, y = columns(release.features.design(table)), table["pay"].to_numpy()
    other = LinearRegression(fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.coef_, [0, *other.coef_], rtol=1e-7)
    assert len(model.coefficients_) == 6


def test_a_map_without_constant_gets_none(make_release: Make, table: pa.Table) -> None:
    release = make_release(table, 60, 3, features_of(table, intercept=False))
    on, off = (LinearRegressor(fit_intercept=flag).fit(release) for flag in (True, False))
    np.testing.assert_array_equal(on.coef_, off.coef_)
    assert on.intercept_ == 0
    assert on.coef_.shape == (5,)


def test_score_takes_labels_of_any_kind(release: Any, table: pa.Table) -> None:
    polars = pytest.importorskip("polars")
    model = LinearRegressor().fit(release)
    expected = r2_score(table["pay"].to_numpy(), model.predict(table))
    frame, polar = table.to_pandas(), polars.from_arrow(table)
    for labels in (table["pay"], frame["pay"], polar["pay"], table["pay"].to_pylist()):
        assert model.score(table, labels) == pytest.approx(expected)
    assert expected > 0.8


# --- refusals ---


def test_too_few_bags(make_release: Make, table: pa.Table) -> None:
    for bags in (1, 4, 5):
        with pytest.raises(InputError, match="needs more aggregates than columns"):
            LinearRegressor().fit(make_release(table, bags, 1))
        LinearRegressor(penalty=1.0).fit(make_release(table, bags, 1))
        LinearRegressor(max_norm=1.0).fit(make_release(table, bags, 1))
    LinearRegressor().fit(make_release(table, 6, 1))  # rank 5 of 6 columns


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 1.0, "max_norm": 1.0}, "not both"),
        ({"penalty": -1.0}, "penalty"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"confidence": 95}, "confidence"),
    ],
)
def test_wrong_parameters(release: Any, parameters: dict[str, Any], message: str) -> None:
    model = LinearRegressor(**parameters)  # the constructor only stores
    with pytest.raises(InputError, match=message):
        model.fit(release)


def test_wrong_releases(release: Any, table: pa.Table) -> None:
    with pytest.raises(InputError, match="belong together"):
        LinearRegressor().fit(replace(release, table=release.table.remove_column(1)))
    with pytest.raises(InputError, match="finite"):
        LinearRegressor().fit(release_of(release.features, release.design, release.labels * np.nan))
    with pytest.raises(ValueError, match="requires y"):
        LinearRegressor().fit(table)


# --- as a scikit-learn estimator ---


def test_plain_rows_are_sklearn() -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(1e3, 1, size=(50, 3)), rng.normal(size=50)
    model, other = LinearRegressor().fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-8)
    assert model.intercept_ == pytest.approx(other.intercept_)
    assert [c.name for c in model.coefficients_] == ["intercept", "x0", "x1", "x2"]
    assert not hasattr(model, "feature_names_in_")


def test_pipeline_grid_and_clone(release: Any, table: pa.Table) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(6)
    X = pandas.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    y = X.to_numpy() @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    search = GridSearchCV(
        make_pipeline(StandardScaler().set_output(transform="pandas"), LinearRegressor()),
        {"linearregressor__penalty": [0.0, 1.0, 1e6]},
    ).fit(X, y)
    assert search.best_params_["linearregressor__penalty"] < 1e6
    best = search.best_estimator_[-1]
    assert [c.name for c in best.coefficients_] == ["intercept", "a", "b", "c"]
    alone = Pipeline([("fit", LinearRegressor(penalty=2.0))]).fit(release)
    np.testing.assert_array_equal(
        alone.predict(table), clone(alone[-1]).fit(release).predict(table)
    )


def test_penalty_can_be_chosen_on_the_aggregates(release: Any) -> None:
    """Aggregates are iid rows, so cross-validation on them is sound; the constant is a column."""
    search = GridSearchCV(LinearRegressor(fit_intercept=False), {"penalty": [0.0, 1e9]})
    assert search.fit(release.design, release.labels).best_params_ == {"penalty": 0.0}


# --- files ---


def state(model: LinearRegressor) -> dict[str, Any]:
    values = dict(vars(model))
    for name in ("coef_", "feature_names_in_"):
        if name in values:
            values[name] = values[name].tolist()
    return values


def test_save_and_load_plain_rows(tmp_path: Path) -> None:
    X, y = np.random.default_rng(5).normal(size=(20, 2)), np.arange(20.0)
    model = LinearRegressor().fit(X, y)
    model.save(tmp_path / "model.json")
    loaded = LinearRegressor.load(tmp_path / "model.json")
    assert state(loaded) == state(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    saturated = LinearRegressor().fit(X[:3], y[:3])  # no degree of freedom left: NaN survives
    saturated.save(tmp_path / "other.json")
    assert np.isnan(LinearRegressor.load(tmp_path / "other.json").residual_ms_)


def saved(release: Any, path: Path) -> dict[str, Any]:
    LinearRegressor().fit(release).save(path)
    return dict(json.loads(path.read_text()))


def reseal(path: Path, document: dict[str, Any]) -> None:
    """Write a file that somebody changed and sealed again."""
    path.write_text(json.dumps(document | {"seal": seal_of(document, {})}))


def test_load_needs_every_field(release: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    document = saved(release, path)
    assert document["version"] == 1
    for field in set(document) - {"format", "version", "seal"}:
        without = {name: value for name, value in document.items() if name != field}
        reseal(path, without)
        with pytest.raises(InputError, match=f"damaged model file: no field '{field}'"):
            LinearRegressor.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"coef": [1.0]},
        {"coef": {"a": 1}},
        {"intercept": None},
        {"intercept": float("nan")},
        {"intercept": 10**400},
        {"coefficients": [{"name": "age"}]},
        {"coefficients": [["age", 1, 2, 3]]},
        {"parameters": None},
        {"parameters": {"penalty": 0.0, "max_norm": None, "fit_intercept": 1, "confidence": 0.9}},
        {"feature_names": None},
        {"feature_names": ["a", "b", "c", "d", "e", "f"]},
        {"label_range": [1.0]},
        {"features": []},
        {"features": {}},
    ],
    ids=str,
)
@pytest.mark.parametrize("sealed", [True, False])
def test_load_refuses_damage(
    release: Any, tmp_path: Path, change: dict[str, Any], sealed: bool
) -> None:
    path = tmp_path / "model.json"
    document = saved(release, path) | change
    try:
        reseal(path, document) if sealed else path.write_text(json.dumps(document))
    except ValueError:  # no seal has a number that is not finite
        return
    with pytest.raises(InputError, match="model file"):
        LinearRegressor.load(path)


# --- with the real feature map ---


@pytest.mark.parametrize("kept", [None, (0, 1, 2, 3, 4), (1, 2, 3, 4, 5)])
def test_the_real_feature_map(
    table: pa.Table, make_release: Make, tmp_path: Path, kept: tuple[int, ...] | None
) -> None:
    """All columns, one level pruned, or the constant pruned: the same fit on all the rows."""
    source = scan(table, label="pay", label_range=(-100.0, 100.0))
    features = fit_features(source)
    features = features if kept is None else features.keep(kept)
    model = LinearRegressor().fit(make_release(table, 1000, None, features))
    X, y = features.design(table), table["pay"].to_numpy()
    expected = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(model.predict(table), expected, rtol=1e-7)
    assert model.dof_ == 995
    values = {c.name: c.value for c in model.coefficients_}
    assert values["age"] == pytest.approx(0.5, abs=0.1)
    by_hand = values["intercept"] + sum(
        values[name] * table[name].to_numpy() for name in ("age", "hours")
    )
    by_hand += [values.get(f"job={job}", 0.0) for job in table["job"].to_pylist()]
    np.testing.assert_allclose(by_hand, expected, atol=1e-3)  # features are on 20-bit grids
    model.save(tmp_path / "model.json")
    loaded = LinearRegressor.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
