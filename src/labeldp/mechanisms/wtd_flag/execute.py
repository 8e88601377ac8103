"""Carrying out wtd-FLAg: the labels are read once, and leave by the door alone.

Nothing here chooses anything by looking at labels, except through the measured floor,
which is published with noise and priced in the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial

import pyarrow as pa

from labeldp import door
from labeldp._random import Randomness
from labeldp._threads import cores
from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.features import FeatureMap
from labeldp.mechanisms.fields import (
    CONTRADICTION,
    OTHER_FEATURES,
    certifier,
    check_label_range,
)
from labeldp.mechanisms.floors import settle_floor
from labeldp.mechanisms.protocol import Draft
from labeldp.mechanisms.survey import inflation_for
from labeldp.mechanisms.wtd_flag.claim import WeightedFlagClaim
from labeldp.mechanisms.wtd_flag.draw import Aggregates, draw_aggregates, draw_compact
from labeldp.release import Drawing, aggregate_batch, aggregate_schema
from labeldp.source import Source
from labeldp.statistics import (
    Factor,
    GramSum,
    LabelGrid,
    Leverage,
    LeverageScan,
    MomentSum,
    Residual,
    factorise,
)


def run(draft: Draft, source: Source, engine: Engine, randomness: Randomness) -> Drawing:
    """One pass over features and labels, then the draw."""
    claim, features, labels = draft.claim, draft.features, draft.labels
    assert isinstance(claim, WeightedFlagClaim)
    check_label_range(labels, source)
    check_promise(claim, features, labels)
    randomness.spend()
    gram, moments = engine.fold(
        "label sums", source, GramSum(features), MomentSum(features, labels)
    )
    if gram.digest() != draft.feature_sums:
        raise PlanError(OTHER_FEATURES)
    factor = draft.factor
    if factor is None or factor.kept != features.kept_columns or not factor.is_of(gram):
        factor = factorise(gram, features)  # a plan may have been put together by hand
    leverage = engine.fold("leverages", source, LeverageScan(features, factor))
    check_facts(claim, features, factor, leverage)
    residual = Residual(factor, moments)
    outcome = settle_floor(claim, [residual], labels, randomness)
    grid = door.grid_for(math.sqrt(claim.floor))
    schema = aggregate_schema(features, source.label or "label")

    draw: Callable[..., Generator[Aggregates, None, None]] = (
        draw_compact
        if claim.compact
        else partial(draw_aggregates, threads=engine.threads or cores())
    )
    drawn = draw(
        factor,
        residual,
        labels,
        bags=claim.bags,
        scales=features.kept_scales,
        added_variance=outcome.added_variance,
        grid=grid,
        intercept=features.intercept,
        randomness=randomness,
    )

    def batches() -> Generator[pa.RecordBatch, None, None]:
        with closing(drawn), engine.progress("aggregates", claim.bags) as advance:
            for block in drawn:
                yield aggregate_batch(schema, block.features, block.labels)
                advance(len(block.labels))

    certificate = certifier(draft, outcome, source, grid, randomness)
    return Drawing(features, schema, batches(), certificate)


def check_promise(claim: WeightedFlagClaim, features: FeatureMap, labels: LabelGrid) -> None:
    """What must hold before a label is read: the plan is sound and is for these labels."""
    sound = (
        labels == LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
        and claim.facts.label_range == labels.range
        and claim.facts.centred <= (features.constant is not None)
        and claim.facts.rows == features.rows
        and (not claim.compact or claim.bags > (claim.facts.features or 0) + 1)
        and claim.delta_at(claim.epsilon) <= claim.delta
    )
    if not sound:
        raise PlanError(CONTRADICTION)


def check_facts(
    claim: WeightedFlagClaim, features: FeatureMap, factor: Factor, leverage: Leverage
) -> None:
    """The facts that the claim rests on, seen again in the table that is released.

    The digest of the sums does not suffice: tables with equal sums may differ in leverage.
    """
    facts = claim.facts
    same = (
        factor.rows == facts.rows
        and factor.kept == features.kept_columns
        and factor.rank == facts.features
        and inflation_for(factor.defect) <= facts.inflation
        and (facts.max_leverage is None or leverage.maximum <= facts.max_leverage)
    )
    if not same:
        raise PlanError(OTHER_FEATURES)
