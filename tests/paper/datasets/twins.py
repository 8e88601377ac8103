"""Slow obvious readers, and tables as plain values."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tests.realdata import real

POSITIONS = {
    "AGE": (74, 76), "SEX": (73, 73), "MARST": (79, 79), "CHBORN": (83, 84), "SCHOOL": (127, 127),
    "EMPSTAT": (138, 138), "OCC": (142, 145), "IND": (149, 152), "WKSWORK1": (159, 160),
}  # fmt: skip


def rows_of(source: Path | Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """A table as rows, whatever its types of columns."""
    if isinstance(source, Path):
        rows: list[dict[str, Any]] = pq.read_table(source).to_pylist()
        return rows
    return [row for batch in source for row in batch.to_pylist()]


def person(line: str, positions: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """One record, cut by hand."""
    values = {name: int(line[a - 1 : b]) for name, (a, b) in positions.items()}
    return {n: v if n in ("AGE", "WKSWORK1") else str(v) for n, v in values.items()}


def published_positions() -> dict[str, tuple[int, int]]:
    """The same positions from the published layout."""
    with real("layouts/EXT1940USCB_layout.csv").open(newline="") as file:
        return {
            row["variable"]: (int(row["start"]), int(row["end"]))
            for row in csv.DictReader(file)
            if row["rectype"] == "P"
        }


def criteo_table(text: str, base: float) -> list[dict[str, Any]]:
    """The paper's Criteo table, one row and one cell at a time."""
    kept = [c for c in (line.split("\t") for line in text.splitlines()) if float(c[1]) != -1]
    numeric = {"time_delay_for_conversion": 2, "nb_clicks_1week": 4, "product_price": 5}
    levels = {
        "product_age_group": 6, "product_category_1": 11, "product_category_7": 17,
        "product_country": 18, "product_gender": 9,
    }  # fmt: skip
    counts = {name: Counter(cells[i] for cells in kept) for name, i in levels.items()}
    means = {}
    for name, i in numeric.items():
        known = [float(cells[i]) for cells in kept if float(cells[i]) != -1]
        means[name] = math.fsum(known) / len(known)

    def bend(value: float) -> float:
        return math.log(value, base) ** 2 if value > 2 else value

    rows = []
    for cells in kept:
        row: dict[str, Any] = {}
        for name, i in numeric.items():
            value = float(cells[i])
            row[name] = bend(means[name] if value == -1 else value)
        for name, i in levels.items():
            rare = cells[i] == "-1" or counts[name][cells[i]] <= 5
            row[name] = "missing or rare" if rare else cells[i]
        row["SalesAmountInEuro"] = bend(float(cells[1]))
        rows.append(row)
    return rows


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal rows, floats up to rounding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float):
                assert math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9), name
            else:
                assert value == other[name], name


def residual(batches: Iterable[pa.RecordBatch], label: str) -> tuple[float, int, NDArray[Any]]:
    """Mean square that least squares leaves, number of feature columns (one per level), labels."""
    table = pa.Table.from_batches(list(batches)).unify_dictionaries()
    blocks: list[tuple[NDArray[Any], NDArray[Any], int]] = []
    width = 0
    for name in table.column_names:
        column = table[name].combine_chunks()
        if name == label:
            continue
        if pa.types.is_dictionary(column.type):
            codes, size = column.indices.to_numpy().astype(np.int64), len(column.dictionary)
            assert len(np.unique(codes)) == size, f"every level of {name} occurs"
            blocks.append((codes + width, np.ones(len(codes)), size))
        else:
            values = column.to_numpy().astype(float)
            blocks.append((np.full(len(values), width), values, 1))
        width += blocks[-1][2]
    y = table[label].to_numpy().astype(float)
    gram, moment = np.zeros((width, width)), np.zeros(width)
    for i, u, _ in blocks:
        moment += np.bincount(i, u * y, minlength=width)
        for j, v, _ in blocks:
            gram += np.bincount(i * width + j, u * v, minlength=width**2).reshape(width, width)
    fit = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) @ moment
    predicted = sum(fit[i] * u for i, u, _ in blocks)
    return float(np.mean((y - predicted) ** 2)), width, y
