"""What a reader of a table is, what is asked of it, and what readers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from labeldp.data.reading import Reading
from labeldp.data.spelling import Wording


@dataclass(frozen=True)
class Wanted:
    """The feature columns that are to be read, and what is said of them."""

    features: Sequence[str]
    numeric: Sequence[str]
    categorical: Sequence[str]
    reading: Reading


class Reader(Protocol):
    """A table that can be read again and again, a few columns at a time."""

    @property
    def format(self) -> str:
        """Name of the format, for people."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files read, in order; empty for a frame."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of all columns."""

    @property
    def rows(self) -> int | None:
        """Number of rows, where it is known without reading the data."""

    @property
    def text(self) -> bool:
        """Whether values are spelt out in text, a label's as well."""

    @property
    def wording(self) -> Wording:
        """How its text is read, once it is `prepared`."""

    @property
    def engine(self) -> Callable[[], Any] | None:
        """What makes the one engine that reads it, where its rows are; None: it is read here."""

    def prepared(self, request: Wanted, /) -> Reader:
        """Return a reader whose schema is final for these feature columns."""

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield these columns, in this order, in batches of 1 to `batch_rows` rows."""

    def units(self) -> tuple[Reader, ...]:
        """Parts of the table, in order, that can be read at the same time; several know `rows`."""

    def stored(self) -> Reader:
        """Return a reader of all rows and columns as they are stored, whatever was said of text."""

    def count_rows(self) -> int:
        """Return the number of rows; the data are read if it is not known."""


@dataclass(frozen=True, kw_only=True)
class TableReader(ABC):
    """A reader of one stream, here, whose types are settled; those that differ say so."""

    schema: pa.Schema = field(repr=False)
    format: str
    paths: tuple[Path, ...] = ()
    rows: int | None = None
    text: bool = False
    wording: Wording = field(default_factory=Wording, repr=False)

    @property
    def engine(self) -> Callable[[], Any] | None:
        return None

    def prepared(self, _: Wanted, /) -> Reader:
        return self

    @abstractmethod
    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield these columns, in this order, in batches of 1 to `batch_rows` rows."""

    def units(self) -> tuple[Reader, ...]:
        return (self,)

    def stored(self) -> Reader:
        return self

    def count_rows(self) -> int:
        if self.rows is not None:
            return self.rows
        return sum(batch.num_rows for batch in self.batches(self.schema.names[:1], 1 << 16))


@dataclass(frozen=True)
class ReaderOf:
    """What a reader of another reader's rows takes from it; that one was prepared."""

    inner: Reader = field(repr=False)

    @property
    def format(self) -> str:
        return self.inner.format

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.inner.paths

    @property
    def rows(self) -> int | None:
        return self.inner.rows

    @property
    def engine(self) -> Callable[[], Any] | None:
        return self.inner.engine

    def prepared(self, _: Wanted, /) -> Self:
        return self

    def stored(self) -> Reader:
        return self.inner.stored()

    def count_rows(self) -> int:
        return self.inner.count_rows()
