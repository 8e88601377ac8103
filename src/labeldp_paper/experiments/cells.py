"""A grid that can be stopped and resumed: each finished cell is one small file.

A cell is named by a digest of everything that decides its result: the experiment and its
version, the parameters, the data and the profile. A file appears whole or not at all, so a
process may be killed at any moment; the next run computes only what is missing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from threadpoolctl import threadpool_limits

from labeldp.io_util import json_digest
from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments.result import Row


@dataclass(frozen=True)
class Cell:
    """One unit of work."""

    parameters: Row
    compute: Callable[[], Row]
    cost: int = 1
    """How long it takes compared with others, for the time left."""
    threads: int | None = 1
    """Of small matrices threads would wait for each other. None: as many as there are."""


@dataclass(frozen=True)
class Spent:
    """Seconds of a clock on the wall, which other programs lengthen, and of the processor."""

    wall: float
    processor: float


class UnfinishedError(Exception):
    """Cells are missing and are not to be computed."""


@dataclass(frozen=True)
class Cells:
    """The finished cells of a run's directory."""

    folder: Path
    progress: Progress
    finished_only: bool = False
    """Compute nothing: an experiment that lacks a cell it cannot do without is left out."""
    spent: dict[Path, Spent] = field(default_factory=dict)
    """What each cell took, in this run or in an earlier one; once, however often it was read."""

    def run(
        self,
        experiment: str,
        version: int,
        data: Row,
        cells: Sequence[Cell],
        *,
        some: bool = False,
        none: bool = False,
    ) -> list[Row]:
        """Every cell's parameters and result, in order; finished ones are read.

        If nothing is to be computed, `some` of them are enough, or even `none`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [self._path(experiment, version, data, cell) for cell in cells]
        if self.finished_only:
            there = [(cell, path) for cell, path in zip(cells, paths, strict=True) if path.exists()]
            if len(there) < len(cells) and not (some and (there or none)):
                raise UnfinishedError(
                    f"{len(cells) - len(there)} cells of {experiment} are missing"
                )
            cells, paths = [cell for cell, _ in there], [path for _, path in there]
        missing = sum(c.cost for c, p in zip(cells, paths, strict=True) if not p.exists())
        with self.progress(experiment, missing) as advance:
            return [
                {**cell.parameters, **self._result(path, cell, advance)}
                for cell, path in zip(cells, paths, strict=True)
            ]

    def _path(self, experiment: str, version: int, data: Row, cell: Cell) -> Path:
        key = [experiment, version, data, cell.parameters]
        return self.folder / f"{experiment}-{json_digest(key)[:24]}.json"

    def _result(self, path: Path, cell: Cell, advance: Callable[[int], None]) -> Row:
        if not path.exists():
            wall, processor = time.monotonic(), time.process_time()
            with threadpool_limits(cell.threads):
                result = cell.compute()
            seconds = {
                "seconds": round(time.monotonic() - wall, 3),
                "processor": round(time.process_time() - processor, 3),
            }
            text = json.dumps(
                {"parameters": cell.parameters, **seconds, "result": result}, allow_nan=False
            )
            replace_file(path, lambda new: new.write_text(text, encoding="utf-8"))
            advance(cell.cost)
        found = json.loads(path.read_text(encoding="utf-8"))
        self.spent[path] = Spent(found["seconds"], found["processor"])
        result = found["result"]
        return dict(result)


def replace_file(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file that takes its name when it is whole."""
    unfinished = path.with_name(f".{path.name}.partial-{os.getpid()}")
    fill(unfinished)
    unfinished.replace(path)
