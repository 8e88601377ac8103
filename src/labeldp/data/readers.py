"""Readers of tables: what they have in common, and those of typed files.

A reader delivers some columns of a table in batches, again and again. `stored_schema` is what the
file or frame holds; `parsers` say how text among it becomes values, and `schema` follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.data.batches import sliced
from labeldp.data.columns import check_breadth, is_number, is_text, value_type
from labeldp.data.dates import is_all_digits
from labeldp.data.files import reading_file, same_schema
from labeldp.data.options import ReadRequest, check_column_formats
from labeldp.data.roles import check_unique_names
from labeldp.data.text_types import (
    ColumnParser,
    Counted,
    CountTexts,
    TextCounts,
    count_texts,
    infer_parsers,
)

COUNT_ROWS = 1 << 16
"""Rows whose texts are counted at a time."""
_PART_ROWS = 1 << 19
"""Rows that are worth a thread's while."""


@dataclass(frozen=True, kw_only=True)
class TableReader(ABC):
    """A table that can be read again and again, a few columns at a time."""

    stored_schema: pa.Schema = field(repr=False)
    """Names and types of all columns as they are stored."""
    format: str
    """Name of the format, for people."""
    paths: tuple[Path, ...] = ()
    """The files read, in order; empty for a frame."""
    rows: int | None = None
    """Number of rows, where it is known without reading the data."""
    parsers: Mapping[str, ColumnParser] = field(default_factory=dict, repr=False)
    """How text becomes values, once the reader is `prepared`."""
    decimal: str = "."
    """Decimal sign of labels that are text: the one of the features."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What was inferred, for people."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of all columns as they are delivered."""
        schema = self.stored_schema
        for name, parser in self.parsers.items():
            if parser.kind not in ("category", "stored"):
                place = schema.get_field_index(name)
                schema = schema.set(place, pa.field(name, parser.type))
        return schema

    @property
    def on_cluster(self) -> bool:
        """Whether rows are read on other machines, where they are."""
        return False

    @property
    def delimited(self) -> bool:
        """Whether all values are text, those of labels too."""
        return False

    @abstractmethod
    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield these columns, in this order, in batches of 1 to `batch_rows` rows."""

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the same with values in the place of texts."""
        for batch in self.stored_batches(columns, batch_rows):
            for place, (name, column) in enumerate(zip(columns, batch.columns, strict=True)):
                values = self.parsers[name].parse(column) if name in self.parsers else column
                if values is not column:
                    batch = batch.set_column(place, name, values)
            yield batch

    def count_rows(self) -> int:
        """Return the number of rows; the data are read if it is not known."""
        if self.rows is not None:
            return self.rows
        first = self.stored_schema.names[:1]
        return sum(batch.num_rows for batch in self.stored_batches(first, COUNT_ROWS))

    def units(self) -> tuple[TableReader, ...]:
        """Return parts of the table, in order, that can be read at the same time.

        If they are several, they know their `rows`.
        """
        return (self,)

    def stored(self) -> TableReader:
        """Return a reader of all rows and columns as they are stored."""
        return replace(self, parsers={})

    def prepared(self, request: ReadRequest, /) -> Self:
        """Return the reader whose parsers are final for these feature columns.

        A text column of a typed table is a category. It is looked at only if it was said to be
        numeric, to have dates of a format, or to have been read otherwise when features were
        fitted, or if it is text only because it mixes types.
        """
        options, every = request.options, self.stored_schema.names
        known = options.column_formats or {}
        check_column_formats(known)
        codes = options.missing_in_column(every)
        nulls = options.null_words(every, delimited=self.delimited)
        declared = (*request.numeric, *request.categorical)
        undecided, dated = [], []
        for name in request.features:
            said, type_ = known.get(name, {}), self.stored_schema.field(name).type
            may_differ = self.delimited or self._is_undecided(name, request, said)
            if self._is_text(name) and may_differ:
                undecided.append(name)
            form = said.get("date_format") or options.date_format
            if is_all_digits(form) and is_number(type_) and name not in declared:
                dated.append(name)  # whole numbers may be dates, because their format is known
        rows, counts = self.rows, dict[str, TextCounts]()
        if undecided or dated or self.delimited:
            check_breadth(len(undecided))
            names = [*undecided, *dated]
            # Arrow itself reads words for missing as null in CSV files.
            words = () if self.delimited and not self.on_cluster else nulls
            rows, counts = self.count(
                names, partial(count_texts, names, options.date_format, words, codes)
            )
        parsers, decimal, notes = infer_parsers(counts, request, nulls, codes)
        parsers = {n: p for n, p in parsers.items() if n not in dated or p.kind == "date"}
        for name in request.features:
            own = codes.get(name, ())
            if self._is_text(name):
                category = ColumnParser("category", pa.string(), null_words=nulls, codes=own)
                parsers.setdefault(name, category)
            elif own:
                stored = ColumnParser("stored", self.stored_schema.field(name).type, codes=own)
                parsers.setdefault(name, stored)
        return replace(
            self, parsers=parsers, rows=rows, decimal=decimal, notes=(*self.notes, *notes)
        )

    def count(self, names: Sequence[str], count: CountTexts) -> Counted:
        """Return the number of rows, and what the texts of these columns look like."""
        return count(self.stored_batches(names, COUNT_ROWS))

    def _is_text(self, name: str) -> bool:
        return is_text(value_type(self.stored_schema.field(name).type))

    def _is_undecided(self, name: str, request: ReadRequest, said: Mapping[str, Any]) -> bool:
        """Whether a text column of a typed table may be no category; `said` is its old format."""
        if name in request.categorical:
            return False
        is_category = pa.types.is_dictionary(self.stored_schema.field(name).type)
        dated = request.options.date_format is not None and not is_category
        return name in request.numeric or dated or bool(said.keys() - {"na"})


