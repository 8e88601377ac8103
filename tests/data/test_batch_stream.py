"""A process that leaves a text file in the middle ends as it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from labeldp.data import csv_stream

PROGRAM = """
import sys, time
from pathlib import Path
import labeldp
from labeldp.data import csv_stream, delimited

rows = labeldp.scan(sys.argv[1], label="y", label_range=(0, 9))
inside = csv_stream.LabelSafeCsvStream.read
def slow(self, *given):
    time.sleep(0.03)
    return inside(self, *given)
csv_stream.LabelSafeCsvStream.read = slow
delimited._BLOCK = 1 << 12
way = sys.argv[2]
batches = rows.feature_batches()
next(batches)
if way == "an error":
    try:
        batches.throw(RuntimeError("in the middle"))
    except RuntimeError as problem:
        kept = problem
print("done", flush=True)
"""


@pytest.mark.parametrize("way", ["left", "an error"])
def test_a_reader_that_was_left_does_not_abort_the_process(way: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,y\n" + "a,1\nb,2\n" * 200_000)
    words = [sys.executable, "-c", PROGRAM, str(path), way]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_file_that_cannot_be_parsed_is_let_go_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed holds the file that it was given, and nobody waits for that."""
    glances: list[float] = []
    monkeypatch.setattr(csv_stream, "_PATIENCE", 1.0)
    monkeypatch.setattr(csv_stream.time, "sleep", glances.append)

    def parsed(_file: object) -> NoReturn:
        raise ValueError("no table")

    with (tmp_path / "t").open("w+b") as file, pytest.raises(ValueError, match="no table"):
        csv_stream.BatchStream(file, parsed)
    assert len(glances) < 10
