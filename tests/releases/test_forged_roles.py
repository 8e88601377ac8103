"""Certificates that name columns falsely, and tables that do not fit them: exit code 1, a line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, PlanError, Release, scan, verify
from labeldp.releases.certificate import seal
from tests.console import labeldp
from tests.mechanisms.cases import EVERY, NOISY, SHAPED, forged_claim, saved, small_plan
from tests.tables import RANGE, table

ROWS = 400


def people() -> pa.Table:
    whole = table(ROWS).append_column("who", pa.array(np.arange(ROWS) // 2))
    return whole.append_column("noisy", pa.array(np.arange(ROWS) % 2 == 0))


def released(mechanism: str, person: str | None = "who", **options: Any) -> Release:
    rows = scan(people(), label="label", label_range=RANGE, person=person, drop=["noisy"])
    return small_plan(mechanism, rows, **options).release(rows)


def said(release: Release, change: Callable[[dict[str, Any]], None]) -> Release:
    """A certificate with another word in it, that no number follows from."""
    certificate = copy.deepcopy(release.certificate)
    change(certificate)
    return replace(release, certificate=seal(certificate))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("table") / "people.parquet"
    pq.write_table(people(), place)
    return place


def refused(release: Release, folder: Path, *data: Any) -> str:
    """What `labeldp verify` prints, which must end in 1 and no traceback."""
    release.save(folder)
    done = labeldp("verify", folder, *(("--data", *data) if data else ()))
    assert done.code == 1, done
    assert "Traceback" not in done.err
    assert "is NOT valid:" in done.out
    return " ".join(done.out.split())


@pytest.mark.parametrize("mechanism", [SHAPED, EVERY])
@pytest.mark.parametrize("column", ["height", "town", "label"])
def test_ids_of_persons_are_no_published_column(
    mechanism: str, column: str, path: Path, tmp_path: Path
) -> None:
    forged = forged_claim(released(mechanism), lambda c: c["person"].update(column=column))
    for place, data in enumerate(((), (path,))):
        assert f"person.column '{column}' is" in refused(forged, tmp_path / str(place), *data)


@pytest.mark.parametrize("mechanism", [SHAPED, EVERY])
@pytest.mark.parametrize("accountant", ["paper", "exact-worst-case"])
def test_a_mechanism_has_its_own_accountants(
    mechanism: str, accountant: str, tmp_path: Path
) -> None:
    """Theorems of the paper say nothing about mechanisms of ours."""
    forged = said(released(mechanism), lambda c: c["accountant"].update(name=accountant))
    assert f"{mechanism} has no accountant '{accountant}'" in refused(forged, tmp_path / "r")


def test_the_label_is_no_published_feature(tmp_path: Path) -> None:
    release = released(SHAPED, person=None)
    name, schema = "label:height", release.table.schema
    other = release.table.rename_columns([*schema.names[:-1], name])
    from tests.mechanisms.cases import forged_tables

    forged = forged_tables(said(release, lambda c: c["labels"].update(column="height")), other)
    assert "the label column 'height' is a feature" in refused(forged, tmp_path / "r")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"missing": "rows dropped", "na": ["7" * 65]}, "is too long"),
        ({"missing": "rows dropped", "na": ["7"] * 33}, "is too long"),
        ({"na": ["7"]}, "no row was left out, yet it says which ones"),
        ({"rows_left_out": 7}, "no row was left out, yet it says which ones"),
    ],
    ids=str,
)
def test_labels_cannot_stand_among_texts_for_missing_ones(
    labels: dict[str, Any], words: str, tmp_path: Path
) -> None:
    forged = said(released(SHAPED, person=None), lambda c: c["labels"].update(labels))
    assert words in refused(forged, tmp_path / "r")


@pytest.mark.parametrize("words", [["9" * 65], [f"{k}" for k in range(100, 133)]], ids=len)
def test_more_texts_for_missing_labels_than_a_certificate_lists_are_refused(
    words: list[str],
) -> None:
    rows = people().drop_columns(["who", "noisy"])
    texts = rows.set_column(rows.column_names.index("label"), "label", rows["label"].cast("string"))

    def source(na: list[str]) -> Any:
        options: dict[str, Any] = {"drop_missing_labels": True, "na": na}
        return scan(texts, label="label", label_range=RANGE, **options)

    few = [word[:64] for word in words[:32]]
    named = small_plan(SHAPED, source(few)).release(source(few)).certificate["labels"]["na"]
    assert named == few
    with pytest.raises(PlanError, match="32 texts of 64 letters that mean a missing label"):
        small_plan(SHAPED, source(words)).release(source(words))


CAUSED: dict[str, tuple[str, str | None, dict[str, Any], Callable[[dict[str, Any]], Any]]] = {
    "no such person column": (SHAPED, "who", {}, lambda c: c["person"].update(column="nobody")),
    "no such noisy column": (
        NOISY,
        None,
        {"noisy_fraction": 0.6},
        lambda c: c["noise"].update(column="nothing", fraction=None),
    ),
    "a noisy column of texts": (
        NOISY,
        None,
        {"noisy_fraction": 0.6},
        lambda c: c["noise"].update(column="town", fraction=None),
    ),
    "the label says which rows are noisy": (
        NOISY,
        None,
        {"noisy_fraction": 0.6},
        lambda c: c["noise"].update(column="label", fraction=None),
    ),
    "codes for missing labels that are none": (
        EVERY,
        None,
        {},
        lambda c: c["labels"].update(missing="rows dropped", na=["nobody=5"]),
    ),
}


@pytest.mark.parametrize("case", CAUSED)
def test_what_the_certificate_caused_ends_in_1(case: str, path: Path, tmp_path: Path) -> None:
    mechanism, person, options, change = CAUSED[case]
    release = released(mechanism, person, **options)
    forged = said(release, change)
    if verify(saved(forged, tmp_path / "public")).valid:
        assert refused(forged, tmp_path / "with data", path)
    else:
        assert refused(forged, tmp_path / "without")


def test_what_the_user_caused_ends_in_2(tmp_path: Path) -> None:
    folder = saved(released(SHAPED), tmp_path / "r")
    with pytest.raises(DataError):
        verify(folder, tmp_path / "nowhere.parquet")
    assert labeldp("verify", folder, "--data", tmp_path / "nowhere.parquet").error
