"""What the curator sees of a table before deciding anything: uses raw labels, not private."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from labeldp.common.arguments import checked, refuse_unknown
from labeldp.data.source import as_source
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.features.feature_map import FeatureMap
from labeldp.features.formula import named_label
from labeldp.mechanisms.design_summary import DesignSummary, summarize_design
from labeldp.mechanisms.options import Encoding, check_budget, make_options, names
from labeldp.mechanisms.registry import mechanisms
from labeldp.passes.engine import Engine, engine_for

_SHOWN = 8
_SAME = 0.999


@checked
def inspect(
    source: Any,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    engine: Engine | None = None,
    **encoding: Any,
) -> dict[str, Any]:
    """Facts about the table, some from raw labels: for the curator's eyes only.

    Parameters
    ----------
    source
        what `scan` made, or a path or a frame.
    label
        the private column, where `source` is a path or a frame.
    label_range
        (low, high), public, likewise.
    epsilon
        the privacy budget ε that mechanisms are asked about.
    delta
        the privacy budget δ.
    engine
        where data are read; changes speed, never a result.
    encoding
        those keywords of `plan` that say how columns are encoded.

    Returns
    -------
    dict[str, Any]
        Plain values: size, rank, residual and R² (private!), costly levels and rows, notes.

    Raises
    ------
    InputError
        an argument is wrong.
    DataError
        the table is not what was said.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> found = labeldp.inspect(table, label="income", label_range=(0, 100))
    >>> found["rows"], found["rank"]
    (1000, 2)
    """
    check_budget(epsilon, delta)
    refuse_unknown("inspect", encoding, dict.fromkeys(names(Encoding)))
    named = label or named_label(source, encoding.get("formula"))
    source = as_source(source, label=named, label_range=label_range)
    engine = engine or engine_for(source)
    found = summarize_design(source, engine=engine, encoding=make_options(Encoding, encoding))
    sums = GramAccumulator(found.features), LabelCrossProducts(found.features, found.labels)
    gram, moments = engine.run_pass("label sums", source, *sums)
    residual = ExactLeastSquares(found.factor, moments)
    unit = math.ldexp(1.0, 2 * found.labels.exponent)
    residual_ss = float(residual.square_low) * unit
    label_ss = _label_ss(moments) * unit
    return {
        "rows": gram.rows,
        "features": len(found.features.all_names),
        "rank": found.factor.rank,
        "residual_ms": residual_ss / gram.rows,
        "r_squared": 1 - residual_ss / label_ss if label_ss else None,
        "max_leverage": found.leverage.maximum,
        "epsilon": epsilon,
        "delta": delta,
        **_mechanisms(found, residual_ss, epsilon, delta),
        "columns": _columns(found.features),
        "costliest_levels": _rarest(found.features, gram),
        "costliest_rows": [
            {"row": costly.row, "leverage": costly.leverage, "column": costly.column}
            for costly in found.leverage.costliest
        ],
        "notes": [*found.notes, *_leaks(found.features, gram, moments, residual_ss / label_ss)]
        if label_ss
        else list(found.notes),
    }


def _leaks(
    features: FeatureMap, gram: FeatureGram, moments: LabelMoments, unexplained: float
) -> Iterator[str]:
    """Signs that the label stands among the features, in other units or in pieces."""
    if features.intercept:
        for name, place in zip(features.all_names[1:], range(1, features.width), strict=True):
            if abs(_correlation(gram, moments, place)) > _SAME:
                yield f"{name} is the label in other units: is it a feature? (for the curator only)"
    if unexplained < 1 - _SAME:
        yield "R² is near 1: is the label among the features? (for the curator only)"


def _correlation(gram: FeatureGram, moments: LabelMoments, place: int) -> float:
    """Of a design column and the label, by exact sums around the means."""
    sums = gram.exact([0, place])
    square = sums[1, 1] * gram.rows - sums[0, 1] ** 2
    label = moments.square * moments.rows - moments.total**2
    both = moments.cross[place] * moments.rows - sums[0, 1] * moments.total
    return float(both) / math.sqrt(square * label) if square > 0 and label > 0 else 0.0


def _mechanisms(
    found: DesignSummary, residual_ss: float, epsilon: float, delta: float
) -> dict[str, Any]:
    """What each mechanism has to say; where two answer under one name, their answers join."""
    answers: dict[str, Any] = {}
    for mechanism in mechanisms():
        if mechanism.inspection is not None and mechanism.allows(delta):
            answer = mechanism.inspection.answer(found, residual_ss, epsilon, delta)
            for name, value in answer.items():
                answers[name] = answers.get(name, {}) | value
    return answers


def _label_ss(moments: LabelMoments) -> float:
    """Σ(y − ȳ)², or Σy² around the grid's centre where there is no intercept."""
    return float(moments.square - moments.total**2 / moments.rows)


def _columns(features: FeatureMap) -> list[dict[str, Any]]:
    numeric = [
        {"name": column.name, "kind": "numeric", "width": len(column.design_names)}
        for column in features.numeric
    ]
    return numeric + [
        {"name": column.name, "kind": "categorical", "width": column.size}
        for column in features.categorical
    ]


def _rarest(features: FeatureMap, gram: FeatureGram) -> list[dict[str, Any]]:
    """Rare levels have leverage near 1/count: the levels with the fewest rows."""
    counts = gram.diagonal()
    levels = [
        (int(counts[offset + place]), features.all_names[offset + place])
        for offset, size in zip(features.category_offsets, features.category_sizes, strict=True)
        for place in range(size)
    ]
    return [{"level": name, "rows": count} for count, name in sorted(levels)[:_SHOWN]]
