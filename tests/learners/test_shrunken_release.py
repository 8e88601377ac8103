"""Predictions from a shaped release, shrunk by its public noise (theory §10) and clipped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from labeldp import InputError, LinearRegressor, Plan, Release
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS, RELEASES = 300, 12


@cache
def made(epsilon: float) -> Plan:
    return plan(source(ROWS), epsilon=epsilon, delta=1e-5, mechanism="shaped-flag")


def released(epsilon: float, seed: int) -> Release:
    return made(epsilon).release(source(ROWS), randomness=Randomness.experiment(seed))


@cache
def sketch() -> Release:
    return plan(source(ROWS), epsilon=1, delta=1e-5, bags=40).release(source(ROWS))


def errors(epsilon: float, *, shrink: bool | None, clip: bool = False) -> list[float]:
    """Mean squared distance to the fit with all labels, over releases."""
    rows = table(ROWS)
    design = made(epsilon).features.design(rows)
    best = design @ np.linalg.lstsq(design, rows["label"].to_numpy())[0]
    models = [
        LinearRegressor(shrink=shrink, clip=clip).fit(released(epsilon, seed))
        for seed in range(RELEASES)
    ]
    return [float(np.square(model.predict(rows) - best).mean()) for model in models]


def test_where_noise_dominates_shrinkage_helps() -> None:
    """Much noise: on every one of these releases, and several times on average."""
    plain, shrunk = errors(0.1, shrink=False), errors(0.1, shrink=True)
    assert 3 * np.mean(shrunk) < np.mean(plain)


def test_where_there_is_hardly_any_noise_it_changes_next_to_nothing() -> None:
    plain, shrunk = errors(1e3, shrink=False), errors(1e3, shrink=True)
    assert np.mean(shrunk) == pytest.approx(np.mean(plain), rel=0.5, abs=1e-9)


def test_it_is_the_default_where_noise_is_known_and_nothing_else_holds_back() -> None:
    release = released(0.1, 3)
    default, asked = LinearRegressor().fit(release), LinearRegressor(shrink=True).fit(release)
    assert np.array_equal(default.coef_, asked.coef_)
    assert default.rule_["rule"] == "posterior mean"
    assert LinearRegressor(penalty=2.0).fit(release).rule_ == {"rule": "ridge", "penalty": 2.0}
    assert LinearRegressor(shrink=False).fit(release).rule_ == {"rule": "least squares"}
    assert LinearRegressor().fit(sketch()).rule_ == {"rule": "least squares"}


def test_predictions_stay_in_the_public_range_unless_asked_otherwise() -> None:
    release, rows = released(0.05, 3), table(ROWS)
    free = LinearRegressor(shrink=False, clip=False).fit(release)
    kept = LinearRegressor(shrink=False).fit(release)
    low, high = RANGE
    far = free.predict(rows)
    assert far.min() < low
    assert far.max() > high
    assert kept.predict(rows) == pytest.approx(np.clip(far, low, high), abs=1e-3)
    assert np.array_equal(kept.coef_, free.coef_)
    assert np.mean(errors(0.05, shrink=False, clip=True)) < np.mean(errors(0.05, shrink=False))


def test_plain_rows_have_no_public_range() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 2)), random.normal(size=30)
    model = LinearRegressor().fit(X, y)
    assert model.label_range_ is None
    assert np.array_equal(
        model.predict(9 * X), LinearRegressor(clip=False).fit(X, y).predict(9 * X)
    )


def test_coefficients_and_intervals_are_not_shrunk() -> None:
    release = released(0.5, 1)
    plain, shrunk = LinearRegressor(shrink=False).fit(release), LinearRegressor().fit(release)
    assert shrunk.coefficients_ == plain.coefficients_
    assert not np.allclose(shrunk.coef_, plain.coef_)


def test_it_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`shrink=True` needs a release"):
        LinearRegressor(shrink=True).fit(sketch())
    with pytest.raises(InputError, match="`shrink=True` needs a release"):
        LinearRegressor(shrink=True).fit(np.eye(3), np.ones(3))
    with pytest.raises(InputError, match="`shrink=True` chooses its own penalty"):
        LinearRegressor(shrink=True, penalty=1.0).fit(released(0.5, 1))
    sketch().save(tmp_path / "sketch")
    assert "--shrink needs a release" in labeldp("fit", tmp_path / "sketch", "--shrink").error


def test_a_model_keeps_its_rule_and_range(tmp_path: Path) -> None:
    released(0.05, 1).save(tmp_path / "shaped")
    rows = table(20)
    for number, (flags, options) in enumerate(
        [
            ((), {}),
            (("--no-shrink",), {"shrink": False}),
            (("--shrink", "--no-clip"), {"shrink": True, "clip": False}),
        ]
    ):
        target = tmp_path / f"{number}.json"
        assert labeldp("fit", tmp_path / "shaped", *flags, "--out", target).code == 0
        model = LinearRegressor.load(target)
        fitted = LinearRegressor(**options).fit(released(0.05, 1))
        assert model.get_params() == fitted.get_params()
        assert model.rule_ == fitted.rule_
        assert model.label_range_ == fitted.label_range_ == pytest.approx(RANGE, abs=1e-3)
        assert np.array_equal(model.predict(rows), fitted.predict(rows))
