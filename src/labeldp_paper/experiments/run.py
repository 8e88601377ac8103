"""A run: where it writes, how large it is, and which data it was given."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp import DataError, LocalEngine, Source, scan
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts
from labeldp.mechanisms.design_summary import DesignSummary, summarize_design
from labeldp.mechanisms.options import Encoding
from labeldp.passes.engine import Engine
from labeldp_paper.datasets.catalogue import DATASETS
from labeldp_paper.datasets.declaration import Dataset
from labeldp_paper.datasets.making import generate
from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments.cells import Cell, Cells
from labeldp_paper.experiments.result import Row

_FRAME = 2
"""Raised when a change of the shared code changes results."""
_RECIPE = 3
"""Raised when a change of the stand-ins changes their rows."""


def private_residual_ms(design: DesignSummary, source: Source, engine: Engine) -> float:
    """Return the residual mean square of the fit with all labels.

    It is computed from raw labels without noise, so it is NOT private: for synthetic tables alone.
    """
    sums = LabelCrossProducts(design.features, design.labels)
    residual = ExactLeastSquares(design.factor, engine.run_pass("label sums", source, sums))
    return math.ldexp(float(residual.square_low), 2 * design.labels.exponent) / design.facts.rows


@dataclass(frozen=True)
class Data:
    """A table on disk, and what must be said about it."""

    source: Source
    path: Path
    text: str
    key: Row
    """What tells it from any other table."""

    @property
    def rows(self) -> int:
        return int(self.key["rows"])


@dataclass(frozen=True)
class Run:
    """The choices of one run."""

    out: Path
    progress: Progress
    full: bool = False
    seed: int = 0
    census: Path | None = None
    criteo: Path | None = None
    tables: Path | None = None
    """A directory of real tables; for `statistics` also a single one, whose label is named."""
    small: bool = False
    """Tiny grids, for tests."""
    label: str | None = None
    """The column of the labels, if one table was given."""
    finished: bool = False
    """Show what finished cells give, compute no other."""

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.out / "cells", self.progress, self.finished)

    @property
    def profile(self) -> str:
        return "full" if self.full else "small" if self.small else "quick"

    def size(self, small: int, quick: int, full: int) -> int:
        """A number by profile."""
        return full if self.full else small if self.small else quick

    def rows(
        self,
        experiment: str,
        version: int,
        data: Row,
        cells: Sequence[Cell],
        *,
        some: bool = False,
        none: bool = False,
    ) -> list[Row]:
        """Every cell's parameters and result; a change of either version recomputes them."""
        return self.cells.run(
            experiment, 1000 * _FRAME + version, data, cells, some=some, none=none
        )

    def data(
        self, which: str, rows: int, *, labelled: bool = True, projected: bool = False
    ) -> Data:
        """The user's file, or a synthetic stand-in of so many rows made in the run's directory."""
        file = self.given_file(which)
        if file is not None:
            known = DATASETS["census-1940" if which == "census" else which]
            return given(file, known.label, _range(file, known))
        name = "synthetic-criteo" if which == "criteo" else "synthetic-census"
        if which == "census" and labelled:
            name += "-labelled"
        return self._stand_in(name, rows, "projection" if projected else "levels")

    def _stand_in(self, name: str, rows: int, encoding: str) -> Data:
        folder = self.out / "data"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{encoding}-{rows}-{self.seed}-{_RECIPE}.parquet"
        if not path.exists():
            generate(name, path, rows, self.seed, encoding=encoding, progress=self.progress)
        known = DATASETS[name]
        key = {"dataset": name, "encoding": encoding, "rows": rows, "seed": self.seed}
        key["recipe"] = _RECIPE
        text = f"SYNTHETIC: {known.title}, {rows:,} rows, seed {self.seed}"
        if encoding == "projection":
            text += ", categories as random projections"
        source = scan(path, label=known.label, label_range=known.label_range)
        return Data(source, path, text, {**key, "synthetic": True})

    def given_file(self, which: str) -> Path | None:
        """The user's file."""
        return {"census": self.census, "criteo": self.criteo}[which]

    def given_facts(self, which: str) -> Row | None:
        """Rank, largest leverage and residual of a file that was given, else nothing."""
        if self.given_file(which) is None:
            return None
        engine = LocalEngine(progress=self.progress)
        source = self.data(which, 0).source
        design = summarize_design(source, engine=engine, encoding=Encoding())
        facts = {
            "rows": design.facts.rows,
            "rank": design.factor.rank,
            "max_leverage": design.leverage.maximum,
            "residual_ms": private_residual_ms(design, source, engine),
        }
        low, high = self.data(which, 0).source.label_range or (0.0, 1.0)
        return {**facts, "label_range": [float(low), float(high)]}


def _range(file: Path, known: Dataset) -> tuple[float, float]:
    """The paper's label range; from 0 if persons without a label are in the file as 0 weeks."""
    _require(file)
    low, high = known.label_range
    least = pc.min(pq.read_table(file, columns=[known.label]).column(0)).as_py()
    return min(low, float(least)), high


def given(file: Path, label: str, label_range: tuple[float, float], **options: Any) -> Data:
    """A Parquet table that was given."""
    _require(file)
    source = scan(file, label=label, label_range=label_range, **options)
    key = {"file": file.name, "sha256": _digest(file), "rows": pq.read_metadata(file).num_rows}
    return Data(
        source, file, f"{file.name}, {key['rows']:,} rows, given", {**key, "synthetic": False}
    )


def _require(file: Path) -> None:
    if not file.is_file():
        raise DataError(f"{file} is not a file; convert the original with labeldp datasets first")


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
