"""The Parquet tables of a release: how they are written, read, digested and told from forged ones.

A table's digest covers names and values. It does not cover the rest of a Parquet file, which other
readers trust: statistics decide which rows a query returns, an index which pages it reads, a
dictionary how many values a byte stands for; metadata and gaps between columns can carry anything.
labeldp writes none of these, so `check_form` refuses a file that has one: such a file could show
other readers other rows than those that `verify` checked, smuggle labels out, or exhaust memory.

The check reads the footer through Arrow, and compares the header of every page with the bytes that
Arrow writes, because Arrow does not expose page headers. It reads no value, and accounts for every
byte between the first column and the end of the file. Writing the table again and comparing bytes
would be shorter, but the bytes change between versions of pyarrow, so honest releases would be
refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.arrow_util import arrow_words, numpy_numbers
from labeldp.data.columns import is_text_type
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
_WRITER = re.compile(r"parquet-cpp-arrow version \d{1,3}\.\d{1,3}\.\d{1,3}(-SNAPSHOT)?")
_MOST_NUMBERS = 1 << 25
"""Most numbers of a row group that is read; another program may have written a larger one."""
_PER_BYTE = 4
"""Most numbers, of 8 bytes each, in one byte of a file: Snappy makes at most 22 bytes of one."""

_MOST_PACKED = 32
"""Most bytes that Snappy makes of one, with room."""

_ABSENT = (
    "file_path", "dictionary_page_offset", "bloom_filter_offset", "metadata", "is_stats_set",
    "is_geo_stats_set", "has_offset_index", "has_column_index",
)  # fmt: skip
"""Fields of a column in the footer that labeldp never sets."""
_WIDTHS = {"DOUBLE": 8, "INT64": 8, "INT32": 4, "BOOLEAN": 1}
"""Most bytes of a value; texts may have any number."""
_COUNT = rb"([\x80-\xff]{0,4}[\x01-\x7f]|\0)"
_PAGE_HEADER = re.compile(
    rb"\x15\0"  # field 1, type: 0, a data page
    rb"\x15%b\x15%b"  # fields 2 and 3: the size without and with compression
    rb"\x2c\x15%b"  # field 5, a data page: its field 1, the number of values,
    rb"\x15\0\x15\x06\x15\x06"  # fields 2 to 4, encodings: PLAIN (0), twice RLE (3)
    rb"(?:\x1c\0)?\0\0" % (_COUNT, _COUNT, _COUNT)  # field 5, empty statistics; both ends
)
"""The header of a page in Thrift's compact protocol, where 5 is an integer and 12 (c) a struct.

