"""`PrivateLinearRegression` is a plan, a release and a fit of it, behind `fit(X, y)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from labeldp import (
    InputError,
    LabelDPWarning,
    LinearRegressor,
    PlanError,
    PrivateLinearRegression,
    verify,
)
from tests.tables import RANGE, table

ROWS = 2000
X, Y = table(ROWS).drop_columns(["label"]), table(ROWS)["label"].to_numpy()


def fitted(**options: Any) -> PrivateLinearRegression:
    return PrivateLinearRegression(**{"epsilon": 20, "label_range": RANGE} | options).fit(X, Y)


def test_it_is_the_fit_of_a_release_that_verifies(tmp_path: Path) -> None:
    model = fitted(confidence=0.9)
    certificate = model.release_.certificate
    assert (certificate["epsilon"], certificate["delta"]) == (20, 1e-6)
    assert certificate["label_range"] == list(RANGE)
    assert verify(model.release_, X).valid
    again = LinearRegressor(confidence=0.9).fit(model.release_)
    assert np.array_equal(model.predict(X), again.predict(X))
    assert model.coefficients_ == again.coefficients_
    assert 0.05 < model.score(X, Y) < 0.2, "R² of the table is about 0.12"
    model.save(tmp_path / "model.json")
    loaded = PrivateLinearRegression.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_each_fit_draws_anew() -> None:
    model = fitted()
    first = model.predict(X)
    assert not np.array_equal(first, model.fit(X, Y).predict(X))


def test_it_takes_arrays() -> None:
    numbers = np.column_stack([X["height"].to_numpy(), X["score"].to_numpy()])
    model = PrivateLinearRegression(epsilon=20, label_range=RANGE).fit(numbers, Y.tolist())
    assert model.feature_names_in_.tolist() == ["x0", "x1"]
    _, low, high = model.predict(numbers[:50], interval=0.99)
    assert np.mean((low <= Y[:50]) & (Y[:50] <= high)) > 0.9


def test_it_takes_data_frames_that_have_a_column_of_that_name() -> None:
    frame = X.to_pandas().rename(columns={"score": "label"}).sample(frac=1, random_state=0)
    labels = Y[frame.index]
    model = PrivateLinearRegression(epsilon=20, label_range=RANGE).fit(frame, labels)
    assert set(model.feature_names_in_) == set(frame.columns)
    assert model.predict(frame).shape == (ROWS,)


def test_it_says_that_features_are_public() -> None:
    with pytest.warns(LabelDPWarning, match="X are taken as public"):
        fitted()


def test_labels_outside_the_range_count_as_its_ends() -> None:
    model = PrivateLinearRegression(epsilon=50, label_range=(4, 6), clip=False).fit(X, Y)
    expected = LinearRegressor().fit(model.features_.design(X)[:, 1:], Y.clip(4, 6))
    got, want = model.predict(X), expected.predict(model.features_.design(X)[:, 1:])
    assert np.sqrt(np.mean((got - want) ** 2)) < 0.1


def test_parameters_are_those_of_any_estimator() -> None:
    model = PrivateLinearRegression(epsilon=3, label_range=RANGE, shrink=False)
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) > set(LinearRegressor().get_params()) | {"epsilon", "delta"}


def test_it_refuses_without_a_label_range() -> None:
    with pytest.raises(InputError, match=r"public range.*`label_range=\(low, high\)`"):
        PrivateLinearRegression().fit(X, Y)


def test_other_mistakes_are_refused_in_a_line() -> None:
    words = [*Y[1:].tolist(), "secret"]
    for y, problem in ((None, "one label"), (Y[1:], "one label"), (words, "numbers alone")):
        with pytest.raises(InputError, match=f"`y` must h.* {problem}") as refusal:
            PrivateLinearRegression(label_range=RANGE).fit(X, y)
        assert "secret" not in str(refusal.value)
        assert refusal.value.__cause__ is None
    missing = np.where(np.arange(ROWS) == 3, np.nan, Y)
    with pytest.raises(InputError, match="missing"):
        PrivateLinearRegression(label_range=RANGE).fit(X, missing)
    with pytest.raises(InputError, match="`epsilon` must be above 0"):
        fitted(epsilon=0)
    with pytest.raises(PlanError, match="force=True"):
        fitted(epsilon=1e-3)
    with pytest.raises(InputError, match="not fitted yet"):
        PrivateLinearRegression().predict(X)
