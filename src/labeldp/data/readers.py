"""Readers of tables: what they have in common, those of typed files, and the size of batches.

A reader delivers some columns of a table in batches, again and again. `stored_schema` is what the
file or frame holds; `parsers` say how text among it becomes values, and `schema` follows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.data.columns import (
    NULL_WORDS,
    NUMBER,
    check_breadth,
    is_text_type,
    value_type,
)
from labeldp.data.files import common_schema, reading_file
from labeldp.data.text_types import ColumnParser, TextCounts, TextOptions, infer_parsers

_COUNT_ROWS = 1 << 16
"""Rows whose texts are counted at a time."""
_PART_ROWS = 1 << 19
"""Least rows of a part that a thread reads."""


@dataclass(frozen=True, kw_only=True)
class TableReader(ABC):
    """A table that can be read again and again, a few columns at a time."""

    on_cluster: ClassVar[bool] = False
    """Whether rows are read on other machines, where they are; then they have no numbers."""

    stored_schema: pa.Schema = field(repr=False)
    """Names and types of all columns as they are stored."""
    format: str
    """Name of the format, for people."""
    delimited: bool = False
    """Whether all values are text, those of labels too."""
    paths: tuple[Path, ...] = ()
    """The files read, in order; empty for a frame."""
    rows: int | None = None
    """Number of rows, where it is known without reading the data."""
    options: TextOptions = field(default_factory=TextOptions, repr=False, compare=False)
    """What was said about its text."""
    parsers: Mapping[str, ColumnParser] = field(default_factory=dict, repr=False)
    """How columns become values, once the reader is `prepared`."""
    decimal: str = "."
    """Decimal sign of labels that are text: the one of the features."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What was inferred, for people."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of all columns as they are delivered."""
        schema = self.stored_schema
        for name, parser in self.parsers.items():
            if parser.type is not None:
                place = schema.get_field_index(name)
                schema = schema.set(place, pa.field(name, parser.type))
        return schema

    @cached_property
    def null_words(self) -> tuple[str, ...]:
        """Texts that mean missing in every column; empty cells always do in delimited text."""
        na, words = self.options.na, self.options.words(self.stored_schema.names)
        if na is None or (na and not words):
            return NULL_WORDS
        if not any(words):
            return ("",) if self.delimited or words else ()
        return tuple(dict.fromkeys((*NULL_WORDS, *words)))

    @abstractmethod
    def read(self, columns: list[str], batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield these columns as they are stored, perhaps among others, in batches of any size."""

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the values of these columns, in this order, in batches of 1 to `batch_rows` rows.

        Small batches are put together, because each costs as much as a large one.
        """
        names = list(columns)

        def pieces() -> Iterator[pa.RecordBatch]:
            for whole in self.read(names, batch_rows):
                whole = whole.select(names)
                for start in range(0, whole.num_rows, batch_rows):
                    piece = whole.slice(start, batch_rows)
                    for place, (name, stored) in enumerate(zip(names, piece.columns, strict=True)):
                        column = _without_views(stored)
                        if name in self.parsers:
                            column = self.parsers[name].parse(column)
                        if column is not stored:
                            piece = piece.set_column(place, name, column)
                    yield piece

        return merge_small_batches(pieces(), batch_rows)

    def count_rows(self) -> int:
        """Return the number of rows; the data are read if it is not known."""
        if self.rows is not None:
            return self.rows
        first = self.stored_schema.names[:1]
        return sum(batch.num_rows for batch in self.batches(first, _COUNT_ROWS))

    def units(self) -> tuple[TableReader, ...]:
        """Return parts of the table, in order, that can be read at the same time.

        If they are several, they know their `rows`.
        """
        return (self,)

    def stored(self) -> TableReader:
        """Return a reader of all rows and columns as they are stored."""
        return replace(self, parsers={})

    def missing(self, name: str) -> tuple[str, ...]:
        """Return what means missing in a column; in one of numbers, what was said of it alone."""
        is_text = is_text_type(value_type(self.stored_schema.field(name).type))
        return (*(self.null_words if is_text else ()), *self.options.codes(name))

    def prepared(
        self,
        features: Sequence[str],
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
    ) -> Self:
        """Return the reader whose parsers are final for these feature columns.

        A text column of a typed table is a category. It is looked at only if it was said to be
        numeric, to have dates of a format, or to have been read otherwise when features were
        fitted.
        """
        options, formats = self.options, self.options.column_formats or {}
        parsers, to_count = dict[str, ColumnParser](), list[str]()
        for name in features:
            type_ = self.stored_schema.field(name).type
            is_text = is_text_type(value_type(type_))
            if is_text or options.codes(name):
                parsers[name] = ColumnParser(missing=self.missing(name))
            has_dates = options.date_format is not None and not pa.types.is_dictionary(type_)
            declared = name in numeric or has_dates or formats.get(name, {}).keys() - {"na"}
            if self.delimited or (is_text and declared and name not in categorical):
                to_count.append(name)
        rows, counts = self.rows, dict[str, TextCounts]()
        if to_count or self.delimited:
            check_breadth(len(to_count))
            rows, counts = replace(self, parsers={}).count_texts(to_count, options.date_format)
        number_words = any(re.fullmatch(NUMBER, word) for word in self.null_words)
        inferred, decimal, notes = infer_parsers(counts, options, numeric, categorical)
        for name, parser in inferred.items():
            # Arrow's own reader knows no codes of one column, and that 99.0 is 99 neither.
            direct = parser.direct and not (number_words or options.codes(name))
            parsers[name] = replace(parser, missing=self.missing(name), direct=direct)
        notes = [*self.notes, *notes]
        return replace(self, parsers=parsers, rows=rows, decimal=decimal, notes=tuple(notes))

    def count_texts(
        self, names: Sequence[str], date_format: str | None
    ) -> tuple[int, dict[str, TextCounts]]:
        """Return the rows, and what the texts of these columns look like."""
        rows, counts = 0, {name: TextCounts() for name in names}
        missing = {name: self.missing(name) for name in names}
        # The patterns are compiled for every batch, so few large ones are counted.
        for batch in self.batches(names, _COUNT_ROWS):
            rows += batch.num_rows
            for name, count in counts.items():
                count.add(batch.column(name), missing[name], date_format)
        return rows, counts


@dataclass(frozen=True, kw_only=True)
class ParquetReader(TableReader):
    """One table in one or more Parquet files.

    Texts are delivered as dictionary codes, five times faster than strings.
    """

    format: str = "Parquet"
    rows: int
    groups: tuple[tuple[Path, list[int], Any], ...] | None = None
    """Of a part: files with the row groups to read, and the footer, to be parsed once for all."""

    @classmethod
    def open(cls, paths: tuple[Path, ...]) -> ParquetReader:
        """Read the footers; refuse files that do not belong together."""
        schemas, rows = [], 0
        for path in paths:
            with reading_file(path, "Parquet"):
                file = pq.ParquetFile(path, memory_map=True)
                schemas.append(file.schema_arrow.remove_metadata())
                rows += file.metadata.num_rows
        return cls(paths=paths, stored_schema=common_schema(paths, schemas), rows=rows)

    def read(self, columns: list[str], batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns; dictionaries may differ from batch to batch."""
        schema = self.stored_schema
        texts = [name for name in columns if is_text_type(value_type(schema.field(name).type))]
        options: dict[str, Any] = {"read_dictionary": texts, "memory_map": True}
        for path, groups, footer in self.groups or ((path, None, None) for path in self.paths):
            with reading_file(path, "Parquet"):
                file = pq.ParquetFile(path, metadata=footer, **options)
                # Parts are read at the same time, so one leaves the others the other cores.
                yield from file.iter_batches(
                    batch_rows, groups, columns, use_threads=self.groups is None
                )

    def units(self) -> tuple[ParquetReader, ...]:
        """Return runs of row groups of at least `_PART_ROWS` rows, but for the last."""
        parts, rows = list[ParquetReader](), 0
        groups: list[tuple[Path, list[int], Any]] = []
        for path in self.paths:
            with reading_file(path, "Parquet"):
                footer = pq.ParquetFile(path, memory_map=True).metadata
            for group in range(footer.num_row_groups):
                if not groups or groups[-1][0] != path:
                    groups.append((path, [], footer))
                groups[-1][1].append(group)
                rows += footer.row_group(group).num_rows
                if rows >= _PART_ROWS:
                    parts.append(replace(self, rows=rows, groups=tuple(groups)))
                    groups, rows = [], 0
        if rows:
            parts.append(replace(self, rows=rows, groups=tuple(groups)))
        return tuple(parts) if len(parts) > 1 else (self,)


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
        return cls(paths=paths, stored_schema=common_schema(paths, schemas))

    def read(self, columns: list[str], _batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns; an uncompressed file is mapped, so other columns stay on disk."""
        for path in self.paths:
            with reading_file(path, "Arrow IPC"):
                file = _open_ipc(path)
                count = getattr(file, "num_record_batches", None)
                for batch in file if count is None else map(file.get_batch, range(count)):
                    chosen = batch.select(columns)
                    chosen.validate(full=True)  # Arrow itself follows damaged offsets anywhere
                    yield chosen


def _open_ipc(path: Path) -> Any:
    """Open a file or a stream; naming the fields to read would copy what is now mapped."""
    source = pa.memory_map(str(path))
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source)


def _without_views(column: pa.Array) -> pa.Array:
    """Return string views, which polars sends and most of Arrow's kernels lack, as strings."""
    if not pa.types.is_string_view(value_type(column.type)):
        return column
    texts: Any = pa.large_string()
    is_coded = pa.types.is_dictionary(column.type)
    return column.cast(pa.dictionary(column.type.index_type, texts) if is_coded else texts)


def merge_small_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together, up to `rows` rows; of equal types only."""
    waiting: list[pa.RecordBatch] = []
    for batch in filter(len, batches):
        size = sum(piece.num_rows for piece in waiting) + batch.num_rows
        if waiting and (size > rows or batch.schema != waiting[0].schema):
            yield _together(waiting)
            waiting = []
        if not waiting and 2 * batch.num_rows > rows:
            yield batch
        else:
            waiting.append(batch)
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    for place, each in enumerate(batches[0].schema):
        if not pa.types.is_dictionary(each.type):
            continue
        # Together they may need more codes than each; and Arrow cannot unify dictionaries in which
        # null is a value.
        columns = [batch.column(place) for batch in batches]
        if each.type.index_type.bit_width < 32 or any(c.dictionary.null_count for c in columns):
            columns = [column.dictionary_decode().dictionary_encode() for column in columns]
            pairs = zip(batches, columns, strict=True)
            batches = [batch.set_column(place, each.name, column) for batch, column in pairs]
    return pa.concat_batches(batches)
