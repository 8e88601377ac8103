"""Limits of memory: one line and exit 2, or the work is done; no hang, and no file is blamed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labeldp.cli import OUT_OF_MEMORY, is_out_of_memory
from tests.cli.conftest import LABEL, Write
from tests.console import labeldp

PROGRAM = "import sys; from labeldp.cli import main; main()"


def run(megabytes: int, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """A command that may take so many addresses, and ten seconds of a core."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=300)


def test_too_little_is_said_before_anything_hangs(write: Write, tmp_path: Path) -> None:
    command = ("release", "--anyway", write("t.csv"), *LABEL, "--out", tmp_path / "r")
    refused = run(1000, *command)
    assert refused.returncode == 2, refused
    (line,) = refused.stderr.splitlines()
    assert line.startswith("labeldp: out of memory: this process may use 1,000 MB of addresses")
    assert run(1000, "--version").returncode == 0
    done = run(3000 + 100 * (os.cpu_count() or 1), *command)
    assert done.returncode == 0, done.stderr


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
