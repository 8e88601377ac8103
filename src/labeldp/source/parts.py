"""Parts of dates as columns of their own, made while a table is read: year, month, weekday."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import DataError
from labeldp.source.kinds import is_moment

_PARTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "month": pc.month,
    "weekday": pc.day_of_week,
}
SEASONS = ("month", "weekday")
"""Parts that come round again: categories, whatever their count."""


def split_part(name: str) -> tuple[str, str]:
    """The column and the part that a name such as `born:month` stands for; no part for others."""
    column, colon, part = name.rpartition(":")
    return (column, part) if colon and part in _PARTS else (name, "")


def part_names(column: str) -> list[str]:
    """The names of a date's parts."""
    return [f"{column}:{part}" for part in _PARTS]


def with_parts(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema with the parts of these columns; refuse those that hold no dates."""
    for name in columns:
        found = schema.field(name).type
        if not is_moment(found):
            raise DataError(
                f"column {name!r} holds {found}, not dates; leave it out of `date_parts`, or name "
                f"its `date_format`"
            )
        for part in part_names(name):
            if part not in schema.names:
                schema = schema.append(pa.field(part, pa.int64()))
    return schema


def column_or_part(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of the batch or, if there is none of that name, a part of a date in it."""
    if name in batch.schema.names:
        return batch.column(name)
    column, part = split_part(name)
    return _PARTS[part](batch.column(column))
