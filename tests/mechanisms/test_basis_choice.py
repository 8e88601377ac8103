"""Plans with a basis: auto chooses from public facts, and forecasts hold for every basis."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LinearRegressor, PlanError, plan, scan
from labeldp.choose import BASES, choose_basis
from labeldp.features.basis import LinearSpline, basis_to_json
from labeldp.sampling.streams import Randomness


def table(rows, seed=1):
    """The features are the same for every seed."""
    features, random = np.random.default_rng(0), np.random.default_rng(seed)
    x, kinds = features.normal(size=(2, rows)), features.choice(["p", "q", "r"], rows)
    labels = np.clip(np.sin(2 * x[0]) + 0.3 * random.normal(size=rows), -2, 2)
    return pa.table({"x0": x[0], "x1": x[1], "kind": kinds, "y": labels})


@cache
def source(rows=6000, seed=1):
    return scan(table(rows, seed), label="y", label_range=(-2, 2))


@cache
def auto(rows, epsilon, seed=1):
    """The plan whose basis is chosen."""
    return plan(source(rows, seed), epsilon, 1e-6, basis="auto")


def test_auto_takes_the_richest_that_privacy_adds_little_to():
    made = auto(6000, 1.0)
    (note,) = (note for note in made.notes if note.startswith("basis auto chose"))
    words = r"basis auto chose (\S+), (\d+) columns; what privacy adds .*: linear [\d.]+%, (.*)"
    chosen, columns, _ = re.fullmatch(words, note).groups()
    assert int(columns) == len(made.features.names)
    share = float(re.search(rf"{re.escape(chosen)} ([\d.]+)%", note.split(": ")[1]).group(1))
    assert share == pytest.approx(100 * np.sqrt(made.forecast.added_mse) / 4, abs=0.006)
    assert share <= 100 * BASES[chosen]


def test_a_larger_budget_buys_a_richer_basis():
    columns = [len(auto(1500, epsilon).features.names) for epsilon in (0.3, 5.0)]
    assert columns[0] < columns[1]


def test_labels_do_not_matter():
    one, other = (auto(1500, 1.0, seed) for seed in (1, 2))
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_auto_is_linear_where_nothing_can_bend():
    random = np.random.default_rng(0)
    data = pa.table({"k": random.choice(["a", "b"], 1000), "y": random.uniform(size=1000)})
    made = plan(scan(data, label="y", label_range=(0, 1)), 1.0, 1e-6, basis="auto")
    assert len(made.features.names) == 2
    assert "hinges" not in basis_to_json(made.features.basis)


class _Cheap:
    """Plans whose cost is what a test says."""

    def __init__(self, made, shares):
        self._made, self._shares = made, shares

    def __call__(self, basis):
        if self._shares.get(basis) is None:
            raise PlanError("no such plan")
        features = replace(self._made.features, notes=(basis,))
        features = replace(features, basis=plan_basis(basis))
        cost = replace(self._made.forecast, added_mse=(4 * self._shares[basis]) ** 2)
        return replace(self._made, features=features, forecast=cost)


def plan_basis(basis):
    return (LinearSpline("x0", tuple(range(1 + list(BASES).index(basis)))),)


def test_a_basis_is_taken_up_to_its_limit():
    made = plan(source(1500), 1.0, 1e-6)
    poorest, *others = BASES
    for before, basis in pairwise(BASES):
        beyond = BASES | {poorest: 0.5, basis: BASES[basis] * 1.01}
        assert choose_basis(_Cheap(made, beyond))[0] == before
    assert choose_basis(_Cheap(made, BASES | {poorest: 0.5}))[0] == others[-1]
    assert choose_basis(_Cheap(made, {poorest: 0.5}))[0] == poorest


@pytest.mark.parametrize(
    ("basis", "interactions"), [("splines:4", ()), ("splines:3+fourier:6", ("x0:kind", "x0:x1"))]
)
def test_the_forecast_is_the_mean_over_releases(basis, interactions):
    """What least squares adds to the fit with all labels, over 60 releases: within 4 deviations."""
    rows, here = table(1500), source(1500)
    asked = {"basis": basis, "interactions": interactions}
    made = plan(here, 1.0, 1e-6, mechanism="shaped-flag", force=True, **asked)
    design, labels = made.features.design(rows), rows["y"].to_numpy()
    truth = design @ np.linalg.lstsq(design, labels, rcond=None)[0]
    errors = []
    for seed in range(60):
        release = made.release(here, randomness=Randomness.experiment(seed))
        fit = LinearRegressor(shrink=False, clip=False).fit(release)
        errors.append(np.mean((fit.predict(here) - truth) ** 2))
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - made.forecast.added_mse) < 4 * deviation
    assert deviation < 0.2 * made.forecast.added_mse
