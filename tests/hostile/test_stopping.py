"""Signals at chosen moments: nothing is left but what the command says it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import cycle, product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import LABEL, QUICK
from tests.console import labeldp
from tests.hostile.counting import Tried
from tests.tables import table

SELF = """
import json, os, pkgutil, signal, sys
from labeldp.data import readers
from labeldp.cli import main
import labeldp.releases.files, pyarrow.parquet, labeldp.learners.linear

readers._PART_ROWS = 100

def run(case):
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(case[name], os.O_WRONLY | os.O_CREAT), stream)
    place, _, name = case["where"].rpartition(".")
    owner = pkgutil.resolve_name(place)
    inner, calls = getattr(owner, name), []
    def outer(*given, **more):
        calls.append(1)
        if len(calls) == case["count"]:
            for _ in range(case["times"]):
                os.kill(os.getpid(), case["signal"])
        return inner(*given, **more)
    setattr(owner, name, outer)
    signal.signal(case["signal"], signal.default_int_handler)  # background jobs ignore Ctrl-C
    sys.argv = ["labeldp", *case["arguments"]]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(end.code)

codes = []
for case in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        run(case)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
"""A fork for every case, which signals itself at the n-th call of a function."""

MOMENTS = {
    "labels are summed": ("labeldp.passes.engine:LocalEngine._results", 1),
    "aggregates are written": ("pyarrow.parquet:ParquetWriter.write_table", 1),
    "a table is closed": ("pyarrow.parquet:ParquetWriter.close", 1),
    "files are put on the disk": ("labeldp.io_util._sync", 1),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pq.write_table(table(900), tmp_path / "t.parquet", row_group_size=100)
    return tmp_path / "t.parquet"


def run(cases: list[dict[str, object]]) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", SELF],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    codes: list[int] = json.loads(done.stdout)
    return codes


def case(
    folder: Path, moment: tuple[str, int], number: int, *arguments: object
) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    where, count = moment
    return {
        "out": str(folder / "out.txt"),
        "err": str(folder / "err.txt"),
        "where": where,
        "count": count,
        "times": 3,
        "signal": number,
        "arguments": [str(word) for word in arguments],
    }


def left(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name not in ("out.txt", "err.txt"))


def stopped(data: Path, place: Path, moments: list[tuple[tuple[str, int], int]]) -> None:
    """Releases stopped at these moments by these signals, three times as impatient people do."""
    cases, folders = [], []
    for moment, number in moments:
        folder = place / str(len(cases))
        asked = ("release", "--anyway", data, *LABEL, *QUICK, "--out", folder / "r")
        cases.append(case(folder, moment, number, *asked))
        folders.append(folder)
    assert run(cases) == [128 + number for _, number in moments]
    for folder in folders:
        assert left(folder) == []
        last = (folder / "err.txt").read_text().splitlines()[-1]
        assert last == "labeldp: stopped; nothing was written"


def test_a_release_that_is_stopped_leaves_nothing(data: Path, tmp_path: Path) -> None:
    stopped(data, tmp_path, list(zip(MOMENTS.values(), cycle(SIGNALS), strict=False)))


@pytest.mark.hostile
def test_at_every_moment_by_every_signal(data: Path, tmp_path: Path, tried: Tried) -> None:
    pairs = list(product(MOMENTS.values(), SIGNALS))
    stopped(data, tmp_path, pairs)
    tried("stopped by a signal", len(pairs))


def test_what_was_written_before_a_signal_is_said(data: Path, tmp_path: Path) -> None:
    asked = ("release", "--anyway", data, *LABEL, *QUICK, "--out", tmp_path / "a" / "r")
    late = case(
        tmp_path / "a", ("labeldp.learners.linear.release_quality", 1), signal.SIGTERM, *asked
    )
    assert run([late]) == [128 + signal.SIGTERM]
    said = (tmp_path / "a" / "err.txt").read_text().splitlines()[-1]
    assert said == f"labeldp: stopped; {tmp_path / 'a' / 'r'} was written before that"
    assert labeldp("verify", tmp_path / "a" / "r").code == 0


def test_a_stopped_plan_may_be_released(data: Path, tmp_path: Path) -> None:
    """The note beside it that it was released is taken back with what was drawn."""
    plan = tmp_path / "plan.json"
    assert labeldp("plan", "--anyway", data, *LABEL, *QUICK, "--out", plan).code == 0
    asked = ("release", data, *LABEL, "--plan", plan, "--out")
    stopped = case(
        tmp_path / "a", MOMENTS["a table is closed"], signal.SIGTERM, *asked, tmp_path / "a" / "r"
    )
    assert run([stopped]) == [128 + signal.SIGTERM]
    assert labeldp(*asked, tmp_path / "a" / "r").code == 0
    assert "was released before" in labeldp(*asked, tmp_path / "a" / "s").error
