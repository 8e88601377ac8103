"""Everything public about a table, from its features alone: three passes, no label read."""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.accounting import Facts
from labeldp.engines import Engine
from labeldp.errors import DataError, InputError
from labeldp.features import FeatureMap, fit_features
from labeldp.source import Source
from labeldp.statistics import Factor, LabelGrid, Leverage, factorise

ROUNDING = 2.0**-30
"""Aggregated features are doubles, not reals: this much more on u and v covers it."""


@dataclass(frozen=True)
class Survey:
    """What a plan needs to know of a table."""

    features: FeatureMap
    factor: Factor
    leverage: Leverage
    labels: LabelGrid
    facts: Facts
    feature_sums: str
    """SHA-256 of the exact feature sums."""
    notes: tuple[str, ...]


def survey(
    source: Source,
    *,
    engine: Engine,
    min_count: int | None = None,
    intercept: bool = True,
    standardise: bool = True,
    indicators: bool = True,
    strict: bool = False,
) -> Survey:
    """Fit the feature map, sum and factorise the features, find the largest leverage."""
    if source.label_range is None:
        raise InputError("the label range is missing; give --label-range LO HI")
    with engine.progress("features", None) as advance:
        features = fit_features(
            source,
            min_count=min_count,
            intercept=intercept,
            standardise=standardise,
            indicators=indicators,
            progress=advance,
        )
    gram = engine.feature_gram(source, features)
    factor = factorise(gram, features)
    dependent = _dependent(features, factor)
    if strict:
        _refuse(_constant(source, features) + dependent)
    leverage = engine.leverage(source, features, factor)
    labels = LabelGrid.for_range(source.label_range, intercept=intercept)
    facts = Facts(
        rows=gram.rows,
        label_range=labels.range,
        features=factor.rank,
        max_leverage=leverage.maximum,
        centred=intercept or bool(features.categorical),
        # a Gram off by a relative `defect` moves u and v by at most twice that much
        inflation=ROUNDING + 2 * factor.defect,
    )
    return Survey(
        features, factor, leverage, labels, facts, gram.digest(), (*features.notes, *dependent)
    )


def _constant(source: Source, features: FeatureMap) -> list[str]:
    return [
        f"feature column {name!r} is constant"
        for name in source.names
        if name not in features.columns
    ]


def _dependent(features: FeatureMap, factor: Factor) -> list[str]:
    """Numeric columns that are duplicates or combinations of others.

    One-hot blocks always lose their baseline level; that is no news.
    """
    kept = set(factor.kept)
    return [
        f"feature column {features.all_names[column]!r} is (nearly) a combination of other columns, left out"
        for column in features.number_columns
        if column not in kept
    ]


def _refuse(left_out: list[str]) -> None:
    if left_out:
        raise DataError(f"{left_out[0]}; --drop it, or run without --strict to leave it out")
