"""R², residual spread and total errors from the published second moment (theory §15)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LinearRegressor, Release, plan, scan
from labeldp.sampling.streams import Randomness

RANGE = (-5.0, 15.0)
SLOPES = {"x": 1.0, "z": -0.5, "c=b": 0.8, "c=c": 0.0}


def population(rows: int, seed: int) -> pa.Table:
    """Labels with the slopes above and errors of deviation 1.5; R² is 0.36."""
    random = np.random.default_rng(seed)
    x, z = random.normal(size=rows), random.uniform(-1, 1, rows)
    c = random.choice(list("abc"), rows, p=[0.6, 0.3, 0.1])
    y = 5 + x - 0.5 * z + 0.8 * (c == "b") + random.normal(0, 1.5, rows)
    return pa.table({"x": x, "z": z, "c": c, "y": np.clip(y, *RANGE)})


def released(rows: int, seed: int, epsilon: float = 1.0, **options: float) -> Release:
    source = scan(population(rows, seed), label="y", label_range=RANGE)
    made = plan(source, epsilon, 1e-6, mechanism="shaped-flag", winsor=0.0, force=True, **options)
    return made.release(source, randomness=Randomness.experiment(seed))


def true_r2(rows: int, seed: int, model: LinearRegressor) -> float:
    table = population(rows, seed)
    y = table["y"].to_numpy()
    missed = y - model.predict(table.drop_columns(["y"]))
    return float(1 - (missed @ missed) / np.square(y - y.mean()).sum())


@pytest.mark.parametrize("rows", [1_500, 6_000])
def test_r2_is_found_within_its_error(rows: int) -> None:
    """Within two deviations in 30 of 35 tables; fewer has a probability below 1 %."""
    misses = []
    for seed in range(35):
        model = LinearRegressor().fit(released(rows, seed))
        quality = model.quality_
        if quality is None or quality.r2 is None or quality.r2_error is None:
            continue
        misses.append((quality.r2 - true_r2(rows, seed, model)) / quality.r2_error)
    assert len(misses) >= (20 if rows == 1_500 else 35)
    assert sum(abs(miss) < 2 for miss in misses) >= 30 / 35 * len(misses)


def test_an_error_that_leaves_nothing_open_is_said_and_a_small_one_is_not() -> None:
    few, many = (LinearRegressor().fit(released(rows, 1)) for rows in (1_500, 20_000))
    assert "R² is known to ±" in str(few.summary())
    assert "R² is known to ±" not in str(many.summary())
    shown = str(many.summary())
    for name in ("R², estimated", "residual standard deviation, estimated"):
        assert name in shown
    quality = many.quality_
    assert quality is not None
    assert quality.residual_std == pytest.approx(1.5, rel=0.05)
    assert quality.all_labels_r2 == pytest.approx(0.36, abs=0.04)


def covered(rows: int, tables: int) -> float:
    """How often 95 % intervals hold the slopes of the population."""
    inside = []
    for seed in range(tables):
        document = LinearRegressor().fit(released(rows, seed)).summary().to_dict()
        for entry in document["coefficients"]:
            if entry["name"] in SLOPES and entry["total_error"] is not None:
                inside.append(entry["low"] <= SLOPES[entry["name"]] <= entry["high"])
    assert len(inside) > 2 * tables
    return float(np.mean(inside))


def test_intervals_hold_the_population() -> None:
    """Of 160 intervals, in fours: 5 deviations below 95 % would be 86 %."""
    assert covered(5_000, 40) > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2_000, 5_000, 20_000])
def test_intervals_hold_the_population_as_often_as_they_say(rows: int) -> None:
    assert 0.93 <= covered(rows, 200) <= 0.97


def test_two_classes_need_no_second_moment() -> None:
    """It is n/4 whatever the labels are: nothing is spent on it, and R² is nearly exact."""
    random = np.random.default_rng(2)
    x = random.normal(size=8_000)
    y = (random.random(len(x)) < 1 / (1 + np.exp(-x))).astype(float)
    table, noise = pa.table({"x": x, "y": y}), {}
    for name, declared in (("classes", {"classes": (0, 1)}), ("range", {"label_range": (0, 1)})):
        source = scan(table, label="y", **declared)
        made = plan(source, 1.0, 1e-6, mechanism="shaped-flag")
        release = made.release(source, randomness=Randomness.experiment(3))
        noise[name] = made.claim.noise_std  # type: ignore[attr-defined]
        quality = LinearRegressor().fit(release).quality_
        assert quality is not None
        assert quality.r2 is not None
        missed = y - np.clip(
            LinearRegressor().fit(release).predict(table.drop_columns(["y"])), 0, 1
        )
        truth = 1 - missed @ missed / np.square(y - y.mean()).sum()
        assert quality.r2 == pytest.approx(truth, abs=0.02)
        assert (release.certificate["second_moment"] is None) is (name == "classes")
    assert noise["classes"] < 0.99 * noise["range"]


def test_two_releases_of_different_rows_tell_the_variation_together() -> None:
    """Their means differ, which counts as variation of the labels."""
    first = population(20_000, 1)
    shifted = np.clip(population(20_000, 2)["y"].to_numpy() + 3.0, *RANGE)
    second = population(20_000, 2).set_column(3, "y", pa.array(shifted))
    releases = []
    for seed, table in enumerate((first, second)):
        source = scan(table, label="y", label_range=RANGE)
        made = plan(source, 2.0, 1e-6, mechanism="shaped-flag", winsor=0.0)
        releases.append(made.release(source, randomness=Randomness.experiment(seed)))
    model = LinearRegressor().fit(releases)
    y = np.concatenate([first["y"].to_numpy(), shifted])
    X = pa.concat_tables([first, second]).drop_columns(["y"])
    quality = model.quality_
    assert quality is not None
    assert quality.r2 is not None
    assert quality.r2_error is not None
    truth = 1 - np.square(y - model.predict(X)).sum() / np.square(y - y.mean()).sum()
    assert abs(quality.r2 - truth) < 4 * quality.r2_error
    assert quality.r2_error < 0.05
