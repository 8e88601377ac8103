"""Σ w·x of every bag, for releases that aggregate labels alone and publish their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.features import FeatureMap
from labeldp.source.rows import take_rows


def weighted_design(
    features: FeatureMap, source: Any, bag_table: pa.Table, bags: int
) -> NDArray[np.float64]:
    """The aggregated features of the bags, in one pass over the source; labels are not read."""
    if not hasattr(source, "feature_batches"):
        raise InputError(
            "the release names rows but does not hold them: pass the source it was made from, "
            "fit(release, source)"
        )
    bag, row, weight = (bag_table.column(name).to_numpy() for name in ("bag", "row", "weight"))
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    total = np.zeros((bags, len(features.names)))
    for places, batch in take_rows(source.feature_batches(features.columns), row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(total, bag[places], weight[places, None] * design)
    return total
