"""What the label column holds beside the features: from raw labels, for the curator only.

Above all, which features repeat the label: features are published as they are, so a copy of the
label in other units, its logarithm, rank, threshold or bins would publish labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import rankdata

from labeldp.data.columns import column_floats, is_text_type
from labeldp.data.source import Source, scan
from labeldp.errors import DataError, InputError
from labeldp.features.fit import fit_features

Array = NDArray[np.float64]

CURATOR_WARNING = (
    "FOR THE CURATOR ONLY: these facts about the label come from raw labels and are NOT private. "
    "Do not publish them; choose the range from what everybody knows about the label."
)
_SAME = 0.999  # a correlation or an R² above this: the label stands among the features
_CLOSE = 0.95  # a rank correlation above this asks whether a column is public
_FEWEST_ROWS, _FEWEST_BESIDE = 50, 5
"""Rows of a table, and on each side of a threshold, from which agreement is no chance."""
_CHANCE = math.log(1e-6)
_ATOM = 0.05
"""Share of rows from which one value of the label that a column tells exactly is reported."""
_MOST_ROWS, _MOST_CELLS, _MOST_NUMBERS = 50_000, 4_000_000, 60
_LARGEST = 1e290  # labels beyond are no numbers to reckon with
_SHOWN = 5


def describe_label(
    source: Source, table: pa.Table, columns: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return facts about the labels of the first rows, and about columns that repeat them.

    Of these only the columns to drop, and that labels are missing, reach the options.
    """
    labels, unreadable, missing = _read(source, table.num_rows)
    known = np.flatnonzero(~np.isnan(labels))
    known = known[:: max(1, len(known) // _MOST_ROWS)]
    used = [each["name"] for each in columns if each["kind"] not in ("id", "constant")]
    some, own = table.select(used).take(pa.array(known)), labels[known]
    copies, close, numbers = {}, [], {}
    for name in used if len(known) else ():
        ordered = not is_text_type(some[name].type)
        values = some[name].combine_chunks()
        x = column_floats(values, name) if ordered else _levels(values, own)
        why = _copy(x, own, ordered=ordered)
        if why is not None:
            copies[name] = why
        elif ordered:
            numbers[name] = x
            filled = ~np.isnan(x)
            if _correlation(rankdata(x[filled]), rankdata(own[filled])) > _CLOSE:
                close.append(name)
    parts = _parts(numbers, own)
    gone = {*copies, *parts}
    explained, facts = _fit(some.drop_columns([*gone]), own, known + 1)
    return {
        "name": str(source.label),
        "warning": CURATOR_WARNING,
        "rows": table.num_rows,
        "missing": missing,
        "unreadable": unreadable,
        "copies": copies,
        "close": close,
        "parts": parts,
        "r_squared": explained,
        "facts": [("missing labels", f"{missing:,}"), *facts],
    }


def _read(source: Source, rows: int) -> tuple[Array, int, int]:
    """Return the labels of the first rows, how many are no numbers, and how many are missing."""
    labels, unreadable, missing, seen = [], 0, 0, 0
    for batch in source.reader.batches([str(source.label)], source.batch_rows):
        raw = batch.column(0)[: rows - seen]
        values, _ = source.label_parser.parse(raw)
        there = source.label_parser.has_label(raw).to_numpy(zero_copy_only=False)
        unread = there & ~(np.abs(values) <= _LARGEST)
        labels.append(np.where(unread, np.nan, values))
        missing += int((~there).sum())
        unreadable += int(unread.sum())
        seen += len(raw)
        if seen >= rows:
            break
    return np.concatenate(labels), unreadable, missing


def _copy(x: Array, labels: Array, *, ordered: bool) -> str | None:
    """Return how a column tells the labels, in words; None if it does not."""
    filled = ~np.isnan(x)
    groups, own = x[filled], labels[filled]
    ranks = _correlation(rankdata(groups), rankdata(own))
    if ordered and max(_correlation(groups, own), ranks) > _SAME:
        return "is the label in other units or ranks"
    # A gap can tell of a label as much as a value can.
    if _told(groups, own, by_chance=not ordered) or _told((~filled).astype(float), labels):
        return "tells between which values labels lie"
    return None


def _levels(texts: pa.Array, labels: Array) -> Array:
    """Return levels as numbers in the order of their mean labels, NaN for missing."""
    coded = texts.dictionary_encode().indices
    codes = np.array(coded.cast(pa.float64()).to_numpy(zero_copy_only=False))
    filled = ~np.isnan(codes)
    if filled.any():
        index = codes[filled].astype(np.int64)
        means = np.bincount(index, labels[filled]) / np.bincount(index)
        codes[filled] = rankdata(means, "ordinal")[index]
    return codes


def _correlation(x: Array, y: Array) -> float:
    """Return the absolute correlation; 0 where there is none."""
    if len(x) < _FEWEST_BESIDE * 2 or not (x.std() > 0 and y.std() > 0):
        return 0.0
    return abs(float(np.corrcoef(x, y)[0, 1]))


def _told(groups: Array, labels: Array, *, by_chance: bool = False) -> bool:
    """Return whether groups separate the labels, or one is just those of one value.

    They separate them if the label ranges of successive groups do not overlap: bins, thresholds,
    ranks. One boundary at least must be strict, with a few rows on both sides. Where the groups
    were ordered by their labels, small groups of equal labels may do so by chance. The one value
    is a frequent one, such as 0.
    """
    rows = len(groups)
    if rows < _FEWEST_ROWS:
        return False
    order = np.argsort(groups, kind="stable")
    ordered, own = groups[order], labels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    low, high = np.minimum.reduceat(own, starts), np.maximum.reduceat(own, starts)
    has_rows_beside = np.minimum(starts[1:], rows - starts[1:]) >= _FEWEST_BESIDE
    rises = np.all(high[:-1] <= low[1:]) and np.any((high[:-1] < low[1:]) & has_rows_beside)
    falls = np.all(low[:-1] >= high[1:]) and np.any((low[:-1] > high[1:]) & has_rows_beside)
    commonest = np.unique(labels, return_counts=True)[1].max() / rows
    is_chance = by_chance and (rows - len(starts)) * math.log(commonest) >= _CHANCE
    sizes = np.diff(np.r_[starts, rows])
    likely = (low == high) & (sizes >= _ATOM * rows) & (sizes <= (1 - _ATOM) * rows)
    one_value = any(np.sum(labels == low[k]) == sizes[k] for k in np.flatnonzero(likely))
    return bool((rises or falls) and not is_chance) or one_value


def _parts(numbers: Mapping[str, Array], labels: Array) -> list[str]:
    """Return columns of which the label is made: as a sum, a difference, a product or a ratio."""
    filled = {name: np.nan_to_num(x) for name, x in [*numbers.items()][:_MOST_NUMBERS]}
    parts, positive = _summands(filled, labels), labels > 0
    logs = {
        name: np.log(x[positive])
        for name, x in filled.items()
        if name not in parts and np.all(x[positive] > 0)
    }
    return [*parts, *_summands(logs, np.log(labels[positive]))]


def _summands(numbers: Mapping[str, Array], labels: Array) -> list[str]:
    """Return columns without which a linear fit of the labels is not exact, the largest first."""
    columns = {name: x - x.mean() for name, x in numbers.items() if len(x) and x.std() > 0}
    if len(labels) < _FEWEST_ROWS or not labels.std() > 0:
        return []
    parts = list[str]()
    while columns:
        matrix = np.column_stack([x / x.std() for x in columns.values()])
        slopes = np.linalg.lstsq(matrix, labels - labels.mean(), rcond=1e-6)[0]
        if _correlation(matrix @ slopes, labels) ** 2 <= _SAME:
            break
        parts.append([*columns][int(np.argmax(np.abs(slopes)))])
        del columns[parts[-1]]
    return parts


def _fit(
    table: pa.Table, labels: Array, row_numbers: NDArray[np.int64]
) -> tuple[float | None, list[tuple[str, str]]]:
    """Return what a fit with all labels explains, and which rows and levels cost privacy.

    A row's leverage is what its label can move in a fit, and so what privacy costs. That of a
    level's rows is near one over their number.
    """
    try:
        features = fit_features(scan(table))
        rows = min(table.num_rows, _MOST_CELLS // max(1, len(features.names)))
        design = features.design(table.slice(0, rows))
    except (DataError, InputError):  # no column is left, or none varies
        return None, []
    if rows < 2 * design.shape[1]:
        return None, []
    gram = design.T @ design
    inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
    leverage = np.einsum("ij,ij->i", design @ inverse, design)
    centred = labels[:rows] - labels[:rows].mean()
    total, cross = float(centred @ centred), design.T @ centred
    explained = float(cross @ inverse @ cross) / total if total > 0 else None
    rank = np.linalg.matrix_rank(gram, tol=1e-10 * float(np.trace(gram)), hermitian=True)
    facts = [
        ("R² of a quick fit", "–" if explained is None else f"{explained:.3f}"),
        ("design columns, rank", f"{design.shape[1]}, {rank}"),
    ]
    for row in np.argsort(-leverage)[:_SHOWN]:
        cause = features.names[int(np.argmax(design[row] * (inverse @ design[row])))]
        told = f"row {row_numbers[row]:,}: {leverage[row]:.2g}, because of {cause}"
        facts.append(("largest leverages", told))
    levels = features.names[len(features.names) - sum(features.category_sizes) :]
    counts = np.count_nonzero(design[:, -len(levels) :], axis=0) if levels else np.empty(0)
    for place in np.argsort(counts, kind="stable")[:_SHOWN]:
        facts.append(("rarest levels", f"{levels[place]}: {counts[place]:,} rows"))
    return explained, facts
