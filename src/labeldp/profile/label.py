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
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.stats import rankdata

from labeldp.data.columns import is_text, to_float, value_type
from labeldp.data.labels import present, to_labels
from labeldp.data.source import Source, scan
from labeldp.errors import DataError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features

Array = NDArray[np.float64]

WARNING = (
    "FOR THE CURATOR ONLY: what is said of the label is computed from raw labels and is NOT "
    "private. Do not publish it; choose the range from what everybody knows about the label."
)
_SAME = 0.999
"""A correlation or an R² above this: the label stands among the features."""
_FEWEST_ROWS, _FEWEST_BESIDE = 50, 5
"""Rows of a table, and on each side of a threshold, from which agreement is no chance."""
_CHANCE = math.log(1e-6)
_ATOM = 0.05
"""Share of rows from which one value of the label that a column tells exactly is reported."""
_MOST_ROWS, _MOST_CELLS = 50_000, 20_000_000
_LARGEST = 1e290
"""Labels beyond are no numbers to reckon with."""
_SHOWN = 5
_NO_FEATURES = ("id", "text", "constant")


def describe_label(
    source: Source, table: pa.Table, columns: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return facts about the labels of the first rows, and about columns that repeat them.

    Of these only the columns to drop, and that labels are missing, reach the options.
    """
    labels, unreadable, texts, missing = _read(source, table.num_rows)
    known = np.flatnonzero(~np.isnan(labels))
    used = [each["name"] for each in columns if each["kind"] not in _NO_FEATURES]
    rows = known[:: max(1, len(known) // _MOST_ROWS)]
    copies = {}
    for name in used:
        why = _copy(table[name].take(pa.array(rows)), labels[rows])
        if why is not None:
            copies[name] = why
    kinds = {
        kind: [each["name"] for each in columns if each["advice"] == kind]
        for kind in ("numeric", "categorical")
    }
    others = [name for name in used if name not in copies]
    design = _design(table.select(others), labels, known, kinds) if others and len(known) else {}
    return {
        "name": str(source.label),
        "warning": WARNING,
        "rows": table.num_rows,
        "missing": missing,
        "unreadable": unreadable,
        "texts": texts,
        "about": _coarse_range(labels[known]),
        "copies": copies,
        "parts": design.pop("parts", []),
        "r_squared": None,
        **design,
    }


def _read(source: Source, rows: int) -> tuple[Array, int, list[str], int]:
    """Return the labels of the first rows, and how many are no numbers or missing.

    Also some texts among them, but none with a digit: that may be a number misspelt.
    """
    labels, texts, unreadable, missing, seen = [], set[str](), 0, 0, 0
    for batch in source.reader.batches([str(source.label)], source.batch_rows):
        raw = batch.column(0)[: rows - seen]
        values, _ = to_labels(raw, source.wording)
        there = present(raw, source.wording).to_numpy(zero_copy_only=False)
        unread = there & ~(np.abs(values) <= _LARGEST)
        labels.append(np.where(unread, np.nan, values))
        missing += int((~there).sum())
        unreadable += int(unread.sum())
        if is_text(value_type(raw.type)):
            strange = pc.unique(raw.cast(pa.string()).filter(pa.array(unread)))
            texts |= {
                *strange.filter(pc.invert(pc.match_substring_regex(strange, r"\d"))).to_pylist()
            }
        seen += len(raw)
        if seen >= rows:
            break
    return np.concatenate(labels), unreadable, sorted(texts)[:_SHOWN], missing


def _copy(values: pa.ChunkedArray, labels: Array) -> str | None:
    """Return how a column tells the labels, in words; None if it does not."""
    ordered = not is_text(values.type)
    x = to_float(values.combine_chunks(), "") if ordered else _ordered_levels(values, labels)
    filled = ~np.isnan(x)
    groups, own, blank = x[filled], labels[filled], (~filled).astype(float)
    if ordered and _correlation(groups, own) > _SAME:
        return "is the label in other units"
    if ordered and _correlation(rankdata(groups), rankdata(own)) > _SAME:
        return "orders the rows as the label does"
    directions = (groups, -groups) if ordered else (groups,)
    if any(_separates(each, own, ordered=ordered) for each in directions):
        return "tells in which part of its range a label lies"
    if _separates(blank, labels) or _separates(-blank, labels):
        return "is missing in one part of the label's range"
    if _tells_one_value(groups, own) or _tells_one_value(blank, labels):
        return "tells exactly which labels have one certain value"
    return None


def _ordered_levels(texts: pa.ChunkedArray, labels: Array) -> Array:
    """Return levels as numbers in the order of their mean labels, NaN for missing."""
    codes = texts.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    places = np.full(len(codes), np.nan)
    filled = ~np.isnan(codes.astype(float))
    if not filled.any():
        return places
    index = codes[filled].astype(np.int64)
    means = np.bincount(index, labels[filled]) / np.maximum(np.bincount(index), 1)
    places[filled] = np.argsort(np.argsort(means))[index]
    return places


def _correlation(x: Array, y: Array) -> float:
    """Return the absolute correlation; 0 where there is none."""
    if len(x) < _FEWEST_BESIDE * 2 or not (x.std() > 0 and y.std() > 0):
        return 0.0
    return abs(float(np.corrcoef(x, y)[0, 1]))


def _ranges(groups: Array, labels: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """Return where each group begins, and the smallest and largest label of each."""
    order = np.argsort(groups, kind="stable")
    ordered, own = groups[order], labels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return starts, np.minimum.reduceat(own, starts), np.maximum.reduceat(own, starts)


def _separates(groups: Array, labels: Array, *, ordered: bool = True) -> bool:
    """Return whether the label ranges of successive groups do not overlap: bins, thresholds, ranks.

    One boundary at least must be strict, with a few rows on both sides. Where the groups were
    ordered by their labels, small groups of equal labels may do so by chance.
    """
    if len(groups) < _FEWEST_ROWS:
        return False
    starts, low, high = _ranges(groups, labels)
    if len(starts) < 2 or np.any(high[:-1] > low[1:]):
        return False
    beside = np.minimum(starts[1:], len(groups) - starts[1:])
    if not np.any((high[:-1] < low[1:]) & (beside >= _FEWEST_BESIDE)):
        return False
    commonest = np.unique(labels, return_counts=True)[1].max() / len(labels)
    return ordered or bool((len(groups) - len(starts)) * math.log(commonest) < _CHANCE)


def _tells_one_value(groups: Array, labels: Array) -> bool:
    """Return whether one group is just the rows of one frequent label, such as 0."""
    if len(groups) < _FEWEST_ROWS:
        return False
    starts, low, high = _ranges(groups, labels)
    sizes = np.diff(np.r_[starts, len(groups)])
    shares = sizes / len(groups)
    likely = (low == high) & (shares >= _ATOM) & (shares <= 1 - _ATOM)
    return any(np.sum(labels == low[k]) == sizes[k] for k in np.flatnonzero(likely))


def _coarse_range(labels: Array) -> list[float] | None:
    """Return ends so coarse that they say no more than the order of magnitude."""
    if not len(labels):
        return None
    low, high = np.quantile(labels, [0.01, 0.99])
    return [-_coarse(-float(low)) if low < 0 else 0.0, _coarse(float(high))]


def _coarse(value: float) -> float:
    if value <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def _design(
    table: pa.Table, labels: Array, known: NDArray[np.int64], kinds: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return what a fit with all labels and the leverages of some rows show.

    A row's leverage is what its label can move in a fit, and so what privacy costs.
    """
    rows = known[:_MOST_ROWS]
    there: dict[str, Any] = {
        kind: [name for name in names if name in table.column_names]
        for kind, names in kinds.items()
    }
    try:
        source = scan(table.take(pa.array(rows)), **there)
        features = fit_features(source)
        rows = rows[: max(1, _MOST_CELLS // max(1, len(features.names)))]
        design = features.design(table.take(pa.array(rows)))
    except DataError:  # no column varies
        return {}
    if len(rows) < 2 * design.shape[1]:
        return {}
    gram = design.T @ design
    inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
    leverage = np.einsum("ij,ij->i", design @ inverse, design)
    centred = labels[rows] - labels[rows].mean()
    total, cross = float(centred @ centred), design.T @ centred
    explained = float(cross @ inverse @ cross) / total if total > 0 else None
    costly = np.argsort(-leverage)[:_SHOWN]
    return {
        "r_squared": explained,
        "parts": [] if explained is None else _parts(features, gram, cross, total),
        "design_columns": design.shape[1],
        "rank": int(np.linalg.matrix_rank(gram, tol=1e-10 * float(np.trace(gram)), hermitian=True)),
        "costly_rows": [
            {
                "row": int(rows[row]) + 1,
                "leverage": float(leverage[row]),
                "column": features.names[int(np.argmax(design[row] * (inverse @ design[row])))],
            }
            for row in costly
        ],
        "rare_levels": _rare_levels(features, design),
    }


def _parts(features: FeatureMap, gram: Array, cross: Array, total: float) -> list[str]:
    """Return columns without which the label no longer follows from the features.

    The column that explains most is taken out until R² is no longer near 1: a label that is the
    sum of others is published with them.
    """
    owners = [""] * features.intercept
    owners += [column.name for column in features.numeric for _ in column.design_names]
    owners += [column.name for column in features.categorical for _ in range(column.size)]
    parts = list[str]()
    while len(parts) < len(features.columns):
        kept = [k for k, owner in enumerate(owners) if owner not in parts]
        if _explained(gram, cross, total, kept) <= _SAME:
            return parts
        left = {
            column: _explained(gram, cross, total, [k for k in kept if owners[k] != column])
            for column in features.columns
            if column not in parts
        }
        parts.append(min(left, key=lambda column: left[column]))
    return parts


def _explained(gram: Array, cross: Array, total: float, kept: list[int]) -> float:
    inverse = np.linalg.pinv(gram[np.ix_(kept, kept)], rcond=1e-10, hermitian=True)
    return float(cross[kept] @ inverse @ cross[kept]) / total


def _rare_levels(features: FeatureMap, design: Array) -> list[dict[str, Any]]:
    """Return the levels with the fewest rows: their leverage is near one over the rows."""
    places = range(len(features.names) - sum(features.category_sizes), len(features.names))
    counts = {features.names[k]: int(np.count_nonzero(design[:, k])) for k in places}
    rarest = sorted(counts, key=lambda name: counts[name])[:_SHOWN]
    return [{"level": name, "rows": counts[name]} for name in rarest]
