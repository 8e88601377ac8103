"""Carrying out sampled-wtd-FLAg: one pass for the rows of the bags, one aggregate of each.

Given the published bags, bag j's aggregate (Z_j, t_j) = Σ w·(x, y) has Z_j = Σ w·x, drawn with
secret weights, and t_j | Z_j ~ N(Z_j·β̂_j, σ_j²) (theory §3a with one aggregate): the labels
enter through β̂_j and σ_j alone, and t_j goes through the door.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import door
from labeldp._random import Randomness
from labeldp.certificate import FloorOutcome
from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.features import Encoded, FeatureMap
from labeldp.mechanisms.bags import BagRows, members_table
from labeldp.mechanisms.fields import (
    CONTRADICTION,
    OTHER_FEATURES,
    certifier,
    check_label_range,
)
from labeldp.mechanisms.floors import settle_floor
from labeldp.mechanisms.label_law import LabelLaw
from labeldp.mechanisms.protocol import Draft
from labeldp.mechanisms.sampled_flag.bagwise import bag_factor, bag_leverage
from labeldp.mechanisms.sampled_flag.claim import SampledFlagClaim
from labeldp.mechanisms.sampled_flag.eigenvalue import check_eigenvalue
from labeldp.release import Drawing, aggregate_batch, aggregate_schema
from labeldp.source import Source
from labeldp.statistics import Factor, LabelGrid, MomentSum, Residual
from labeldp.survey import inflation_for

Labels = NDArray[np.float64]

_KEPT = 2_000_000
"""Numbers in the factors of bags that may stay in memory between two looks: some 200 MB."""


def run(draft: Draft, source: Source, engine: Engine, randomness: Randomness) -> Drawing:
    """One pass over features and labels, then the bags one by one."""
    claim, features, labels = draft.claim, draft.features, draft.labels
    assert isinstance(claim, SampledFlagClaim)
    check_label_range(labels, source)
    check_promise(claim, features, labels)
    randomness.spend()
    rows = BagRows(features, claim.draw)
    values = rows.read_labelled(source, engine)
    if rows.digest() != draft.feature_sums:
        raise PlanError(OTHER_FEATURES)
    bags = _Bags(claim, features, labels, rows, values)
    outcome = bags.settle(source, engine, randomness)
    grid = door.grid_for(math.sqrt(claim.floor))
    schema, bag_table = (
        aggregate_schema(features, source.label or "label"),
        members_table(claim.draw),
    )

    def batches() -> Generator[pa.RecordBatch, None, None]:
        with engine.progress("aggregates", claim.bags) as advance:
            drawn = []
            for aggregate in bags.draw(outcome.added_variance, grid, randomness):
                drawn.append(aggregate)
                advance(1)
        design, sums = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        yield aggregate_batch(schema, design * features.scales[list(features.kept or ())], sums)

    certificate = certifier(draft, outcome, source, grid, randomness, bag_table)
    return Drawing(features, schema, batches(), certificate, bag_table)


def check_promise(claim: SampledFlagClaim, features: FeatureMap, labels: LabelGrid) -> None:
    """What must hold before a label is read: the plan is sound and is for these labels."""
    sound = (
        labels == LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
        and claim.facts.label_range == labels.range
        and claim.facts.centred <= (features.intercept and 0 in (features.kept or ()))
        and claim.draw.rows == features.rows
        and (claim.facts.rows, claim.bags) == (claim.draw.bag_size, claim.draw.bags)
        and claim.rank == len(features.names)
        and (claim.promise is not None) == (claim.accountant == "paper")
        and claim.floor == claim.expected_floor
        and claim.delta_at(claim.epsilon) <= claim.delta
    )
    if not sound:
        raise PlanError(CONTRADICTION)


class _Bags:
    """The bags with their labels: private, so it prints as nothing."""

    def __init__(
        self,
        claim: SampledFlagClaim,
        features: FeatureMap,
        labels: LabelGrid,
        rows: BagRows,
        values: Labels,
    ) -> None:
        self._claim, self._features, self._labels = claim, features, labels
        self._rows, self._values = rows, values
        self._fits: list[tuple[Factor, Residual]] = []

    def __repr__(self) -> str:
        return "_Bags(private)"

    def settle(self, source: Source, engine: Engine, randomness: Randomness) -> FloorOutcome:
        """Check every bag's public facts again and establish the floor under them all."""
        claim = self._claim
        smallest: list[Residual] = []
        with engine.progress("residuals of bags", claim.bags) as advance:
            for bag, values in zip(self._rows, self._values, strict=True):
                factor = self._factor(bag)
                residual = self._residual(factor, bag, values)
                if claim.bags * factor.rank**2 <= _KEPT:
                    self._fits.append((factor, residual))
                least = min(kept.square_high for kept in (*smallest, residual))
                smallest = [r for r in (*smallest, residual) if r.square_low <= least]
                advance(1)
        if claim.promise is not None:
            check_eigenvalue(
                claim.promise.min_eigenvalue, self._features, self._labels, source, engine
            )
            return FloorOutcome()
        return settle_floor(claim, smallest, self._labels, randomness)

    def draw(
        self, added_variance: float, grid: int, randomness: Randomness
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """One aggregate of every bag: integer design columns, and the label."""
        features, labels = self._features, self._labels
        place = {column: at for at, column in enumerate(features.kept or ())}
        for number, (bag, values) in enumerate(zip(self._rows, self._values, strict=True)):
            factor, residual = self._fit(number, bag, values)
            law = LabelLaw(residual, labels, added_variance, features.intercept)
            weights = randomness.features.standard_normal(bag.rows)
            total = (weights @ features.integers(bag))[None, :]
            independent = total[:, [place[column] for column in factor.kept]]
            mean, error = law.means(independent)
            codes = door.publish(
                mean,
                error,
                law.std,
                grid - labels.exponent,
                randomness,
                law.exact_at(independent),
            )
            yield total, np.ldexp(codes, labels.exponent)

    def _fit(self, number: int, bag: Encoded, values: Labels) -> tuple[Factor, Residual]:
        """A bag's regression, again or from memory."""
        if len(self._fits) == self._claim.bags:
            return self._fits[number]
        factor = bag_factor(self._features, bag)
        return factor, self._residual(factor, bag, values)

    def _factor(self, bag: Encoded) -> Factor:
        """A bag's factor, and that the plan's facts hold of it."""
        facts, factor = self._claim.facts, bag_factor(self._features, bag)
        leverage = bag_leverage(self._features, factor, bag)
        same = (
            factor.rank <= (facts.features or 0)
            and inflation_for(factor) <= facts.inflation
            and (facts.max_leverage is None or leverage <= facts.max_leverage)
        )
        if not same:
            raise PlanError(OTHER_FEATURES)
        return factor

    def _residual(self, factor: Factor, bag: Encoded, values: Labels) -> Residual:
        sums = MomentSum(self._features, self._labels)
        sums.add(bag, values)
        return Residual(factor, sums.total())
