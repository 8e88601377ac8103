"""Texts among numbers or dates, for which a column would be no such: blanks if they are few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import NULL_WORDS, is_text, value_type
from labeldp.data.delimited import DelimitedReader
from labeldp.data.looks import ALMOST, Looks, TextTypes
from labeldp.data.parts import split_part
from labeldp.data.reading import Reading
from labeldp.data.spelling import SOFT_BLANKS, among_numbers
from labeldp.doctor.column import Traits, decoded
from labeldp.doctor.view import MOST_ROWS, Known

_BATCH = 1 << 16
_MOST_STRAYS = 12


@dataclass(frozen=True)
class Strays:
    """What keeps columns of text from being numbers or dates; those of several add up."""

    blanks: Mapping[str, list[str]] = field(default_factory=dict)
    """A few texts of a column, which are taken for missing, as `na` has them."""
    words: tuple[str, ...] = ()
    """Columns that have many such texts beside dates or numbers in a dress,"""
    numbers: tuple[str, ...] = ()
    """and those that have many and are numbers for the most part."""

    def __add__(self, other: Strays) -> Strays:
        blanks = {**self.blanks, **other.blanks}
        return Strays(blanks, self.words + other.words, self.numbers + other.numbers)

    def told(self, known: Known) -> Known:
        """What is known with them."""
        few = [word for found in self.blanks.values() for word in found]
        names = (*known.categorical, *self.words, *self.numbers)
        return replace(known, categorical=names).with_missing(few)


def find_strays(reader: Any, known: Known) -> tuple[Any, Strays]:
    """What strays in the features, and the reader, which then knows its encoding."""
    apart = (split_part(part)[0] for part in known.reading.text_parts)
    taken = {known.label, *known.drop, *known.categorical, *apart}
    names = [name for name in texts_of(reader.schema) if name not in taken]
    if isinstance(reader, DelimitedReader):
        reader, types = reader.looked(names)
    else:
        types = TextTypes.of(reader, names, known.reading) if names else TextTypes()
    found = (_in_column(reader, name, looks, known) for name, looks in types.looks.items())
    return reader, sum(found, Strays())


def _in_column(reader: Any, name: str, looks: Looks, known: Known) -> Strays:
    if 0 < looks.padded < (1 - ALMOST) * looks.values and looks.numbers == looks.values:
        return Strays({name: [f"{name}={zero}" for zero in _zeros(reader, name)]})
    wordless = looks.nearly_dates or looks.nearly_dressed
    if not (wordless or looks.misspelt(name in known.numeric, False)):
        return Strays()
    found = stray_words(reader, name, known.reading, wordless=wordless)
    if len(found) <= _MOST_STRAYS:
        return Strays({name: found})
    return Strays(words=(name,)) if wordless else Strays(numbers=(name,))


def stray_words(reader: Any, name: str, reading: Reading, *, wordless: bool = False) -> list[str]:
    """Texts that are no numbers; `wordless`, among dates and numbers in a dress, without digits."""
    found = set[str]()
    for texts in different(reader, name):
        digits = pc.match_substring_regex(texts, r"\d")
        strange = pc.invert(digits if wordless else among_numbers(texts, reading))
        found.update(texts.filter(strange).to_pylist())
    return sorted(found - {*SOFT_BLANKS, *reading.nulls(False)})


def _zeros(reader: Any, name: str) -> list[str]:
    """Zeros such as 0000 for "missing", if no other number begins with one."""
    found = set[str]()
    for texts in different(reader, name):
        found.update(texts.filter(pc.match_substring_regex(texts, r"^-?0\d")).to_pylist())
    return [] if any(zero.strip("0") for zero in found) else sorted(found)


def different(reader: Any, name: str) -> Iterator[pa.Array]:
    """The different texts of a column, some rows at a time."""
    for batch in reader.batches([name], _BATCH):
        yield pc.utf8_trim_whitespace(decoded(batch.column(0)).drop_null().unique())


def texts_of(schema: pa.Schema) -> list[str]:
    """The columns of text."""
    return [field.name for field in schema if is_text(value_type(field.type))]


def count_blanks(columns: Sequence[Traits], reader: Any, strays: Strays) -> None:
    """Add to the facts how missing values are spelt, where that is text."""
    if isinstance(reader, DelimitedReader):
        reader = replace(reader, reading=replace(reader.reading, na=()))
    stored, rows = {*texts_of(reader.schema)}, 0
    texts = [facts for facts in columns if facts["name"] in stored]
    for batch in reader.batches([facts["name"] for facts in texts], _BATCH) if texts else ():
        for facts, column in zip(texts, batch.columns, strict=True):
            _count_blanks(facts, column, strays.blanks.get(facts["name"], []))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break


def _count_blanks(facts: Traits, column: pa.Array, strays: Sequence[str]) -> None:
    words = {*NULL_WORDS, *strays} | (set() if facts["kind"] == "category" else {*SOFT_BLANKS})
    for entry in decoded(column).value_counts().to_pylist():
        text = entry["values"]
        if text is None or text.strip() in words:
            shown = "" if text is None else text
            facts["blanks"][shown] = facts["blanks"].get(shown, 0) + entry["counts"]
