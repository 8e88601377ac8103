"""Deviations and intervals of predictions hold new labels as often as they say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from labeldp import InputError, LinearRegressor, Release
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS, RELEASES = 500, 40


def truth(rows: pa.Table) -> NDArray[np.float64]:
    """The mean of labels, as `table` draws them."""
    red = rows["colour"].to_numpy() == "red"
    return np.asarray(5 + 0.03 * (rows["height"].to_numpy() - 170) + 0.5 * red)


@cache
def planned(epsilon: float, share: float = 0.3) -> Any:
    options: dict[str, Any] = {"mechanism": "shaped-flag", "residual_share": share}
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, force=True, **options)


@cache
def released(epsilon: float, seed: int, share: float = 0.3) -> Release:
    """A release of the same features with labels of its own."""
    labels = truth(table(ROWS)) + np.random.default_rng(100 + seed).normal(size=ROWS)
    own = table(ROWS).drop_columns(["label"]).append_column("label", pa.array(labels.clip(*RANGE)))
    release: Release = planned(epsilon, share).release(
        own, label="label", randomness=Randomness.experiment(seed)
    )
    return release


def fitted(epsilon: float, seed: int, **options: Any) -> LinearRegressor:
    return LinearRegressor(clip=False, **options).fit(released(epsilon, seed))


def test_deviations_are_those_of_privacy_sampling_and_residual() -> None:
    """Over 40 releases predictions miss the true mean by what deviations say beside the residual.

    The mean square of some nine directions each is within 20 % (2.5 deviations) of 1. Without what
    privacy adds they would say less than half of it.
    """
    missed, said, sampling = [], [], []
    for seed in range(RELEASES):
        model = fitted(2.0, seed, shrink=False)
        if model.prediction_errors_ is None:
            continue
        predictions, std = model.predict(table(ROWS), return_std=True)
        variance = model.prediction_errors_.residual_variance
        missed.append(np.mean((predictions - truth(table(ROWS))) ** 2))
        said.append(np.mean(std**2 - variance))
        sampling.append(variance * len(model.coef_) / ROWS)
    assert len(missed) > RELEASES / 2
    assert 0.8 < np.mean(missed) / np.mean(said) < 1.25
    assert np.mean(sampling) < 0.5 * np.mean(missed)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_new_labels(level: float) -> None:
    """Labels of 40 times 500 new rows; intervals that are a tenth narrower would hold too few."""
    new, rng = table(ROWS, seed=7), np.random.default_rng(1)
    inside = narrower = 0.0
    for seed in range(RELEASES):
        labels = truth(new) + rng.normal(size=ROWS)
        predictions, low, high = fitted(20.0, seed).predict(new, interval=level)
        inside += np.mean((low <= labels) & (labels <= high)) / RELEASES
        narrower += np.mean(np.abs(labels - predictions) < 0.45 * (high - low)) / RELEASES
    assert abs(inside - level) < 0.02
    assert narrower < level - 0.02


def test_intervals_stay_in_the_label_range_and_deviations_do_not() -> None:
    model = LinearRegressor().fit(released(20.0, 0))
    predictions, low, high = model.predict(table(ROWS), interval=1 - 1e-12)
    assert (low.min(), high.max()) == RANGE
    assert (low < predictions).all()
    assert (predictions < high).all()
    assert np.array_equal(predictions, model.predict(table(ROWS)))
    _, std = model.predict(table(ROWS).to_pandas(), return_std=True)
    assert (std > model.quality_.residual_std).all()


def test_a_saved_model_has_them_in_little_room(tmp_path: Path) -> None:
    model = fitted(20.0, 0)
    model.save(tmp_path / "model.json")
    loaded = LinearRegressor.load(tmp_path / "model.json")
    for ours, theirs in zip(
        model.predict(table(50), interval=0.9), loaded.predict(table(50), interval=0.9), strict=True
    ):
        assert np.array_equal(ours, theirs)
    stored = json.loads((tmp_path / "model.json").read_text())["prediction_errors"]
    columns = len(model.coef_)
    assert len(stored["root"]) < 4 * 4 / 3 * columns * (columns + 1) / 2 + 4


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: LinearRegressor().fit(released(20.0, 0, 0.0)), "not published"),
        (lambda: fitted(20.0, 0, penalty=2.0), "without a penalty"),
        (lambda: LinearRegressor().fit(np.eye(3), np.arange(3.0)), "plain rows"),
    ],
)
def test_where_the_residual_is_not_known_they_are_refused(model: Any, reason: str) -> None:
    with pytest.raises(InputError, match=f"no errors of predictions are known: .*{reason}"):
        model().predict(table(5), return_std=True)


def test_arguments_are_checked() -> None:
    model = fitted(20.0, 0)
    with pytest.raises(InputError, match="`return_std` and `interval` exclude each other"):
        model.predict(table(5), return_std=True, interval=0.9)
    with pytest.raises(InputError, match="`interval` must lie between 0 and 1"):
        model.predict(table(5), interval=95)
    strange = table(5).drop_columns(["town"]).append_column("town", pa.array(["x"] * 5))
    with pytest.warns(match="taken as base"):
        model.predict(strange, return_std=True)
