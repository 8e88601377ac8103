"""Floors of sampled-wtd-FLAg: what is measured, what is refused, what noise makes up for."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InputError, Plan, PlanError, Release, scan, verify
from labeldp.data.source import Source
from labeldp.mechanisms.checks import check_scatter
from labeldp.mechanisms.residual_floor import FloorClaim
from labeldp.releases.certificate import seal
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import NOISY, ROWS, SAMPLED, saved, small_plan
from tests.plans import plan
from tests.tables import RANGE, source

GENEROUS = {"epsilon": 10.0, "delta": 0.05, "bags": 5, "bag_size": 60, "bag_seed": 1}


def extremes(rows: int = 400, seed: int = 0) -> pa.Table:
    """One number; labels at the ends of the range, so that residuals are as large as can be."""
    rng = np.random.default_rng(seed)
    return pa.table({"x": rng.choice([-1.0, 1.0], rows), "label": rng.choice(RANGE, rows)})


def source_of(data: pa.Table) -> Source:
    return scan(data, label="label", label_range=RANGE)


def residual_squares(made: Plan, data: pa.Table) -> np.ndarray:
    """σ_j² of every bag, by numpy."""
    claim: Any = made.claim
    design, labels = made.features.design(data), data["label"].to_numpy()
    found = []
    for rows in claim.draw.members:
        beta = np.linalg.lstsq(design[rows], labels[rows], rcond=None)[0]
        found.append(float(np.sum((labels[rows] - design[rows] @ beta) ** 2)))
    return np.array(found)


def certified(made: Plan, data: pa.Table, seed: int = 1) -> dict[str, Any]:
    release = made.release(source_of(data), randomness=Randomness.experiment(seed))
    return dict(release.certificate["floor"])


# --- the four sources ----------------------------------------------------------------------


def test_a_declared_floor_is_the_promise_and_is_checked_on_every_bag() -> None:
    data = extremes()
    made = plan(source_of(data), mechanism=SAMPLED, floor="declared", residual_ms=18.0, **GENEROUS)
    assert made.claim.to_json()["floor"]["needed"] == 18.0 * 60
    floor = certified(made, data)
    assert floor["measured"] is None
    assert floor["added_variance"] == 0
    assert "ASSUMPTION" in floor["basis"]
    claim: Any = made.claim
    labels = data["label"].to_numpy().copy()
    labels[claim.draw.members[3]] = 10.0  # one bag of five breaks the promise
    broken = data.set_column(1, "label", pa.array(labels))
    with pytest.raises(PlanError, match="does not hold for these labels"):
        made.release(source_of(broken))


def test_a_promise_that_the_budget_finds_too_small_is_refused() -> None:
    with pytest.raises(PlanError, match=r"more than the declared 0\.01"):
        plan(
            source_of(extremes()),
            mechanism=SAMPLED,
            floor="declared",
            residual_ms=0.01,
            **GENEROUS,
        )
    with pytest.raises(InputError, match="go together"):
        plan(source_of(extremes()), mechanism=SAMPLED, residual_ms=1.0, **GENEROUS)


def test_the_smallest_residual_of_a_bag_is_what_is_measured() -> None:
    """20 releases: their mean is within 4.5 standard errors of the numpy minimum, and not
    within that of the second smallest."""
    data = extremes()
    claim: Any = plan(source_of(data), mechanism=SAMPLED, **GENEROUS).claim
    labels = data["label"].to_numpy().copy()
    labels[claim.draw.members[2]] = 0.0
    labels[claim.draw.members[2][:2]] = 10.0
    data = data.set_column(1, "label", pa.array(labels))
    made = plan(source_of(data), mechanism=SAMPLED, **GENEROUS)
    roots = np.sort(np.sqrt(residual_squares(made, data)))
    seen = [certified(made, data, seed)["measured"] for seed in range(20)]
    noise = certified(made, data)["measurement_noise"]
    error = 4.5 * noise / np.sqrt(20)
    assert roots[1] - roots[0] > 2 * error
    assert abs(np.mean(seen) - roots[0]) < error
    assert 0.4 * noise < np.std(seen) < 1.8 * noise


def test_a_measured_floor_gives_a_lower_bound_and_the_rest_is_added() -> None:
    data = extremes(2100)
    made = plan(source_of(data), mechanism=SAMPLED, **GENEROUS | {"bag_size": 400})
    floor = certified(made, data)
    root = float(np.sqrt(residual_squares(made, data).min()))
    assert 0 < floor["lower_bound"] < root
    missing = max(0.0, floor["needed"] - floor["lower_bound"] ** 2)
    assert floor["added_variance"] == pytest.approx(missing, rel=1e-9)
    assert floor["added_variance"] == 0.0, "labels at the ends carry this floor alone"


def test_where_the_measured_floor_does_not_suffice_noise_is_added() -> None:
    rows = source(ROWS)
    added = small_plan(SAMPLED).release(rows, randomness=Randomness.experiment(1))
    floor = added.certificate["floor"]
    assert floor["added_variance"] == pytest.approx(
        floor["needed"] - floor["lower_bound"] ** 2, rel=1e-9
    )


def test_an_added_floor_is_unconditional() -> None:
    flat = extremes().set_column(1, "label", pa.array(np.zeros(400)))
    made = plan(source_of(flat), mechanism=SAMPLED, floor="added", **GENEROUS)
    floor = certified(made, flat)
    assert floor["added_variance"] == floor["needed"] > 0
    assert floor["measured"] is None
    assert "unconditional" in floor["basis"]


# --- labels in the span of the features (the paper's Appendix D) ---------------------------


def appendix_d(rows: int = 300) -> pa.Table:
    """y = 2 + 3x exactly: W'y follows from W'X, and a changed label does not."""
    x = np.round(np.random.default_rng(0).uniform(0, 2, rows), 3)
    return pa.table({"x": x, "label": 2.0 + 3.0 * x})


def test_labels_in_the_span_of_features_are_refused_without_noise() -> None:
    rows = source_of(appendix_d())
    declared = plan(rows, mechanism=SAMPLED, floor="declared", residual_ms=16.0, **GENEROUS)
    with pytest.raises(PlanError, match="span of the features"):
        declared.release(rows)


@pytest.mark.parametrize("floor", ["added", "measured+added"])
def test_labels_in_the_span_of_features_are_hidden_by_added_noise(
    floor: str, tmp_path: Path
) -> None:
    data = appendix_d()
    made = plan(source_of(data), mechanism=SAMPLED, floor=floor, **GENEROUS)
    assert residual_squares(made, data).max() < 1e-6
    release = made.release(source_of(data))
    outcome = release.certificate["floor"]
    assert outcome["added_variance"] >= 0.5 * outcome["needed"]
    beta = np.linalg.lstsq(made.features.design(data), data["label"].to_numpy(), rcond=None)[0]
    z = (release.labels - release.design @ beta) / np.sqrt(outcome["added_variance"])
    assert 0.05 < float(z @ z) < 30, "five aggregates off the line by the noise and no more"
    assert verify(saved(release, tmp_path / "r")).problems == ()


def test_bags_of_no_more_rows_than_columns_are_refused_with_the_reason() -> None:
    with pytest.raises(PlanError, match="determine their labels: no ε, no δ below 1"):
        small_plan(SAMPLED, bags=10, bag_size=6, floor="declared", residual_ms=20.0)


@pytest.mark.parametrize("floor", ["added", "measured+added"])
def test_bags_of_no_more_rows_than_columns_go_through_with_added_noise(
    floor: str, tmp_path: Path
) -> None:
    made = small_plan(SAMPLED, bags=10, bag_size=6, floor=floor)
    assert made.claim.to_json()["max_leverage"] == 1.0
    release = made.release(source(ROWS))
    folder = saved(release, tmp_path / "r")
    assert verify(folder).problems == ()
    assert release.certificate["floor"]["added_variance"] > 0


# --- accountants ---------------------------------------------------------------------------


def test_knowing_the_features_of_bags_lowers_the_floor() -> None:
    needed = [
        plan(
            source_of(extremes(4000)),
            epsilon=1.0,
            delta=1e-5,
            mechanism=SAMPLED,
            bags=3,
            bag_size=1000,
            bag_seed=1,
            floor="added",
            accountant=accountant,
        ).claim.to_json()["floor"]["needed"]
        for accountant in ("exact", "exact-worst-case")
    ]
    assert needed[0] < 0.5 * needed[1]


@pytest.mark.parametrize(
    ("mechanism", "asked"), [(SAMPLED, {"floor": "added"}), (NOISY, {"noise_std": 30.0})]
)
def test_no_bags_rest_on_the_theorems_of_the_paper(
    mechanism: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Theorem 2 rests on a promise about labels that nobody can check; both on huge bags."""
    refusal = f"^{mechanism} has no accountant 'paper'; plan with exact-worst-case, exact$"
    with pytest.raises(InputError, match=refusal):
        small_plan(mechanism, accountant="paper")
    made = small_plan(mechanism, **asked)
    document = made.to_json()
    document["accountant"]["name"] = "paper"
    with pytest.raises(InputError, match=refusal):
        Plan.from_json(seal(document))
    release = made.release(source(ROWS))
    certificate = copy.deepcopy(release.certificate)
    certificate["accountant"]["name"] = "paper"
    forged = replace(release, certificate=seal(certificate))
    problems = verify(saved(forged, tmp_path / "r")).problems
    assert problems == (f"certificate: {refusal[1:-1]}",)


