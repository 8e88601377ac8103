"""Each bag is a small table of its own: its factor, and the facts that all bags share.

Bags are looked at in blocks (`statistics/stacked.py`); a bag for which the quick way proves
nothing is looked at alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.accounting.sketch import DatasetBounds, spans_labels
from labeldp.errors import PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.leverage import LeverageScan
from labeldp.exact.stacked import StackedBags, bags_at_once
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.bags import BagRows, Draw
from labeldp.mechanisms.design_summary import HEADROOM, inflation_for
from labeldp.passes.engine import Engine

_ALLOWANCE = 2.0**-20
"""For rounding: the same for all draws, but for features nearly collinear within a bag."""


def bag_factor(features: FeatureMap, bag: Encoded) -> VerifiedCholesky:
    """The factor of a bag's features; columns that depend on others within the bag are left out.

    Their aggregates are published all the same: given the others they follow from the secret
    weights and the features, never from labels.
    """
    sums = GramAccumulator(features)
    sums.add(bag)
    return verified_cholesky(sums.result(), features, saturated=True)


def bag_leverage(features: FeatureMap, factor: VerifiedCholesky, bag: Encoded) -> float:
    """The largest leverage of a row within its bag."""
    if factor.rank >= bag.rows:
        return 1.0
    scan = LeverageScan(features, factor)
    scan.add(bag)
    return scan.result().maximum


@dataclass(frozen=True, eq=False)
class Block:
    """Some bags and what holds of each."""

    features: FeatureMap
    numbers: slice
    """Of the bags among all of them."""
    rows: Encoded

    @property
    def bags(self) -> int:
        return int(self.numbers.stop - self.numbers.start)

    @cached_property
    def stack(self) -> StackedBags:
        return StackedBags(self.features, self.rows, self.bags)

    @cached_property
    def alone(self) -> dict[int, VerifiedCholesky]:
        """The factors of the bags that the stack leaves out."""
        careful = np.flatnonzero(self.stack.careful).tolist()
        return {bag: bag_factor(self.features, self.bag(bag)) for bag in careful}

    def bag(self, number: int) -> Encoded:
        """The rows of one bag of the block."""
        size = self.rows.rows // self.bags
        return self.rows.take(np.arange(number * size, (number + 1) * size))

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        return self._with_alone(self.stack.rank, {b: f.rank for b, f in self.alone.items()})

    @cached_property
    def error_bounds(self) -> NDArray[np.float64]:
        return self._with_alone(
            self.stack.error_bound, {b: f.error_bound for b, f in self.alone.items()}
        )

    @cached_property
    def leverages(self) -> NDArray[np.float64]:
        """The largest leverage in each bag."""
        alone = {b: bag_leverage(self.features, f, self.bag(b)) for b, f in self.alone.items()}
        return self._with_alone(self.stack.leverages(), alone)

    @staticmethod
    def _with_alone(stacked: NDArray, alone: dict[int, float]) -> NDArray:  # type: ignore[type-arg]
        whole = stacked.copy()
        whole[list(alone)] = list(alone.values())
        return whole


def bag_blocks(rows: BagRows, features: FeatureMap, bag_size: int) -> Iterator[Block]:
    """The bags in order, as many at once as the processor likes."""
    for numbers, encoded in rows.blocks(bags_at_once(features, bag_size)):
        yield Block(features, numbers, encoded)


def bag_facts(
    rows: BagRows,
    features: FeatureMap,
    labels: LabelGrid,
    draw: Draw,
    *,
    adds: bool,
    engine: Engine,
) -> DatasetBounds:
    """What holds of every bag. Bags that determine their labels are refused, unless noise hides
    them (`adds`)."""
    bag_size = draw.bag_size
    rank, leverage, inflation = 0, 0.0, _ALLOWANCE
    with engine.progress("leverages of bags", draw.bags) as advance:
        for block in bag_blocks(rows, features, bag_size):
            rank = max(rank, int(block.ranks.max()))
            if rank >= bag_size and not adds:
                raise PlanError(spans_labels(bag_size, rank))
            leverage = max(leverage, float(block.leverages.max()))
            error_bound = float(block.error_bounds.max())
            inflation = max(inflation, inflation_for(error_bound) + 2 * error_bound)
            advance(block.bags)
    return DatasetBounds(
        rows=bag_size,
        label_range=labels.range,
        features=rank,
        max_leverage=min(1.0, leverage * (1 + HEADROOM)),
        centred=features.intercept,
        inflation=inflation,
    )
