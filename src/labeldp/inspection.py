"""What the curator sees of a table before deciding anything: uses raw labels, not private."""

from __future__ import annotations

import math
from typing import Any

from labeldp.accounting import ACCOUNTANTS, noisy_wtd_lag, sampled_wtd_flag
from labeldp.engines import Engine, engine_for
from labeldp.errors import LabelDPError
from labeldp.features import FeatureMap
from labeldp.mechanisms.sampled_noisy_wtd_lag.sizing import realised_std
from labeldp.mechanisms.survey import Encoding, Survey, survey
from labeldp.source import Source
from labeldp.statistics import FeatureGram, GramSum, LabelMoments, MomentSum, Residual

_SHOWN = 8
_BAG_SIZES = (2, 16, 128)


def inspect(
    source: Source,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    min_count: int | None = None,
    intercept: bool = True,
    max_leverage: float | None = None,
    strict: bool = False,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Facts about the table, some from raw labels: for the curator's eyes only."""
    engine = engine or engine_for(source)
    found = survey(
        source,
        engine=engine,
        encoding=Encoding(
            min_count=min_count, intercept=intercept, max_leverage=max_leverage, strict=strict
        ),
    )
    gram, moments = engine.fold(
        "label sums",
        source,
        GramSum(found.features),
        MomentSum(found.features, found.labels),
    )
    residual = Residual(found.factor, moments)
    unit = math.ldexp(1.0, 2 * found.labels.exponent)
    residual_ss = float(residual.square_low) * unit
    label_ss = _label_ss(moments) * unit
    answers = {}
    for name, accountant in ACCOUNTANTS.items():
        if residual_ss == 0.0:
            answers[name] = {"max_bags": 0, "reason": "the labels lie in the span of the features"}
            continue
        answer = accountant.max_bags(found.facts, residual_ss, epsilon, delta)
        answers[name] = {
            "max_bags": answer.bags,
            **({"reason": answer.reason} if answer.reason else {}),
        }
    return {
        "rows": gram.rows,
        "features": len(found.features.all_names),
        "rank": found.factor.rank,
        "residual_ms": residual_ss / gram.rows,
        "r_squared": 1 - residual_ss / label_ss if label_ss else None,
        "max_leverage": found.leverage.maximum,
        "epsilon": epsilon,
        "delta": delta,
        "accountants": answers,
        "bags": _bags(found, residual_ss / gram.rows, epsilon, delta),
        "columns": _columns(found.features),
        "costliest_levels": _rarest(found.features, gram),
        "costliest_rows": [
            {"row": costly.row, "leverage": costly.leverage, "column": costly.column}
            for costly in found.leverage.costliest
        ],
        "notes": list(found.notes),
    }


def _bags(found: Survey, residual_ms: float, epsilon: float, delta: float) -> dict[str, Any]:
    """What the mechanisms that draw bags would need, for bags like the whole table."""
    facts = found.facts
    smallest: dict[str, Any]
    try:
        least = sampled_wtd_flag.min_bag_size(facts.label_range, residual_ms, epsilon, delta)
        smallest = {"min_bag_size": least}
        if least > facts.rows:
            smallest["reason"] = f"more than the {facts.rows:,} rows of the table; add noise"
    except LabelDPError as problem:
        smallest = {"min_bag_size": None, "reason": str(problem)}
    target = noisy_wtd_lag.target_mu(epsilon, delta)
    noise = {size: realised_std(size, 1.0, facts.width, target) for size in _BAG_SIZES}
    return {
        "sampled-wtd-flag": smallest,
        "sampled-noisy-wtd-lag": {"noise_std": {str(size): std for size, std in noise.items()}},
    }


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
