"""What a dataset says of itself: facts that a release needs, terms, and how its rows are had."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from labeldp.errors import InputError
from labeldp_paper.datasets.reading import Watch

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Options:
    """How to read; each dataset has its own, and refuses the others."""

    codebook: Path | None = None
    columns: tuple[str, ...] = ()
    keep_zero_weeks: bool = False
    log_base: float = 2.0

    def check(self, dataset: Dataset) -> None:
        """Refuse an option that would change nothing."""
        for entry in fields(self):
            changed = getattr(self, entry.name) != entry.default
            if changed and entry.name not in dataset.options:
                raise InputError(f"`{entry.name}` does not apply to {dataset.name}; leave it out")
        if not (math.isfinite(self.log_base) and self.log_base > 1):
            raise InputError(f"`log_base` must be above 1, not {self.log_base}")


@dataclass(frozen=True)
class Model:
    """How synthetic rows are drawn, in values of the original, and written as it is."""

    draw: Callable[[int, int], Batches]
    """So many rows of a seed."""
    write: Callable[[pa.RecordBatch, int, BinaryIO], None]
    """A batch, and the number of rows before it, as the original file has them."""
    ending: str
    """Of the original file's name."""
    prepare: Callable[[Iterable[pa.RecordBatch], Options], Batches] = lambda rows, _: iter(rows)
    """From the values of the original to those of the table."""


@dataclass(frozen=True)
class Dataset:
    """A table that can be made: from original files by `read`, or drawn from a `model`."""

    name: str
    title: str
    needs: str
    licence: str
    label: str
    limits: Callable[[Options], tuple[float, float]]
    """The public range of the labels."""
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    clip: bool = False
    """Whether some labels lie outside the range, so that it needs --clip."""
    options: tuple[str, ...] = ()
    """Options of reading that apply to it."""
    read: Callable[[Sequence[Path], Options, Watch], Batches] | None = None
    needs_files: bool = True
    model: Model | None = None
    rows: int = 1_000_000
    """Rows to generate unless told otherwise; for synthetic data."""
    residual_ms: float | None = None
    """What a linear fit with a column for each level leaves, near enough; for synthetic data."""

    @property
    def label_range(self) -> tuple[float, float]:
        """The range of the labels unless an option changes it."""
        return self.limits(Options())

    @property
    def synthetic(self) -> bool:
        """Whether no original files are read."""
        return self.model is not None

    def facts(self) -> dict[str, Any]:
        """What can be told of it."""
        return {name: getattr(self, name) for name in _FACTS}


_FACTS = (
    "name", "title", "needs", "licence", "label", "label_range", "numeric", "categorical", "clip",
    "options", "synthetic", "rows", "residual_ms",
)  # fmt: skip
