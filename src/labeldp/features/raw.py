"""Raw feature columns as a feature map reads them: numbers as float64, categories as text.

So they are the same whatever types a table arrives in, and encode to the same integers. A missing
number is NaN, a missing category null; dates count days since 1970.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value
from labeldp.data.columns import to_float
from labeldp.features.feature_map import FeatureMap
from labeldp.features.levels import codes_of, names_of


def raw_schema(features: FeatureMap) -> pa.Schema:
    """The columns that a feature map reads."""
    numbers = [pa.field(column.name, pa.float64(), nullable=False) for column in features.numeric]
    return pa.schema([*numbers, *(pa.field(c.name, pa.string()) for c in features.categorical)])


def raw_columns(features: FeatureMap, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Those columns of a batch."""
    numbers = [_numbers(batch.column(column.name), column.name) for column in features.numeric]
    texts = [_texts(batch.column(column.name)) for column in features.categorical]
    return pa.RecordBatch.from_arrays([*numbers, *texts], schema=raw_schema(features))


def _numbers(column: pa.Array, name: str) -> pa.Array:
    """One NaN and one zero, whatever their bits were."""
    values = to_float(column, name) + 0.0
    values[np.isnan(values)] = np.nan
    return arrow_numbers(values)


def _texts(column: pa.Array) -> pa.Array:
    dictionary, places = codes_of(column)
    names = [*names_of(dictionary), None]  # null is the position past the end
    there = np.array([name is not None for name in names])
    words = arrow_words([name or "" for name in names], pa.string())
    rows = arrow_numbers(np.asarray(places))
    if not there[places].all():
        missing = arrow_numbers((~there[places]).astype(np.uint8)).cast(pa.bool_())
        rows = pc.if_else(missing, no_value(rows.type), rows)
    return words.take(rows)
