"""Text columns of typed tables, read as the same texts in a delimited file would be.

A date, a number or "NA" that arrives as text in a Parquet file or a frame means what it means in
a CSV file, so that the same rows make the same design wherever they are kept. A category by its
type (a dictionary) stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from labeldp.data.columns import is_number, is_text, value_type
from labeldp.data.dates import together
from labeldp.data.decision import Decision, retyped, text_among_numbers
from labeldp.data.looks import ALMOST, Looks, TextTypes
from labeldp.data.parts import column_or_part, of_text, split_part, with_parts
from labeldp.data.protocol import Reader, ReaderOf, Wanted
from labeldp.data.spelling import Spelling, Wording
from labeldp.errors import DataError, InputError

_NAMES = "{name}: whole numbers but for a few words, read as names; `numeric` and `na` to change"
SAMPLE = 1 << 12
"""First rows of a typed table that show which text columns may be something else."""

Ask = Callable[[Sequence[str], int | None], TextTypes]
"""Looks at these columns: at all of their rows, or at the first."""
Refuse = Callable[[str], DataError | None]
"""The refusal of the first text among the numbers of a column."""


@dataclass(frozen=True)
class SpeltReader(ReaderOf):
    """A table whose text columns have become what they say, with parts of some dates and texts."""

    schema: pa.Schema = field(repr=False)
    wording: Wording = field(repr=False)

    @property
    def text(self) -> bool:
        return self.inner.text

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns with the types of the schema."""
        there = set(self.inner.schema.names)
        stored = [n if n in there else split_part(n)[0] for n in columns]
        for batch in self.inner.batches(list(dict.fromkeys(stored)), batch_rows):
            batch = self.wording.read(batch)
            if batch.schema.names != list(columns):
                arrays = [column_or_part(batch, name) for name in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            yield batch

    def units(self) -> tuple[Reader, ...]:
        """The units of the table."""
        return tuple(replace(self, inner=unit) for unit in self.inner.units())


def spelt(reader: Reader, request: Wanted, mixed: Collection[str] = ()) -> Reader:
    """The reader of a typed table, with the text among these columns read.

    `mixed` columns held numbers and texts, and are text for that alone.
    """

    def ask(names: Sequence[str], most: int | None) -> TextTypes:
        return TextTypes.of(reader, names, request.reading, most)

    def refuse(name: str) -> DataError | None:
        return text_among_numbers(reader, name, request.reading, f"the {reader.format} table")

    wording = wording_of(reader.schema, request, ask, refuse, mixed)
    if wording == Wording():
        return reader
    return SpeltReader(reader, retyped(reader.schema, wording), wording)


def wording_of(
    schema: pa.Schema,
    request: Wanted,
    ask: Ask,
    refuse: Refuse,
    mixed: Collection[str] = (),
) -> Wording:
    """How the text columns of a typed table are read.

    Whole numbers with a few words are names, as the type says, and a note says so; where they have
    decimals, somebody calls them numbers, or they are text only for being `mixed`, words among them
    are refused.
    A column whose first rows are words is words: only others are looked at from end to end.
    """
    numeric, categorical, reading = request.numeric, request.categorical, request.reading
    stored = {name: schema.field(name).type for name in request.features}
    words = [name for name, type_ in stored.items() if is_text(value_type(type_))]
    nulls = reading.nulls(False)
    dates = [n for n, type_ in stored.items() if is_number(type_) and reading.dated_in_digits(n)]
    open_ = [name for name in words if name not in categorical and is_text(stored[name])]
    if open_:
        sample = ask(open_, SAMPLE).looks
        open_ = [name for name in open_ if name in numeric or _undecided(sample[name])]
    dates = [name for name in dates if name not in (*numeric, *categorical)]
    types = ask([*open_, *dates], None) if open_ or dates else TextTypes()
    looks, notes = types.looks, list[str]()
    for name, look in looks.items():
        if look.misspelt(name in numeric, False):
            sure = name in numeric or name in mixed or look.decimal + look.spelt > 0
            refusal = refuse(name) if sure else None
            if refusal is not None:
                raise refusal
            notes.append(_NAMES.format(name=name))
    seen = {name: look for name, look in looks.items() if look.values}
    found = Decision(request, nulls).worded(seen)
    numbers = [n for n in dates if n in found.spellings and found.spellings[n].way != "times"]
    found = found.without(numbers)
    spellings = {name: Spelling(pa.string(), blanks=nulls) for name in words if nulls}
    notes = [*found.notes, *notes]
    return replace(found, spellings=spellings | dict(found.spellings), notes=tuple(notes))


def _undecided(look: Looks) -> bool:
    dates = sum(look.dates[form] for form in together(look.dates))
    else_ = (dates, *map(look.dressed, ".,"), look.lapse)
    words = look.text - max(else_)
    return words <= (1 - ALMOST) * look.values


def with_their_parts(reader: Reader, names: Sequence[str]) -> Reader:
    """The reader of the same table with these parts of dates and texts."""
    if not names:
        return reader
    if reader.engine is not None:
        option = "text_parts" if of_text(split_part(names[0])[1]) else "date_parts"
        raise InputError(f"`{option}` are not made on a cluster; add the columns to the table")
    return SpeltReader(reader, with_parts(reader.schema, names), reader.wording)
