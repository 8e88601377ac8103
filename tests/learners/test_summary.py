"""What a fit says of itself: summary, predictions along columns, and standard errors that hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, LinearRegressor, Release, scan
from labeldp.learners.linear import POINTS
from labeldp.learners.summary import effect_picture
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.drawn import draw_release, features_of, pay_table
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 1500
RELEASES = 80


@cache
def released(epsilon: float, share: float = 0.05) -> Release:
    planned = plan(
        source(ROWS),
        epsilon=epsilon,
        delta=1e-5,
        mechanism="shaped-flag",
        residual_share=share,
        noise="gaussian",
    )
    return planned.release(source(ROWS), randomness=Randomness.experiment(0))


@cache
def fitted(epsilon: float, **options: Any) -> LinearRegressor:
    return LinearRegressor(**options).fit(released(epsilon))


# --- the dictionary ---


def test_the_dictionary_has_what_a_statistician_asks_for() -> None:
    document = fitted(500.0, confidence=0.9).summary().to_dict()
    (about,) = document["releases"]
    assert about == {
        "mechanism": "shaped-flag",
        "epsilon": 500.0,
        "delta": 1e-5,
        "rows": ROWS,
        "bags": released(500.0).bags,
    }
    assert document["rows"] == ROWS
    assert document["rule"]["rule"] == "posterior mean"
    assert document["clipped_to"] == list(RANGE)
    assert document["quality"]["r2"] == pytest.approx(0.12, abs=0.06)
    assert document["quality"]["residual_std"] == pytest.approx(1.0, abs=0.1)
    assert document["intervals_for"] == "the population"
    names, base = [entry["name"] for entry in document["coefficients"]], document["base_levels"]
    assert set(base) == {"colour", "town"}
    levels = {f"colour={level}" for level in ("red", "green", "blue")}
    assert levels - set(names) == {f"colour={base['colour'][0]}"}


def test_errors_add_up_and_the_interval_covers_both() -> None:
    model = fitted(20.0, confidence=0.9)
    entries = model.summary().to_dict()["coefficients"]
    for entry, own in zip(entries, model.coefficients_, strict=True):
        assert own.total_error == pytest.approx(np.hypot(own.privacy_error, own.sampling_error))
        assert entry["high"] - entry["low"] == pytest.approx(2 * 1.6448536 * own.total_error)
        assert own.high - own.low == pytest.approx(2 * 1.6448536 * own.privacy_error)


def test_errors_from_sampling_are_those_of_the_fit_with_all_labels() -> None:
    model = fitted(1e4)
    design, labels = model.features_.design(table(ROWS)), table(ROWS)["label"].to_numpy()
    left = labels - design @ np.linalg.lstsq(design, labels)[0]
    variance = left @ left / (ROWS - design.shape[1]) * np.linalg.inv(design.T @ design)
    units = model.features_.to_original_units()[1]
    expected = np.sqrt(np.diag(units @ variance @ units.T))
    found = [entry.sampling_error for entry in model.coefficients_]
    assert found == pytest.approx(expected, rel=0.02)
    independent = features_of(pay_table()).keep(range(5))
    for entry in (
        LinearRegressor().fit(draw_release(pay_table(), 4000, 3, independent)).coefficients_
    ):
        assert entry.high - entry.low == pytest.approx(2 * 1.96 * entry.privacy_error, rel=0.01)
        sampling = entry.privacy_error * np.sqrt(4000 / (400 - 5))
        assert entry.sampling_error == pytest.approx(sampling, rel=0.05)


def test_intervals_hold_the_coefficients_of_the_population() -> None:
    """80 % of 40 slopes, over tables and releases: fewer than 22 has probability 3e-4, and what
    covers privacy alone holds too few."""
    inside = alone = 0
    for seed in range(40):
        numbers = table(400, seed=seed).select(["height", "label"])
        rows = scan(numbers, label="label", label_range=RANGE)
        planned = plan(rows, epsilon=60, delta=1e-5, mechanism="shaped-flag", residual_share=0.3)
        release = planned.release(rows, randomness=Randomness.experiment(seed))
        model = LinearRegressor(confidence=0.8, shrink=False).fit(release)
        entry, own = model.summary().to_dict()["coefficients"][1], model.coefficients_[1]
        inside += entry["low"] <= 0.03 <= entry["high"]
        alone += own.low <= 0.03 <= own.high
    assert inside >= 22
    assert alone < 22


def test_what_is_not_known_is_said() -> None:
    silent = LinearRegressor().fit(released(20.0, share=0.0)).summary().to_dict()
    assert silent["intervals_for"] == "the fit with all labels"
    assert {entry["sampling_error"] for entry in silent["coefficients"]} == {None}
    assert any("was not published" in note for note in silent["notes"])
    assert {entry.total_error for entry in fitted(0.01).coefficients_} == {None}
    ridge = fitted(20.0, penalty=3.0).summary().to_dict()
    assert ridge["intervals_for"] is None
    assert any("penalised" in note for note in ridge["notes"])
    assert "does not show that predictions beat the mean" in str(fitted(0.05).summary())
    assert "does not show that predictions beat the mean" in str(
        fitted(0.05, shrink=False).summary()
    )
    assert not [note for note in fitted(20.0).summary().to_dict()["notes"] if "constant" in note]
    rows = LinearRegressor().fit(np.eye(3), np.arange(3.0))
    assert "plain rows" in str(rows.summary())


# --- text ---


def test_text_is_short_if_asked() -> None:
    summary = fitted(20.0).summary()
    lines, count = str(summary).splitlines(), len(summary.to_dict()["coefficients"])
    assert sum(line.startswith(("town=", "colour=")) for line in lines) == count - 3
    short = summary.text(4).splitlines()
    assert f"… and {count - 4} more, nearer to their errors" in short
    assert any(line.startswith("height") for line in short), "which stands out most"
    assert "Levels count from colour=" in str(summary)


def test_the_command_line_prints_it(tmp_path: Path) -> None:
    released(20.0).save(tmp_path / "r")
    assert labeldp("fit", tmp_path / "r", "--verbose").out == f"{fitted(20.0).summary()}\n"


# --- predictions along a column ---


def small_table() -> pa.Table:
    rng = np.random.default_rng(0)
    age, kind = rng.uniform(20, 60, 400), rng.choice(["a", "b", "c"], 400, p=[0.2, 0.7, 0.1])
    rich = np.exp(rng.normal(3, 1.5, 400))
    y = 0.03 * (age - 40) + 0.5 * (kind == "c") + 0.2 * rng.normal(size=400)
    return pa.table({"age": age, "rich": rich, "kind": kind, "y": y.clip(-3, 3)})


SMALL = scan(small_table(), label="y", label_range=(-3.0, 3.0))


def small_plan(mechanism: str = "shaped-flag", epsilon: float = 4, **options: Any) -> Any:
    return plan(SMALL, epsilon, 1e-6, mechanism=mechanism, force=True, **options)


def typical_rows(model: LinearRegressor, ages: Any, kinds: Any) -> pa.Table:
    rich = model.features_.numeric[1]
    value = np.expm1(rich.imputed) if rich.log else rich.imputed
    return pa.table({"age": ages, "rich": [value] * len(ages), "kind": kinds})


@pytest.mark.parametrize("mechanism", ["shaped-flag", "noisy-rows", "wtd-flag"])
def test_effects_are_predictions_of_rows_that_differ_in_one_column(mechanism: str) -> None:
    model = LinearRegressor(clip=False).fit(small_plan(mechanism).release(SMALL), SMALL)
    assert [effect.column for effect in model.effects_] == ["age", "rich", "kind"]
    age, rich, kind = model.effects_
    rows = typical_rows(model, age.values, ["b"] * POINTS)
    np.testing.assert_allclose(age.predictions, model.predict(rows))
    rows = typical_rows(model, [model.features_.numeric[0].imputed] * 3, ["a", "b", "c"])
    np.testing.assert_allclose(kind.predictions, model.predict(rows))
    assert kind.values == ["a", "b", "c"]
    assert (age.values[0], age.values[-1]) == pytest.approx((20, 60), abs=0.2)
    assert rich.values[0] < rich.values[-1]


def test_errors_of_effects_are_those_of_releases() -> None:
    """Deviations over 80 releases: by χ², 5 standard errors of a deviation are 40 %. Predictions
    of the posterior are as near as they say."""
    planned = small_plan()
    best = LinearRegressor(clip=False).fit(small_plan(epsilon=1e4).release(SMALL))
    truth = np.array(best.effects_[0].predictions)
    plain, squares, said = [], [], []
    for seed in range(RELEASES):
        release = planned.release(SMALL, randomness=Randomness.experiment(seed))
        plain.append(LinearRegressor(shrink=False).fit(release).effects_)
        if seed < 30:
            shrunk = LinearRegressor(clip=False).fit(release).effects_[0]
            squares.append((np.array(shrunk.predictions) - truth) ** 2)
            said.append(np.square(shrunk.privacy_errors))
    for place in range(3):
        found = np.std([effects[place].predictions for effects in plain], axis=0)
        ratio = found / np.array(plain[0][place].privacy_errors)
        assert np.abs(ratio - 1).max() < 5 / np.sqrt(2 * RELEASES)
    assert 0.3 * np.mean(said) < np.mean(squares) < 1.5 * np.mean(said)


def test_sampling_counts_where_the_residual_is_known() -> None:
    """With next to no noise the errors are the classical ones of a mean response."""
    model = LinearRegressor().fit(small_plan(epsilon=400, residual_share=0.5).release(SMALL))
    age, features = model.effects_[0], model.features_
    total, privacy = np.array(age.total_errors), np.array(age.privacy_errors)
    X, y = features.design(small_table()), small_table()["y"].to_numpy()
    left = y - X @ np.linalg.lstsq(X, y)[0]
    at = features.design(typical_rows(model, age.values, ["b"] * POINTS))
    variance = left @ left / (len(X) - X.shape[1])
    classical = np.sqrt(variance * np.einsum("ij,jk,ik->i", at, np.linalg.inv(X.T @ X), at))
    np.testing.assert_allclose(np.sqrt(total**2 - privacy**2), classical, rtol=0.1)
    silent = small_plan(epsilon=400, residual_share=0.0).release(SMALL)
    assert LinearRegressor().fit(silent).effects_[0].total_errors is None


def test_the_picture_of_a_column_has_both_bands_and_stays_in_the_range() -> None:
    model = fitted(500.0)._model()
    numeric = next(e for e in model.effects if not isinstance(e.values[0], str))
    levels = next(e for e in model.effects if isinstance(e.values[0], str))
    outer, inner = effect_picture(model, numeric.column).curves
    assert inner.y == pytest.approx(np.clip(numeric.predictions, *RANGE))
    assert all(a <= b <= c for a, b, c in zip(outer.low, inner.low, inner.y, strict=True))
    assert RANGE[0] <= min(outer.low) <= max(outer.high) <= RANGE[1]
    assert effect_picture(model, levels.column).names == tuple(levels.values)
    with pytest.raises(InputError, match="has no column 'nope'"):
        fitted(500.0).plot("nope")
