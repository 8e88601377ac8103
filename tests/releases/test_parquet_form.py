"""A release holds files as we write them: no statistics, links, pipes or bombs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LinearRegressor, Release, ReleaseError, verify
from labeldp.errors import InputError
from labeldp.io_util import parse_json
from labeldp.releases.tables import METADATA_KEY, check_form
from tests.console import labeldp
from tests.forging import write
from tests.mechanisms.cases import EVERY, NOISY, SAMPLED, SHAPED, saved, small_plan
from tests.tables import source

AGGREGATES = "aggregates.parquet"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = source(400)
    return saved(small_plan(SHAPED, rows).release(rows), tmp_path_factory.mktemp("r") / "release")


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "copy")
    return tmp_path / "copy"


def problem_of(folder: Path) -> str:
    """The only problem, in one line; load and fit refuse the same."""
    (problem,) = verify(folder).problems
    with pytest.raises(ReleaseError):
        Release.load(folder)
    assert labeldp("fit", folder).code == 2
    assert "\n" not in problem
    return problem


@pytest.mark.parametrize("mechanism", [SHAPED, SAMPLED, NOISY, EVERY])
def test_our_files_have_our_form(mechanism: str, tmp_path: Path) -> None:
    rows = source(400)
    options: dict[str, Any] = {"with_features": True} if mechanism == EVERY else {}
    folder = saved(small_plan(mechanism, rows, **options).release(rows), tmp_path / "r")
    for path in folder.glob("*.parquet"):
        check_form(path, (folder / "certificate.json").read_text().removesuffix("\n"))
    assert verify(folder).problems == ()


def test_columns_that_could_have_gaps_are_not_ours(copy: Path) -> None:
    whole = pq.read_table(copy / AGGREGATES)
    loose = pa.schema([each.with_nullable(True) for each in whole.schema], whole.schema.metadata)
    write(whole.cast(loose), copy / AGGREGATES)
    assert "intercept (double, never missing)" in problem_of(copy)


FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "statistics": ({"write_statistics": True}, "statistics"),
    "an index": ({"write_page_index": True}, "statistics, an index"),
    "a dictionary": ({"use_dictionary": True}, "dictionary"),
    "another packing": ({"compression": "zstd"}, "packed by ZSTD"),
    "an Arrow schema": ({"store_schema": True}, "other metadata than the certificate"),
    "checksums": ({"write_page_checksum": True}, "other bytes"),
    "pages of version 2": ({"data_page_version": "2.0"}, "other bytes"),
    "an order": ({"sorting_columns": [pq.SortingColumn(0)]}, "order of rows"),
    "another encoding": ({"column_encoding": "BYTE_STREAM_SPLIT"}, "BYTE_STREAM_SPLIT"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_another_writer_adds_is_noticed(copy: Path, name: str) -> None:
    options, words = FOREIGN[name]
    table = pq.read_table(copy / AGGREGATES)
    write(table, copy / AGGREGATES, **options)
    assert words in problem_of(copy)


def footer_of(raw: bytes) -> int:
    """Where the footer begins."""
    return len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")


def bytes_before_the_footer(raw: bytes) -> bytes:
    place = footer_of(raw)
    return raw[:place] + b"the labels are 1 2 3" + raw[place:]


def a_field_more_in_the_footer(raw: bytes) -> bytes:
    """An unknown field 15 of text, before the end of the footer's struct."""
    place = footer_of(raw)
    footer = raw[place:-9] + bytes([0x08, 0x1E, 5]) + b"label" + b"\0"
    return raw[:place] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def another_name_of_the_writer(raw: bytes) -> bytes:
    return raw.replace(b"parquet-cpp-arrow version", b"parquet-mr-labels version")


def statistics_of_a_page(raw: bytes) -> bytes:
    """A null count of 3 in a page that stands in the first column, of which the footer knows."""
    empty = raw.index(b"\x1c\x00\x00\x00", 4)
    assert empty < 60
    return raw[:empty] + b"\x1c\x36" + raw[empty + 2 :]


def another_beginning(raw: bytes) -> bytes:
    return b"LABL" + raw[4:]


