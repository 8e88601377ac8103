"""Parquet files as a release has them, and what else a file could hold.

Other readers trust what we do not look at: statistics decide which rows a query sees, an index
which pages, a dictionary how much a byte stands for. We write none of these, so one that is there
came from elsewhere. All is told from the footer and the headers of the pages, before a value is
read, and every byte of the file belongs to one of them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import ReleaseError

METADATA_KEY = b"labeldp.certificate"
WRITING: dict[str, Any] = {
    "use_dictionary": False,
    "write_statistics": False,
    "store_schema": False,
}
"""How we write: the Arrow schema is left out, because it may hide metadata of its own."""

_MAGIC = b"PAR1"
_WRITER = re.compile(r"parquet-cpp-arrow version \d+\.\d+\.\d+(-SNAPSHOT)?")
_MOST_NUMBERS = 1 << 25
"""Of a row group that is read at all; another program may have written it."""
_PER_BYTE = 4
"""Rows, each of which holds a number of 8 bytes: Snappy makes no more than 22 of one."""
_ABSENT = ("file_path", "dictionary_page_offset", "bloom_filter_offset", "metadata")
_UNSET = ("is_stats_set", "is_geo_stats_set", "has_offset_index", "has_column_index")
_WIDTHS = {"DOUBLE": 8, "INT64": 8, "INT32": 4, "BOOLEAN": 1}
"""Most bytes of a value; texts have any number."""
_HEADER = 1 << 8
"""Bytes that hold the header of a page, and more."""


def check_form(path: Path) -> None:
    """Refuse a Parquet file that this package would not have written."""
    problem = next(_foreign(path), None)
    if problem is not None:
        raise ReleaseError(f"{path} is not as labeldp writes Parquet files: {problem}")


def check_size(path: Path, footer: pq.FileMetaData) -> None:
    """Refuse to read what could not come from so small a file, or would not fit memory."""
    check_dense(path, footer.num_rows)
    most = max(_MOST_NUMBERS // max(1, footer.num_columns), 1)
    for number in range(footer.num_row_groups):
        rows = footer.row_group(number).num_rows
        if rows > most:
            raise ReleaseError(f"{path} has a row group of {rows:,} rows, too many to read at once")


def check_dense(path: Path, numbers: int) -> None:
    """Refuse more numbers than the bytes of a file can hold."""
    if numbers > _PER_BYTE * path.stat().st_size:
        raise ReleaseError(f"{path} claims {numbers:,} numbers, more than its bytes can hold")


def _foreign(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        try:
            footer = pq.read_metadata(path)
            yield from _footer(file, footer)
            yield from _chunks(file, footer)
        except (pa.ArrowException, OSError, IndexError, ValueError) as problem:
            yield str(problem).splitlines()[0]


def _footer(file: IO[bytes], footer: pq.FileMetaData) -> Iterator[str]:
    """Whether the footer holds what Arrow knows of it and no field more, and who wrote it."""
    again = io.BytesIO()
    footer.write_metadata_file(again)
    written = again.getvalue().removeprefix(_MAGIC)
    file.seek(-len(written), io.SEEK_END)
    if file.read() != written:
        yield "its footer has fields of another writer"
    if not _WRITER.fullmatch(footer.created_by):
        yield "another program wrote it"
    for name in sorted((footer.metadata or {}).keys() - {METADATA_KEY}):
        yield f"it carries {name!r}, of which the certificate says nothing"


def _chunks(file: IO[bytes], footer: pq.FileMetaData) -> Iterator[str]:
    """Whether columns stand one after the other from the first byte to the footer."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        yield "it does not begin as Parquet does"
    place, rows = len(_MAGIC), 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        rows += group.num_rows
        if group.sorting_columns:
            yield "it claims an order of rows"
        for column in range(group.num_columns):
            chunk, schema = group.column(column), footer.schema.column(column)
            yield from _chunk(chunk, group.num_rows, place)
            end = place + chunk.total_compressed_size
            yield from _pages(file, place, end, chunk, schema.max_definition_level)
            place = end
    if rows != footer.num_rows:
        yield "its row groups have other rows than its footer says"
    if place + footer.serialized_size + 8 != size:
        yield "it has bytes that belong to no column"


def _chunk(chunk: pq.ColumnChunkMetaData, rows: int, place: int) -> Iterator[str]:
    if any(getattr(chunk, name, None) for name in (*_ABSENT, *_UNSET)):
        yield "it has statistics, an index, a dictionary or metadata of columns"
    if chunk.compression not in ("UNCOMPRESSED", "SNAPPY"):
        yield f"it is packed by {chunk.compression}"
    if not set(chunk.encodings) <= {"PLAIN", "RLE"}:
        yield f"it is encoded as {', '.join(chunk.encodings)}"
    if chunk.data_page_offset != place:
        yield "it has bytes between its columns"
    if chunk.num_values != rows:
        yield "a column has other rows than its group"


def _pages(
    file: IO[bytes], place: int, end: int, chunk: pq.ColumnChunkMetaData, optional: int
) -> Iterator[str]:
    """Whether pages fill a column, each with a header of the fields that ours have."""
    values = 0
    while place < end:
        file.seek(place)
        header, length = _struct(file.read(_HEADER), 0)
        page = header.pop(5, {})
        kind, raw, packed = (header.pop(field, -1) for field in (1, 2, 3))
        count, *encodings = (page.pop(field, -1) for field in (1, 2, 3, 4))
        if header or page.pop(5, {}) or page or kind != 0 or encodings != [0, 3, 3]:
            yield "a page has statistics, or another form than ours"
            return
        width = _WIDTHS.get(chunk.physical_type)
        levels = optional * (count // 4 + 16)
        if width is not None and not count // 8 <= raw <= width * count + levels:
            yield "a page has more bytes than its values"
        if chunk.compression == "UNCOMPRESSED" and raw != packed:
            yield "a page has other bytes than it says"
        if packed < 0 or count < 0:
            yield "a page has no size"
            return
        place += length + packed
        values += count
    if place != end or values != chunk.num_values:
        yield "the pages of a column are not those that its footer counts"


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a Thrift struct in the compact protocol, whole numbers and structs only."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        number, kind, at = number + (head >> 4), head & 15, at + 1
        if kind == 12:
            fields[number], at = _struct(data, at)
        elif kind in (4, 5, 6):
            fields[number], at = _whole(data, at)
        else:
            raise ValueError("a page has fields of another writer")
    return fields, at + 1


def _whole(data: bytes, at: int) -> tuple[int, int]:
    """A number: seven bits a byte, its sign in the last bit."""
    value, shift = 0, 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value >> 1 ^ -(value & 1), at
