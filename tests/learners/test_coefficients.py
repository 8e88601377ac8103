"""Coefficients as a sequence, a data frame, intervals and p-values."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, norm

from labeldp import (
    InputError,
    LinearRegressor,
    LogisticRegression,
    MissingExtraError,
    PoissonRegressor,
    Release,
    scan,
)
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 1500


@cache
def released(epsilon: float, share: float = 0.1) -> Release:
    options: dict[str, Any] = {"mechanism": "shaped-flag", "residual_share": share}
    planned = plan(source(ROWS), epsilon=epsilon, delta=1e-5, force=True, **options)
    release: Release = planned.release(source(ROWS), randomness=Randomness.experiment(0))
    return release


def test_they_are_a_sequence_and_compare_by_value() -> None:
    model = LinearRegressor().fit(released(20.0))
    coefficients = model.coefficients_
    assert len(coefficients) == len(list(coefficients)) == len(model.feature_names_)
    assert coefficients[-1] in coefficients[1:]
    assert coefficients == LinearRegressor().fit(released(20.0)).coefficients_
    assert coefficients != LinearRegressor(confidence=0.9).fit(released(20.0)).coefficients_
    assert "Coefficients, with 95% intervals for the population" in repr(coefficients)
    assert coefficients[1].name in repr(coefficients)


@pytest.mark.parametrize("level", [None, 0.5, 0.99])
def test_intervals_are_for_the_population_at_any_level(level: float | None) -> None:
    coefficients = LinearRegressor(confidence=0.9).fit(released(20.0)).coefficients_
    reach = norm.ppf((1 + (level or 0.9)) / 2)
    for entry, (low, high) in zip(coefficients, coefficients.conf_int(level), strict=True):
        assert (low + high) / 2 == pytest.approx(entry.value)
        # Noise counts by the interval for what it adds, which knows its law.
        noise = (entry.high - entry.low) / 2 / norm.ppf(0.95)
        assert noise == pytest.approx(entry.privacy_error, rel=0.02)
        assert (high - low) / 2 == pytest.approx(reach * np.hypot(noise, entry.sampling_error))
    with pytest.raises(InputError, match="`level` must lie between 0 and 1"):
        coefficients.conf_int(95)


def test_a_p_value_is_the_level_of_the_interval_that_ends_at_zero() -> None:
    coefficients = LinearRegressor().fit(released(20.0)).coefficients_
    for place, pvalue in enumerate(coefficients.pvalues):
        if 1e-12 < pvalue < 1 - 1e-6:
            ends = coefficients.conf_int(1 - pvalue)[place]
            assert np.abs(ends).min() == pytest.approx(0, abs=1e-6 * np.abs(ends).max())


def test_p_values_of_nothing_are_uniform() -> None:
    """`score` explains no label: over 60 releases of tables its p-values are uniform, which those
    without what privacy adds are not."""
    rows, pvalues, without = table(300), [], []
    planned = plan(
        scan(rows.select(["score", "label"]), label="label", label_range=RANGE),
        epsilon=2,
        delta=1e-5,
        mechanism="shaped-flag",
        residual_share=0.3,
        force=True,
    )
    rng = np.random.default_rng(100)
    for seed in range(60):
        own = {"score": rows["score"], "label": (5 + rng.normal(size=300)).clip(*RANGE)}
        release = planned.release(own, label="label", randomness=Randomness.experiment(seed))
        coefficients = LinearRegressor().fit(release).coefficients_
        if coefficients.reason is None:
            pvalues.append(coefficients.pvalues[1])
            without.append(2 * norm.sf(abs(coefficients[1].value) / coefficients[1].sampling_error))
    assert len(pvalues) > 50
    assert kstest(pvalues, "uniform").pvalue > 1e-3
    assert kstest(without, "uniform").pvalue < 1e-3


def test_the_frame_has_all_of_it() -> None:
    pytest.importorskip("pandas")
    coefficients = LinearRegressor().fit(released(20.0)).coefficients_
    frame = coefficients.to_frame()
    assert frame.index.tolist() == [entry.name for entry in coefficients]
    assert frame["value"].tolist() == [entry.value for entry in coefficients]
    assert np.array_equal(frame[["low", "high"]], coefficients.conf_int())
    assert np.array_equal(frame["pvalue"], coefficients.pvalues)
    assert list(frame)[:4] == ["value", "low", "high", "privacy_error"]
    assert {str(kind) for kind in frame.dtypes} == {"float64"}


def test_the_frame_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients = LinearRegressor().fit(released(20.0)).coefficients_
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labeldp\[interop\]'"):
        coefficients.to_frame()


def test_what_is_not_known_has_a_reason() -> None:
    silent = LinearRegressor(confidence=0.9).fit(released(20.0, 0.0)).coefficients_
    assert "not published" in str(silent.reason)
    assert np.isnan(silent.pvalues).all()
    assert silent.conf_int().tolist() == [[entry.low, entry.high] for entry in silent]
    assert np.array_equal(silent.conf_int(0.9), silent.conf_int())
    with pytest.raises(InputError, match=r"only intervals at `level=0.9`.*`confidence`"):
        silent.conf_int(0.95)
    ridge = LinearRegressor(penalty=3.0).fit(released(20.0)).coefficients_
    assert "penalised" in str(ridge.reason)
    assert np.isnan(ridge.conf_int()).all()
    assert np.isnan(ridge.to_frame()["high"]).all()
    rows = LinearRegressor().fit(np.eye(5)[:, :2], np.arange(5.0)).coefficients_
    assert "plain rows" in str(rows.reason)
    assert np.isfinite(rows.conf_int()).all()


@pytest.mark.parametrize("kind", [LogisticRegression, PoissonRegressor])
def test_generalised_fits_have_the_same(kind: Any) -> None:
    labels = (table(ROWS)["label"].to_numpy() > 5).astype(float)
    rows = {name: table(ROWS)[name] for name in ("height", "score")} | {"label": labels}
    data = scan(rows, label="label", label_range=(0, 1))
    planned = plan(data, epsilon=20, delta=1e-5, mechanism="shaped-flag")
    release = planned.release(data, randomness=Randomness.experiment(0))
    coefficients = kind().fit(release, data).coefficients_
    assert coefficients.reason is None
    height, score = coefficients.pvalues[1:]
    assert height < 1e-3 < score
    assert coefficients.to_frame().loc["height", "low"] > 0
