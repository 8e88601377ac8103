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

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value
from labeldp.data.columns import to_float
from labeldp.errors import InputError
from labeldp.features.columns import CategoricalColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.features.levels import codes_of, names_of

Unknown = Literal["base", "missing", "error"]
"""An unknown level counts as the one without a column of its own, as missing, or is refused."""


def raw_schema(features: FeatureMap) -> pa.Schema:
    """Return the schema of the columns that a feature map reads."""
    numbers = [pa.field(column.name, pa.float64(), nullable=False) for column in features.numeric]
    return pa.schema([*numbers, *(pa.field(c.name, pa.string()) for c in features.categorical)])


def raw_columns(features: FeatureMap, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return those columns of a batch; one NaN and one zero, whatever their bits were."""
    columns = []
    for numeric in features.numeric:
        values = to_float(batch.column(numeric.name), numeric.name) + 0.0
        values[np.isnan(values)] = np.nan
        columns.append(arrow_numbers(values))
    for categorical in features.categorical:
        dictionary, places = codes_of(batch.column(categorical.name))
        columns.append(_texts([*names_of(dictionary), None], places))
    return pa.RecordBatch.from_arrays(columns, schema=raw_schema(features))


def _texts(names: list[str | None], places: NDArray[Any]) -> pa.Array:
    """Return names at these places as text; None is null."""
    texts = arrow_words([name or "" for name in names], pa.string()).take(arrow_numbers(places))
    absent = np.array([name is None for name in names])[places]
    if not absent.any():
        return texts
    nulls = arrow_numbers(absent.astype(np.uint8)).cast(pa.bool_())
    return pc.if_else(nulls, no_value(pa.string()), texts)


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
        """Return the batch with numbers in their ranges and no level that is unknown."""
        for column in self.features.numeric:
            at = batch.schema.get_field_index(column.name)
            values = to_float(batch.column(at), column.name)
            outside = int(np.sum((values < column.low) | (values > column.high)))
            if outside:
                self.outside_range[column.name] += outside
                within = arrow_numbers(np.clip(values, column.low, column.high))
                batch = batch.set_column(at, column.name, within)
        if self.unknown == "error":
            return batch
        for category, block in zip(
            self.features.categorical, self.features.category_blocks, strict=True
        ):
            at = batch.schema.get_field_index(category.name)
            dictionary, places = codes_of(batch.column(at))
            codes = category.table(dictionary)
            strange = int(np.sum(codes[places] < 0))
            if strange:
                self.unknown_levels[category.name] += strange
                replacement = self._replacement(category, block)
                named = zip((*names_of(dictionary), None), codes, strict=True)
                names = [replacement if code < 0 else name for name, code in named]
                batch = batch.set_column(at, category.name, _texts(names, places))
        return batch

    def taken_as(self, name: str) -> Unknown:
        """Return what unknown levels count as: there may be no missing one to count as."""
        column = self.features.fitted.categorical[name]
        return "missing" if self.unknown == "missing" and column.missing != "none" else "base"

    def _replacement(self, column: CategoricalColumn, block: slice) -> str | None:
        """Return the level that stands for unknown ones: the base is the one that was pruned."""
        if self.taken_as(column.name) == "missing":
            return None
        pruned = np.flatnonzero(self.features.kept_places[block] < 0)
        base = int(pruned[0]) if len(pruned) and pruned[0] < len(column.levels) else 0
        return column.levels[base]

    def notes(self) -> Iterator[str]:
        """Yield what was changed, with counts."""
        for name, count in self.unknown_levels.items():
            taken = self.taken_as(name)
            why = "" if taken == self.unknown else ": none was missing in the fitted rows"
            yield f"{name}: {count:,} rows have a level not seen before, taken as {taken}{why}"
        for name, count in self.outside_range.items():
            yield f"{name}: {count:,} numbers outside the public range, taken as its nearest end"
