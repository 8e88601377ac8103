"""Feature columns: what their types mean for a model, and their values as float64.

Missing values are NaN. Messages may show values and row numbers, because features are public. Of
labels nothing passes here but `floats_of`, which refuses none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.errors import DataError

ColumnKind = Literal["numeric", "categorical", "integer"]
"""`integer` is undecided: the feature fit counts the distinct values and decides."""

_FRACTIONS = ("double", "float", "halffloat", "decimal")

MOST_COLUMNS = 4096
"""Of a design; of features therefore too."""


@dataclass(frozen=True)
class Column:
    """A feature column: its name, what it holds, and its Arrow type as text."""

    name: str
    kind: ColumnKind
    type: str
    declared: bool = False
    """Whether the kind was declared, or follows from how the texts look."""
    wanted: bool = False
    """Whether it was named among the features; then it stays even if it looks like an id."""

    @property
    def undecided(self) -> bool:
        """Whether few whole values make it a category: pandas has integers with gaps as floats."""
        return self.kind == "integer" or (
            self.kind == "numeric" and not self.declared and self.type.startswith(_FRACTIONS)
        )


def is_text_type(type_: pa.DataType) -> bool:
    """Return whether values are strings, in any of Arrow's layouts."""
    views = pa.types.is_string_view(type_)
    return bool(views or pa.types.is_string(type_) or pa.types.is_large_string(type_))


def is_number_type(type_: pa.DataType) -> bool:
    """Return whether values are integers, floats or decimals."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def is_moment(type_: pa.DataType) -> bool:
    """Return whether values are dates or timestamps."""
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def is_clock(type_: pa.DataType) -> bool:
    """Return whether values are times of day or durations."""
    return bool(pa.types.is_time(type_) or pa.types.is_duration(type_))


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values: of a dictionary its value type, else the type itself."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_usable(type_: pa.DataType) -> bool:
    """Whether a model here can use values of a type: one number, text or time each."""
    values = value_type(type_)
    scalar = is_text_type(values) or is_number_type(values) or is_moment(values) or is_clock(values)
    return bool(scalar or pa.types.is_boolean(values) or pa.types.is_null(values))


def column_of(field: pa.Field, *, numeric: bool, categorical: bool, wanted: bool) -> Column:
    """Describe a feature column; refuse types that no model here can use."""
    type_ = field.type
    if not is_usable(type_):
        raise DataError(
            f"column {field.name!r} has type {type_}, which is neither a number nor a "
            f"category; drop it, or turn it into plain columns first"
        )
    declared = numeric or categorical
    quantity = is_number_type(type_) or is_moment(type_) or is_clock(type_) or type_ == pa.null()
    kind: ColumnKind = "numeric" if numeric or (quantity and not declared) else "categorical"
    if pa.types.is_integer(type_) and not declared:
        kind = "integer"
    return Column(field.name, kind, str(type_), declared, wanted)


def check_breadth(columns: int) -> None:
    """Refuse too many columns before a row is read: they would take long, and gigabytes."""
    if columns > MOST_COLUMNS:
        raise DataError(
            f"the table has {columns} feature columns, and at most {MOST_COLUMNS} design columns "
            "are made of them; `drop` some"
        )


NULL_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""Texts that mean "missing" in a delimited file: pyarrow's own list, spelt out."""

NUMBER = r"^[ \t]*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI][nN][fF]|[iI]nfinity|INFINITY)[ \t]*$"
"""Texts that are numbers; everything it matches, Arrow parses as float64."""

_ZERO = arrow_numbers(np.zeros(1, np.int64))[0]
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def column_floats(array: pa.Array, name: str, first_row: int = 0) -> NDArray[np.float64]:
    """Return the column as float64 with NaN for missing; dates count days since 1970, times hours.

    `first_row` is the position of the array's first row in the data, for messages.
    Refuses texts, integers beyond 2**53 and infinities.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    type_ = array.type
    if is_moment(type_) or is_clock(type_):
        return _days_or_hours(array)
    if not (is_number_type(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_)):
        raise DataError(
            f"column {name!r} has type {type_}, which is not a number; declare it `numeric` when "
            "the table is scanned, or drop it"
        )
    if pa.types.is_integer(type_) and type_.bit_width == 64:
        integer_ends(array, name)
    values = floats_of(array)
    if np.isinf(values).any():
        row = first_row + int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise DataError(
            f"column {name!r} holds an infinity at row {row}; replace it with a number or leave "
            f"the cell empty"
        )
    return values


def _days_or_hours(array: pa.Array) -> NDArray[np.float64]:
    """Return dates as days since 1970, times of day and durations as hours."""
    has_hours = is_clock(array.type)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    per_day = _PER_DAY[array.type.unit]
    if array.type.bit_width == 32:
        array = array.cast(pa.int32())
    ticks = numpy_numbers(pc.fill_null(array.cast(pa.int64()), _ZERO))
    values: NDArray[np.float64]
    if has_hours:
        values = ticks * np.float64(24) / per_day
    else:
        # Whole days and the rest apart, so that no unit loses precision; not by divmod, which is
        # slower for a fixed divisor.
        days = ticks // per_day
        values = days.astype(np.float64) + (ticks - days * per_day) / np.float64(per_day)
    values[numpy_numbers(array.is_null())] = np.nan
    return values


def floats_of(array: pa.Array) -> NDArray[np.float64]:
    """Return numbers or truth values as float64, NaN for null."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return numpy_numbers(array.cast(pa.float64(), safe=False))


def integer_ends(
    array: pa.Array, name: str, *, maybe_id: bool = False
) -> tuple[float, float, bool]:
    """Return the smallest and largest integer, and whether float64 tells all between them apart.

    It refuses a column that float64 cannot hold, unless that may be an id. (inf, −inf) is none.
    """
    ends = pc.min_max(array).as_py()
    if ends["max"] is None:
        return math.inf, -math.inf, True
    exact = max(-ends["min"], ends["max"]) <= 2**53
    if not (exact or maybe_id):
        raise DataError(
            f"column {name!r} holds integers beyond 2**53, which float64 cannot tell apart; drop "
            f"it if it is an identifier, or rescale it"
        )
    return float(ends["min"]), float(ends["max"]), exact
