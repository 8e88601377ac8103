"""Types of delimited text on a cluster: the rules of `delimited`, on parts of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import DataError
from labeldp.source.delimited import _Tally
from labeldp.source.kinds import is_text
from labeldp.source.values import NULL_WORDS, NUMBER, not_a_number

if TYPE_CHECKING:
    from labeldp.source.files import Reader

_BATCH = 1 << 16


@dataclass(frozen=True)
class TextTypes:
    """What the values of text columns look like; parts add up."""

    rows: int = 0
    looks: dict[str, _Tally] = field(default_factory=dict)

    @classmethod
    def of(cls, reader: Reader, *, features: tuple[str, ...]) -> TextTypes:
        """Look at one part."""
        rows, looks = 0, {name: _Tally() for name in features}
        for batch in reader.batches(features, _BATCH):
            rows += batch.num_rows
            for look, column in zip(looks.values(), batch.columns, strict=True):
                look.add(column)
        return cls(rows, looks)

    @staticmethod
    def refusal(reader: Reader, *, name: str) -> DataError | None:
        """Name the first text among the numbers of a column, if this part has one."""
        row = 0
        for batch in reader.batches([name], _BATCH):
            values = batch.column(0)
            wrong = pc.invert(pc.match_substring_regex(values, NUMBER))
            first = pc.index(pc.fill_null(wrong, False), True).as_py()
            if first >= 0:
                place = f"row {row + first + 1} of its Spark partition"
                return not_a_number(name, values[first].as_py(), place)
            row += batch.num_rows
        return None

    def __add__(self, other: TextTypes) -> TextTypes:
        looks = {name: _Tally(**vars(look)) for name, look in self.looks.items()}
        for name, look in other.looks.items():
            total = looks.setdefault(name, _Tally())
            for kind, count in vars(look).items():
                setattr(total, kind, getattr(total, kind) + count)
        return TextTypes(self.rows + other.rows, looks)

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


def refuse_malformed(flags: pa.Array) -> None:
    """Refuse lines that have not as many fields as the header, without quoting any."""
    if pc.any(flags).as_py():
        raise DataError(
            "a line of the delimited text has not as many fields as the header; correct the "
            "quoting or the delimiter (Spark reads no line breaks inside quotes)"
        )


def typed(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """Text as a column of this type, read as the local reader of delimited files reads it."""
    missing = pc.is_in(text, value_set=pa.array(NULL_WORDS, text.type))
    text = pc.if_else(missing, pa.scalar(None, text.type), text)
    return text.cast(type_) if is_text(type_) else pc.utf8_trim(text, " \t").cast(type_)
