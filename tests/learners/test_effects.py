"""Predictions along a column: the model's own, with errors that releases show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LinearRegressor, plan
from labeldp.data.source import Source, scan
from labeldp.errors import InputError
from labeldp.learners.linear import POINTS
from labeldp.learners.models import Effect
from labeldp.learners.summary import picture, pictures
from labeldp.sampling.streams import Randomness

RANGE = (-3.0, 3.0)
RELEASES = 120


def table(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(0)
    age, kind = rng.uniform(20, 60, rows), rng.choice(["a", "b", "c"], rows, p=[0.2, 0.7, 0.1])
    rich = np.exp(rng.normal(3, 1.5, rows))
    y = 0.03 * (age - 40) + 0.5 * (kind == "c") + 0.2 * rng.normal(size=rows)
    return pa.table({"age": age, "rich": rich, "kind": kind, "y": y.clip(*RANGE)})


@pytest.fixture(scope="module")
def source() -> Source:
    return scan(table(), label="y", label_range=RANGE)


def planned(source: Source, mechanism: str, **choices: Any) -> Any:
    return plan(source, epsilon=4, delta=1e-6, mechanism=mechanism, force=True, **choices)


@pytest.mark.parametrize("mechanism", ["shaped-flag", "noisy-rows", "wtd-flag"])
def test_they_are_predictions_of_rows_that_differ_in_one_column(
    source: Source, mechanism: str
) -> None:
    model = LinearRegressor(clip=False).fit(planned(source, mechanism).release(source), source)
    assert [effect.column for effect in model.effects_] == ["age", "rich", "kind"]
    age, rich, kind = model.effects_
    typical = {each.name: each.imputed for each in model.features_.numeric}
    if model.features_.numeric[1].log:
        typical["rich"] = np.expm1(typical["rich"])
    rows = pa.table({"age": age.values, "rich": [typical["rich"]] * POINTS, "kind": ["b"] * POINTS})
    np.testing.assert_allclose(age.predictions, model.predict(rows))
    rows = pa.table(
        {"age": [typical["age"]] * 3, "rich": [typical["rich"]] * 3, "kind": ["a", "b", "c"]}
    )
    np.testing.assert_allclose(kind.predictions, model.predict(rows))
    assert kind.values == ("a", "b", "c")
    assert (age.values[0], age.values[-1]) == pytest.approx((20, 60), abs=0.2)
    assert rich.values[0] < rich.values[-1]


def test_errors_are_those_of_releases(source: Source) -> None:
    """Deviations over 120 releases: by χ², 5 standard errors of a deviation are 32 %."""
    made = planned(source, "shaped-flag")
    drawn = (made.release(source, randomness=Randomness.experiment(k)) for k in range(RELEASES))
    fits = [LinearRegressor(shrink=False).fit(release) for release in drawn]
    for place in range(3):
        found = np.array([fit.effects_[place].predictions for fit in fits])
        told = np.array(fits[0].effects_[place].privacy_errors)
        ratio = found.std(axis=0) / told
        assert np.abs(ratio - 1).max() < 5 / np.sqrt(2 * RELEASES)


def test_predictions_of_the_posterior_are_as_near_as_they_say(source: Source) -> None:
    """Mean squared misses of the fit with all labels are at most those that the errors tell."""
    made = planned(source, "shaped-flag")
    whole = LinearRegressor(clip=False).fit(
        plan(source, 1e4, 1e-6, mechanism="shaped-flag").release(source)
    )
    truth = np.array(whole.effects_[0].predictions)
    squares, told = [], []
    for seed in range(40):
        release = made.release(source, randomness=Randomness.experiment(seed))
        fit = LinearRegressor(clip=False).fit(release)
        squares.append((np.array(fit.effects_[0].predictions) - truth) ** 2)
        told.append(np.square(fit.effects_[0].privacy_errors))
    assert np.mean(squares) < 1.5 * np.mean(told)
    assert np.mean(squares) > 0.3 * np.mean(told)


def test_sampling_is_told_where_the_residual_is_known(source: Source) -> None:
    """With next to no noise the errors are the classical ones of a mean response."""
    made = plan(source, 400, 1e-6, mechanism="shaped-flag", residual_share=0.5)
    sharp = made.release(source)
    fit = LinearRegressor().fit(sharp)
    age, features = fit.effects_[0], fit.features_
    total, privacy = np.array(age.total_errors), np.array(age.privacy_errors)
    assert (total > privacy).all()
    X, y = features.design(table()), table()["y"].to_numpy()
    left = y - X @ np.linalg.lstsq(X, y)[0]
    rich = features.numeric[1].imputed
    if features.numeric[1].log:
        rich = np.expm1(rich)
    at = features.design(
        pa.table({"age": age.values, "rich": [rich] * POINTS, "kind": ["b"] * POINTS})
    )
    variance = left @ left / (len(X) - X.shape[1])
    classical = np.sqrt(variance * np.einsum("ij,jk,ik->i", at, np.linalg.inv(X.T @ X), at))
    np.testing.assert_allclose(np.sqrt(total**2 - privacy**2), classical, rtol=0.1)
    silent = plan(source, 400, 1e-6, mechanism="shaped-flag", residual_share=0.0).release(source)
    assert LinearRegressor().fit(silent).effects_[0].total_errors is None


def test_pictures_show_them(source: Source) -> None:
    model = LinearRegressor().fit(planned(source, "shaped-flag").release(source))._model()
    first, age, _, kind = pictures(model)
    assert first.name == "coefficients"
    assert set(first.names) == {"age", "rich", "kind=a", "kind=c"}  # b, the commonest, is the base
    assert age.name == "column-01-age"
    assert kind.names == ("a", "b", "c")
    line = age.curves[-1]
    assert line.x == model.effects[0].values
    assert all(low <= y <= high for low, y, high in zip(line.low, line.y, line.high, strict=True))
    low, high = model.label_range
    assert low <= min(line.low)
    assert max(line.high) <= high
    with pytest.raises(InputError, match="no column 'size' to show; it has age"):
        picture(model, "size")


def test_damaged_effects_are_refused() -> None:
    entry = {"column": "x", "values": [1.0], "predictions": [1.0, 2.0], "privacy_errors": None,
             "total_errors": None}  # fmt: skip
    with pytest.raises(ValueError, match="different lengths"):
        Effect.from_json(entry)


def test_coefficients_of_curves_are_left_to_their_own_pictures(source: Source) -> None:
    made = planned(source, "shaped-flag", basis="splines:3+fourier:4")
    shown = picture(LinearRegressor().fit(made.release(source))._model())
    assert shown.title == "Coefficients, without those of curves"
    assert not any("max(" in name or "wave" in name for name in shown.names)
    assert "age" in shown.names
