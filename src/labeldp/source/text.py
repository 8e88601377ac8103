"""Types of delimited text, decided by what all the values of a column look like.

The counts of parts add up, so that neither the blocks of a file nor the parts of a cluster's
table can matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.source.kinds import is_text
from labeldp.source.values import NUMBER, not_a_number, without_null_words

if TYPE_CHECKING:
    from labeldp.errors import DataError
    from labeldp.source.files import Reader

_BATCH = 1 << 16
_ALMOST = 0.9
"""A column with this share of numbers is a numeric column with typing errors."""

_INTEGER = r"^[ \t]*-?(0|[1-9]\d{0,17})[ \t]*$"
_LOOKS = {
    # Leading zeros and very long digit strings are identifiers: 007 is not 7.
    "padded": r"^[ \t]*-?(0\d+|\d{19,})[ \t]*$",
    "decimal": NUMBER,
    "boolean": r"^(true|True|TRUE|false|False|FALSE)$",
    "moment": r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$",
}


@dataclass
class Looks:
    """How many values of a column look like what."""

    integer: int = 0
    padded: int = 0
    decimal: int = 0
    boolean: int = 0
    moment: int = 0
    text: int = 0

    def add(self, values: pa.Array) -> None:
        """Count one batch; only what is not an integer is looked at more closely."""
        values = values.drop_null()
        matches = pc.match_substring_regex(values, _INTEGER)
        integers = matches.true_count
        self.integer += integers
        if integers == len(values):
            return
        counted = values.filter(pc.invert(matches)).value_counts()
        rest, counts = counted.field(0), counted.field(1)
        for look, pattern in _LOOKS.items():
            matches = pc.match_substring_regex(rest, pattern)
            found = pc.sum(counts.filter(matches)).as_py() or 0
            setattr(self, look, getattr(self, look) + found)
            others = pc.invert(matches)
            rest, counts = rest.filter(others), counts.filter(others)
        self.text += pc.sum(counts).as_py() or 0

    def __add__(self, other: Looks) -> Looks:
        return Looks(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    @property
    def numbers(self) -> int:
        return self.integer + self.padded + self.decimal

    @property
    def values(self) -> int:
        return self.numbers + self.boolean + self.moment + self.text

    def misspelt(self, numeric: bool, categorical: bool) -> bool:
        """Whether the column should be numbers, by declaration or by majority, and is not."""
        if categorical or self.numbers == self.values:
            return False
        if numeric:
            return self.values not in (self.boolean, self.moment)
        return self.numbers >= _ALMOST * self.values

    def type(self, numeric: bool) -> pa.DataType:
        """The narrowest of int64, float64, boolean, timestamp, string that holds everything."""
        if self.numbers == self.values:
            if self.padded and not numeric:
                return pa.string()
            return pa.float64() if self.decimal or self.padded or not self.values else pa.int64()
        if self.boolean == self.values:
            return pa.bool_()
        return pa.timestamp("us") if self.moment == self.values else pa.string()


@dataclass(frozen=True)
class TextTypes:
    """What the values of text columns look like; parts add up."""

    rows: int = 0
    looks: dict[str, Looks] = field(default_factory=dict)

    @classmethod
    def of(cls, reader: Reader, features: Sequence[str]) -> TextTypes:
        """Look at a table, or at one part of it."""
        rows, looks = 0, {name: Looks() for name in features}
        for batch in reader.batches(features, _BATCH):
            rows += batch.num_rows
            for look, column in zip(looks.values(), batch.columns, strict=True):
                look.add(column)
        return cls(rows, looks)

    def __add__(self, other: TextTypes) -> TextTypes:
        known = {name: self.looks.get(name, Looks()) + look for name, look in other.looks.items()}
        return TextTypes(self.rows + other.rows, self.looks | known)

    def misspelt(self, numeric: Sequence[str], categorical: Sequence[str]) -> str | None:
        """The first column that should be numbers and is not."""
        for name, look in self.looks.items():
            if look.misspelt(name in numeric, name in categorical):
                return name
        return None

    def applied(self, schema: pa.Schema, numeric: Sequence[str]) -> pa.Schema:
        """The schema with the types that were found."""
        for name, look in self.looks.items():
            index = schema.get_field_index(name)
            schema = schema.set(index, pa.field(name, look.type(name in numeric)))
        return schema


def text_among_numbers(reader: Reader, name: str, where: str) -> DataError | None:
    """The refusal of the first text among the numbers of a column, if it has one."""
    row = 0
    for batch in reader.batches([name], _BATCH):
        values = batch.column(0)
        wrong = pc.invert(pc.match_substring_regex(values, NUMBER))
        first = pc.index(pc.fill_null(wrong, False), True).as_py()
        if first >= 0:
            return not_a_number(name, values[first].as_py(), f"row {row + first + 1} of {where}")
        row += batch.num_rows
    return None


def typed(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """Text as a column of this type, read as Arrow reads a delimited file."""
    text = without_null_words(text)
    return text.cast(type_) if is_text(type_) else pc.utf8_trim(text, " \t").cast(type_)
