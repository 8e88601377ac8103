"""What plans of bags forecast is what releases then give, and what `auto` takes by it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, LinearRegressor, Plan, scan
from labeldp.data.source import Source
from labeldp.mechanisms.design_summary import summarize_design
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanism_names
from labeldp.passes.engine import LocalEngine
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import FLAG, NOISY, SAMPLED, SHAPED
from tests.plans import plan
from tests.tables import source

ROWS, VARIANCE, RANGE = 900, 4.0, (-20.0, 20.0)
ENGINE = LocalEngine(1)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def features() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(ROWS, 2)), 3)


def truth() -> np.ndarray:
    return 1.0 + features() @ np.array([2.0, -1.0])


def labelled(seed: int) -> Source:
    """The same rows with fresh labels of the residual variance that the plan was told."""
    noise = math.sqrt(VARIANCE) * np.random.default_rng(seed).normal(size=ROWS)
    x = features()
    data = pa.table({"a": x[:, 0], "b": x[:, 1], "label": truth() + noise})
    return scan(data, label="label", label_range=RANGE)


def rows() -> pa.Table:
    x = features()
    return pa.table({"a": x[:, 0], "b": x[:, 1]})


def excess_of_releases(made: Plan, count: int) -> np.ndarray:
    """Mean squared distance from the truth over all rows, of real releases and real fits."""
    found = []
    for seed in range(count):
        data = labelled(seed)
        release = made.release(data, randomness=Randomness.experiment(seed))
        model = LinearRegressor(shrink=False, clip=False)
        model.fit(release) if release.aggregates_features else model.fit(release, data)
        found.append(float(np.mean((model.predict(rows()) - truth()) ** 2)))
    return np.array(found)


CASES: dict[str, tuple[dict[str, Any], int]] = {
    SAMPLED: ({"bags": 30, "bag_size": 30, "floor": "added"}, 24),
    NOISY: ({"bags": 90, "bag_size": 10}, 120),
}


@pytest.mark.parametrize("mechanism", CASES)
def test_forecasts_of_bags_are_the_errors_of_real_releases(mechanism: str) -> None:
    """The mean over releases is within a third of the forecast, and 3.5 standard errors."""
    options, count = CASES[mechanism]
    made = plan(
        labelled(0),
        epsilon=4.0,
        delta=1e-3,
        mechanism=mechanism,
        residual_guess=VARIANCE,
        bag_seed=3,
        **options,
    )
    real = excess_of_releases(made, count)
    error = real.std() / math.sqrt(len(real))
    assert error < 0.3 * real.mean(), "or this test could not fail"
    forecast = made.forecast.mean_mse - VARIANCE
    assert abs(real.mean() - forecast) < forecast / 3 + 3.5 * error


def test_by_default_the_mechanism_is_the_one_that_adds_least() -> None:
    data = source(2000)
    made = plan(data, **BUDGET)
    closed = [name for name in mechanism_names() if mechanism_named(name).closed_form]
    errors = {name: plan(data, mechanism=name, **BUDGET).forecast.added_mse for name in closed}
    assert {FLAG, SHAPED} <= set(closed)
    assert made.forecast.added_mse == min(errors.values())
    assert made.claim.mechanism == min(errors, key=lambda name: errors[name])
    assert any(note.startswith("auto chose") for note in made.notes)


def test_a_mechanism_that_cannot_win_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.mechanisms.wtd_flag.WtdFlag.plan", None)
    assert any(f"{FLAG} at least" in note for note in plan(source(2000), **BUDGET).notes)


@pytest.mark.parametrize("epsilon", [0.2, 6.0])
@pytest.mark.parametrize("floor", ["added", "measured+added"])
def test_no_number_of_bags_adds_less_than_infinitely_many(epsilon: float, floor: str) -> None:
    mechanism, data = mechanism_named(FLAG), source(2000)
    design = summarize_design(data, engine=ENGINE, encoding=Encoding())
    added = []
    for bags in (20, 300, 10_000, 10**6, 10**7):
        asked = make_request(mechanism, epsilon=epsilon, delta=1e-6, bags=bags, floor=floor)
        made = mechanism.plan(asked, design, data, ENGINE)
        added.append(made.forecast.added_mse)
        least = mechanism.least_added_mse(asked, design)
    assert added == sorted(added, reverse=True)
    assert least <= added[-1]
    if floor == "added":
        assert added[-1] < 1.05 * least, "or the bound would be idle"


def test_options_of_some_mechanisms_narrow_the_choice() -> None:
    made = plan(source(400), bags=40, **BUDGET)
    assert made.claim.mechanism == FLAG
    assert "auto looked at wtd-flag only: others lack some of the options given" in made.notes
    drawn = plan(source(400), bag_size=16, bags=20, epsilon=1.0, delta=1e-5)
    assert drawn.claim.mechanism in (SAMPLED, NOISY)
    with pytest.raises(InputError, match="does not apply to"):
        plan(source(400), shape_ridge=0.1, bag_size=10, **BUDGET)
    with pytest.raises(InputError, match="no argument `bagz`; did you mean `bags`"):
        plan(source(400), bagz=3, **BUDGET)
