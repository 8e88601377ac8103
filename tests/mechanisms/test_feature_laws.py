"""`verify --data` knows the law of aggregated features, and what is impossible is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Release, scan, verify
from labeldp.mechanisms.bags import Draw, check_members
from labeldp.mechanisms.checks import _entries_fit, _fits, bag_squares, improbable
from labeldp.releases.certificate import seal
from labeldp.releases.tables import table_digest
from tests.console import labeldp
from tests.mechanisms.cases import EVERY, FLAG, NOISY, SAMPLED, SHAPED, compacted, saved, small_plan
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 400
Reals = Any
CASES: dict[str, dict[str, Any]] = {
    "whole": {"mechanism": FLAG, "bags": 60},
    "few": {"mechanism": FLAG, "bags": 4},
    "compact": {"mechanism": FLAG, "bags": 60},
    "bags": {"mechanism": SAMPLED, "bags": 12, "bag_size": 32},
}


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    rows = source(ROWS)
    made = {}
    for name, options in CASES.items():
        given = {"accountant": "exact-worst-case", "floor": "added"} | options
        release = plan(rows, epsilon=2.0, delta=1e-3, **given).release(rows)
        made[name] = compacted(release) if name == "compact" else release
    return made


def with_design(release: Release, change: Callable[[Reals], Reals]) -> Release:
    """Other aggregated features, on the same labels, consistently."""
    units = release.features.kept_scales
    columns = list((change(release.design.copy() / units) * units).T)
    arrays = [pa.array(column) for column in columns] + [release.table.column(len(columns))]
    forged = pa.Table.from_arrays(arrays, schema=release.table.schema)
    digests = release.certificate["digests"] | {"aggregates": table_digest(forged)}
    return replace(
        release, table=forged, certificate=seal(release.certificate | {"digests": digests})
    )


@pytest.mark.parametrize("name", CASES)
def test_what_was_drawn_passes(releases: dict[str, Release], name: str, tmp_path: Path) -> None:
    assert verify(saved(releases[name], tmp_path / "r"), table(ROWS)).problems == ()


FORGED: dict[str, Callable[[Reals], Reals]] = {
    "half": lambda design: 0.5 * design,
    "twice": lambda design: 2.0 * design,
    "one row ten times": lambda design: np.vstack([10 * design[:1], design[1:]]),
    "zeros": lambda design: 0.0 * design,
    "a column of another": lambda design: np.column_stack([design[:, 1:2], design[:, 1:]]),
    "equal rows": lambda design: np.repeat(design[:1], len(design), axis=0),
    "positive": lambda design: np.abs(design),
}


@pytest.mark.parametrize(
    ("name", "forgery"),
    [
        (name, forgery)
        for name in ("whole", "compact", "bags")
        for forgery in FORGED
        if name != "bags" or forgery not in ("positive", "equal rows")  # 12 bags may not show it
    ],
)
def test_features_of_another_law_are_noticed(
    releases: dict[str, Release], name: str, forgery: str, tmp_path: Path
) -> None:
    forged = saved(with_design(releases[name], FORGED[forgery]), tmp_path / "r")
    problems = verify(forged, table(ROWS)).problems
    assert any("features" in problem or "vary" in problem for problem in problems), problems


def test_the_tests_accept_normals_and_reject_a_little_less() -> None:
    """3,000 rows of 6 columns: a deviation 10 % off is seen, one of 0.1 % is not."""
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(3000, 6))
    assert _fits(iter([normal[:1000], normal[1000:]]))
    assert _fits(iter([normal * 1.001]))
    assert not _fits(iter([normal * 1.1]))
    assert not _fits(iter([normal * 0.9]))
    assert not _fits(iter([normal + 0.2]))
    assert not _fits(iter([np.column_stack([normal[:, 0] + 0.2 * normal[:, 1], normal[:, 1:]])]))
    assert not _fits(iter([normal, np.full((1, 6), 5.0)]))
    assert _entries_fit(np.linalg.qr(normal)[1], 3000)
    assert not _entries_fit(np.linalg.qr(normal)[1], 2000)
    assert not improbable(np.zeros(0), 3.0)


def test_bags_have_the_chi_squares_of_their_ranks() -> None:
    rng = np.random.default_rng(2)
    design = rng.normal(size=(500, 8, 5))
    design[:, :, 4] = design[:, :, 0]
    weights = rng.normal(size=(500, 8))
    sums = (weights[:, None, :] @ design)[:, 0]
    ranks = np.full(500, 4)
    squares, away = bag_squares(design, sums, ranks)
    assert away.max() < 1e-12
    slow = [float(z @ np.linalg.pinv(d.T @ d) @ z) for d, z in zip(design, sums, strict=True)]
    assert squares == pytest.approx(slow, rel=1e-6)
    assert abs(squares.mean() - 4) < 0.5
    sums[7, 4] += 1.0  # equal columns have equal sums
    assert bag_squares(design, sums, ranks)[1][7] > 1e-3


def test_a_table_that_cannot_be_encoded_is_a_problem_and_no_error(
    releases: dict[str, Release], tmp_path: Path
) -> None:
    folder = saved(releases["whole"], tmp_path / "r")
    data = table(ROWS)
    unknown = data.set_column(2, "colour", pa.array(["violet"] * ROWS))
    for other in (unknown, data.drop_columns(["height"])):
        (problem,) = verify(folder, other).problems
        assert problem.startswith("the table is not that of the release: ")
    pa.parquet.write_table(unknown, tmp_path / "t.parquet")
    assert labeldp("verify", folder, "--data", tmp_path / "t.parquet").code == 1
    assert labeldp("verify", folder, "--data", tmp_path / "none.parquet").code == 2


# --- what cannot be ------------------------------------------------------------------------


def test_seeds_that_nobody_drew() -> None:
    from labeldp.sampling.streams import fresh_seed

    def told(seed: str) -> bool:
        draw = Draw(100, 2, 3, seed, random=True, over_draw=False)
        return bool(check_members(draw.table(), draw))

    assert not any(told(fresh_seed()) for _ in range(100))
    assert all(map(told, [f"{3:064x}", "00" * 32, "deadbeef" * 8, f"{2**127:064x}"]))


def test_a_given_seed_is_not_called_random(tmp_path: Path) -> None:
    rows = source(ROWS)
    release = small_plan(SAMPLED, rows, bag_seed=3, floor="added").release(rows)
    assert verify(saved(release, tmp_path / "r")).valid
    draw = release.certificate["draw"] | {"random": True}
    forged = replace(release, certificate=seal(release.certificate | {"draw": draw}))
    assert verify(saved(forged, tmp_path / "f")).problems == (
        "certificate: draw.seed was not drawn at random, whatever draw.random says",
    )


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_second_moments_that_no_labels_have(value: float, tmp_path: Path) -> None:
    rows = source(ROWS)
    release = small_plan(SHAPED, rows).release(rows)
    assert release.certificate["second_moment"] is not None
    forged = replace(release, certificate=seal(release.certificate | {"second_moment": value}))
    (problem,) = verify(saved(forged, tmp_path / "r")).problems
    assert problem.startswith("certificate: second_moment is impossible")


@pytest.mark.parametrize("mechanism", [FLAG, SAMPLED, NOISY, SHAPED, EVERY])
def test_labels_that_no_range_makes(mechanism: str, tmp_path: Path) -> None:
    rows = source(ROWS)
    options = {"floor": "added"} if mechanism in (FLAG, SAMPLED) else {}
    release = small_plan(mechanism, rows, **options).release(rows)
    labels = release.labels.copy()
    for value in (2.0**40, -(2.0**700)):
        labels[0] = value
        place = release.table.num_columns - 1
        field = release.table.schema.field(place)
        forged = release.table.set_column(place, field, pa.array(labels))
        digests = release.certificate["digests"] | {"aggregates": table_digest(forged)}
        certificate = seal(release.certificate | {"digests": digests})
        folder = saved(
            replace(release, table=forged, certificate=certificate), tmp_path / str(value)
        )
        assert any("labels" in problem for problem in verify(folder).problems), mechanism


def test_where_scatter_is_not_testable_it_is_said(
    releases: dict[str, Release], tmp_path: Path
) -> None:
    """With three degrees of freedom or fewer, labels without noise would pass."""
    folder = saved(releases["few"], tmp_path / "few")
    assert verify(folder).untested[0].startswith("whether labels vary as the floor demands: 4 ")
    assert "not checked: whether labels vary as the floor demands" in labeldp("verify", folder).out
    assert verify(saved(releases["whole"], tmp_path / "whole")).untested == ()


@pytest.mark.parametrize("excess", [3, 4])
def test_labels_without_noise_pass_only_where_that_is_said(excess: int, tmp_path: Path) -> None:
    data = table(ROWS).select(["height", "label"])
    rows = scan(data, label="label", label_range=RANGE)
    made = plan(
        rows, epsilon=2.0, delta=1e-3, mechanism=FLAG, bags=2 + excess,
        floor="added",
    )  # fmt: skip
    release = made.release(rows)
    step = 2.0 ** release.certificate["numerics"]["grid_exponent"]
    slope = np.array([1.0, 1.0]) * release.labels.std() / release.design.std(axis=0)
    quiet = pa.array(np.rint(release.design @ slope / step) * step)
    forged = release.table.set_column(2, release.table.schema.field(2), quiet)
    digests = release.certificate["digests"] | {"aggregates": table_digest(forged)}
    certificate = seal(release.certificate | {"digests": digests})
    report = verify(saved(replace(release, table=forged, certificate=certificate), tmp_path / "r"))
    assert not report.valid or excess <= 3
    assert bool(verify(saved(release, tmp_path / "honest")).untested) is (excess <= 3)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_how_far_a_sum_is_from_its_rows_is_told_by_its_own_length(size: float) -> None:
    design = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    squares, away = bag_squares(design, size * np.array([[1.0, 1.0]]), np.array([1]))
    assert away == pytest.approx([np.sqrt(0.5)])
    assert squares == pytest.approx([size**2 / 2])
