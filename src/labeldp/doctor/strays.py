"""Texts among numbers and dates: strays, blanks, and how a number is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.doctor.column import Facts, decoded
from labeldp.source import (
    ALMOST,
    NULL_WORDS,
    SOFT_BLANKS,
    DelimitedReader,
    Reading,
    Spelling,
    TextTypes,
    among_numbers,
    is_text,
    numbers_among,
    plain,
)

MOST_ROWS = 1_000_000
"""So many are looked at."""
_MOST_STRAYS = 12
_BATCH = 1 << 16


def find_strays(
    reader: Any, taken: Sequence[str | None], known: Mapping[str, Sequence[str]], reading: Reading
) -> tuple[Any, dict[str, list[str]], list[str], list[str]]:
    """Texts among numbers or dates, for which they would be no such: blanks if they are few.

    With the reader, which then knows its encoding, and with the columns that have many: of words,
    and of numbers for the most part.
    """
    taken = (*taken, *known["categorical"])
    names = [name for name in _texts(reader.schema) if name not in taken]
    if isinstance(reader, DelimitedReader):
        reader, types = reader.looked(names)
    else:
        types = TextTypes.of(reader, names, reading) if names else TextTypes()
    strays: dict[str, list[str]] = {}
    words, numbers = list[str](), list[str]()
    for name, looks in types.looks.items():
        if 0 < looks.padded < (1 - ALMOST) * looks.values and looks.numbers == looks.values:
            zeros = _zeros(reader, name)
            strays |= {name: [f"{name}={zero}" for zero in zeros]} if zeros else {}
        wordless = looks.nearly_dates or looks.nearly_dressed
        if looks.misspelt(name in known["numeric"], False) or wordless:
            found = stray_words(reader, name, wordless, reading)
            if len(found) <= _MOST_STRAYS:
                strays[name] = found
            else:
                (words if wordless else numbers).append(name)
    return reader, strays, words, numbers


def _zeros(reader: Any, name: str) -> list[str]:
    """Zeros such as 0000 for "missing", if no other number begins with one."""
    found = set[str]()
    for batch in reader.batches([name], _BATCH):
        texts = pc.utf8_trim_whitespace(_decoded(batch.column(0)).drop_null().unique())
        found.update(texts.filter(pc.match_substring_regex(texts, r"^-?0\d")).to_pylist())
    return [] if any(zero.strip("0") for zero in found) else sorted(found)


def stray_words(reader: Any, name: str, wordless: bool, reading: Reading) -> list[str]:
    """Texts that are no numbers; among dates and numbers in a dress, those without any digit."""
    found = set[str]()
    for batch in reader.batches([name], _BATCH):
        texts = pc.utf8_trim_whitespace(_decoded(batch.column(0)).drop_null().unique())
        digits = pc.match_substring_regex(texts, r"\d")
        texts = texts.filter(pc.invert(digits if wordless else among_numbers(texts, reading)))
        found.update(texts.to_pylist())
    return sorted(found - {*SOFT_BLANKS, *reading.nulls(False)})


def with_strays(reading: Mapping[str, Any], strays: Mapping[str, list[str]]) -> dict[str, Any]:
    """What is said about text, with strays said to be missing."""
    words = [word for found in strays.values() for word in found]
    if not words:
        return dict(reading)
    return {**reading, "na": tuple(dict.fromkeys((*(reading.get("na") or ()), *words)))}


def add_blanks(columns: list[Facts], reader: Any, strays: Mapping[str, list[str]]) -> None:
    """How missing values are spelt, where that is text."""
    if isinstance(reader, DelimitedReader):
        reader = replace(reader, reading=replace(reader.reading, na=()))
    stored = set(_texts(reader.schema))
    texts = [c["name"] for c in columns if c["name"] in stored]
    if not texts:
        return
    by_name = {facts["name"]: facts for facts in columns}
    rows = 0
    for batch in reader.batches(texts, _BATCH):
        for name, column in zip(texts, batch.columns, strict=True):
            _count_blanks(by_name[name], column, strays.get(name, []))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break


def written(
    reader: Any, name: str, spelling: Spelling, codes: Sequence[int | float]
) -> dict[int | float, list[str]]:
    """How these numbers are written, separators, units and all: `na` is about what is written."""
    found: dict[int | float, set[str]] = {code: set() for code in codes}
    for batch in reader.batches([name], _BATCH):
        texts = pc.utf8_trim_whitespace(_decoded(batch.column(0)).drop_null()).unique()
        texts = texts.filter(numbers_among(texts, spelling.decimal, spelling.thousands))
        values = spelling.read(texts, name).to_pylist()
        for text, value in zip(texts.to_pylist(), values, strict=True):
            if value in found:
                found[value].add(text)
    return {code: sorted(texts) for code, texts in found.items() if texts}


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if is_text(plain(field.type))]


def _count_blanks(facts: Facts, column: pa.Array, strays: Sequence[str]) -> None:
    words = {*NULL_WORDS, *strays} | (set() if facts["kind"] == "category" else {*SOFT_BLANKS})
    counted = _decoded(column).value_counts().to_pylist()
    for entry in counted:
        text = entry["values"]
        if text is None or text.strip() in words:
            shown = "" if text is None else text
            facts["blanks"][shown] = facts["blanks"].get(shown, 0) + entry["counts"]


def _decoded(values: pa.Array) -> pa.Array:
    return decoded(pa.chunked_array([values])).chunk(0)
