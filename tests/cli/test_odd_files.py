"""Paths that are no ordinary files: one line, no hang, no traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LABEL, QUICK, Write
from tests.console import labeldp

PIPE = "it is a pipe or a device; give an ordinary file"
LONG = "a" * 300


def error(*arguments: Any) -> str:
    return labeldp(*arguments).error


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.csv")
    return tmp_path / "pipe.csv"


def test_pipes_and_devices_as_data(pipe: Path, tmp_path: Path) -> None:
    zeros, pipes = tmp_path / "zeros.csv", tmp_path / "pipes"
    zeros.symlink_to("/dev/zero")
    pipes.mkdir()
    os.mkfifo(pipes / "part.parquet")
    for place in (pipe, zeros, pipes):
        assert PIPE in error("plan", place, *LABEL)
        assert PIPE in error("look", place)


def test_pipes_as_plans_models_and_releases(
    pipe: Path, data: Path, published: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    assert PIPE in error("release", data, *LABEL, "--plan", pipe, "--out", out)
    assert PIPE in error("predict", pipe, data, "--out", out)
    for name in ("certificate.json", "features.json", "aggregates.parquet"):
        copy = tmp_path / name.partition(".")[0]
        shutil.copytree(published, copy)
        (copy / name).unlink()
        os.mkfifo(copy / name)
        assert "ordinary file" in error("fit", copy)
        checked = labeldp("verify", copy)
        assert checked.code == 1
        assert "ordinary file" in checked.out


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    said = error("plan", loop, *LABEL)
    assert "too many levels of symbolic links" in said
    assert "did you mean" not in said


def test_names_too_long(data: Path, tmp_path: Path) -> None:
    assert "file name too long" in error("plan", tmp_path / f"{LONG}.csv", *LABEL)
    for command in (("plan", data, *LABEL), ("release", data, *LABEL)):
        assert "choose a shorter one" in error(*command, "--out", tmp_path / LONG)


def test_paths_that_are_not_utf8(data: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd\udcff.parquet"
    shutil.copy(data, odd)
    assert "not UTF-8 text; rename it" in error("plan", odd, *LABEL)
    out = tmp_path / "out\udcff"
    assert "not UTF-8 text" in error("release", "--anyway", data, *LABEL, *QUICK, "--out", out)


def test_a_flipped_byte_in_a_column_name(data: Path, published: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    table.write_bytes(data.read_bytes().replace(b"height", b"h\xffight"))
    assert "is not a complete Parquet file" in error("plan", table, *LABEL)
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    flipped = (copy / "aggregates.parquet").read_bytes().replace(b"label:label", b"label:\xffabel")
    (copy / "aggregates.parquet").write_bytes(flipped)
    assert "is damaged" in error("fit", copy)
    assert "is damaged" in labeldp("verify", copy).out


@pytest.mark.parametrize("text", ["[]", "3", '"a"', "null"])
def test_a_certificate_that_is_no_object(published: Path, tmp_path: Path, text: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    (copy / "certificate.json").write_text(text)
    assert "certificate" in error("fit", copy)
    assert labeldp("verify", copy).code == 1


def test_engines(write: Write) -> None:
    data = write("t.parquet")
    spark = ("--engine", "spark", "--threads", 2)
    assert "--threads is for --engine local" in error("plan", data, *LABEL, *spark)


@pytest.mark.parametrize("command", ["verify", "compose", "describe"])
def test_a_release_whose_name_no_file_can_have(command: str) -> None:
    assert "not a release directory" in error(command, "9" * 400)


def test_an_about_whose_name_no_file_can_have(write: Write, tmp_path: Path) -> None:
    asked = ("--about", "9" * 400, "--out", tmp_path / "out")
    assert "file name too long" in error(
        "release", "--anyway", write("t.parquet"), *LABEL, *QUICK, *asked
    )