The upper half of a field's first byte is the step from the number of the field before. An integer
is a zigzag varint: twice the value, seven bits a byte, the lowest first.
"""
_HEADER_BYTES = 32  # at least the length of such a header


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

    The table comes in parts. Each column has a hash of its own, texts have two; threads share the
    columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._rows, self._nulls = schema, 0, 0
        self._columns = [
            [hashlib.sha256() for _ in range(1 + is_text_type(kind))] for kind in schema.types
        ]
        threads = max(1, min(thread_count(), len(self._columns)))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="labeldp digest")

    def __enter__(self) -> Digest:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, part: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        self._rows += part.num_rows
        self._nulls += sum(column.null_count for column in part.columns)
        list(self._pool.map(_hash_column, self._columns, part.columns))

    def total(self) -> str:
        """Return the digest of all rows, with the shape, the types and the names of columns."""
        shape = [self._rows, self._nulls, *map(str, self._schema.types), *self._schema.names]
        hasher = hashlib.sha256(json.dumps(shape).encode())
        for part in chain.from_iterable(self._columns):
            hasher.update(part.digest())
        return hasher.hexdigest()


def table_digest(table: pa.Table | StoredTable) -> str:
    """Return the digest of a table, read one batch at a time."""
    with Digest(table.schema) as digest:
        for batch in table.to_batches():
            digest.add(batch)
        return digest.total()


def _hash_column(hashers: Sequence[Any], column: pa.ChunkedArray | pa.Array) -> None:
    """Hash the numbers of a column, or the lengths of its texts (−1 for null) and their bytes."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if is_text_type(chunk.type):
            empty = arrow_words([""], pa.large_binary())[0]
            texts = pc.fill_null(chunk.cast(pa.large_binary()), empty)
            numbers = numpy_numbers(pc.binary_length(texts)).copy()
            numbers[numpy_numbers(chunk.is_null())] = -1
            whole = pa.LargeListArray.from_arrays([0, len(texts)], texts)
            hashers[1].update(pc.binary_join(whole, empty)[0].as_buffer())
        else:
            numbers = numpy_numbers(chunk)
        hashers[0].update(np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")).data)


def check_form(path: Path) -> None:
    """Refuse a Parquet file that labeldp would not have written."""
    with path.open("rb") as file:
        try:
            footer, schema = pq.read_metadata(path), pq.read_schema(path)
            problems = _footer_problems(file, footer), _layout_problems(file, footer)
            problem = next(chain(*problems, _group_problems(footer)), "")
            # A dictionary has every key once; Arrow's metadata may have one twice.
            if not schema.equals(schema.with_metadata(schema.metadata), check_metadata=True):
                problem = "it has a key of its metadata twice"
        except (pa.ArrowException, OSError, IndexError, ValueError) as error:
            problem = str(error).splitlines()[0]
    if problem:
        raise ReleaseError(f"{path} is not as labeldp writes Parquet files: {problem}")


def _footer_problems(file: IO[bytes], footer: pq.FileMetaData) -> Iterator[str]:
    """Check that the footer has no field that Arrow does not know, and who wrote it."""
    expected = _footer_bytes(footer)
    file.seek(-len(expected), io.SEEK_END)
    if file.read() != expected:
        yield "its footer has fields of another writer"
    if not _WRITER.fullmatch(footer.created_by):
        yield "another program wrote it"
    for name in sorted((footer.metadata or {}).keys() - {METADATA_KEY}):
        yield f"it carries {name!r}, of which the certificate says nothing"


def _footer_bytes(footer: pq.FileMetaData) -> bytes:
    """Return the end of a file as Arrow writes it."""
    copy = io.BytesIO()
    footer.write_metadata_file(copy)
    return copy.getvalue().removeprefix(_MAGIC)


def _group_problems(footer: pq.FileMetaData) -> Iterator[str]:
    """Check what the footer says of each group and Arrow does not expose."""
    footer_bytes = _footer_bytes(footer)
    place = 0
    for number in range(footer.num_row_groups):
        # Fields 2, 3, 5 and 6 of a group: its size, its rows, its place in the file, its size with
        # compression; then perhaps its number. Arrow does not expose the last three.
        group = footer.row_group(number)
        columns = [group.column(column) for column in range(group.num_columns)]
        packed = sum(column.total_compressed_size for column in columns)
        sizes = group.total_byte_size, group.num_rows, columns[0].data_page_offset, packed
        fields = b"\x16%b\x16%b\x26%b\x16%b" % (*map(_zigzag, sizes),)
        ends = (re.escape(fields), re.escape(_zigzag(number)))
        found = re.compile(b"%b(?:\x14%b)?\0" % ends).search(footer_bytes, place)
        if found is None:
            yield "a row group has another place or number than its columns"
            return
        place = found.end()


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
        sizes = [group.column(c).total_uncompressed_size for c in range(group.num_columns)]
        if group.total_byte_size != sum(sizes):
            yield "a group has another size than its columns"
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
            optional = schema.max_definition_level
            problems = list(_page_problems(file, place, end, chunk, optional))
            yield from problems or _value_problems(file, place, end, chunk, optional)
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
        header = _PAGE_HEADER.match(file.read(_HEADER_BYTES))
        if header is None:
            yield "a page has statistics, or another form than ours"
            return
        raw, packed, count = _varints(header)
        if raw % 2 or packed % 2 or count % 2:  # negative
            yield "a page has no size"
            return
        raw, packed, count = raw // 2, packed // 2, count // 2
        levels = optional * (count // 4 + 16)
        least = 0 if optional else count // 8  # missing values take no bytes
        if width is not None and not least <= raw <= width * count + levels:
            yield "a page has more bytes than its values"
        if chunk.compression == "UNCOMPRESSED" and raw != packed:
            yield "a page has other bytes than it says"
        place += header.end() + packed
        values += count
    if place != end or values != chunk.num_values:
        yield "the pages of a column are not those that its footer counts"


def _zigzag(number: int) -> bytes:
    """Return a number as Thrift's compact protocol writes it."""
    rest, out = 2 * number, b""
    while rest > 127:
        rest, out = rest >> 7, out + bytes([rest & 127 | 128])
    return out + bytes([rest])


def _varints(header: re.Match[bytes]) -> Iterator[int]:
    """Yield the numbers of a page header, zigzag as they are."""
    for number in header.groups():
        yield sum((byte & 127) << 7 * k for k, byte in enumerate(number))


def _value_problems(
    file: IO[bytes], place: int, end: int, chunk: pq.ColumnChunkMetaData, optional: int
) -> Iterator[str]:
    """Check that pages, whose headers are sound, hold levels and values to the last bit.

    Readers skip what stands behind them: a byte for each label would go unseen.
    """
    kind, size = chunk.physical_type, 0
    while place < end:
        file.seek(place)
        header = _PAGE_HEADER.match(file.read(_HEADER_BYTES))
        assert header is not None
        raw, packed, count = (number // 2 for number in _varints(header))
        place, size = place + header.end() + packed, size + header.end() + raw
        if not optional and kind in _WIDTHS and kind != "BOOLEAN":
            full = raw == _WIDTHS[kind] * count
        elif raw > _MOST_PACKED * (packed + 1):
            full = False
        else:
            file.seek(place - packed)
            page = file.read(packed)
            if chunk.compression == "SNAPPY":
                page = pa.decompress(page, raw, "snappy", asbytes=True)
            full = _is_full(page, kind, count, optional)
        if not full:
            yield "a page has bytes that belong to no value"
            return
    if size != chunk.total_uncompressed_size:
        yield "a column has another size than its pages"


def _is_full(page: bytes, kind: str, count: int, optional: int) -> bool:
    """Return whether the levels and values of a page are all that it has."""
    place = 0
    if optional:  # levels say which of the values are there
        place = 4 + int.from_bytes(page[:4], "little")
        present = _count_present(page[4:place], count)
        if optional > 1 or present is None:
            return False
        count = present
    if kind == "BOOLEAN":  # a bit each, the lowest first
        bits = int.from_bytes(page[place:], "little")
        return len(page) == place + -(-count // 8) and bits.bit_length() <= count
    if kind in _WIDTHS:
        return len(page) == place + _WIDTHS[kind] * count
    for _ in range(count):  # of texts the length stands before each
        place += 4 + int.from_bytes(page[place : place + 4], "little")
    return len(page) == place


def _count_present(levels: bytes, count: int) -> int | None:
    """Return how many of the levels are 1; None if there are others, or anything behind them.

    Runs begin with a varint h: h/2 times the next byte if h is even, else h/2 bytes of bits.
    """
    place = seen = present = 0
    while place < len(levels) and seen < count:
        header = shift = 0
        while True:
            byte = levels[place]
            header, shift, place = header | (byte & 127) << shift, shift + 7, place + 1
            if byte < 128:
                break
        size, left = header // 2, count - seen
        if not size:
            return None
        if header % 2:
            bits = int.from_bytes(levels[place : place + size], "little")
            if bits.bit_length() > left:
                return None
            place, seen, present = place + size, seen + 8 * size, present + bits.bit_count()
        else:
            if size > left or levels[place] > 1:
                return None
            place, seen, present = place + 1, seen + size, present + size * levels[place]
    return present if place == len(levels) and seen >= count else None
