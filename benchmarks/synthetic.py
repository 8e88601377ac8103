"""Synthetic tables to measure on: drawn from models, of any size, written as Parquet.

census     like the paper's census table: 1 number, 7 categories with 401 levels
criteo     like its Criteo table: 3 numbers, 5 categories with 68 levels
dense-K    K correlated numbers and no category
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp import Source, scan
from labeldp_paper.datasets.catalogue import DATASETS
from labeldp_paper.datasets.making import synthetic_stream
from labeldp_paper.datasets.writing import write_parquet


@dataclass(frozen=True)
class Table:
    """A synthetic table and the facts about it that a release needs."""

    name: str
    label: str
    label_range: tuple[float, float]
    batches: Callable[[int], Iterator[pa.RecordBatch]]

    def write(self, path: Path, rows: int) -> None:
        write_parquet(self.batches(rows), path, {})

    def source(self, path: Path) -> Source:
        return scan(path, label=self.label, label_range=self.label_range)


def table_named(name: str) -> Table:
    """The table of this name; `dense-16` has sixteen numbers."""
    if name.startswith("dense-"):
        numbers = int(name.removeprefix("dense-"))
        return Table(name, "value", (0.0, 400.0), partial(dense_numbers, numbers=numbers))
    dataset = DATASETS[f"synthetic-{name}"]
    stream = partial(synthetic_stream, dataset.name)
    return Table(name, dataset.label, dataset.label_range, stream)


def dense_numbers(rows: int, numbers: int) -> Iterator[pa.RecordBatch]:
    """Correlated numbers with three decimals, and a label that depends on the first."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(numbers, numbers)) / np.sqrt(numbers)
    for start in range(0, rows, 1 << 17):
        values = rng.normal(size=(min(1 << 17, rows - start), numbers)) @ mix
        noise = rng.normal(scale=20.0, size=len(values))
        columns = {f"x{k}": np.round(values[:, k], 3) for k in range(numbers)}
        columns["value"] = np.clip(np.round(200 + 20 * values[:, 0] + noise, 1), 0, 400)
        yield pa.RecordBatch.from_pydict(columns)
