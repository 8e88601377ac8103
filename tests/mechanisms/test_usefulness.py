"""Plans that cannot beat the constant are refused, with remedies that hold what they forecast."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import LinearRegressor, Plan, PlanError, scan
from labeldp.data.source import Source
from labeldp.learners.linear import release_quality
from labeldp.mechanisms.base import LEAST_KEPT
from labeldp.mechanisms.forecast import shrunken_ms
from labeldp.sampling.streams import Randomness
from tests.console import labeldp as run
from tests.mechanisms.cases import CASES, NOISY, SAMPLED, small_plan
from tests.tables import RANGE, source, table

SMALL: dict[str, Any] = {"epsilon": 0.02, "delta": 1e-6, "mechanism": "shaped-flag"}


def even(rows: int, seed: int = 0) -> tuple[Source, np.ndarray]:
    """Labels as the yardstick has them: half of what an even spread has is explained."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(rows, 12))
    slopes = random.normal(size=12)
    part = math.sqrt(1 / 24)
    label = part * (columns @ slopes / np.linalg.norm(slopes) + random.normal(size=rows))
    label = np.clip(label, -0.5, 0.5)
    data = {f"x{k}": columns[:, k] for k in range(12)} | {"label": label}
    return scan(pa.table(data), label="label", label_range=(-0.5, 0.5)), label


def made(rows: Source, **changed: Any) -> Plan:
    return labeldp.plan(rows, force=True, **SMALL | changed)


def kept(plan: Plan, rows: Source, label: np.ndarray, releases: int = 24) -> float:
    """What is left, of what the fit with all labels gains over the mean, to the default fit."""
    batch = next(rows.feature_batches())
    design = np.column_stack([np.ones(len(label)), *(c.to_numpy() for c in batch.columns)])
    best = np.mean((label - design @ np.linalg.lstsq(design, label)[0]) ** 2)
    errors = []
    for seed in range(releases):
        release = plan.release(rows, randomness=Randomness.experiment(seed))
        learnt_from = (release,) if release.aggregates_features else (release, rows)
        fitted = LinearRegressor().fit(*learnt_from)
        errors.append(np.mean((label - fitted.predict(batch)) ** 2))
    return float((label.var() - np.mean(errors)) / (label.var() - best))


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [("shaped-flag", 0.2), ("shaped-flag", 2.0), ("noisy-rows", 0.5)],
)
def test_no_more_is_kept_of_favourable_labels_than_was_forecast(
    mechanism: str, epsilon: float
) -> None:
    rows, label = even(2000)
    plan = made(rows, epsilon=epsilon, mechanism=mechanism)
    assert plan.forecast.added_mse_default_fit < plan.forecast.added_mse
    assert (
        plan.explained_share_kept - 0.3 < kept(plan, rows, label) < plan.explained_share_kept + 0.05
    )


def test_what_shrunken_predictions_miss_is_what_the_posterior_mean_misses() -> None:
    """A slow twin: draw what is explained and the noise, and predict by Bayes' rule."""
    rows, width, explained = 50, 2.0, 0.1
    noise = np.array([0.3, 1.0, 20.0])
    random, each = np.random.default_rng(0), rows * explained / 3
    free = rows * width**2 / 12
    prior, known = np.append([each] * 3, free), np.append(noise, 0.7)
    truth = np.sqrt(prior) * random.normal(size=(200_000, 4))
    seen = truth + np.sqrt(known) * random.normal(size=truth.shape)
    missed = np.square(seen * prior / (prior + known) - truth).sum(axis=1).mean() / rows
    told = shrunken_ms(noise.tolist(), 0.7, rows=rows, width=width, explained=explained)
    assert told == pytest.approx(missed, rel=0.01)
    assert shrunken_ms([], 0.7, rows=rows, width=width, explained=0.0) < 0.7 / rows


