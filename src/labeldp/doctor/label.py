"""What the label column looks like beside the features: from raw labels, for the curator only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.columns import is_number, to_float
from labeldp.data.labels import to_labels
from labeldp.data.reading import Reading
from labeldp.data.source import Source, scan
from labeldp.doctor.column import Traits
from labeldp.doctor.strays import stray_words
from labeldp.doctor.view import Known, View
from labeldp.errors import DataError
from labeldp.features.fit import fit_features

WARNING = (
    "FOR THE CURATOR ONLY: what is said of the label is computed from raw labels and is NOT "
    "private. Do not publish it; choose the range from what everybody knows about the label."
)
SAME = 0.999
"""A correlation or an R² above this asks whether the label is among the features."""
_MOST_ROWS = 20_000
_MOST_WORDS = 3
Kinds = Mapping[str, Sequence[str]]
"""Columns that are to be numbers, and those that are to be categories."""
_LARGEST = 1e290
"""Labels beyond are no numbers to reckon with."""


def describe_label(view: View, columns: Sequence[Traits]) -> dict[str, Any]:
    """Missing labels, their ends rounded coarsely, and columns that repeat them.

    Nothing of it reaches the options but that some are missing.
    """
    name, table = str(view.source.label), view.table
    labels, unreadable = _read(view.source, name, table.num_rows)
    strange = stray_words(view.source.reader, name, Reading()) if unreadable else []
    far = ~np.isnan(labels) & ~(np.abs(labels) <= _LARGEST)
    labels, unreadable = np.where(far, np.nan, labels), unreadable or bool(far.any())
    known = ~np.isnan(labels)
    used = [c["name"] for c in columns if c["kind"] not in ("id", "text", "constant")]
    numbers = {n: _numbers(table[n]) for n in used if is_number(table[n].type)}
    alike = [n for n, x in numbers.items() if abs(_correlation(x, labels)) > SAME]
    kinds = _kinds(view.known, columns)
    r_squared = _r_squared(table.select(used), labels, kinds) if used and known.any() else None
    return {
        "name": name,
        "warning": WARNING,
        "missing": int((~known).sum()),
        "unreadable": unreadable,
        "about": _about(labels[known]),
        "alike": alike,
        "r_squared": r_squared,
        "words": strange[:_MOST_WORDS],
    }


def _read(source: Source, name: str, rows: int) -> tuple[NDArray[np.float64], bool]:
    """The labels of the first rows, and whether some in the table are no numbers."""
    batches = source.reader.batches([name], source.batch_rows)
    read = [to_labels(batch.column(0), source.wording) for batch in batches]
    labels = np.concatenate([values for values, _ in read])[:rows]
    return labels, any("text" in found for _, found in read)


def _kinds(known: Known, columns: Sequence[Traits]) -> Kinds:
    """What columns are to be: as it is known, and as is advised."""
    return {
        kind: [*known.kinds[kind], *(c["name"] for c in columns if c["advice"] == kind)]
        for kind in ("numeric", "categorical")
    }


def _numbers(values: pa.ChunkedArray) -> NDArray[np.float64]:
    return to_float(values.combine_chunks(), "")


def _about(labels: NDArray[np.float64]) -> list[float] | None:
    """Ends so coarse that they say no more than the order of magnitude."""
    if not len(labels):
        return None
    low, high = np.quantile(labels, [0.01, 0.99])
    return [-_coarse(-float(low)) if low < 0 else 0.0, _coarse(float(high))]


def _coarse(value: float) -> float:
    if value <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 3 or not (x[both].std() > 0 and y[both].std() > 0):
        return 0.0
    return float(np.corrcoef(x[both], y[both])[0, 1])


def _r_squared(table: pa.Table, labels: NDArray[np.float64], kinds: Kinds) -> float | None:
    """Of a fit on some rows, their features encoded as a release would; None for too few rows."""
    rows = np.flatnonzero(~np.isnan(labels))[:_MOST_ROWS]
    table = table.take(arrow_numbers(rows))
    there: dict[str, Any] = {
        kind: [name for name in names if name in table.schema.names]
        for kind, names in kinds.items()
    }
    try:
        source = scan(table, **there)
        design = fit_features(source).design(source)
    except DataError:  # no column varies
        return None
    if len(rows) < 2 * design.shape[1]:
        return None
    y = labels[rows]
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    total = float(((y - y.mean()) ** 2).sum())
    return 1 - float((residual**2).sum()) / total if total > 0 else None
