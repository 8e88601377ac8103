"""Columns: their names and roles, what their types mean for a model, their values as float64.

Missing values are NaN. Messages may show values and row numbers, because features are public. Of
labels nothing passes here but `floats_of`, which refuses none.

Where a file has no header, or another delimiter than was said, its first row stands in the place of
the names, and one of its values is a label. Such a line has a word that begins with a digit; then
messages hold only names without a digit.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.errors import DataError, InputError

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


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values: of a dictionary its value type, else the type itself."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def is_usable(type_: pa.DataType) -> bool:
    """Whether a model here can use values of a type: one number, text or date each."""
    values = value_type(type_)
    scalar = is_text_type(values) or is_number_type(values) or is_moment(values)
    return bool(scalar or pa.types.is_boolean(values) or pa.types.is_null(values))


def column_of(field: pa.Field, *, numeric: bool, categorical: bool, wanted: bool) -> Column:
    """Describe a feature column; refuse types that no model here can use."""
    type_ = field.type
    if not is_usable(type_):
        raise DataError(
            f"column {field.name!r} has type {type_}, which is neither a number nor a "
            f"category; drop it, or turn it into plain columns first (a duration in pandas: "
            "`.dt.total_seconds()`)"
        )
    declared = numeric or categorical
    quantity = is_number_type(type_) or is_moment(type_) or type_ == pa.null()
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
    """Return the column as float64 with NaN for missing; dates count days since 1970.

    `first_row` is the position of the array's first row in the data, for messages.
    Refuses texts, integers beyond 2**53 and infinities.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    type_ = array.type
    if is_moment(type_):
        return _days(array)
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


def _days(array: pa.Array) -> NDArray[np.float64]:
    """Return dates as days since 1970."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    per_day = _PER_DAY[array.type.unit]
    ticks = numpy_numbers(pc.fill_null(array.cast(pa.int64()), _ZERO))
    # Whole days and the rest apart, so that no unit loses precision; not by divmod, which is
    # slower for a fixed divisor.
    days = ticks // per_day
    values: NDArray[np.float64] = days.astype(np.float64)
    values += (ticks - days * per_day) / np.float64(per_day)
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


_INDEX = re.compile(r"(__index_level_\d+__| \(\d+\))?")
"""Names of a stored pandas index and of columns without a name."""
_LONGEST = 80
"""Characters of a name that are shown, or compared: a table may have been given for a name."""


def short_name(name: str) -> str:
    """Return as much of a name as identifies it."""
    return name if len(name) <= _LONGEST else name[:_LONGEST] + "…"


def _printable(names: Iterable[str]) -> list[str]:
    """Return the names that messages may hold."""
    names = list(names)
    begins_with_digit = any(re.search(r"(?<![\w.])[\d.]*\d", name) for name in names)
    return [n for n in names if n and not re.search(r"\d", n)] if begins_with_digit else names


def quoted_names(names: Iterable[str]) -> str:
    """Return some of the names in quotes; a remark where none may be shown."""
    quoted = [repr(short_name(name)) for name in _printable(names)]
    return ", ".join(quoted[:8] + ["..."] * (len(quoted) > 8)) or (
        "numbers: is there a line with their names?"
    )


def unknown_column(name: str, option: str, columns: Sequence[str]) -> DataError:
    """Return the refusal of a name, with the columns that may be meant."""
    printable = _printable(columns)
    close = [each for each in printable if each.strip().casefold() == name.strip().casefold()]
    close = close or difflib.get_close_matches(name[:_LONGEST], printable, n=3, cutoff=0.5)
    if len(columns) == 1 and name in re.split(r'[,;|\s"]+', columns[0]):
        hint = f"the only one is {quoted_names(columns)}; name another `delimiter`"
    elif close:
        hint = f"did you mean {' or '.join(repr(short_name(each)) for each in close)}?"
    else:
        hint = f"the columns are {quoted_names(columns)}"
    return DataError(f"{option}: there is no column {short_name(name)!r}; {hint}")


def check_unique_names(names: Sequence[str], where: object) -> None:
    """Refuse a table in which a name stands for two columns.

    One of them may be the label, which would be a public feature under another name.
    """
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise DataError(
            f"{where} has several columns of one name, {quoted_names(twice)}; rename them, or "
            "add a header line if the file has none"
        )


def choose_features(
    columns: Sequence[str],
    roles: Mapping[str, str | None],
    lists: Mapping[str, Sequence[str] | None],
) -> list[str]:
    """Return the feature columns, in order: those named, or all but index columns.

    `roles` are label and person, `lists` features, categorical, numeric and drop. Names that are no
    columns and columns with two roles are refused.
    """
    existing = set(columns)
    named = {option: names or () for option, names in lists.items()}
    single = {role: (column,) for role, column in roles.items() if column is not None}
    for option, names in {**named, **single}.items():
        for name in names:
            if name not in existing:
                raise unknown_column(name, option, columns)
            for role, column in roles.items():
                # A person's column is no feature anyway.
                if column == name and (role, option) not in ((option, role), ("person", "drop")):
                    raise InputError(
                        f"column {column!r} is the {role} and cannot also stand in {option}"
                    )
    for name in sorted({*named["categorical"]} & {*named["numeric"]}):
        raise InputError(f"column {name!r} is declared both categorical and numeric; choose one")
    for name, times in Counter(named["features"]).items():
        if times > 1:
            raise InputError(f"features names column {name!r} twice; once is enough")
    features = named["features"]
    if lists["features"] is None:
        features = [n for n in columns if n not in roles.values() and not _INDEX.fullmatch(n)]
    left_out = set(named["drop"])
    remaining = [name for name in features if name not in left_out]
    if not remaining:
        raise InputError("no feature column is left; name fewer in drop or more in features")
    return remaining
