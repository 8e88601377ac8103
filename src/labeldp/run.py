"""Carry out a claim: the labels are read once, and leave by the door alone.

Nothing here chooses anything by looking at labels, except through the measured floor,
which is published with noise and priced in the claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import door
from labeldp._files import json_digest
from labeldp._random import GENERATOR, KEY_BITS, Randomness
from labeldp.accounting import FloorMode, added_variance
from labeldp.certificate import EXPERIMENT, Claim, FloorOutcome, certify
from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.features import FeatureMap
from labeldp.mechanisms import Aggregates, draw_aggregates, measure_residual
from labeldp.release import Release, table_digest
from labeldp.source import Source
from labeldp.statistics import Factor, LabelGrid, Leverage, Residual, factorise
from labeldp.survey import inflation_for


def run(
    claim: Claim,
    features: FeatureMap,
    labels: LabelGrid,
    feature_sums: str,
    source: Source,
    engine: Engine,
    randomness: Randomness,
) -> Release:
    """One pass over features and labels, then the draw."""
    check_promise(claim, features, labels, source)
    randomness.spend()
    gram, moments = engine.labelled_sums(source, features, labels)
    if gram.digest() != feature_sums:
        raise PlanError("the features are not those of the plan; plan again on this table")
    factor = factorise(gram, features)
    check_facts(claim, features, factor, engine.leverage(source, features, factor))
    residual = Residual(factor, moments)
    outcome = settle_floor(claim, residual, labels, randomness)
    grid = door.grid_for(math.sqrt(claim.floor))
    with engine.progress("aggregates", claim.bags) as advance:
        chunks = draw_aggregates(
            factor,
            residual,
            labels,
            bags=claim.bags,
            added_variance=outcome.added_variance,
            grid=grid,
            intercept=features.intercept,
            randomness=randomness,
        )
        table = _table(features, source.label or "label", _told(chunks, advance))
    certificate = certify(
        claim,
        outcome,
        numerics=numerics(labels, grid),
        randomness=randomness_fields(randomness),
        labels={
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
        },
        ledger=None,
        digests={
            "aggregates": table_digest(table),
            "features": json_digest(features.to_json()),
            "feature_sums": feature_sums,
        },
    )
    return Release(table, features, certificate)


def check_promise(claim: Claim, features: FeatureMap, labels: LabelGrid, source: Source) -> None:
    """What must hold before a label is read: the plan is sound and is for these labels."""
    if source.label_range != (labels.low, labels.high):
        raise PlanError(
            f"the plan is for labels from {labels.low:g} to {labels.high:g}; "
            "scan the table with that label range"
        )
    sound = (
        labels == LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
        and claim.facts.label_range == labels.range
        and claim.facts.centred <= (features.intercept and 0 in (features.kept or ()))
        and claim.facts.rows == features.rows
        and claim.delta_at(claim.epsilon) <= claim.delta
    )
    if not sound:
        raise PlanError("the plan contradicts itself; plan again")


def check_facts(claim: Claim, features: FeatureMap, factor: Factor, leverage: Leverage) -> None:
    """The facts that the claim rests on, seen again in the table that is released.

    The digest of the sums does not suffice: tables with equal sums may differ in leverage.
    """
    facts = claim.facts
    same = (
        factor.rows == facts.rows
        and factor.kept == features.kept
        and factor.rank == facts.features
        and inflation_for(factor) <= facts.inflation
        and (facts.max_leverage is None or leverage.maximum <= facts.max_leverage)
    )
    if not same:
        raise PlanError("the features are not those of the plan; plan again on this table")


def settle_floor(
    claim: Claim, residual: Residual, labels: LabelGrid, randomness: Randomness
) -> FloorOutcome:
    """Establish the floor in the claim's way, or refuse (theory §6)."""
    if claim.mode is FloorMode.ADDED:
        return FloorOutcome(added_variance=claim.floor)
    if claim.mode is FloorMode.DECLARED:
        _check_declared(claim, residual, labels)
        return FloorOutcome()
    if claim.measurement is None:
        raise PlanError(f"a {claim.mode.value} floor needs a measurement; plan again")
    noise = claim.measurement.noise(claim.facts.width)
    grid = door.grid_for(noise)
    measured = measure_residual(residual, labels, noise, grid, randomness)
    half_step = math.ldexp(0.5, grid)
    shown = claim.measurement.lower_bound(measured, half_step, claim.facts.width)
    missing = added_variance(claim.floor, shown)
    if claim.mode is FloorMode.MEASURED and missing > 0:
        raise PlanError(
            f"the measured residual shows a sum of squares of {shown**2:.6g}, the plan needs "
            f"{claim.floor:.6g}; ask for fewer bags or use --floor measured+added "
            "(this measurement has spent its part of the budget)"
        )
    return FloorOutcome(measured, shown, missing)


def _check_declared(claim: Claim, residual: Residual, labels: LabelGrid) -> None:
    unit = math.ldexp(1.0, 2 * labels.exponent)
    if float(residual.square_low) * unit * (1 - 2.0**-40) >= claim.floor:
        return
    raise PlanError(
        "the declared residual floor does not hold for these labels (they may even lie in the span "
        "of the features); declare less or use --floor measured+added "
        "(this refusal tells one bit about the labels)"
    )


def numerics(labels: LabelGrid, grid: int) -> dict[str, Any]:
    """How numbers were rounded: all of it public and fixed before labels are read."""
    return {
        "aggregate_labels": "exactly rounded Gaussians on a public grid",
        "grid_exponent": grid,
        "label_exponent": labels.exponent,
        "feature_sums": "exact integers",
        "residual": "rigorous enclosure",
    }


def randomness_fields(randomness: Randomness) -> dict[str, Any]:
    """Which generator, and whether its key was secret."""
    return {
        "generator": GENERATOR,
        "key_bits": KEY_BITS if randomness.private else 0,
        "private": randomness.private,
        "warning": None if randomness.private else EXPERIMENT,
    }


def _told(chunks: Iterator[Aggregates], advance: Any) -> Iterator[Aggregates]:
    for chunk in chunks:
        yield chunk
        advance(len(chunk.labels))


def _table(features: FeatureMap, label: str, chunks: Iterator[Aggregates]) -> pa.Table:
    scales = features.scales[list(features.kept or ())]
    schema = pa.schema([(name, pa.float64()) for name in (*features.names, f"label:{label}")])
    batches = []
    for chunk in chunks:
        columns = [*(chunk.features * scales).T, chunk.labels]
        arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
