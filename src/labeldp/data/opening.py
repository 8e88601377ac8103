"""The reader of whatever is called a table, and its columns with their final types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fsdecode
from typing import Any

from labeldp.data.delimited import DelimitedReader
from labeldp.data.files import DELIMITERS, find
from labeldp.data.foreign import foreign_reader
from labeldp.data.frames import frame_reader
from labeldp.data.parts import of_text, split_part
from labeldp.data.protocol import Reader, Wanted
from labeldp.data.readers import ArrowReader, ParquetReader
from labeldp.data.reading import Reading
from labeldp.data.typed_text import with_their_parts
from labeldp.errors import InputError

_LINES, _BYTES = ("skip_lines", "skip_footer"), ("delimiter", "encoding")
"""What is said of the lines of a file, and of its bytes."""


def open_table(data: Any, reading: Reading | None = None) -> Reader:
    """The reader of a path or a frame; how text is read counts for files of text alone."""
    if not _is_path(data):
        reader = frame_reader(data, reading.private if reading else None)
        _refuse_for_text(f"the {reader.format}", reading)
        return reader
    paths, form = find(fsdecode(data))
    if form in DELIMITERS:
        return DelimitedReader.open(paths, form, reading)
    _refuse_for_text(form, reading)
    if form == "Parquet":
        return ParquetReader.open(paths)
    if form == "Arrow":
        return ArrowReader.open(paths)
    return foreign_reader(paths, form, reading or Reading())


def said_again(data: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said about a table, without that which does not count for `data`."""
    form = find(fsdecode(data))[1] if _is_path(data) else ""
    return {name: value for name, value in said.items() if name not in _foreign_to(form)}


def _is_path(data: Any) -> bool:
    return isinstance(data, str | bytes | PathLike)


def _foreign_to(form: str) -> tuple[str, ...]:
    """What is said of text files alone."""
    if form in DELIMITERS:
        return ()
    return _BYTES if form == "Excel" else (*_BYTES, *_LINES)


def _refuse_for_text(form: str, reading: Reading | None) -> None:
    """An option that would silently not count is refused."""
    for name in _foreign_to(form):
        if reading is not None and getattr(reading, name) is not None:
            raise InputError(f"`{name}` is for text files, not for {form}; leave it out")


def ready(reader: Reader, request: Wanted) -> Reader:
    """The reader that delivers these columns, parts of others among them, with final types."""
    names, there = request.features, set(reader.schema.names)
    stored = dict.fromkeys(n if n in there else split_part(n)[0] for n in names)
    parts = [name for name in names if name not in there]
    texts = [column for column, part in map(split_part, parts) if of_text(part)]
    whole = replace(request, features=[*stored], categorical=(*request.categorical, *texts))
    return with_their_parts(reader.prepared(whole), parts)
