"""Five million rows of each format are read in constant memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import PEAK

_PROGRAM = (
    PEAK
    + """
from labeldp_paper.datasets.declaration import Options
from labeldp_paper.datasets.making import convert
name, source, target = sys.argv[1:]
options = Options(keep_zero_weeks=True) if name == "census-1940" else Options()
made = convert(name, [Path(source)], Path(target), options=options)
print(json.dumps([made.rows, peak()]))
"""
)
_SPARE = 120  # megabytes that allocators may keep more, however many rows there are


def read(name: str, source: Path) -> tuple[int, float]:
    """Rows, and megabytes at the peak of a fresh process."""
    target = source.with_suffix(".parquet")
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name, str(source), str(target)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows, peak = json.loads(run.stdout)
    return rows, peak


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), [("census-1940", "rows.dat"), ("criteo", "rows.tsv")])
def test_memory_does_not_grow_with_rows(name: str, file: str, tmp_path: Path) -> None:
    from labeldp_paper.datasets.making import generate

    stand_in = {"census-1940": "synthetic-census", "criteo": "synthetic-criteo"}[name]
    peaks = []
    for rows in (500_000, 5_000_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        generate(stand_in, folder / file, rows)
        found, peak = read(name, folder / file)
        (folder / file).unlink()
        assert found == rows
        peaks.append(peak)
    assert peaks[1] < peaks[0] + _SPARE
