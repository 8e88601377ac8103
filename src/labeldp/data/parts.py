"""Parts of dates and texts as columns of their own, made while a table is read.

    born:year  born:month  born:weekday      of dates
    BP:number1  BP:number2                   of texts such as "120/80": the first, the second number
    Result:word1                             of texts such as "W 3–1": the first word

A name says all that reading takes, so that further rows need not look like those before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrow_util import no_value
from labeldp.data.columns import is_moment, is_text, value_type
from labeldp.errors import DataError

_OF_DATES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "month": pc.month,
    "weekday": pc.day_of_week,
}
_OF_TEXTS = re.compile(r"(number|word)([1-9])")
SEASONS = ("month", "weekday")
"""Parts that come round again: categories, whatever their count."""
NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?"
WORD = r"\p{L}[\p{L}\p{M}'’]*"
_PATTERNS = {"number": NUMBER, "word": WORD}
_MARK = "\x1f"


def split_part(name: str) -> tuple[str, str]:
    """The column and the part that a name such as `born:month` stands for; no part for others."""
    column, colon, part = name.rpartition(":")
    known = part in _OF_DATES or of_text(part)
    return (column, part) if colon and known else (name, "")


def of_text(part: str) -> bool:
    """Whether it is a part of texts."""
    return _OF_TEXTS.fullmatch(part) is not None


def part_names(column: str) -> list[str]:
    """The names of a date's parts."""
    return [f"{column}:{part}" for part in _OF_DATES]


def with_parts(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema with these parts of its columns; refuse those that hold no dates or no text."""
    for name in names:
        column, part = split_part(name)
        found = schema.field(column).type
        if of_text(part):
            if not is_text(value_type(found)):
                raise DataError(
                    f"column {column!r} holds {found}, not text; leave it out of `text_parts`"
                )
            schema = schema.append(pa.field(name, _type(part)))
            continue
        if not is_moment(found):
            raise DataError(
                f"column {column!r} holds {found}, not dates; leave it out of `date_parts`, or "
                f"name its `date_format`"
            )
        schema = schema.append(pa.field(name, pa.int64()))
    return schema


def _type(part: str) -> pa.DataType:
    return pa.float64() if part.startswith("number") else pa.string()


def column_or_part(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of the batch or, if there is none of that name, a part of one."""
    if name in batch.schema.names:
        return batch.column(name)
    column, part = split_part(name)
    values = batch.column(column)
    return piece(values, part) if of_text(part) else _OF_DATES[part](values)


def piece(texts: pa.Array, part: str) -> pa.Array:
    """A number or a word of every text; null where it has none."""
    before, found = cut(texts, part)
    return found if part.startswith("word") else _numbers(found, before, part == "number1")


def cut(texts: pa.Array, part: str) -> tuple[pa.Array, pa.Array]:
    """What stands before a piece, up to the one of its kind before it, and the piece as text."""
    kind, place = part[:-1], int(part[-1])
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    texts = texts.cast(pa.string())
    marked = pc.replace_substring_regex(texts, f"({_PATTERNS[kind]})", rf"{_MARK}\1{_MARK}")
    others = f"(?:[^{_MARK}]*{_MARK}[^{_MARK}]*{_MARK}){{{place - 1}}}"
    found = pc.extract_regex(
        marked, f"^{others}(?P<before>[^{_MARK}]*){_MARK}(?P<piece>[^{_MARK}]*){_MARK}"
    )
    return pc.struct_field(found, "before"), pc.struct_field(found, "piece")


def _numbers(texts: pa.Array, before: pa.Array, first: bool) -> pa.Array:
    """1,250 has groups of digits, 12,5 has decimals; the sign of 25-34 is no minus."""
    grouped = pc.match_substring_regex(texts, r",\d{3}(?:\D|$)")
    points = pc.replace_substring(texts, ",", ".")
    values = pc.if_else(grouped, pc.replace_substring(texts, ",", ""), points).cast(pa.float64())
    minus = pc.match_substring_regex(before, rf"(?:{'^|' * first}[\s(/,;:])[-−]$")
    values = pc.if_else(minus, pc.negate(values), values)
    return pc.if_else(texts.is_null(), no_value(pa.float64()), values)
