"""Plans with a basis: forecasts hold for every basis."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LinearRegressor, plan, scan
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