@pytest.mark.parametrize(
    "change",
    [
        bytes_before_the_footer,
        a_field_more_in_the_footer,
        another_name_of_the_writer,
        statistics_of_a_page,
        another_beginning,
    ],
    ids=lambda change: change.__name__,
)
def test_bytes_that_are_not_ours_are_noticed(copy: Path, change: Callable[[bytes], bytes]) -> None:
    path = copy / AGGREGATES
    path.write_bytes(change(path.read_bytes()))
    assert AGGREGATES in problem_of(copy)


# --- files that are none ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["aggregates.parquet", "certificate.json", "weights.parquet"])
def test_links_and_pipes_are_noticed(copy: Path, honest: Path, name: str) -> None:
    (copy / name).unlink()
    (copy / name).symlink_to(honest / name)
    assert f"{name} is no ordinary file" in problem_of(copy)
    (copy / name).unlink()
    os.mkfifo(copy / name)
    assert f"{name} is no ordinary file" in problem_of(copy)
    (copy / name).unlink()
    (copy / name).mkdir()
    assert f"{name} is no ordinary file" in problem_of(copy)


# --- documents ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "a name twice"),
        ('{"a": 1e400}', "1e400 is beyond all doubles"),
        ('{"a": ' + "9" * 400 + "}", "99999999999999999999… is beyond all doubles"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('"text"', "no JSON object"),
        (" " * (1 << 24) + "{}", "more than 16,777,216 bytes"),
    ],
)
@pytest.mark.parametrize("name", ["certificate.json", "features.json"])
def test_documents_are_read_strictly(copy: Path, name: str, text: str, words: str) -> None:
    (copy / name).write_text(text)
    problem = problem_of(copy)
    assert words in problem
    assert name in problem


def test_numbers_at_the_edge_are_read() -> None:
    assert parse_json('{"a": 1.7976931348623157e308, "b": [-1e-400, 9007199254740993]}') == {
        "a": sys.float_info.max,
        "b": [-0.0, 9007199254740993],
    }


# --- bombs --------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from labeldp import Release, verify
import labeldp.releases.files, labeldp.mechanisms.shaped_flag, jsonschema
def used():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1])
most = (used() << 10) + (250 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
for folder in sys.argv[1:]:
    print(verify(folder).problems[0])
    try:
        Release.load(folder, verify=False).labels
    except ValueError as problem:
        print(problem)
"""


def test_a_small_file_does_not_take_gigabytes(honest: Path, tmp_path: Path) -> None:
    """Half a gigabyte of zeros in a few kilobytes, or none at all in even less."""
    if sys.platform != "linux":
        pytest.skip("limits of memory are Linux's")
    count, zeros, nulls = 6_000_000, np.zeros(6_000_000), pa.nulls(6_000_000, pa.float64())
    certificate = {METADATA_KEY: (honest / "certificate.json").read_bytes()}
    forms = {"zeros": (AGGREGATES, zeros), "nulls": (AGGREGATES, nulls)}
    forms |= {"weights": ("weights.parquet", zeros)}
    for form, (name, column) in forms.items():
        path = shutil.copytree(honest, tmp_path / form) / name
        names = pq.read_schema(path).names
        data = pa.table(dict.fromkeys(names, pa.array(column))).replace_schema_metadata(certificate)
        write(data, path, count, compression="snappy" if form == "nulls" else "zstd")
        assert path.stat().st_size < 2_000_000
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *(str(tmp_path / form) for form in forms)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    assert done.stdout.count("more than its bytes can hold") == 6, done.stdout


# --- loading ------------------------------------------------------------------------------


def test_fit_and_load_refuse_what_was_altered_unless_told_otherwise(copy: Path) -> None:
    path = copy / "certificate.json"
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5', 1))
    result = labeldp("fit", copy)
    assert "is not as it was written" in result.error
    assert "--no-verify" in result.error
    assert labeldp("fit", copy, "--no-verify").code == 0
    with pytest.raises(InputError, match="not as it was written"):
        Release.load(copy)
    assert LinearRegressor().fit(Release.load(copy, verify=False)).coef_.size


@pytest.mark.parametrize("name", ["epsilon", "delta", "rows", "bags", "mechanism"])
def test_a_certificate_that_nobody_verified_may_hold_anything(name: str, copy: Path) -> None:
    path = copy / "certificate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: {"a": 1}}))
    result = labeldp("fit", copy, "--no-verify")
    assert (result.code, len(result.error.splitlines())) == (2, 1)
