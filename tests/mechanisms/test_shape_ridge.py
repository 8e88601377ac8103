"""Shapes for fits that shrink: used where rows are few for the columns, and private as ever."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, LinearRegressor, Plan, Release, Source, scan, verify
from labeldp.mechanisms import shaped_flag as module
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import SHAPED, saved
from tests.plans import plan

RANGE = (-3.0, 3.0)
PLAIN: dict[str, Any] = {"shrink": False, "clip": False}


def data(rows: int = 600, seed: int = 1) -> pa.Table:
    """The features are the same for every seed."""
    features, random = np.random.default_rng(0), np.random.default_rng(seed)
    x = features.gamma(2.0, 1.0, (rows, 5))
    labels = np.tanh(x[:, 0] - 2) + 0.5 * np.sqrt(x[:, 1]) + 0.3 * random.normal(size=rows) - 0.7
    who = np.arange(rows) // 2
    columns = {f"x{k}": x[:, k] for k in range(5)}
    return pa.table({**columns, "who": who, "y": labels.clip(*RANGE)})


def source(rows: int = 600, seed: int = 1, person: str | None = None) -> Source:
    drop = () if person else ("who",)
    return scan(data(rows, seed), label="y", label_range=RANGE, drop=drop, person=person)


@cache
def made(rows: int = 600, **options: Any) -> Plan:
    person = options.pop("person", None)
    asked = {"basis": "splines:6", "epsilon": 1.0, "delta": 1e-6, **options}
    return plan(source(rows, person=person), mechanism=SHAPED, **asked)


def released(chosen: Plan, seed: int) -> Release:
    return chosen.release(source(), randomness=Randomness.experiment(seed))


def ridge_of(chosen: Plan) -> float:
    return float(chosen.claim.to_json()["shape"].get("ridge", 0.0))


def test_it_is_used_where_shrinkage_drops_much_and_nowhere_else() -> None:
    assert ridge_of(made()) in module.RIDGES
    assert ridge_of(made(shape_ridge=0.0)) == 0.0
    assert ridge_of(made(shape_ridge=0.3)) == 0.3
    assert ridge_of(made(epsilon=40.0)) == 0.0
    assert ridge_of(made(basis="linear", epsilon=4.0)) == 0.0
    assert "shape" in made().claim.to_json()


def test_auto_does_not_turn_away_from_a_ridge_for_what_it_costs_least_squares() -> None:
    few, none = made().forecast, made(shape_ridge=0.0).forecast
    assert few.selection_score < none.selection_score == none.added_mse < few.added_mse
    asked = {"basis": "splines:6", "epsilon": 1.0, "delta": 1e-6}
    rows = plan(source(), mechanism="noisy-rows", **asked).forecast.added_mse
    assert few.selection_score < rows < few.added_mse
    assert plan(source(), **asked).claim.mechanism == SHAPED


def test_labels_have_no_say() -> None:
    one, other = (
        plan(source(seed=seed), 1.0, 1e-6, mechanism=SHAPED, basis="splines:6") for seed in (1, 2)
    )
    assert ridge_of(one) > 0
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert Plan.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize("options", [{}, {"noise": "radial"}, {"person": "who"}], ids=str)
def test_the_release_is_verified_against_all_rows(options: dict[str, Any], tmp_path: Path) -> None:
    chosen, person = made(shape_ridge=0.5, **options), options.get("person")
    folder = saved(chosen.release(source(person=person)), tmp_path / "release")
    assert verify(folder, source(person=person)).problems == ()
    assert ridge_of(chosen) == 0.5
    assert Release.load(folder).certificate["shape"]["ridge"] == 0.5


def test_the_forecast_of_least_squares_is_the_mean_over_releases() -> None:
    chosen, rows = made(), data()
    design, labels = chosen.features.design(rows), rows["y"].to_numpy()
    truth = design @ np.linalg.lstsq(design, labels, rcond=None)[0]
    errors = []
    for seed in range(40):
        fit = LinearRegressor(**PLAIN).fit(released(chosen, seed))
        errors.append(np.mean((fit.predict(rows) - truth) ** 2))
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - chosen.forecast.added_mse) < 4 * deviation
    assert deviation < 0.2 * chosen.forecast.added_mse


def test_shrunken_predictions_gain_by_it() -> None:
    """Over 15 releases each, from the same seeds."""
    rows = data()
    design, labels = made().features.design(rows), rows["y"].to_numpy()
    truth = design @ np.linalg.lstsq(design, labels, rcond=None)[0]

    def error(chosen: Plan) -> float:
        fits = (LinearRegressor().fit(released(chosen, seed)) for seed in range(15))
        return float(np.mean([np.mean((fit.predict(rows) - truth) ** 2) for fit in fits]))

    with_ridge, without = error(made()), error(made(shape_ridge=0.0))
    assert with_ridge < 0.95 * without
    assert with_ridge < made().forecast.added_mse_default_fit


def test_wide_tables_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RIDGE_COLUMNS", 20)
    assert ridge_of(made(delta=1.1e-6)) == 0.0
    with pytest.raises(InputError, match=r"`shape_ridge` takes 20 design columns at most"):
        made(shape_ridge=0.25)
    with pytest.raises(InputError, match=r"`shape_ridge` must lie between 0 and 1e"):
        made(shape_ridge=-1.0)
