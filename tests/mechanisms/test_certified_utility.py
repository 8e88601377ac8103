"""What a certificate says of its utility is what releases have, with added noise or without."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp import Plan, Release, scan
from labeldp.data.source import Source
from labeldp.sampling.streams import Randomness
from tests.plans import plan
from tests.tables import source

RELEASES = 40
FLAG: dict[str, Any] = {"mechanism": "wtd-flag", "bags": 400}
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "shaped": ({"mechanism": "shaped-flag", "epsilon": 1.0}, True),
    "enough residual": ({**FLAG, "epsilon": 60.0}, False),
    "noise added": (
        {"mechanism": "wtd-flag", "bags": 20_000, "epsilon": 8.0},
        True,
    ),
}
"""What is planned, and whether noise hides the labels."""


def design(release: Release, rows: Source) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows as the release encodes them, and their labels."""
    features = release.features
    batch, labels = next(rows.labelled_batches())
    return features.integers(features.encode(batch)) * features.kept_scales, labels


@cache
def released(name: str) -> tuple[list[Release], NDArray[np.float64], float]:
    """Releases, what privacy added to the mean square of each one's fit, and the residual's."""
    rows = source(2000, noise=2.0)
    made: Plan = plan(rows, **({"delta": 1e-5} | CASES[name][0]))
    found = [made.release(rows, randomness=Randomness.experiment(s)) for s in range(RELEASES)]
    table, labels = design(found[0], rows)
    best = np.linalg.lstsq(table, labels)[0]

    def added(release: Release) -> float:
        fit = np.linalg.lstsq(release.design, release.labels)[0]
        return float(np.mean((table @ (fit - best)) ** 2))

    residual = float(np.mean((labels - table @ best) ** 2))
    return found, np.array([added(release) for release in found]), residual


@pytest.mark.parametrize("name", CASES)
def test_the_error_that_privacy_adds_is_the_one_certified(name: str) -> None:
    """Its mean over releases within four standard errors; nine in ten between the quantiles."""
    releases, added, _ = released(name)
    told = [release.certificate["utility"] for release in releases]
    expected = np.array([utility["added_rms"] ** 2 for utility in told])
    error = 4 * added.std() / np.sqrt(RELEASES)
    assert abs(added.mean() - expected.mean()) < error
    assert abs(added.mean() - 1.5 * expected.mean()) > error, "a half more would be seen"
    roots = zip(told, np.sqrt(added), strict=True)
    inside = [u["added_rms_low"] <= root <= u["added_rms_high"] for u, root in roots]
    assert np.mean(inside) > 0.75
    width = releases[0].certificate["label_width"]
    assert told[0]["added_of_range"] == pytest.approx(told[0]["added_rms"] / width)


@pytest.mark.parametrize("name", [name for name in CASES if name != "shaped"])
def test_the_excess_is_over_the_residual_and_not_over_the_noise(name: str) -> None:
    """`excess_mean` counts the noise to the residual, as it says: readers want the other."""
    releases, added, residual = released(name)
    told = [release.certificate["utility"] for release in releases]
    excess = np.mean([utility["excess_of_residual"] for utility in told])
    assert added.mean() / residual == pytest.approx(excess, rel=0.25)
    older = told[0]["excess_mean"]
    noisy = CASES[name][1]
    assert (releases[0].certificate["floor"]["added_variance"] > 0) is noisy
    assert excess > 5 * older if noisy else excess == pytest.approx(older, rel=0.25)
    assert "added_variance" in told[0]["relative_to"]


def test_a_residual_that_nobody_measured_leaves_bounds() -> None:
    rows = source(2000, noise=2.0)
    made = plan(rows, epsilon=1.0, delta=1e-5, floor="added", **FLAG)
    utility = made.release(rows).certificate["utility"]
    assert utility["added_rms"] is utility["excess_of_residual"] is None
    assert 0 < utility["added_rms_low"] < utility["added_rms_high"]
    assert "any residual" in utility["added_basis"]


def test_fits_of_perfect_labels_stay_within_the_bounds_for_any_residual() -> None:
    table = pa.table({"x": np.arange(500.0) % 37, "label": (np.arange(500.0) % 37) / 37})
    rows = scan(table, label="label", label_range=(0.0, 1.0))
    made = plan(rows, epsilon=5.0, delta=1e-5, floor="added", mechanism="wtd-flag", bags=200)
    for seed in range(5):
        release = made.release(rows, randomness=Randomness.experiment(seed))
        utility = release.certificate["utility"]
        encoded, labels = design(release, rows)
        fit = np.linalg.lstsq(release.design, release.labels)[0]
        added = float(np.sqrt(np.mean((encoded @ fit - labels) ** 2)))
        assert added < 2 * utility["added_rms_high"]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("mechanism", ["sampled-wtd-flag", "sampled-noisy-wtd-lag"])
def test_bags_of_few_rows_have_bounds_from_the_label_range_and_the_noise(
    mechanism: str, intercept: bool
) -> None:
    """(the largest residual's mean square + noise of a row) · d/(m−d−1), at its 95 % quantile."""
    given = {"bags": 40, "bag_size": 32, "intercept": intercept, "epsilon": 4.0, "delta": 1e-5}
    rows = source(2000)
    told = plan(rows, mechanism=mechanism, **given).release(rows).certificate
    low, high = told["label_range"]
    reach = (high - low) / 2 if told["constant_in_span"] else high
    noise = (
        told["noise"]["fraction"] * told["noise"]["std"] ** 2
        if mechanism == "sampled-noisy-wtd-lag"
        else told["floor"]["added_variance"] / 32
    )
    assert noise > 0
    rank, spare = told["rank"], told["bags"] - told["rank"] + 1
    excess = rank / spare * stats.f.ppf([0.05, 0.95], rank, spare)
    utility = told["utility"]
    assert utility["added_rms_high"] ** 2 == pytest.approx(excess[1] * (reach**2 + noise))
    assert utility["added_rms_low"] ** 2 == pytest.approx(excess[0] * noise)
    assert "approximate" in utility["added_basis"]
