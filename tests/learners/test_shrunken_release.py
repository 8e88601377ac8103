"""Predictions from a shaped release, shrunk by what is public of its noise (theory §10)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from labeldp import InputError, LinearRegressor, Plan, Release, plan
from labeldp._random import Randomness
from tests.console import labeldp
from tests.tables import source, table

ROWS, RELEASES = 300, 12


@cache
def made(epsilon: float) -> Plan:
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism="shaped-flag")


def released(epsilon: float, seed: int) -> Release:
    return made(epsilon).release(source(ROWS), randomness=Randomness.experiment(seed))


def errors(epsilon: float, *, shrink: bool) -> list[float]:
    """Mean squared distance to the fit with all labels, over releases."""
    rows = table(ROWS)
    design = made(epsilon).features.design(rows)
    best = design @ np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    return [
        float(np.square(LinearRegressor(shrink=shrink).fit(release).predict(rows) - best).mean())
        for release in (released(epsilon, seed) for seed in range(RELEASES))
    ]


def test_where_noise_dominates_shrinkage_helps() -> None:
    """Much noise: on every one of these releases, and several times on average."""
    plain, shrunk = errors(0.1, shrink=False), errors(0.1, shrink=True)
    assert 3 * np.mean(shrunk) < np.mean(plain)


def test_where_there_is_hardly_any_noise_it_changes_next_to_nothing() -> None:
    plain, shrunk = errors(1e3, shrink=False), errors(1e3, shrink=True)
    assert np.mean(shrunk) == pytest.approx(np.mean(plain), rel=0.5, abs=1e-9)


def test_coefficients_and_intervals_are_not_shrunk() -> None:
    release = released(0.5, 1)
    plain, shrunk = LinearRegressor().fit(release), LinearRegressor(shrink=True).fit(release)
    assert shrunk.coefficients_ == plain.coefficients_
    assert not np.allclose(shrunk.coef_, plain.coef_)


def test_it_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    sketch = plan(source(ROWS), epsilon=1, delta=1e-5, bags=40).release(source(ROWS))
    with pytest.raises(InputError, match="`shrink` needs a release"):
        LinearRegressor(shrink=True).fit(sketch)
    with pytest.raises(InputError, match="`shrink` chooses its own penalty"):
        LinearRegressor(shrink=True, penalty=1.0).fit(released(0.5, 1))
    sketch.save(tmp_path / "sketch")
    assert "--shrink needs a release" in labeldp("fit", tmp_path / "sketch", "--shrink").error


def test_a_shrunk_model_is_saved_and_read_back(tmp_path: Path) -> None:
    released(0.5, 1).save(tmp_path / "shaped")
    target = tmp_path / "model.json"
    assert labeldp("fit", tmp_path / "shaped", "--shrink", "--out", target).code == 0
    model = LinearRegressor.load(target)
    fitted = LinearRegressor(shrink=True).fit(released(0.5, 1))
    assert model.shrink
    assert np.array_equal(model.predict(table(20)), fitted.predict(table(20)))