@dataclass(frozen=True, kw_only=True)
class ParquetReader(TableReader):
    """One table in one or more Parquet files."""

    format: str = "Parquet"
    rows: int
    dictionaries: tuple[str, ...] = ()
    """Text columns that are delivered as dictionary codes, five times faster than strings."""
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
            check_unique_names(schemas[-1].names, path)
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return cls(paths=paths, stored_schema=schemas[0], rows=rows)

    def prepared(self, request: ReadRequest, /) -> ParquetReader:
        """Have text features delivered as dictionary codes."""
        texts = [n for n in request.features if n not in request.numeric and self._is_text(n)]
        return TableReader.prepared(replace(self, dictionaries=tuple(texts)), request)

    def stored(self) -> ParquetReader:
        """Return a reader of all rows and columns, texts as dictionary codes."""
        texts = tuple(filter(self._is_text, self.stored_schema.names))
        return replace(self, parsers={}, dictionaries=texts)

    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
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
                groups = {} if self.groups is None else {"row_groups": list(self.groups)}
                for batch in file.iter_batches(
                    batch_size=batch_rows, columns=names, use_threads=not self.part, **groups
                ):
                    yield from sliced(batch.select(names), batch_rows)

    def units(self) -> tuple[ParquetReader, ...]:
        """Return runs of row groups, or of small files, of about `_PART_ROWS` rows."""
        parts: list[ParquetReader] = []
        for path in self.paths:
            with reading_file(path, "Parquet"):
                footer = pq.ParquetFile(path, memory_map=True).metadata
            file = replace(self, paths=(path,), rows=footer.num_rows, part=True)
            runs = list(_runs([footer.row_group(k).num_rows for k in range(footer.num_row_groups)]))
            if len(runs) > 1:
                parts += [
                    replace(file, rows=rows, groups=groups, footer=footer) for groups, rows in runs
                ]
            elif parts and parts[-1].groups is None and parts[-1].rows < _PART_ROWS:
                last = parts.pop()
                parts.append(replace(last, paths=(*last.paths, path), rows=last.rows + file.rows))
            else:
                parts.append(file)
        return tuple(parts) if len(parts) > 1 else (self,)


def _runs(rows: Sequence[int]) -> Iterator[tuple[range, int]]:
    """Yield neighbouring row groups that have `_PART_ROWS` rows together, and how many."""
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
            check_unique_names(schemas[-1].names, path)
            same_schema(schemas[0], schemas[-1], (paths[0], path))
        return cls(paths=paths, stored_schema=schemas[0])

    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns; an uncompressed file is mapped, so other columns stay on disk."""
        for path in self.paths:
            with reading_file(path, "Arrow IPC"):
                file = _open_ipc(path)
                count = getattr(file, "num_record_batches", None)
                every = file if count is None else map(file.get_batch, range(count))
                for batch in every:
                    chosen = batch.select(list(columns))
                    chosen.validate(full=True)  # Arrow itself follows damaged offsets anywhere
                    yield from sliced(chosen, batch_rows)


def _open_ipc(path: Path) -> Any:
    """Open a file or a stream; naming the fields to read would copy what is now mapped."""
    source = pa.memory_map(str(path))
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source)
