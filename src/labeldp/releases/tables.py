"""The Parquet tables of a release: how they are written, read, digested and told from forged ones.

A table's digest covers names and values. It does not cover the rest of a Parquet file, which other
readers trust: statistics decide which rows a query returns, an index which pages it reads, a
dictionary how many values a byte stands for; metadata, page headers and gaps between columns can
carry anything. `check_form` therefore writes the table again and compares all bytes: a file that
could show other readers other rows than those that `verify` checked, or smuggle labels out, has
others. Tables are not compressed, because the same version of pyarrow compresses the same numbers
to other bytes where it was built for another processor.

Versions of pyarrow differ in where pages end. What another version wrote is compared as well, but
only that version can tell why its bytes differ; the footer is checked for what readers trust.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
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
    "compression": "none",
}
"""Options of every Parquet writer."""

_WRITTEN_BY = "parquet-cpp-arrow version %s"
_WRITER = re.compile(_WRITTEN_BY % r"(\d{1,3}\.\d{1,3}\.\d{1,3}(-SNAPSHOT)?)")
_MOST_NUMBERS = 1 << 25
"""Most numbers of a row group that is read; another program may have written a larger one."""
_PER_BYTE = 4
"""Most numbers, of 8 bytes each, in one byte of a file: Snappy makes at most 22 bytes of one."""
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy"}
"""Names of compression in footers and for writers: earlier releases have columns in Snappy."""
_ABSENT = (
    "file_path", "dictionary_page_offset", "bloom_filter_offset", "metadata", "is_stats_set",
    "is_geo_stats_set", "has_offset_index", "has_column_index",
)  # fmt: skip
"""Fields of a column in the footer that labeldp never sets."""


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


def digest_of(schema: pa.Schema, parts: Iterable[pa.Table | pa.RecordBatch]) -> str:
    """Return the SHA-256 of a table's names and values, whatever the layout of its file.

    The table comes in parts. Each column has a hash of its own, texts have two; threads share the
    columns. Shape, types and names of columns count, metadata do not.
    """
    hashers = [[hashlib.sha256() for _ in range(1 + is_text_type(kind))] for kind in schema.types]
    threads, rows, nulls = max(1, min(thread_count(), len(hashers))), 0, 0
    with ThreadPoolExecutor(threads, thread_name_prefix="labeldp digest") as pool:
        for part in parts:
            rows += part.num_rows
            nulls += sum(column.null_count for column in part.columns)
            list(pool.map(_hash_column, hashers, part.columns))
    shape = [rows, nulls, *map(str, schema.types), *schema.names]
    total = hashlib.sha256(json.dumps(shape).encode())
    for hasher in chain.from_iterable(hashers):
        total.update(hasher.digest())
    return total.hexdigest()


def table_digest(table: pa.Table | StoredTable) -> str:
    """Return the digest of a table, read one batch at a time."""
    return digest_of(table.schema, table.to_batches())


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


def check_form(path: Path, certificate: str) -> None:
    """Refuse a Parquet file that labeldp would not have written beside this certificate.

    A file of this version of pyarrow must have the very bytes that its table is written in. Of
    another `unchecked_bytes` says what could not be told.
    """
    with _damage_as_release_error(path), pq.ParquetFile(path) as file:
        footer = file.metadata
        # Arrow aborts the process when it is asked for what it does not know, such as a new codec.
        # When it reads a row it raises an error instead, so a row of each group is read first.
        for number in range(footer.num_row_groups):
            next(file.iter_batches(1, [number]), None)
        problem = next(_footer_problems(footer, certificate), "")
        if not problem and not _other_writer(footer) and not _has_bytes_of_table(path):
            problem = "it has other bytes than its table is written in"
    if problem:
        raise ReleaseError(f"{path} is not as labeldp writes Parquet files: {problem}")


def unchecked_bytes(path: Path) -> str | None:
    """Return what cannot be told of a file that another version or build of pyarrow wrote."""
    writer = _other_writer(pq.read_metadata(path))
    if not writer or _has_bytes_of_table(path):
        return None
    return f"whether {path.name} carries anything beside its table: {writer}"


def _other_writer(footer: pq.FileMetaData) -> str:
    """Return who could tell whether a file has the right bytes; nothing if we can."""
    if (version := _version(footer)) != pa.cpp_version:
        return (
            f"pyarrow {version} wrote it, and only that version can tell "
            f"(pip install pyarrow=={version}, then verify again)"
        )
    if "snappy" in _codecs(footer).values():  # in releases of earlier versions of labeldp
        return "it is compressed, and only the build of pyarrow that wrote it can tell"
    return ""


def _version(footer: pq.FileMetaData) -> str | None:
    """Return the version of pyarrow that wrote a file; None if another program did."""
    match = _WRITER.fullmatch(footer.created_by)
    return match[1] if match else None


def _codecs(footer: pq.FileMetaData) -> dict[str, str]:
    """Return how the columns of a file are compressed."""
    if not footer.num_row_groups:
        return {}
    chunks = map(footer.row_group(0).column, range(footer.num_columns))
    return {each.path_in_schema: _CODECS[each.compression] for each in chunks}


def _footer_problems(footer: pq.FileMetaData, certificate: str) -> Iterator[str]:
    """Check, in files of any version, what other readers trust."""
    if _version(footer) is None:
        yield "another program wrote it"
    if footer.metadata != {METADATA_KEY: certificate.encode(errors="surrogatepass")}:
        yield "it carries other metadata than the certificate"
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if group.sorting_columns:
            yield "it claims an order of rows"
        for chunk in map(group.column, range(group.num_columns)):
            if any(getattr(chunk, name, None) for name in _ABSENT):
                yield "it has statistics, an index, a dictionary or metadata of columns"
            if chunk.compression not in _CODECS:
                yield f"it is packed by {chunk.compression}"
            if not set(chunk.encodings) <= {"PLAIN", "RLE"}:
                yield f"it is encoded as {', '.join(chunk.encodings)}"


def _has_bytes_of_table(path: Path) -> bool:
    """Write the table of a file again, one row group at a time; return whether all bytes agree.

    The name of the writer in the footer may differ.
    """
    with _damage_as_release_error(path), pq.ParquetFile(path) as file, path.open("rb") as content:
        footer = file.metadata
        copy = _Comparison(content, _WRITTEN_BY % pa.cpp_version, footer.created_by)
        # A field may have metadata of its own, which a copy would repeat.
        fields = [pa.field(each.name, each.type, each.nullable) for each in file.schema_arrow]
        writing = WRITING | {"compression": _codecs(footer) or "none"}
        with pq.ParquetWriter(copy, pa.schema(fields), **writing) as writer:
            for number in range(footer.num_row_groups):
                group = file.read_row_group(number).cast(writer.schema)
                writer.write_table(group, max(1, group.num_rows))
            writer.add_key_value_metadata({METADATA_KEY: footer.metadata[METADATA_KEY]})
        return copy.same and not content.read(1)


class _Comparison(io.RawIOBase):
    """A file for writing that keeps nothing: it tells whether the same is in another file."""

    def __init__(self, content: IO[bytes], ours: str, theirs: str) -> None:
        self._content, self._ours, self._theirs = content, ours.encode(), theirs.encode()
        self.same = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written = bytes(data)
        if self._ours != self._theirs:
            written = written.replace(self._ours, self._theirs)
        self.same = self.same and self._content.read(len(written)) == written
        return len(data)
