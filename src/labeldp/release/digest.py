"""The digest of a table: SHA-256 of names and values, whatever the file's layout or metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_words, numpy_numbers
from labeldp.data.columns import is_text
from labeldp.threads import thread_count


class Batched(Protocol):
    """A table in memory or on disk."""

    @property
    def schema(self) -> pa.Schema: ...

    def to_batches(self) -> Iterable[pa.RecordBatch]: ...


def table_digest(table: Batched) -> str:
    """Return the digest of a table, read one batch at a time."""
    with Digest(table.schema) as digest:
        for batch in table.to_batches():
            digest.add(pa.Table.from_batches([batch]))
        return digest.total()


class Digest:
    """The digest of a table that comes in parts: one hash for each column, two for texts.

    Threads hash the columns while the caller writes or reads the next part.
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

    def add(self, part: pa.Table) -> None:
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


def _hash_columns(pairs: list[tuple[list[Any], pa.ChunkedArray]]) -> None:
    for hashers, column in pairs:
        for chunk in column.chunks:
            for hasher, values in zip(hashers, _numbers(chunk), strict=True):
                hasher.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)


def _numbers(chunk: pa.Array) -> tuple[NDArray[Any], ...]:
    """Return a column as numbers; texts as their lengths, −1 for null, and all their bytes."""
    if not is_text(chunk.type):
        return (numpy_numbers(chunk),)
    texts = pc.fill_null(chunk, arrow_words([""], chunk.type)[0]).cast(pa.large_binary())
    lengths = numpy_numbers(pc.binary_length(texts)).copy()
    _, offsets, letters = texts.buffers()
    start = np.frombuffer(offsets, np.int64, 1, 8 * texts.offset)[0] if len(texts) else 0
    size = int(lengths.sum())
    lengths[numpy_numbers(chunk.is_null())] = -1
    # Arrow may leave out the buffer of letters if there are none.
    text = np.frombuffer(letters, np.uint8, size, int(start)) if size else np.empty(0, np.uint8)
    return lengths, text
