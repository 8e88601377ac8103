"""A run that is killed loses only the cell it was at; finished cells are never computed again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments import EXPERIMENTS
from labeldp_paper.experiments.cells import Cell, Cells, UnfinishedError
from tests.console import labeldp

_COMMAND = "from labeldp.cli import main; main()"


def finished(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["reproduce", "table1", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(finished(out)) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(out)
    assert len(before) >= 3
    assert not (out / "table1.parquet").exists(), "it was to be killed in the middle"
    rows = labeldp(*arguments, "--json").json["results"]["table1"]["rows"]
    after = finished(out)
    assert len(rows) == len(after) == 24
    assert before.items() <= after.items()


def test_a_cell_is_computed_once_and_again_if_anything_that_decides_it_changes(
    tmp_path: Path, quiet: Progress
) -> None:
    computed: list[int] = []

    def cell(number: int) -> Cell:
        def compute() -> dict[str, int]:
            computed.append(number)
            return {"square": number**2}

        return Cell({"number": number}, compute)

    cells = Cells(tmp_path / "cells", quiet)
    first = cells.run("squares", 1, {"rows": 1}, [cell(1), cell(2)])
    assert first == [{"number": 1, "square": 1}, {"number": 2, "square": 4}]
    assert cells.run("squares", 1, {"rows": 1}, [cell(1), cell(2)]) == first
    assert computed == [1, 2]
    cells.run("squares", 2, {"rows": 1}, [cell(1)])
    cells.run("squares", 1, {"rows": 2}, [cell(1)])
    cells.run("cubes", 1, {"rows": 1}, [cell(1)])
    cells.run("squares", 1, {"rows": 1}, [cell(3)])
    assert computed == [1, 2, 1, 1, 1, 3]


def test_what_cells_took_is_known_from_an_earlier_run_too(tmp_path: Path, quiet: Progress) -> None:
    def sleep() -> dict[str, int]:
        time.sleep(0.05)
        return {}

    seen = []
    for _ in range(2):
        cells = Cells(tmp_path / "cells", quiet)
        for _ in range(2):
            cells.run("sleeps", 1, {}, [Cell({}, sleep)])
        seen.append(list(cells.spent.values()))
    assert seen[0] == seen[1]
    (spent,) = seen[0]
    assert spent.processor < spent.wall
    assert spent.wall >= 0.05


def test_a_failure_leaves_no_cell(tmp_path: Path, quiet: Progress) -> None:
    def fail() -> dict[str, int]:
        raise KeyboardInterrupt

    cells = Cells(tmp_path / "cells", quiet)
    good = Cell({"number": 1}, lambda: {"x": 1})
    with pytest.raises(KeyboardInterrupt):
        cells.run("fails", 1, {}, [good, Cell({"number": 2}, fail)])
    (only,) = (tmp_path / "cells").iterdir()
    assert json.loads(only.read_text())["result"] == {"x": 1}


def test_an_interrupted_run_says_that_cells_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_run: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "table1", interrupted)  # type: ignore[arg-type]
    stopped = labeldp("reproduce", "table1", "--out", tmp_path / "out")
    assert stopped.code == 130
    assert stopped.out == ""
    assert "finished cells are kept" in stopped.err
    assert "nothing was written" not in stopped.err


def test_finished_cells_are_shown_and_nothing_is_computed(tmp_path: Path, quiet: Progress) -> None:
    def never() -> dict[str, int]:
        raise AssertionError("nothing is to be computed")

    one, two = Cell({"number": 1}, lambda: {"x": 1}), Cell({"number": 2}, never)
    Cells(tmp_path / "cells", quiet).run("it", 1, {}, [one])
    only = Cells(tmp_path / "cells", quiet, finished_only=True)
    assert only.run("it", 1, {}, [one]) == [{"number": 1, "x": 1}]
    assert only.run("it", 1, {}, [one, two], some=True) == [{"number": 1, "x": 1}]
    with pytest.raises(UnfinishedError, match="1 cells of it"):
        only.run("it", 1, {}, [one, two])
    with pytest.raises(UnfinishedError, match="1 cells of it"):
        only.run("it", 1, {}, [two], some=True)
    said = labeldp("reproduce", "table1", "--finished", "--json", "--out", tmp_path / "none").json
    assert "stopped before its end" in said["results"]["table1"]["skipped"]
