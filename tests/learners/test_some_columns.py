"""Any of the published columns, with any penalty: as the fit on all rows, but for the noise."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Lasso, LinearRegression, Ridge

from labeldp import InputError, LinearRegressor, Plan, Release
from labeldp.features.fit import fit_features
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.drawn import draw_release, pay_table
from tests.plans import plan
from tests.tables import source, table

ROWS = 1500
PLAIN = {"shrink": False, "clip": False}


@cache
def planned(mechanism: str, epsilon: float) -> Plan:
    few = {"bags": 400} if mechanism == "wtd-flag" else {}
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism=mechanism, **few)


@cache
def released(mechanism: str, epsilon: float = 1e4, seed: int = 0) -> Release:
    made = planned(mechanism, epsilon)
    return made.release(source(ROWS), randomness=Randomness.experiment(seed))


def rows_of(*names: str) -> tuple[np.ndarray, np.ndarray]:
    """The design of some columns, made from the rows, without the constant; and the labels."""
    chosen = table(ROWS).select(list(names))
    features = released("shaped-flag").features
    small, _ = features.select(names)
    return small.design(chosen)[:, 1:], table(ROWS)["label"].to_numpy()


@pytest.mark.parametrize("names", [("height",), ("town", "height"), ("colour", "score")])
def test_some_columns_are_the_regression_on_them(names: tuple[str, ...]) -> None:
    """Hardly any noise is left at this ε."""
    model = LinearRegressor(columns=names, **PLAIN).fit(released("shaped-flag"))
    X, y = rows_of(*names)
    expected = LinearRegression().fit(X, y)
    assert model.coef_[1:] == pytest.approx(expected.coef_, abs=2e-3)
    only = table(ROWS).select(list(names))
    assert model.predict(only) == pytest.approx(expected.predict(X), abs=5e-3)
    assert set(model.features_.columns) == set(names)
    assert model.quality_.r2 == pytest.approx(expected.score(X, y), abs=5e-3)


def test_aggregates_of_secret_weights_have_columns_to_choose_from_too() -> None:
    release = draw_release(pay_table(), 1000, None)
    model = LinearRegressor(columns=["hours", "job"]).fit(release)
    X = fit_features_of(pay_table())
    y = pay_table()["pay"].to_numpy()
    assert model.predict(pay_table().drop_columns(["age"])) == pytest.approx(
        LinearRegression().fit(X, y).predict(X), rel=1e-7
    )
    residual = float(np.sum((y - LinearRegression().fit(X, y).predict(X)) ** 2))
    assert model.residual_ms_ * model.dof_ == pytest.approx(1000 * residual)


def fit_features_of(rows: pa.Table) -> np.ndarray:
    from labeldp.data.source import scan

    chosen = rows.select(["hours", "job"])
    return fit_features(scan(chosen)).design(chosen)[:, 1:]


def test_intervals_hold_the_regression_on_some_columns() -> None:
    """80 % of 90 intervals: fewer than 55 have probability 3e-5."""
    X, y = rows_of("height", "colour")
    truth = LinearRegression().fit(X, y).coef_
    inside = 0
    for seed in range(30):
        release = released("shaped-flag", 5.0, seed)
        model = LinearRegressor(columns=["height", "colour"], confidence=0.8).fit(release)
        scale = model.features_.to_original_units()[1].diagonal()[1:]
        entries = model.coefficients_[1:]
        inside += sum(
            c.low <= b * s <= c.high for c, b, s in zip(entries, truth, scale, strict=True)
        )
    assert 55 <= inside <= 85


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    release = released("shaped-flag")
    with pytest.raises(InputError, match="`columns` names 'weight', which the release lacks; it"):
        LinearRegressor(columns=["height", "weight"]).fit(release)
    with pytest.raises(InputError, match="list of texts"):
        LinearRegressor(columns="height").fit(release)
    release.save(tmp_path / "r")
    assert "--columns names 'weight'" in labeldp("fit", tmp_path / "r", "--columns", "weight").error
    told = labeldp("fit", tmp_path / "r", "--columns", "height,town", "--json").json
    assert [entry["name"] for entry in told["coefficients"]][:2] == ["intercept", "height"]
    assert "score" not in {entry["name"] for entry in told["coefficients"]}


# --- penalties ---


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
    X, y = rows_of("height", "score", "colour", "town")
    expected = other.fit(X, y)
    close = 3e-3 if mechanism == "shaped-flag" else 0.25  # a sketch has noise of its own
    assert model.coef_[1:] == pytest.approx(expected.coef_, abs=close)
    assert all(entry.low is None for entry in model.coefficients_)
    assert model.multiplier_ == next(iter(options.values()))


@pytest.mark.parametrize("option", ["penalty", "lasso"])
def test_a_penalty_chosen_by_the_release_is_near_the_best(option: str) -> None:
    """Much noise: over 12 releases less than twice the error of the best fixed penalty, which only
    labels can show, and far less than that of none at all."""
    X, y = rows_of("height", "score", "colour", "town")
    best = LinearRegression().fit(X, y).predict(X)

    def error(value: Any) -> float:
        models = [
            LinearRegressor(**{option: value, **PLAIN}).fit(released("shaped-flag", 0.3, seed))
            for seed in range(12)
        ]
        return float(np.mean([np.mean((m.predict(source(ROWS)) - best) ** 2) for m in models]))

    scale = 1e3 if option == "penalty" else 0.1
    fixed = [error(scale * share) for share in (0.01, 0.1, 1.0, 10.0)]
    chosen = error("auto")
    assert chosen < 2 * min(fixed)
    assert 2 * chosen < error(0.0)


def test_penalties_are_refused_where_they_mean_nothing() -> None:
    release = released("shaped-flag")
    for options, message in (
        ({"penalty": 1.0, "lasso": 1.0}, "not both"),
        ({"lasso": -1.0}, "`lasso` must be at least 0"),
        ({"penalty": "best"}, "`penalty` must be a number or 'auto'"),
        ({"shrink": True, "lasso": "auto"}, "chooses its own penalty"),
    ):
        with pytest.raises(InputError, match=message):
            LinearRegressor(**options).fit(release)
    X, y = rows_of("height", "score")
    for options in ({"penalty": "auto"}, {"lasso": 0.1}, {"columns": ["height"]}):
        with pytest.raises(InputError, match="plain rows"):
            LinearRegressor(**options).fit(X, y)
