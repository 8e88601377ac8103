"""Learning from a release of rows: linear fits with known noise, frames for scikit-learn."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from labeldp import (
    DataError,
    InputError,
    LinearRegressor,
    LogisticRegression,
    Plan,
    PoissonRegressor,
    Release,
    ReleaseError,
    scan,
)
from labeldp.data.source import Source
from labeldp.learners.bags import WeightedBags
from labeldp.learners.models import input_columns
from labeldp.learners.normal_equations import row_equations
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import CASES, EVERY, small_plan
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 600
Array = NDArray[np.float64]


@cache
def made(law: str, with_features: bool = False) -> Plan:
    delta = {"laplace": 0.0, "gaussian": 0.1}[law]
    return plan(source(ROWS), 1.0, delta, mechanism=EVERY, with_features=with_features)


def drawn(law: str, seed: int, with_features: bool = False) -> Release:
    return made(law, with_features).release(source(ROWS), randomness=Randomness.experiment(seed))


@cache
def design() -> Array:
    return made("laplace").features.design(table(ROWS))


@cache
def best() -> Array:
    """The fit with all labels."""
    labels = table(ROWS)["label"].to_numpy()
    return np.asarray(np.linalg.lstsq(design(), labels, rcond=None)[0])


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_fit_is_least_squares_of_the_noisy_labels(law: str) -> None:
    """With the source's features or its own, and with rows in batches of any size."""
    release = drawn(law, 1)
    expected = np.linalg.lstsq(design(), release.labels, rcond=None)[0]
    models = [
        LinearRegressor(shrink=False).fit(release, source(ROWS, batch_rows=77)),
        LinearRegressor(shrink=False).fit(drawn(law, 1, with_features=True)),
    ]
    for model in models:
        found = model.coef_.copy()
        found[0] = model.intercept_
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    std = release.certificate["row_noise"]["std"]
    names, units = release.features.to_original_units()
    covariance = std**2 * units @ np.linalg.inv(design().T @ design()) @ units.T
    for entry, variance in zip(models[0].coefficients_, np.diag(covariance), strict=True):
        assert entry.name in names
        half = 1.959964 * np.sqrt(variance)
        assert (entry.high - entry.low) / 2 == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_errors_and_intervals_are_as_forecast(law: str) -> None:
    """100 releases: the mean excess is d·Var/n, and intervals hold the fit with all labels."""
    _, units = made(law).features.to_original_units()
    truth, excess, held = units @ best(), [], []
    for seed in range(100):
        release = drawn(law, seed)
        model = LinearRegressor(shrink=False).fit(release, source(ROWS))
        found = model.coef_.copy()
        found[0] = model.intercept_
        excess.append(np.mean((design() @ (found - best())) ** 2))
        held.append([e.low < t < e.high for e, t in zip(model.coefficients_, truth, strict=True)])
    forecast = made(law).forecast
    assert np.mean(excess) == pytest.approx(forecast.added_mse, rel=0.15)
    inside = np.mean([forecast.added_low < value < forecast.added_high for value in excess])
    assert 0.83 < inside < 0.97
    assert 0.92 < np.mean(held) < 0.98


def test_predictions_are_shrunk_because_the_noise_is_known() -> None:
    """Over 30 releases by more than half of the error, columns of little use being many."""
    errors = {False: 0.0, None: 0.0}
    for seed in range(30):
        for shrink in errors:
            model = LinearRegressor(shrink=shrink, clip=False).fit(
                drawn("laplace", seed), source(ROWS)
            )
            error = model.predict(source(ROWS)) - design() @ best()
            errors[shrink] += float(np.mean(error**2))
    assert errors[None] < 0.5 * errors[False]
    few = LinearRegressor(columns=["score"]).fit(drawn("laplace", 1), source(ROWS))
    assert few.feature_names_ == ("intercept", "score")


def test_the_residual_is_found_behind_the_noise() -> None:
    """Unbiased, with the error that it says."""
    labels = table(ROWS)["label"].to_numpy()
    truth = float(np.sum((labels - design() @ best()) ** 2))
    for law in ("laplace", "gaussian"):
        releases = [drawn(law, seed) for seed in range(30)]
        found = [row_equations(r, r.label_model, source(ROWS)).residual_ss for r in releases]  # type: ignore[arg-type]
        values = np.array([each.value for each in found if each is not None])
        errors = np.array([each.error for each in found if each is not None])
        most = ROWS * 10.0**2 / 4
        assert np.median(values[values < most]) < most
        spread = np.sqrt(np.mean((values - truth)[values < most] ** 2))
        assert spread < 1.5 * np.mean(errors)


def test_a_residual_that_is_small_beside_the_mean_is_found() -> None:
    """Labels of a million, noise of a hundredth: the sum of squares keeps its digits."""
    rng, x = np.random.default_rng(0), np.linspace(-1, 1, 2000)
    labels = 1e6 + 0.3 * x + rng.uniform(-0.1, 0.1, 2000)
    data = pa.table({"x": x, "label": labels})
    rows = scan(data, label="label", label_range=(1e6 - 1, 1e6 + 1))
    release = plan(rows, 500.0, 0.0, mechanism=EVERY).release(rows)
    found = row_equations(release, release.label_model, rows).residual_ss  # type: ignore[arg-type]
    design = release.features.design(data)
    misses = labels - design @ np.linalg.lstsq(design, labels)[0]
    assert found is not None
    assert found.value == pytest.approx(float(misses @ misses), abs=5 * found.error)
    assert found.error < 0.02 * found.value


