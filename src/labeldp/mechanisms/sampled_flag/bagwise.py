"""Each bag is a small table of its own: its factor, and the facts that all bags share."""

from __future__ import annotations

from labeldp.accounting import Facts, sampled_wtd_flag
from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.features import Encoded, FeatureMap
from labeldp.mechanisms.bags import BagRows
from labeldp.statistics import Factor, GramSum, LabelGrid, LeverageScan, factorise
from labeldp.survey import HEADROOM, inflation_for

_ALLOWANCE = 2.0**-20
"""For rounding: the same for all draws, but for features nearly collinear within a bag."""


def bag_factor(features: FeatureMap, bag: Encoded) -> Factor:
    """The factor of a bag's features; columns that depend on others within the bag are left out.

    Their aggregates are published all the same: given the others they follow from the secret
    weights and the features, never from labels.
    """
    sums = GramSum(features)
    sums.add(bag)
    return factorise(sums.total(), features, saturated=True)


def bag_leverage(features: FeatureMap, factor: Factor, bag: Encoded) -> float:
    """The largest leverage of a row within its bag."""
    if factor.rank >= bag.rows:
        return 1.0
    scan = LeverageScan(features, factor)
    scan.add(0, bag)
    return scan.total().maximum


def bag_facts(
    rows: BagRows, features: FeatureMap, labels: LabelGrid, bags: int, *, adds: bool, engine: Engine
) -> Facts:
    """What holds of every bag. Bags that determine their labels are refused, unless noise hides
    them (`adds`)."""
    rank, leverage, inflation, bag_size = 0, 0.0, _ALLOWANCE, 0
    with engine.progress("leverages of bags", bags) as advance:
        for bag in rows:
            factor = bag_factor(features, bag)
            if factor.rank >= bag.rows and not adds:
                raise PlanError(sampled_wtd_flag.spans_labels(bag.rows, factor.rank))
            bag_size, rank = bag.rows, max(rank, factor.rank)
            leverage = max(leverage, bag_leverage(features, factor, bag))
            inflation = max(inflation, inflation_for(factor) + 2 * factor.defect)
            advance(1)
    return Facts(
        rows=bag_size,
        label_range=labels.range,
        features=rank,
        max_leverage=min(1.0, leverage * (1 + HEADROOM)),
        centred=features.intercept,
        inflation=inflation,
    )
