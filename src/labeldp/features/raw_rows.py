"""Raw feature columns: as a feature map reads and publishes them, and rows that were not fitted.

`raw_columns` gives numbers as float64 and categories as text, the same whatever types a table
arrives in, so that they encode to the same integers. A missing number is NaN, a missing category
null; dates count days since 1970. `UnseenValueHandler` prepares rows with levels that the fitted
rows did not have, or numbers outside their range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers
from labeldp.data.columns import to_float
from labeldp.errors import InputError
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.levels import codes_of, names_of

Unknown = Literal["base", "missing", "error"]
"""An unknown level counts as the one without a column of its own, as missing, or is refused."""


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


@dataclass
class UnseenValueHandler:
    """Makes rows such as the features were fitted on, and counts what it changes, by column."""

    features: FeatureMap
    unknown: Unknown = "base"
    unknown_levels: Counter[str] = field(default_factory=Counter)
    outside_range: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.unknown not in get_args(Unknown):
            raise InputError(
                f"`unknown` must be {', '.join(get_args(Unknown))}, not {self.unknown!r}"
            )

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with numbers in their ranges and no level that is unknown."""
        for column in self.features.numeric:
            batch = self._confined(batch, column)
        if self.unknown != "error":
            for place, category in enumerate(self.features.categorical):
                batch = self._known(batch, category, place)
        return batch

    def _confined(self, batch: pa.RecordBatch, column: NumericColumn) -> pa.RecordBatch:
        at = batch.schema.get_field_index(column.name)
        values = to_float(batch.column(at), column.name)
        outside = int(np.sum((values < column.low) | (values > column.high)))
        if not outside:
            return batch
        self.outside_range[column.name] += outside
        within = arrow_numbers(np.clip(values, column.low, column.high))
        return batch.set_column(at, column.name, within)

    def _known(
        self, batch: pa.RecordBatch, column: CategoricalColumn, place: int
    ) -> pa.RecordBatch:
        at = batch.schema.get_field_index(column.name)
        dictionary, positions = codes_of(batch.column(at))
        strange = column.table(dictionary)[positions] < 0
        if not strange.any():
            return batch
        self.unknown_levels[column.name] += int(strange.sum())
        texts = arrow_words([name or "" for name in (*names_of(dictionary), None)], pa.string())
        nulls = numpy_numbers(batch.column(at).is_null())
        values = pc.if_else(_truths(nulls), _null(), texts.take(arrow_numbers(positions)))
        values = pc.if_else(_truths(strange), self._stand_in(column, place), values)
        return batch.set_column(at, column.name, values)

    def taken_as(self, name: str) -> Unknown:
        """What unknown levels of a column count as: there may be no missing one to count as."""
        column = next(each for each in self.features.categorical if each.name == name)
        return "missing" if self.unknown == "missing" and column.missing != "none" else "base"

    def notes(self) -> Iterator[str]:
        """What was changed, with counts."""
        for name, count in self.unknown_levels.items():
            taken = self.taken_as(name)
            why = "" if taken == self.unknown else ": none was missing in the fitted rows"
            yield f"{name}: {count:,} rows have a level not seen before, taken as {taken}{why}"
        for name, count in self.outside_range.items():
            yield f"{name}: {count:,} numbers outside the public range, taken as its nearest end"

    def _stand_in(self, column: CategoricalColumn, place: int) -> pa.Scalar:
        """What an unknown level counts as."""
        if self.taken_as(column.name) == "missing":
            return _null()
        block = self.features.category_blocks[place]
        pruned = np.flatnonzero(self.features.kept_places[block] < 0)
        base = int(pruned[0]) if len(pruned) and pruned[0] < len(column.levels) else 0
        return arrow_words([column.levels[base]], pa.string())[0]


def _truths(flags: NDArray[Any]) -> pa.Array:
    return arrow_numbers(flags.astype(np.uint8)).cast(pa.bool_())


def _null() -> pa.Scalar:
    return pa.nulls(1, pa.string())[0]