def test_every_row_is_a_bag_of_weight_one() -> None:
    release = drawn("laplace", 2)
    for bags in (
        WeightedBags.from_release(release, source(ROWS, batch_rows=100)),
        WeightedBags.from_release(drawn("laplace", 2, with_features=True), None),
    ):
        assert (bags.bags, bags.rows) == (ROWS, ROWS)
        assert np.array_equal(bags.labels, release.labels)
        assert set(bags.weights) == {1.0}
        place = list(input_columns(release.features)).index(release.features.names.index("score"))
        scores = bags.inputs.toarray()[:, place]
        order = np.argsort(table(ROWS)["score"].to_numpy(), kind="stable")
        assert (np.diff(scores[order]) >= 0).all()


# --- frames ---


def test_a_training_frame_is_the_table_beside_noisy_labels() -> None:
    pytest.importorskip("pandas")
    release, own = drawn("laplace", 3), drawn("laplace", 3, with_features=True)
    X, y = release.training_frame(table(ROWS))
    for data in (source(ROWS, batch_rows=50), table(ROWS).drop_columns(["label"]).to_pandas()):
        assert release.training_frame(data)[0].equals(X)
    assert own.training_frame()[0].equals(X)
    assert list(X.columns) == ["height", "score", "colour", "town"]
    for name in X.columns:
        assert X[name].tolist() == table(ROWS)[name].to_pylist()
    assert y.name == "label"
    assert y.index.equals(X.index)
    assert X.index.tolist() == list(range(ROWS))
    assert np.array_equal(y.to_numpy(), release.labels)


def test_a_tree_learns_from_it_and_predicts_new_rows() -> None:
    """A step of 8 of a range of 10 shows behind noise of 2.8 on each of 3,000 labels."""
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    town = rng.choice(["A", "B"], 3000)
    data = pa.table(
        {"town": town, "x": rng.normal(size=3000), "label": np.where(town == "A", 1.0, 9.0)}
    )
    rows = scan(data, label="label", label_range=RANGE)
    release = plan(rows, 5.0, 0.0, mechanism=EVERY).release(rows)
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    tree = make_pipeline(encode, DecisionTreeRegressor(max_depth=1))
    X, y = release.training_frame(data)
    tree.fit(X, y)
    low, high = tree.predict(release.feature_frame(pa.table({"x": [0, 1], "town": ["A", "B"]})))
    assert abs(low - 1) < 0.5
    assert abs(high - 9) < 0.5


def test_trees_of_scikit_learn_take_its_categories() -> None:
    pytest.importorskip("pandas")
    X, y = drawn("laplace", 3).training_frame(table(ROWS))
    assert [str(X[name].dtype) for name in ("colour", "town")] == ["category"] * 2
    trees = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=5).fit(X, y)
    assert trees.is_categorical_.tolist() == [False, False, True, True]
    rows = drawn("laplace", 3).feature_frame(table(50))
    assert np.isfinite(trees.predict(rows)).all()


@pytest.mark.parametrize("name", [name for name in CASES if name != EVERY])
def test_releases_of_aggregates_have_none(name: str) -> None:
    release = small_plan(name).release(source(400))
    with pytest.raises(ReleaseError, match=r"publishes aggregates.*noisy-rows"):
        release.training_frame(table(400))


def test_the_table_is_asked_for_and_must_be_the_one() -> None:
    release = drawn("laplace", 4)
    with pytest.raises(InputError, match="give the table"):
        release.training_frame()
    with pytest.raises(InputError, match=r"fit\(release, table\)"):
        LinearRegressor().fit(release)
    for rows, refusal in ((ROWS - 1, f"no row {ROWS - 1};"), (ROWS + 1, "have 601 rows but")):
        other: Any = source(rows)
        for use in (release.training_frame, lambda s: LinearRegressor().fit(release, s)):
            with pytest.raises(DataError, match=refusal):
                use(other)
    with pytest.raises(DataError, match="no column 'town'"):
        release.training_frame(table(ROWS).drop_columns(["town"]))


def test_rows_that_were_dropped_are_found_by_number() -> None:
    labels = table(ROWS)["label"].to_pylist()
    labels[3:300:3] = [None] * len(labels[3:300:3])
    data = table(ROWS).set_column(4, "label", pa.array(labels))
    rows = scan(data, label="label", label_range=RANGE, drop_missing_labels=True)
    release = plan(rows, 1.0, 0.0, mechanism=EVERY).release(rows)
    left = [row for row in range(ROWS) if labels[row] is not None]
    kept = data.take(left)
    expected = LinearRegressor().fit(release.features.design(kept)[:, 1:], release.labels)

    def fitted(given: Source) -> Array:
        return np.asarray(LinearRegressor(shrink=False).fit(release, given).coef_[1:])

    for given in (rows, source(ROWS, batch_rows=64)):
        np.testing.assert_allclose(fitted(given), expected.coef_, rtol=1e-8, atol=1e-10)
    with pytest.raises(DataError, match="no row 300;"):
        fitted(source(300))


@pytest.mark.parametrize("kind", [LinearRegressor, LogisticRegression, PoissonRegressor])
@pytest.mark.parametrize("mechanism", [EVERY, "shaped-flag"])
def test_tables_in_memory_and_on_disk_fit_alike(kind: Any, mechanism: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    high = (table(ROWS)["label"].to_numpy() > 5).astype(float)
    rows = table(ROWS).drop_columns(["label"]).append_column("label", pa.array(high))
    pq.write_table(rows, tmp_path / "rows.parquet")
    rows_source = scan(rows, label="label", label_range=(0, 1))
    plan(rows_source, 20.0, 1e-5, mechanism=mechanism).release_to(tmp_path / "r", rows_source)
    frames = (rows_source, rows, rows.to_pandas(), tmp_path / "rows.parquet", rows.to_pydict())
    first, *others = (kind().fit(tmp_path / "r", each).coef_ for each in frames)
    for other in others:
        assert np.array_equal(other, first)
