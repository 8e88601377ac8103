"""The Parquet tables of a release: how they are written, read, digested and told from forged ones.

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

import hashlib
import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_words, numpy_numbers
from labeldp.data.columns import is_text
from labeldp.errors import ReleaseError
from labeldp.io_util import check_regular_file
from labeldp.threads import thread_count

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
"""Most numbers, of 8 bytes each, in one byte of a file: Snappy makes at most 22 bytes of one."""
_ABSENT = (
    "file_path", "dictionary_page_offset", "bloom_filter_offset", "metadata", "is_stats_set",
    "is_geo_stats_set", "has_offset_index", "has_column_index",
)  # fmt: skip
"""Fields of a column in the footer that labeldp never sets."""
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

    @classmethod
    def open(cls, path: Path) -> StoredTable:
        """Read the footer; refuse a damaged file and one that would not fit memory."""
        check_regular_file(path)
        with _damage_as_release_error(path), pq.ParquetFile(path) as file:
            footer = file.metadata
            _check_dense(path, footer.num_rows)
            most = max(_MOST_NUMBERS // max(1, footer.num_columns), 1)
            for number in range(footer.num_row_groups):
                if (rows := footer.row_group(number).num_rows) > most:
                    raise ReleaseError(f"{path} has {rows:,} rows in a group, too many to read")
            return cls(path, file.schema_arrow.remove_metadata(), footer.num_rows)

    @property
    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        return list(self.schema.names)

    def select(self, names: list[str]) -> StoredTable:
        """Return the same rows with these columns alone."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in names]))

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column."""
        return self.select([name]).read().column(0)

    def read(self) -> pa.Table:
        """Return all rows as a table in memory."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def dense(self) -> pa.Table:
        """Return all rows of a table without nulls, which cannot be much larger than its file."""
        _check_dense(self.path, self.num_rows * len(self.schema))
        return self.read()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, one row group at a time."""
        names = self.column_names
        with _damage_as_release_error(self.path), pq.ParquetFile(self.path) as file:
            for number in range(file.num_row_groups):
                # For "a", Arrow also reads a column named "a.b".
                group = file.read_row_group(number, names).replace_schema_metadata(None)
                yield from group.select(names).combine_chunks().to_batches()


@contextmanager
def _damage_as_release_error(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeError:
        raise ReleaseError(f"{path} is damaged: a name in it is not UTF-8") from None
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise ReleaseError(f"{path} is damaged: {reason}") from None


def _check_dense(path: Path, numbers: int) -> None:
    """Refuse more numbers than the bytes of a file can hold."""
    if numbers > _PER_BYTE * path.stat().st_size:
        raise ReleaseError(f"{path} claims {numbers:,} numbers, more than its bytes can hold")


class Digest:
    """The SHA-256 of a table's names and values, whatever the layout of its file or its metadata.

    The table comes in parts. Each column has a hash of its own, texts have two, and threads hash
    the columns while the caller writes or reads the next part.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._rows, self._nulls = schema, 0, 0
        self._columns = [
            [hashlib.sha256() for _ in range(1 + is_text(kind))] for kind in schema.types
        ]
        self._threads = max(1, min(thread_count(), len(self._columns)))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="labeldp digest")
        self._pending: list[Future[None]] = []

    def __enter__(self) -> Digest:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, part: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        self._finish()
        self._rows += part.num_rows
        self._nulls += sum(column.null_count for column in part.columns)
        for first in range(self._threads):
            mine = slice(first, None, self._threads)
            pairs = zip(self._columns[mine], part.columns[mine], strict=True)
            self._pending.append(self._pool.submit(_hash_columns, list(pairs)))

    def total(self) -> str:
        """Return the digest of all rows, with the shape, the types and the names of columns."""
        self._finish()
        shape = [self._rows, self._nulls, *map(str, self._schema.types), *self._schema.names]
        hasher = hashlib.sha256(json.dumps(shape).encode())
        for part in chain.from_iterable(self._columns):
            hasher.update(part.digest())
        return hasher.hexdigest()

    def _finish(self) -> None:
        """Wait for the threads: the hash of a column takes one part at a time."""
        for task in self._pending:
            task.result()
        self._pending = []


def table_digest(table: pa.Table | StoredTable) -> str:
    """Return the digest of a table, read one batch at a time."""
    with Digest(table.schema) as digest:
        for batch in table.to_batches():
            digest.add(batch)
        return digest.total()


