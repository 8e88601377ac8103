"""The comparison of models: what it measures, and leaves that grow with the noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from experiments.models import Rows, Way, linear, measure
from experiments.study import Study
from experiments.tables import Table
from experiments.trees import least_rows, trees

from experiments import models
from labeldp import plan


def curve(_folder: object) -> pa.Table:
    rng = np.random.default_rng(0)
    x, kind = rng.uniform(-1, 1, 4000), rng.choice(["a", "b"], 4000)
    y = np.abs(x) * np.where(kind == "a", 1.0, 2.0) + 0.1 * rng.normal(size=4000)
    return pa.table({"x": x, "kind": kind, "y": y})


TABLE = Table("curve", "a curve", "y", (-1, 3), curve)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows.of(TABLE, None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study(rows: Rows) -> Study:
    return Study(TABLE.source_of(rows.train))


def test_r2_is_of_rows_kept_aside(rows: Rows) -> None:
    assert (len(rows.train), len(rows.test)) == (3200, 800)
    truth = np.clip(rows.test["y"].to_numpy(), -1, 3)
    assert rows.r2(lambda _: truth) == 1
    assert rows.r2(lambda _: np.full(800, truth.mean())) == pytest.approx(0)


def test_curves_and_trees_find_what_a_line_cannot(
    rows: Rows, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "REPEATS", 1)
    ways = [
        Way("line", {"mechanism": "shaped-flag", "basis": "linear"}, linear),
        Way("splines", {"mechanism": "shaped-flag", "basis": "splines"}, linear),
        Way("trees", {"mechanism": "noisy-rows"}, trees),
    ]
    line, splines, grown = (measure(rows, study, way, 20.0)[0] for way in ways)
    assert line < 0.5 < splines
    assert grown > 0.5


def test_leaves_grow_with_the_noise(study: Study) -> None:
    sizes = []
    for epsilon in (1.0, 2.0, 100.0):
        made = plan(study.source, epsilon, 1e-6, mechanism="noisy-rows", force=True)
        sizes.append(least_rows(made.release(study.source)))
    assert sizes[0] >= sizes[1] > sizes[2] == 20
    assert sizes[0] <= 3200 / 8