def test_a_stated_residual_leaves_no_more_to_explain_than_the_range_does() -> None:
    rows, _ = even(600)
    free, much = (made(rows, epsilon=5.0, residual_guess=guess) for guess in (None, 0.249))
    assert free.explained_mse == pytest.approx(1 / 24, rel=1e-5)
    assert much.explained_mse == pytest.approx(0.001, rel=1e-2)
    assert much.explained_share_kept < free.explained_share_kept


def test_a_plan_that_cannot_beat_the_constant_is_refused_with_remedies_that_hold() -> None:
    rows = source(2000)
    with pytest.raises(PlanError) as refusal:
        labeldp.plan(rows, **SMALL)
    told = str(refusal.value)
    assert "\n" not in told
    assert "leaves at most 0%" in told
    assert "`force=True`" in told
    found = re.findall(r"`epsilon=([\d.]+)` \(adds ([\d.]+), keeps (\d+)%\)", told)
    ((epsilon, adds, share),) = found
    cured = labeldp.plan(rows, **SMALL | {"epsilon": float(epsilon)})
    assert math.sqrt(cured.forecast.added_mse) == pytest.approx(float(adds), rel=0.01)
    assert cured.explained_share_kept == pytest.approx(int(share) / 100, abs=0.006)
    assert cured.explained_share_kept >= LEAST_KEPT


def test_the_column_that_costs_most_is_named() -> None:
    """One column gives one row all of its leverage."""
    income = np.random.default_rng(0).lognormal(10, 0.5, 3000)
    income[7] = 1e9
    data = table(3000).append_column("income", pa.array(income))
    rows, asked = scan(data, label="label", label_range=RANGE), {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(
        PlanError, match=r"fewer columns \(`drop`\), of which 'income' may cost most"
    ):
        labeldp.plan(rows, mechanism="wtd-flag", winsor=0.0, **asked)
    assert labeldp.plan(
        table(3000), mechanism="wtd-flag", label="label", label_range=RANGE, **asked
    )


def test_force_is_recorded_where_it_was_needed_and_only_there(tmp_path: Path) -> None:
    rows = source(500)
    bad, good = made(rows), made(rows, epsilon=8.0)
    assert (bad.force, good.force) == (True, False)
    assert Plan.from_json(bad.to_json()).force
    assert bad.utility_message in bad.warnings
    assert bad.release(rows).certificate["anyway"] is True
    assert good.release(rows).certificate["anyway"] is False
    bad.release_to(tmp_path / "r", rows)
    assert labeldp.verify(tmp_path / "r").valid


def test_the_command_line_refuses_and_goes_on(tmp_path: Path) -> None:
    pq.write_table(table(2000), tmp_path / "t.parquet")
    asked = (tmp_path / "t.parquet", "--label", "label", "--label-range", *RANGE)
    budget = ("--epsilon", 0.02)
    refused = run("release", *asked, *budget, "--out", tmp_path / "r")
    assert "remedies: --epsilon" in refused.error
    assert "--force" in refused.error
    assert not (tmp_path / "r").exists()
    done = run("release", *asked, *budget, "--out", tmp_path / "r", "--force", "--json")
    assert done.code == 0
    assert done.json["quality"]["beats_the_constant"] is False
    assert done.err.count("WARNING: ") == 2


@pytest.mark.parametrize("name", CASES)
def test_what_a_release_says_of_itself_follows_from_what_is_published(
    name: str, tmp_path: Path
) -> None:
    """Whether it ends in exit code 1, too: from the files and features, whatever the labels are."""
    release = small_plan(name).release_to(tmp_path / "r", source(400))
    blank = table(400).set_column(4, "label", pa.array(["gone"] * 400))
    blind = replace(scan(blank, drop=("label",)), label="label", label_range=RANGE)
    found = release_quality(release, source(400))
    assert found == release_quality(release, blind)
    if not release.needs_rows:
        assert found == release_quality(release, scan(table(3)))
    assert found is not None or name in (SAMPLED, NOISY)
