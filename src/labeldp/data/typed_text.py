"""Text columns of typed tables: categories, unless they are meant to be something else.

Whoever wrote a Parquet file or made a frame chose the types, so text is not taken for numbers or
dates by its looks: ICD codes such as 250.83 are texts. "NA" means missing as in a CSV file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from labeldp.data.columns import is_number, is_text, value_type
from labeldp.data.decision import Decision, FindStrays, retyped, stray_texts, without_strays
from labeldp.data.looks import TextTypes
from labeldp.data.parts import column_or_part, of_text, split_part, with_parts
from labeldp.data.protocol import Reader, ReaderOf, Wanted
from labeldp.data.reading import Reading
from labeldp.data.spelling import Spelling, Wording
from labeldp.errors import InputError

Ask = Callable[[Sequence[str], Reading], TextTypes]
"""Looks at all rows of these columns."""


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
    """The reader of a typed table, with those texts read that are meant to be numbers or dates.

    `mixed` columns held numbers and texts, and are text for that alone.
    """

    def ask(names: Sequence[str], reading: Reading) -> TextTypes:
        return TextTypes.of(reader, names, reading)

    def find(name: str, dates: bool) -> set[str]:
        return stray_texts(reader, name, request.reading, dates)

    wording = wording_of(reader.schema, request, ask, find, mixed)
    if wording == Wording():
        return reader
    return SpeltReader(reader, retyped(reader.schema, wording), wording)


def wording_of(
    schema: pa.Schema, request: Wanted, ask: Ask, find: FindStrays, mixed: Collection[str] = ()
) -> Wording:
    """How the text columns of a typed table are read.

    A column of text is a category, as its type says, unless somebody calls it numeric, it is text
    only for being `mixed`, it was something else when features were fitted, or all its texts are
    dates of a format that was named.
    """
    reading = request.reading
    stored = {name: schema.field(name).type for name in request.features}
    words = [name for name, type_ in stored.items() if is_text(value_type(type_))]
    open_ = [name for name in words if name not in request.categorical and is_text(stored[name])]
    meant = [n for n in open_ if n in request.numeric or n in mixed or n in reading.known]
    undecided = [*request.numeric, *request.categorical]
    days = [n for n, type_ in stored.items() if is_number(type_) and reading.dated_in_digits(n)]
    dates = [name for name in days if name not in undecided]
    if reading.date_format is not None:
        dates += [name for name in open_ if name not in meant]
    types = ask([*meant, *dates], reading) if meant or dates else TextTypes()
    strays = {name: types.looks[name] for name in meant}
    settled, notes = without_strays(request, strays, find)
    if settled.reading != reading:
        changed = ask([name for name in meant if name in settled.reading.codes], settled.reading)
        types = replace(types, looks=types.looks | changed.looks)
    seen = {name: look for name, look in types.looks.items() if look.values}
    nulls = settled.reading.nulls(False)
    found = Decision(settled, nulls).worded(seen)
    no_dates = [n for n in dates if n in found.spellings and found.spellings[n].way != "times"]
    found = found.without(no_dates)
    spellings = {name: Spelling(pa.string(), blanks=nulls) for name in words if nulls}
    told = [note for note in found.notes if note.split(":")[0] not in no_dates]
    return replace(found, spellings=spellings | dict(found.spellings), notes=(*told, *notes))


def with_their_parts(reader: Reader, names: Sequence[str]) -> Reader:
    """The reader of the same table with these parts of dates and texts."""
    if not names:
        return reader
    if reader.engine is not None:
        option = "text_parts" if of_text(split_part(names[0])[1]) else "date_parts"
        raise InputError(f"`{option}` are not made on a cluster; add the columns to the table")
    return SpeltReader(reader, with_parts(reader.schema, names), reader.wording)