def _hash_columns(pairs: list[tuple[list[Any], pa.ChunkedArray | pa.Array]]) -> None:
    for hashers, column in pairs:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for hasher, values in zip(hashers, _numbers(chunk), strict=True):
                hasher.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)


def _numbers(chunk: pa.Array) -> tuple[NDArray[Any], ...]:
    """Return a column as numbers; texts as their lengths, −1 for null, and all their bytes."""
    if not is_text(chunk.type):
        return (numpy_numbers(chunk),)
    texts = pc.fill_null(chunk, arrow_words([""], chunk.type)[0]).cast(pa.large_binary())
    lengths = numpy_numbers(pc.binary_length(texts)).copy()
    lengths[numpy_numbers(chunk.is_null())] = -1
    # A slice shares its buffers with the whole; Arrow may leave out that of no letters.
    _, offsets, letters = texts.buffers()
    if not len(texts) or letters is None:
        return lengths, np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return lengths, np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]]


def check_form(path: Path) -> None:
    """Refuse a Parquet file that labeldp would not have written."""
    with path.open("rb") as file:
        try:
            footer = pq.read_metadata(path)
            problem = next(
                chain(_footer_problems(file, footer), _layout_problems(file, footer)), ""
            )
        except (pa.ArrowException, OSError, IndexError, ValueError) as error:
            problem = str(error).splitlines()[0]
    if problem:
        raise ReleaseError(f"{path} is not as labeldp writes Parquet files: {problem}")


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
            if any(getattr(chunk, name, None) for name in _ABSENT):
                yield "it has statistics, an index, a dictionary or metadata of columns"
            if chunk.compression not in ("UNCOMPRESSED", "SNAPPY"):
                yield f"it is packed by {chunk.compression}"
            if not set(chunk.encodings) <= {"PLAIN", "RLE"}:
                yield f"it is encoded as {', '.join(chunk.encodings)}"
            if chunk.data_page_offset != place:
                yield "it has bytes between its columns"
            if chunk.num_values != group.num_rows:
                yield "a column has other rows than its group"
            end = place + chunk.total_compressed_size
            yield from _page_problems(file, place, end, chunk, schema.max_definition_level)
            place = end
    if rows != footer.num_rows:
        yield "its row groups have other rows than its footer says"
    # The footer is followed by its length, in 4 bytes, and the magic number.
    if place + footer.serialized_size + 8 != size:
        yield "it has bytes that belong to no column"


def _page_problems(
    file: IO[bytes], place: int, end: int, chunk: pq.ColumnChunkMetaData, optional: int
) -> Iterator[str]:
    """Check that pages fill a column, and that each header has exactly the fields of ours.

    `optional` is 1 if values may be missing: a page then begins with a level for each value.
    """
    width, values = _WIDTHS.get(chunk.physical_type), 0
    while place < end:
        file.seek(place)
        header, length = _read_struct(file.read(_HEADER_BYTES), 0)
        # PageHeader: 1 type (0 is a data page), 2 and 3 size without and with compression,
        # 5 DataPageHeader: 1 number of values, 2 to 4 encodings (0 is PLAIN, 3 is RLE),
        # 5 statistics, which are empty.
        raw, packed = header.pop(2, -1), header.pop(3, -1)
        page = header.pop(5, None)
        if not isinstance(page, dict):
            page = {}
        count = page.pop(1, -1)
        if header != {1: 0} or {5: {}} | page != {2: 0, 3: 3, 4: 3, 5: {}}:
            yield "a page has statistics, or another form than ours"
            return
        if packed < 0 or count < 0:
            yield "a page has no size"
            return
        levels = optional * (count // 4 + 16)
        if width is not None and not count // 8 <= raw <= width * count + levels:
            yield "a page has more bytes than its values"
        if chunk.compression == "UNCOMPRESSED" and raw != packed:
            yield "a page has other bytes than it says"
        place += length + packed
        values += count
    if place != end or values != chunk.num_values:
        yield "the pages of a column are not those that its footer counts"


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read a struct of Thrift's compact protocol; return its fields by number, and where it ends.

    Fields are integers (types 4 to 6) and structs (type 12), each numbered relative to the one
    before. Page headers need no other.
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:  # a byte 0 ends the struct
        step, kind, at = head >> 4, head & 15, at + 1
        number += step
        if step == 0:
            raise ValueError("a page has fields of another writer")
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
