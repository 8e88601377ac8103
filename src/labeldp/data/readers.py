"""Readers of typed files: Parquet and Arrow IPC (Feather)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.data.columns import is_text, value_type
from labeldp.data.files import reading as reading_file, same_schema, sliced, unique_names
from labeldp.data.protocol import Reader, TableReader, Wanted
from labeldp.data.typed_text import spelt

_PART_ROWS = 1 << 19
"""Rows that are worth a thread's while."""


@dataclass(frozen=True, kw_only=True)
class ParquetReader(TableReader):
    """One table in one or more Parquet files."""

    format: str = "Parquet"
    rows: int
    dictionaries: tuple[str, ...] = ()
    groups: range | None = None
    """Of a part of one file: its row groups."""
    footer: Any = field(default=None, repr=False, compare=False)
    """Of a part of one file: the footer, so that it is parsed once for all parts."""
    part: bool = False
    """Other parts are read at the same time, so this one leaves them the other cores."""

    @classmethod
    def open(cls, paths: tuple[Path, ...]) -> ParquetReader:
        """Read the footers; refuse files that do not belong together."""
        schemas, rows = [], 0
        for path in paths:
            with reading_file(path, "Parquet"):
                file = pq.ParquetFile(path, memory_map=True)
                schemas.append(file.schema_arrow.remove_metadata())
                rows += file.metadata.num_rows
            unique_names(schemas[-1].names, path)
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return cls(paths=paths, schema=schemas[0], rows=rows)

    def prepared(self, request: Wanted, /) -> Reader:
        """Have text features delivered as dictionary codes, five times faster than strings."""
        names = (name for name in request.features if name not in request.numeric)
        texts = (name for name in names if is_text(value_type(self.schema.field(name).type)))
        return spelt(replace(self, dictionaries=tuple(texts)), request)

    def stored(self) -> ParquetReader:
        """All texts as dictionary codes."""
        texts = (field.name for field in self.schema if is_text(value_type(field.type)))
        return replace(self, dictionaries=tuple(texts))

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns; dictionaries may differ from batch to batch."""
        names = list(columns)
        for path in self.paths:
            with reading_file(path, "Parquet"):
                file = pq.ParquetFile(
                    path,
                    metadata=self.footer,
                    read_dictionary=list(self.dictionaries),
                    memory_map=True,
                )
                chosen = {} if self.groups is None else {"row_groups": list(self.groups)}
                for batch in file.iter_batches(
                    batch_size=batch_rows,
                    columns=names,
                    use_threads=not self.part,
                    **chosen,
                ):
                    yield from sliced(batch.select(names), batch_rows)

    def units(self) -> tuple[ParquetReader, ...]:
        """Runs of row groups, or of small files, of about `_PART_ROWS` rows."""
        found: list[ParquetReader] = []
        for path in self.paths:
            with reading_file(path, "Parquet"):
                footer = pq.ParquetFile(path, memory_map=True).metadata
            file = replace(self, paths=(path,), rows=footer.num_rows, part=True)
            runs = list(_runs([footer.row_group(k).num_rows for k in range(footer.num_row_groups)]))
            if len(runs) > 1:
                found += [
                    replace(file, rows=rows, groups=groups, footer=footer) for groups, rows in runs
                ]
            elif found and found[-1].groups is None and found[-1].rows < _PART_ROWS:
                last = found.pop()
                paths, rows = (*last.paths, path), last.rows + file.rows
                found.append(replace(last, paths=paths, rows=rows))
            else:
                found.append(file)
        return tuple(found) if len(found) > 1 else (self,)


def _runs(rows: Sequence[int]) -> Iterator[tuple[range, int]]:
    """Neighbouring row groups until they have `_PART_ROWS` rows together."""
    start = total = 0
    for group, count in enumerate(rows):
        total += count
        if total >= _PART_ROWS or group + 1 == len(rows):
            yield range(start, group + 1), total
            start, total = group + 1, 0


@dataclass(frozen=True, kw_only=True)
class ArrowReader(TableReader):
    """One table in one or more Arrow IPC files or streams; mapped, they cost nothing to decode."""

    format: str = "Arrow"

    @classmethod
    def open(cls, paths: tuple[Path, ...]) -> ArrowReader:
        """Read the schemas; refuse files that do not belong together."""
        schemas = []
        for path in paths:
            with reading_file(path, "Arrow IPC"):
                schemas.append(_open_ipc(path).schema.remove_metadata())
            unique_names(schemas[-1].names, path)
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return cls(paths=paths, schema=schemas[0])

    def prepared(self, request: Wanted, /) -> Reader:
        """The file holds its types; text is read."""
        return spelt(self, request)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns; an uncompressed file is mapped, so other columns stay on disk."""
        names = list(columns)
        for path in self.paths:
            with reading_file(path, "Arrow IPC"):
                for batch in _ipc_batches(_open_ipc(path)):
                    chosen = batch.select(names)
                    chosen.validate(full=True)  # Arrow itself follows damaged offsets anywhere
                    yield from sliced(chosen, batch_rows)


_Ipc = Any


def _open_ipc(path: Path) -> _Ipc:
    """Open a file or a stream; naming the fields to read would copy what is now mapped."""
    source = pa.memory_map(str(path))
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source)


def _ipc_batches(reader: _Ipc) -> Iterator[pa.RecordBatch]:
    if not hasattr(reader, "num_record_batches"):
        yield from reader
        return
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)
