"""The Parquet files of a release: how they are written, read, and told from forged ones.

A table's digest covers names and values. It does not cover the rest of a Parquet file, which other
readers trust: statistics decide which rows a query returns, an index which pages it reads, a
dictionary how many values a byte stands for; metadata and gaps between columns can carry anything.
labeldp writes none of these, so `check_form` refuses a file that has one: such a file could show
other readers other rows than those that `verify` checked, smuggle labels out, or exhaust memory.

The check reads the footer through Arrow, and the header of every page with a small Thrift reader,
because Arrow does not expose page headers. It reads no value, and accounts for every byte between
the first column and the end of the file. Writing the table again and comparing bytes would be
shorter, but the bytes change between versions of pyarrow, so honest releases would be refused.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import ReleaseError
from labeldp.io_util import check_regular_file

METADATA_KEY = b"labeldp.certificate"
"""Key of the certificate's text in the metadata of each Parquet file."""
WRITING: dict[str, Any] = {
    "use_dictionary": False,
    "write_statistics": False,
    "store_schema": False,  # the Arrow schema could hide metadata of its own
}
"""Options of every Parquet writer."""

_MAGIC = b"PAR1"
_WRITER = re.compile(r"parquet-cpp-arrow version \d+\.\d+\.\d+(-SNAPSHOT)?")
_MOST_NUMBERS = 1 << 25
"""Most numbers of a row group that is read; another program may have written a larger one."""
_PER_BYTE = 4
"""Most numbers, of 8 bytes each, that one byte of a file holds: Snappy makes at most 22 bytes of
one."""
_ABSENT = ("file_path", "dictionary_page_offset", "bloom_filter_offset", "metadata")
_UNSET = ("is_stats_set", "is_geo_stats_set", "has_offset_index", "has_column_index")
_WIDTHS = {"DOUBLE": 8, "INT64": 8, "INT32": 4, "BOOLEAN": 1}
"""Most bytes of a value; texts may have any number."""
_HEADER_BYTES = 1 << 8
"""More than the header of a page takes."""


@dataclass(frozen=True)
class StoredTable:
    """A table in a Parquet file that is read only as far as it is used."""

    path: Path
    schema: pa.Schema
    num_rows: int
    columns: tuple[str, ...] | None = None
    """The columns that are read, if not all."""

    @classmethod
    def open(cls, path: Path) -> StoredTable:
        """Read the footer; refuse a damaged file and one that would not fit memory."""
        check_regular_file(path)
        with _damage_as_release_error(path), pq.ParquetFile(path) as file:
            check_size(path, file.metadata)
            return cls(path, file.schema_arrow.remove_metadata(), file.metadata.num_rows)

    @property
    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        return list(self.schema.names)

    def select(self, names: list[str]) -> StoredTable:
        """Return the same rows with these columns alone."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return replace(self, schema=schema, columns=tuple(names))

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column."""
        return self.read([name]).column(0)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return all rows as a table in memory."""
        with _damage_as_release_error(self.path), pq.ParquetFile(self.path) as file:
            return file.read(columns).replace_schema_metadata(None)

    def dense(self) -> pa.Table:
        """Return all rows of a table without nulls, which cannot be much larger than its file."""
        check_dense(self.path, self.num_rows * len(self.schema))
        return self.read()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, one row group at a time."""
        with _damage_as_release_error(self.path), pq.ParquetFile(self.path) as file:
            for number in range(file.num_row_groups):
                group = file.read_row_group(number, self.columns)
                if self.columns:  # for "a", Arrow also reads a column named "a.b"
                    group = group.select(self.columns)
                yield from group.combine_chunks().to_batches()


@contextmanager
def _damage_as_release_error(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeError:
        raise ReleaseError(f"{path} is damaged: a name in it is not UTF-8") from None
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None


def check_size(path: Path, footer: pq.FileMetaData) -> None:
    """Refuse to read more rows than the file can hold, or row groups that exceed memory."""
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


def check_form(path: Path) -> None:
    """Refuse a Parquet file that labeldp would not have written."""
    problem = next(_form_problems(path), None)
    if problem is not None:
        raise ReleaseError(f"{path} is not as labeldp writes Parquet files: {problem}")


def _form_problems(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        try:
            footer = pq.read_metadata(path)
            yield from _footer_problems(file, footer)
            yield from _layout_problems(file, footer)
        except (pa.ArrowException, OSError, IndexError, ValueError) as problem:
            yield str(problem).splitlines()[0]


def _footer_problems(file: IO[bytes], footer: pq.FileMetaData) -> Iterator[str]:
    """Check that the footer has no field that Arrow does not know, and who wrote it."""
    copy = io.BytesIO()
    footer.write_metadata_file(copy)
    expected = copy.getvalue().removeprefix(_MAGIC)
    file.seek(-len(expected), io.SEEK_END)
    if file.read() != expected:
        yield "its footer has fields of another writer"
    if not _WRITER.fullmatch(footer.created_by):
        yield "another program wrote it"
    for name in sorted((footer.metadata or {}).keys() - {METADATA_KEY}):
        yield f"it carries {name!r}, of which the certificate says nothing"


def _layout_problems(file: IO[bytes], footer: pq.FileMetaData) -> Iterator[str]:
    """Check that columns follow each other without gaps, from the first byte to the footer."""
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
            yield from _chunk_problems(chunk, group.num_rows, place)
            end = place + chunk.total_compressed_size
            yield from _page_problems(file, place, end, chunk, schema.max_definition_level)
            place = end
    if rows != footer.num_rows:
        yield "its row groups have other rows than its footer says"
    # The footer is followed by its length, in 4 bytes, and the magic number.
    if place + footer.serialized_size + 8 != size:
        yield "it has bytes that belong to no column"


def _chunk_problems(chunk: pq.ColumnChunkMetaData, rows: int, place: int) -> Iterator[str]:
    """Check what the footer says of one column of a row group, which begins at `place`."""
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


def _page_problems(
    file: IO[bytes], place: int, end: int, chunk: pq.ColumnChunkMetaData, optional: int
) -> Iterator[str]:
    """Check that pages fill a column, and that each header has exactly the fields of ours.

    `optional` is 1 if values may be missing: a page then begins with a level for each value.
    """
    values = 0
    while place < end:
        file.seek(place)
        header, length = _read_struct(file.read(_HEADER_BYTES), 0)
        # PageHeader: 1 type, 2 and 3 size without and with compression, 5 DataPageHeader.
        page = header.pop(5, {})
        kind, raw, packed = (header.pop(field, -1) for field in (1, 2, 3))
        # DataPageHeader: 1 number of values, 2 to 4 encodings (0 is PLAIN, 3 is RLE), 5 statistics.
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


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read a struct of Thrift's compact protocol; return its fields by number, and where it ends.

    Fields are integers (types 4 to 6) and structs (type 12). Page headers need no other.
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:  # a byte 0 ends the struct
        number, kind, at = number + (head >> 4), head & 15, at + 1
        if kind == 12:
            fields[number], at = _read_struct(data, at)
        elif kind in (4, 5, 6):
            fields[number], at = _read_integer(data, at)
        else:
            raise ValueError("a page has fields of another writer")
    return fields, at + 1


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint, seven bits a byte with the sign last; return it and where it ends."""
    value, shift = 0, 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value >> 1 ^ -(value & 1), at
