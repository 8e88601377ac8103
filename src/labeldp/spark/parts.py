"""What one part of the rows contributes, in a form that may travel to the driver.

Sums of labels are private: they refuse to be pickled, so that they are not written anywhere
by accident. Between the machines of a cluster they must travel, and do so as plain integers
that exist for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np

from labeldp.features import Encoder, FeatureMap
from labeldp.features.fold import Kind
from labeldp.kernels import best
from labeldp.source import Source
from labeldp.source.labels import LabelCheck
from labeldp.spark.reader import Advance
from labeldp.statistics import (
    FeatureGram,
    GramSum,
    LabelGrid,
    LabelMoments,
    LeverageScan,
    MomentSum,
)
from labeldp.statistics.leverage import Seen


@dataclass(frozen=True, repr=False)
class LabelledPart:
    """Sums over one part: of features, of labels, and what was wrong with its labels."""

    gram: FeatureGram
    rows: int
    cross: list[int]
    total: int
    square: int
    check: LabelCheck

    def __add__(self, other: LabelledPart) -> LabelledPart:
        return LabelledPart(
            self.gram + other.gram,
            self.rows + other.rows,
            list(map(add, self.cross, other.cross)),
            self.total + other.total,
            self.square + other.square,
            self.check.merge(other.check),
        )

    def moments(self) -> LabelMoments:
        """The sums of labels, private again."""
        return LabelMoments(self.rows, np.array(self.cross, dtype=object), self.total, self.square)


def fold_part(
    columns: Sequence[str], new: Callable[[], Kind], source: Source, advance: Advance
) -> tuple[int, Kind]:
    """A tally of one part, and its rows."""
    tally, rows = new(), 0
    for batch in source.feature_batches(columns):
        tally.add(rows, batch)
        rows += batch.num_rows
        advance(batch.num_rows)
    return rows, tally


def gram_part(features: FeatureMap, source: Source, advance: Advance) -> FeatureGram:
    """XᵀX of one part."""
    kernels = best(features.rows)
    encode, sums = Encoder(features, kernels), GramSum(features, kernels)
    for batch in source.feature_batches():
        sums.add(encode(batch))
        advance(batch.num_rows)
    return sums.total()


def leverage_part(
    features: FeatureMap, scan: LeverageScan, source: Source, advance: Advance
) -> tuple[FeatureGram, Seen]:
    """The costliest rows of one part; the scan comes from the driver, so all use one form.

    XᵀX comes along: it tells whether these are the rows that the form was computed from.
    """
    kernels = best(features.rows)
    encode, sums = Encoder(features, kernels), GramSum(features, kernels)
    for batch in source.feature_batches():
        encoded = encode(batch)
        scan.add(None, encoded)
        sums.add(encoded)
        advance(batch.num_rows)
    return sums.total(), scan.seen()


def labelled_part(
    features: FeatureMap, grid: LabelGrid, source: Source, advance: Advance
) -> LabelledPart:
    """XᵀX, Xᵀy and yᵀy of one part; what is wrong with labels is said for all parts at once."""
    kernels, check = best(features.rows), source.label_check()
    gram, moments = GramSum(features, kernels), MomentSum(features, grid, kernels)
    encode = Encoder(features, kernels)
    for batch, labels in source.labelled_batches(check):
        encoded = encode(batch)
        gram.add(encoded)
        moments.add(encoded, labels)
        advance(batch.num_rows)
    sums = moments.total()
    return LabelledPart(gram.total(), sums.rows, list(sums.cross), sums.total, sums.square, check)
