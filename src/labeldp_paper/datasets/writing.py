"""Batches to a file, in one stream."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InputError
from labeldp_paper.datasets.reading import ahead

_ROW_GROUP = 1 << 17


def write_parquet(
    batches: Iterable[pa.RecordBatch], path: Path, facts: dict[str, str]
) -> tuple[int, pa.Schema]:
    """Write a table with these facts in its metadata; return its rows and its schema."""
    writer, rows = None, 0
    try:
        for table in ahead(_row_groups(batches)):
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema.with_metadata(facts))
            writer.write_table(table.replace_schema_metadata(facts))
            rows += table.num_rows
    finally:
        if writer:
            writer.close()
    if writer is None or not rows:
        raise InputError("no row is left; the files hold no row with a label")
    return rows, writer.schema


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches together: small row groups are slow to read."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(part.num_rows for part in pending) >= _ROW_GROUP:
            yield pa.Table.from_batches(pending).unify_dictionaries()
            pending = []
    if pending:
        yield pa.Table.from_batches(pending).unify_dictionaries()


def reader(path: Path) -> Callable[[], Iterator[pa.RecordBatch]]:
    """A way to read a table again and again."""

    def batches() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(1 << 17)

    return batches


def categories(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that hold levels."""
    return tuple(entry.name for entry in schema if pa.types.is_dictionary(entry.type))


def sink_for(path: Path, zipped: bool) -> BinaryIO:
    """A file to write bytes to."""
    return cast(BinaryIO, gzip.open(path, "wb", compresslevel=1)) if zipped else path.open("wb")


def counted(
    batches: Iterable[pa.RecordBatch], advance: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """The same batches, told to a follower."""
    for batch in batches:
        yield batch
        advance(batch.num_rows)
