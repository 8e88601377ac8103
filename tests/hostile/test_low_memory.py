"""Limits of memory: one line and exit 2, or the work is done; no hang, and no file is blamed."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import threads as pool
from labeldp.cli import OUT_OF_MEMORY, is_out_of_memory, startup
from tests.cli.conftest import LABEL, Write
from tests.console import labeldp
from tests.hostile.counting import Tried

PROGRAM = "import sys; from labeldp.cli import main; main()"


def run(megabytes: int, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """A command that may take so many addresses, and ten seconds of a core."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=300)


def test_a_small_table_needs_no_gigabytes(write: Write, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "r")
    done = run(startup.least_megabytes() + 50, "release", "--anyway", write("t.csv"), *LABEL, *out)
    assert done.returncode == 0, done.stderr
    assert labeldp("verify", tmp_path / "r").code == 0


def test_too_little_is_said_before_anything_hangs(write: Write, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "r")
    refused = run(300, "release", "--anyway", write("t.csv"), *LABEL, *out)
    assert refused.returncode == 2, refused
    (line,) = refused.stderr.splitlines()
    assert line.startswith("labeldp: out of memory: this process may use 300 MB of addresses")
    assert run(300, "--version").returncode == 0


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        ImportError("libscipy_openblas.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_lack_of_memory_is_called_so(
    problem: Exception, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise problem

    data = write("t.csv")
    monkeypatch.setattr("labeldp.data.source.scan", fail)
    said = labeldp("plan", data, *LABEL).error
    assert said == OUT_OF_MEMORY.replace("`threads`", "--threads")


def test_other_errors_are_not_taken_for_it() -> None:
    assert not is_out_of_memory(RuntimeError("something else"))
    assert not is_out_of_memory(ImportError("no module named x"))
    assert is_out_of_memory(MemoryError())


def test_threads_share_what_room_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that computes takes room in OpenBLAS, which ends the process where it gets none."""
    monkeypatch.setattr(pool.os, "sched_getaffinity", lambda _: range(8))
    for limit, wanted, threads in ((None, 0, 8), (700, 0, 1), (700, 5, 1), (3100, 0, 3)):
        monkeypatch.setattr(pool, "address_limit_mb", lambda limit=limit: limit)
        assert pool.thread_count(wanted) == threads


@pytest.mark.hostile
def test_a_wide_table_ends_in_a_line(tmp_path: Path, tried: Tried) -> None:
    """Where BLAS found no room, OpenBLAS ended the process with words and a code of its own."""
    draw, data = np.random.default_rng(3), tmp_path / "wide.parquet"
    columns = {f"c{number}": draw.normal(size=20_000) for number in range(300)}
    pq.write_table(pa.table({**columns, "label": draw.uniform(0, 51, 20_000)}), data)
    limits = [600, 610, 620, 630, 640, 650]
    for megabytes in limits:
        asked = ("--label", "label", "--label-range", 0, 51, "--mechanism", "wtd-flag")
        done = run(megabytes, "plan", "--anyway", data, *asked)
        assert done.returncode == 2, (megabytes, done)
        assert "out of memory" in done.stderr.splitlines()[-1]
    tried("memory limit", len(limits))


@pytest.mark.hostile
@pytest.mark.parametrize("command", ["plan", "release", "look"])
def test_any_limit(command: str, write: Write, tmp_path: Path, tried: Tried) -> None:
    """From far too little to plenty: done, or said."""
    data, least = write("t.csv"), startup.least_megabytes()
    limits = [100, 200, 300, 400, 500, *(least + more for more in (-1, 0, 10, 50, 100, 300, 600))]
    for megabytes in limits:
        given = () if command == "look" else ("--anyway", *LABEL)
        out = ("--out", tmp_path / f"r{megabytes}") if command == "release" else ()
        done = run(megabytes, command, data, *given, *out)
        assert done.returncode in (0, 2), (megabytes, done)
        assert done.returncode == (0 if megabytes >= least else 2), (megabytes, done.stderr)
        assert "Traceback" not in done.stderr
        if done.returncode:
            assert "out of memory" in done.stderr.splitlines()[-1]
    tried("memory limit", len(limits))
