"""What a column type means for the model: a number, a category, or undecided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from labeldp.errors import DataError

Kind = Literal["numeric", "categorical", "integer"]
"""`integer` is undecided: the feature fit counts the distinct values and decides."""

_FRACTIONS = ("double", "float", "halffloat", "decimal")

MOST_COLUMNS = 4096
"""Of a design; of features therefore too."""


@dataclass(frozen=True)
class Column:
    """A feature column: its name, what it holds, and its Arrow type as text."""

    name: str
    kind: Kind
    type: str
    declared: bool = False
    """Whether somebody said so, or its spelling did."""
    wanted: bool = False
    """Whether somebody named it among the features: it stays, even if it looks like an id."""

    @property
    def undecided(self) -> bool:
        """Whether few whole values make it a category: pandas has integers with gaps as floats."""
        return self.kind == "integer" or (
            self.kind == "numeric" and not self.declared and self.type.startswith(_FRACTIONS)
        )


def is_text(type_: pa.DataType) -> bool:
    """Whether values are strings, in any of Arrow's layouts."""
    views = pa.types.is_string_view(type_)
    return bool(views or pa.types.is_string(type_) or pa.types.is_large_string(type_))


def is_number(type_: pa.DataType) -> bool:
    """Whether values are integers, floats or decimals."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def is_moment(type_: pa.DataType) -> bool:
    """Whether values are dates or timestamps."""
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def is_clock(type_: pa.DataType) -> bool:
    """Whether values are times of day or durations."""
    return bool(pa.types.is_time(type_) or pa.types.is_duration(type_))


def plain(type_: pa.DataType) -> pa.DataType:
    """The type of the values: a dictionary's value type, otherwise the type itself."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def usable(type_: pa.DataType) -> bool:
    """Whether a model here can use values of a type: one number, text or time each."""
    values = plain(type_)
    scalar = is_text(values) or is_number(values) or is_moment(values) or is_clock(values)
    return bool(scalar or pa.types.is_boolean(values) or pa.types.is_null(values))


def column_of(field: pa.Field, *, numeric: bool, categorical: bool, wanted: bool = False) -> Column:
    """Describe a feature column; refuse types that no model here can use."""
    if not usable(field.type):
        raise DataError(
            f"column {field.name!r} has type {field.type}, which is neither a number nor a "
            f"category; drop it, or turn it into plain columns first"
        )
    kind: Kind = _natural(field.type)
    if numeric:
        kind = "numeric"
    elif categorical:
        kind = "categorical"
    return Column(field.name, kind, str(field.type), numeric or categorical, wanted)


def _natural(type_: pa.DataType) -> Kind:
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_dictionary(type_) or pa.types.is_boolean(type_) or is_text(type_):
        return "categorical"
    return "numeric"


def check_breadth(columns: int) -> None:
    """Before a row is read: to look at so many columns would take long, and gigabytes."""
    if columns > MOST_COLUMNS:
        raise DataError(
            f"the table has {columns} feature columns, and at most {MOST_COLUMNS} design columns "
            "are made of them; `drop` some"
        )
