"""Descriptions of a release say what its certificate and files say, in forms that others read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import InputError, Release, ReleaseError, verify
from labeldp.releases.side_files import CROISSANT, croissant_text
from labeldp.reporting import describe
from tests.console import labeldp as run
from tests.extras import extra
from tests.plans import plan
from tests.tables import source

CASES: list[dict[str, Any]] = [
    {"mechanism": "shaped-flag"},
    {"mechanism": "wtd-flag", "bags": 200},
    {"mechanism": "noisy-rows"},
    {"mechanism": "noisy-rows", "with_features": True},
    {"mechanism": "sampled-wtd-flag", "bags": 12, "bag_size": 64},
    {"mechanism": "sampled-noisy-wtd-lag", "bags": 50},
]
REGISTRY = [
    "name",
    "data_curators",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "description",
    "publication_date",
    "variant_name",
    "privacy_unit",
    "privacy_parameters",
    "model_name",
    "release_type",
    "data_source_type",
    "access_type",
    "data_domain",
    "unprotected_quantities",
    "privacy_unit_details",
    "privacy_parameters_details",
    "actors",
    "post_processing",
    "composition",
    "preprocessing_and_hyperparameter_tuning",
    "mechanisms",
    "justification",
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case.values())))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = source(2000)
    place = tmp_path_factory.mktemp("describe") / "published"
    plan(rows, **{"epsilon": 2.0, "delta": 1e-6} | request.param).release_to(place, rows)
    return place


def test_croissant_readers_read_the_rows_back(directory: Path) -> None:
    """From the release as it is, every table of it."""
    dataset = extra("mlcroissant").Dataset(directory / CROISSANT)
    assert not dataset.metadata.ctx.issues.errors
    tables = sorted(directory.glob("*.parquet"))
    assert [each.id for each in dataset.metadata.record_sets] == [path.stem for path in tables]
    for path in tables:
        rows = [list(row.values()) for row in pq.read_table(path).to_pylist()]
        read = [list(record.values()) for record in dataset.records(path.stem)]
        assert [[plain(value) for value in row] for row in read] == rows


def plain(value: Any) -> Any:
    """Texts come as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def test_files_and_digests_are_those_of_the_directory(directory: Path) -> None:
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }
    text = (directory / CROISSANT).read_text(encoding="utf-8")
    assert text == describe(directory, "croissant")
    found = {each["name"]: each["sha256"] for each in json.loads(text)["distribution"]}
    assert found == {name: digest for name, digest in files.items() if name != CROISSANT}
    card = describe(directory, "card")
    assert all(digest in card for digest in files.values())
    needs = labeldp.Release.load(directory).needs_rows
    assert card.endswith(f"labeldp fit {directory.name}{' --data TABLE' if needs else ''}\n```\n")


def test_the_registry_has_every_field_of_three_tiers(directory: Path) -> None:
    entry = json.loads(describe(directory, "registry"))
    certificate = labeldp.Release.load(directory).certificate
    assert sorted(entry) == sorted(REGISTRY)
    assert entry["privacy_parameters"] == {
        "epsilon": certificate["epsilon"],
        "delta": certificate["delta"],
    }
    assert entry["data_curators"] == "not stated"
    assert entry["unprotected_quantities"] == certificate["not_protected"]


def test_columns_whose_names_differ_in_blanks_alone_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "aggregates.parquet"
    names = ["a b", "a_b", "a  b", " "]
    pq.write_table(pa.table([pa.array([1.0])] * 4, names=names), path)
    certificate = {
        "bags": 1,
        "rows": 1,
        "epsilon": 1.0,
        "delta": 0.0,
        "mechanism": "m",
        "labels": {"column": "y"},
    }
    found = json.loads(croissant_text(tmp_path, certificate))
    fields = found["recordSet"][0]["field"]
    assert len({each["@id"] for each in fields}) == 4
    assert not any(" " in each["@id"] for each in fields)
    assert [each["source"]["extract"]["column"] for each in fields] == names


def test_the_command_prints(directory: Path) -> None:
    assert run("describe", directory, "--as", "card").out == describe(directory, "card")
    refused = run("describe", directory, "--as", "poem")
    assert (refused.code, "'croissant', 'registry'" in refused.error) == (2, True)
    with pytest.raises(InputError, match="`kind`"):
        describe(directory, "poem")


def missing(path: Path) -> None:
    path.unlink()


def spaced(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def elsewhere(path: Path) -> None:
    """What a loader would fetch from another place."""
    text = path.read_text(encoding="utf-8")
    url = '"contentUrl": "https://example.org/aggregates.parquet"'
    path.write_text(text.replace('"contentUrl": "aggregates.parquet"', url), encoding="utf-8")


def linked(path: Path) -> None:
    path.rename(path.parent.parent / "moved.json")
    path.symlink_to(path.parent.parent / "moved.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (missing, "croissant.json is missing"),
        (spaced, "croissant.json does not describe these files"),
        (elsewhere, "croissant.json does not describe these files"),
        (linked, "croissant.json is no ordinary file"),
    ],
)
def test_a_release_with_another_description_is_refused(
    change: Callable[[Path], None], problem: str, tmp_path: Path
) -> None:
    rows = source(300)
    plan(rows, mechanism="noisy-rows", epsilon=2.0, delta=1e-6).release_to(tmp_path / "r", rows)
    change(tmp_path / "r" / CROISSANT)
    assert problem in verify(tmp_path / "r").problems[0]
    with pytest.raises(ReleaseError, match=problem):
        Release.load(tmp_path / "r")