def test_a_release_says_which_floor_it_has(tmp_path: Path) -> None:
    made = small_plan(SAMPLED, floor="added")
    folder = saved(made.release(source(ROWS)), tmp_path / "r")
    assert "floor added" in verify(folder).summary
    assert "given-bags" in verify(folder).summary
    assert Release.load(folder).certificate["draw"]["random"] is True


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_scatter_is_seen_whatever_the_scale_of_the_features(scale: float) -> None:
    """Squares of such features are no doubles: a sound release passes, one of less noise not."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=3000)
    data = pa.table({"x": values * scale, "label": np.clip(5 + values, 0.0, 10.0)})
    rows = scan(data, label="label", label_range=(0.0, 10.0))
    made = plan(rows, epsilon=1.0, delta=1e-6, bags=300, floor="added", standardise=False)
    assert isinstance(made.claim, FloorClaim)
    release = made.release(rows, randomness=Randomness.experiment(0))
    assert not list(check_scatter(release, made.claim.floor))
    assert list(check_scatter(release, 4 * made.claim.floor))


@pytest.mark.parametrize(("intercept", "most"), [(True, 2.0**2), (False, 3.0**2)])
def test_labels_in_a_range_leave_no_more_than_its_reach(intercept: bool, most: float) -> None:
    """From −1 to 3: half the width about the middle, or the far end where nothing shifts them."""
    here = scan(extremes(), label="label", label_range=(-1.0, 3.0), clip=True)
    asked = {"mechanism": "wtd-flag", "floor": "added", "force": True}
    made = plan(here, 1.0, 1e-5, intercept=intercept, **asked)
    assert isinstance(made.claim, FloorClaim)
    assert made.claim.residual_ms(None)[1] == pytest.approx((0.0, most), rel=1e-5)
