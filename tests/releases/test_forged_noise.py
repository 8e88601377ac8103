"""Forgers who publish labels without their noise, or with another: `verify` refuses them.

Whatever the labels are, some forgeries cannot be told from noise: numbers of the right law from a
generator that the forger knows, or raw labels without repetitions amid too little noise. What is
tried here can be told, and honest releases pass (error probability below 1e-8 in all).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from labeldp import Release, verify
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SHAPED, forged_tables, saved
from tests.plans import plan

Reals = NDArray[np.float64]
ROWS = 20_000
LABELS: dict[str, Callable[[int], Reals]] = {
    "at both ends": lambda rows: np.arange(rows) * 7919 % 2 * 1.0,
    "whole tenths": lambda rows: np.arange(rows) * 7919 % 11 / 10,
    "evenly spread": lambda rows: np.arange(rows) * 7919 % rows / rows,
    "in the middle": lambda rows: np.full(rows, 0.5),
    "at the high end": lambda rows: np.full(rows, 1.0),
}


@cache
def honest(
    labels: str = "whole tenths", epsilon: float = 1.0, delta: float = 0.0, rows: int = ROWS
) -> Release:
    """noisy-rows of labels between 0 and 1."""
    height = np.random.default_rng(0).normal(size=rows)
    table = pa.table({"height": height, "label": LABELS[labels](rows)})
    made = plan(table, epsilon, delta, label="label", label_range=(0, 1), mechanism=EVERY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the labels do not follow from the feature
        return made.release(table, label="label")


def with_labels(release: Release, values: Reals) -> Release:
    """The release with other labels, rounded to its grid, and all that follows from them."""
    step = 2.0 ** release.certificate["numerics"]["grid_exponent"]
    place = len(release.table.column_names) - 1
    column = pa.array(np.rint(values / step) * step + 0.0)
    return forged_tables(
        release, release.table.set_column(place, release.table.schema.field(place), column)
    )


def problems(release: Release, values: Reals, folder: Path) -> tuple[str, ...]:
    return verify(saved(with_labels(release, values), folder)).problems


# --- noisy rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (1.0, 0.0), (8.0, 0.0), (0.3, 0.2)])
def test_honest_releases_pass(labels: str, epsilon: float, delta: float, tmp_path: Path) -> None:
    """At either end of the range and between, with noise far wider and narrower than it."""
    release = honest(labels, epsilon, delta)
    assert release.certificate["row_noise"]["law"] == ("gaussian" if delta else "laplace")
    assert verify(saved(release, tmp_path / "r")).problems == ()


def forgeries(y: Reals, z: Reals, rng: np.random.Generator) -> dict[str, Reals]:
    """What might be published in the place of y + z, with Laplace noise z of scale 1."""
    rows = np.arange(len(y))
    noisy, twice = y + z, np.repeat(z, 2)[: len(y)]
    return {
        "raw labels": y,
        "raw labels far above": y + 100,
        "raw labels just above": y + 1.1,
        "raw labels below": y - 3,
        "all 0": 0 * y,
        "a bit of each label": np.where(y > 0.5, 2.0, -1.0),
        "one noise for all": y + z[0],
        "noise of two values": y + math.sqrt(2) * rng.choice([-1, 1], len(y)),
        "noise of ten values": y + rng.choice(z[:10], len(y)),
        "noise of 1,000 values in turn": y + np.resize(z[:1000], len(y)),
        "each noise twice": y + twice,
        "each noise with both signs": y + twice * np.where(rows % 2, 1, -1),
        "uniform noise": y + math.sqrt(6) * rng.uniform(-1, 1, len(y)),
        "Gaussian noise of the same deviation": y + rng.normal(0, math.sqrt(2), len(y)),
        "logistic noise of the same deviation": y + rng.logistic(0, math.sqrt(6) / np.pi, len(y)),
        "noise above 0 alone": y + np.abs(z),
        "noise cut at three scales": y + np.clip(z, -3, 3),
        "labels cut to their range": np.clip(noisy, 0, 1),
        "every other label raw": np.where(rows % 2, y, noisy),
        "the last tenth raw": np.where(rows < 0.9 * len(y), noisy, y),
        "noise outside alone": np.where((noisy > 1) | (noisy < 0), noisy, y),
        "noise on the larger labels": np.where(y > 0.5, noisy, y),
        "a coarser grid": np.rint(noisy * 64) / 64,
        "whole numbers": np.rint(noisy),
        "rows in order of their labels": np.sort(noisy),
        "sorted noise": y + np.sort(z),
        "the label as the sign of the noise": y + np.abs(z) * np.where(y > 0.5, 1, -1),
        "half the noise": y + z / 2,
        "twice the noise": y + 2 * z,
        "a tenth less noise": y + 0.9 * z,
        "a tenth more noise": y + 1.1 * z,
        "labels of another range": 4 * y + z,
    }


def some(labels: str) -> dict[str, Reals]:
    rng = np.random.default_rng(5)
    return forgeries(LABELS[labels](ROWS), rng.laplace(size=ROWS), rng)


@pytest.mark.parametrize("forgery", some("in the middle"))
def test_forged_noise_is_refused(forgery: str, tmp_path: Path) -> None:
    for place, labels in enumerate(("at both ends", "whole tenths")):
        found = problems(honest(labels), some(labels)[forgery], tmp_path / str(place))
        assert found, labels
        assert all(line.startswith("aggregates.parquet has ") for line in found)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("share", [0.93, 1.07])
def test_seven_percent_less_or_more_noise_is_refused(
    labels: str, share: float, tmp_path: Path
) -> None:
    """With a probability of 0.99 at ε = 1/2 and 20,000 rows, wherever labels lie."""
    noise = 2 * np.random.default_rng(8).laplace(size=ROWS)
    values = LABELS[labels](ROWS) + share * noise
    assert problems(honest(labels, 0.5), values, tmp_path / "forged")
    assert not problems(honest(labels, 0.5), LABELS[labels](ROWS) + noise, tmp_path / "honest")


@pytest.mark.parametrize("share", [0.0, 0.93, 1.07])
def test_gaussian_noise_is_tested_likewise(share: float, tmp_path: Path) -> None:
    release = honest("whole tenths", 0.01, 0.05)
    scale = release.certificate["row_noise"]["scale"]
    noise = scale * np.random.default_rng(10).normal(size=ROWS)
    assert not problems(release, LABELS["whole tenths"](ROWS) + noise, tmp_path / "honest")
    values = LABELS["whole tenths"](ROWS) + share * noise
    assert problems(release, values, tmp_path / "forged")
    other = np.random.default_rng(11).laplace(size=ROWS) * scale / math.sqrt(2)
    assert problems(release, LABELS["whole tenths"](ROWS) + other, tmp_path / "law")


def untested(release: Release, folder: Path) -> str:
    report = verify(saved(release, folder))
    assert report.valid
    return " ".join(report.untested)


def test_what_too_few_labels_outside_cannot_show_is_said(tmp_path: Path) -> None:
    assert untested(honest("evenly spread", 0.5), tmp_path / "0") == ""
    assert untested(honest("evenly spread", 1.0), tmp_path / "1") == ""
    rough = untested(honest("evenly spread", 4.0), tmp_path / "2")
    assert rough.startswith("whether noise is too small or too large by less than 10.")
    few = untested(honest("evenly spread", 60.0), tmp_path / "3")
    assert few.startswith("whether labels carry noise: it takes ")
    gaussian = untested(honest("evenly spread", 0.3, 0.2), tmp_path / "4")
    assert gaussian.startswith("whether noise is too small or too large by less than ")


@pytest.mark.parametrize("labels", ["at both ends", "whole tenths", "in the middle"])
def test_labels_that_repeat_are_refused_even_where_few_noisy_ones_leave_the_range(
    labels: str, tmp_path: Path
) -> None:
    assert problems(honest(labels, 60.0), LABELS[labels](ROWS), tmp_path / "r")
    noise = np.random.default_rng(1).laplace(size=ROWS) / 60
    assert problems(honest(labels, 60.0), LABELS[labels](ROWS) + noise / 2, tmp_path / "s")


def test_a_zero_with_a_sign_is_refused(tmp_path: Path) -> None:
    """It could carry a bit, so the sampler publishes none (tests of the sampler)."""
    release = honest()
    labels = release.labels.copy()
    labels[np.flatnonzero(labels == 0)[0] if (labels == 0).any() else 0] = -0.0
    place = len(release.table.column_names) - 1
    table = release.table.set_column(place, release.table.schema.field(place), pa.array(labels))
    found = verify(saved(forged_tables(release, table), tmp_path / "r")).problems
    assert any("−0.0" in line for line in found)


# --- aggregates ----------------------------------------------------------------------------


@cache
def people(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(2)
    numbers = {f"x{k}": rng.normal(size=rows) for k in range(6)}
    label = np.clip(0.5 + 0.1 * numbers["x0"] + 0.05 * rng.normal(size=rows), 0, 1)
    return pa.table({**numbers, "label": label})


@cache
def aggregates(mechanism: str, epsilon: float = 1.0, **options: Any) -> Release:
    rows = people()
    made = plan(
        rows, epsilon, 1e-5, label="label", label_range=(0, 1), mechanism=mechanism, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.release(rows, label="label")


def bag_sums(release: Release, labels: Reals) -> Reals:
    bags = release.files["bags"].to_pandas()
    return np.asarray((bags["weight"] * labels[bags["row"]]).groupby(bags["bag"]).sum())


def test_labels_of_bags_without_noise_are_refused(tmp_path: Path) -> None:
    release = aggregates(NOISY, bags=60, bag_size=48)
    assert verify(saved(release, tmp_path / "honest"), people()).problems == ()
    label = people()["label"].to_numpy()
    bare = bag_sums(release, label)
    assert problems(release, bare, tmp_path / "bare")
    assert problems(release, 0 * bare, tmp_path / "zero")
    assert problems(release, bag_sums(release, np.full(len(label), 0.5)), tmp_path / "constant")
    rng = np.random.default_rng(3)
    assert problems(release, bare + 0.2 * release.noise * rng.normal(size=60), tmp_path / "less")
    assert problems(release, np.abs(bare) + 50 * release.noise, tmp_path / "above")


def test_with_the_table_less_noise_in_bags_is_seen(tmp_path: Path) -> None:
    """Where features explain labels that vary by more than the noise."""
    rng = np.random.default_rng(4)
    rows = people()
    label = np.clip(0.5 + 0.25 * rows["x0"].to_numpy(), 0, 1)
    rows = rows.set_column(rows.num_columns - 1, "label", pa.array(label))
    made = plan(
        rows, 8.0, 1e-3, label="label", label_range=(0, 1), mechanism=NOISY, bags=60, bag_size=48
    )
    release = made.release(rows, label="label")
    assert verify(saved(release, tmp_path / "honest"), rows).problems == ()
    values = bag_sums(release, label) + 0.2 * release.noise * rng.normal(size=60)
    forged = saved(with_labels(release, values), tmp_path / "less")
    assert verify(forged).valid
    found = verify(forged, rows).problems
    assert any("vary less about their fit" in line for line in found), found


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [(SHAPED, {"noise": "gaussian"}), (SHAPED, {"noise": "radial"}), (FLAG, {"bags": 9})],
)
def test_aggregates_that_are_all_0_are_refused(
    mechanism: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Even of as many aggregates as columns, where labels fit whatever they are."""
    release = aggregates(mechanism, **options)
    assert verify(saved(release, tmp_path / "honest")).problems == ()
    assert problems(release, 0 * release.labels, tmp_path / "zero")


def test_equal_labels_without_noise_are_refused_in_a_shaped_release(tmp_path: Path) -> None:
    release = aggregates(SHAPED, noise="gaussian")
    constant = np.asarray(release.design)[:, 0]
    assert problems(release, 0.5 * constant, tmp_path / "constant")
