"""Small synthetic tables for tests."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.data.source import Source, scan

RANGE = (0.0, 10.0)
_FOLDER = tempfile.TemporaryDirectory(prefix="labeldp-tests-")


def csv_of(columns: Mapping[str, Sequence[Any]]) -> Path:
    """These columns in a new text file, where texts may be numbers and dates."""
    path = Path(_FOLDER.name) / f"{len(os.listdir(_FOLDER.name))}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))
    return path


@cache
def table(rows: int = 2000, seed: int = 0, noise: float = 1.0) -> pa.Table:
    """Two numeric columns, two categorical ones, labels within RANGE on a grid of 1/64."""
    rng = np.random.default_rng(seed)
    height = np.round(rng.normal(170, 10, rows), 1)
    score = rng.integers(0, 1000, rows)
    colour = rng.choice(["red", "green", "blue"], rows, p=[0.6, 0.3, 0.1])
    town = rng.choice([f"t{k}" for k in range(6)], rows)
    label = 5 + 0.03 * (height - 170) + 0.5 * (colour == "red") + noise * rng.normal(size=rows)
    return pa.table(
        {
            "height": height,
            "score": score,
            "colour": colour,
            "town": town,
            "label": np.clip(np.round(label * 64) / 64, *RANGE),
        }
    )


@cache
def source(rows: int = 2000, seed: int = 0, noise: float = 1.0, batch_rows: int = 65536) -> Source:
    """The table as a source."""
    return scan(table(rows, seed, noise), label="label", label_range=RANGE, batch_rows=batch_rows)


def with_label(data: pa.Table, row: int, value: float) -> pa.Table:
    """A neighbour: one label replaced."""
    labels = data["label"].to_numpy().copy()
    labels[row] = value
    place = data.column_names.index("label")
    return data.set_column(place, "label", pa.array(labels))


def told(source: Source) -> dict[str, Any]:
    """What is known about a source before its rows are read, all of it public."""
    columns = [(column.name, column.kind, column.type) for column in source.columns]
    reader = {"format": source.reader.format, "files": len(source.reader.paths)}
    options = {name: getattr(source, name) for name in ("label", "label_range", "clip")}
    return {**reader, **options, "rows": source.total_rows, "columns": columns}
