"""Frames: anything that exports the Arrow C stream, and what becomes such a thing.

A reader of batches can be read once, and a polars plan would run at every pass: both become a
table. A pyarrow dataset stays where it is, and only the columns that are needed are read.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.data.files import sliced, unique_names
from labeldp.data.labels import label_texts
from labeldp.data.protocol import Reader, TableReader, Wanted
from labeldp.data.typed_text import SpeltReader, spelt
from labeldp.errors import DataError

ELSEWHERE = {"pyspark.sql": "labeldp.spark.reader"}
"""Frames that another room reads, by the module of their type; it is imported when one is met."""
_KNOWN = "pass a path, or a pandas, polars, pyarrow or duckdb table"
_CURES = {
    "numpy": "give its columns names: pandas.DataFrame(array, columns=[...])",
    "list": "give its columns names: pandas.DataFrame(rows, columns=[...])",
    "tuple": "give its columns names: pandas.DataFrame(rows, columns=[...])",
    "Source": "it is a source already; pass it on as it is",
    "Series": "a Series is one column: pass the table that holds it",
}
"""By the package or the name of a type that is no table."""


def frame_reader(frame: Any, private: str | None = None) -> Reader:
    """The reader of a frame; a reader is its own. `private` is the label's column."""
    if hasattr(type(frame), "units"):
        reader: Reader = frame
        return reader
    for types, room in ELSEWHERE.items():
        if type(frame).__module__.startswith(types):
            found: Reader | None = import_module(room).reader_of(frame)
            if found is not None:
                return found
    return FrameReader.open(frame, private)


def lasting(data: Any, private: str | None = None) -> Any:
    """The same data as something that can be read again and again."""
    if isinstance(data, Mapping):
        columns = dict(data)
        if isinstance(columns.get(private), list | tuple):
            columns[private] = label_texts(columns[private])
        with _exporting("dictionary", "its values must be lists of one length, by column"):
            return pa.table(columns)
    if type(data).__name__ == "LazyFrame":
        return _collected(data)
    if hasattr(data, "read_next_batch"):
        with _exporting(_name(data)):
            table = pa.RecordBatchReader.from_stream(data).read_all()
        if not table.num_rows:
            raise _once(_name(data))
        return table
    return data


def _collected(plan: Any) -> Any:
    """The rows of a polars plan; why it fails is not said, since that quotes values."""
    try:
        return plan.collect()
    except MemoryError:
        raise
    except Exception:
        raise DataError(
            "the polars LazyFrame fails when it is run; its collect() says why (and may show "
            "labels), and what it gives can be passed"
        ) from None


@dataclass(frozen=True, kw_only=True)
class FrameReader(TableReader):
    """A pandas, polars or pyarrow table, a duckdb relation, or the like."""

    frame: Any = field(repr=False)
    mixed: tuple[str, ...] = ()
    """Columns of numbers and texts, which are text here."""
    uncut: Callable[[], Reader] | None = field(default=None, repr=False, compare=False)
    """Opens the same file with the rows that `skip_footer` leaves out."""

    @classmethod
    def open(cls, frame: Any, private: str | None = None) -> FrameReader:
        """Read the schema of a frame; refuse what is none."""
        name, frame = _name(frame), with_label_texts(lasting(frame, private), private)
        kind, package = type(frame).__name__, type(frame).__module__.partition(".")[0]
        cure = _CURES.get(kind) or _CURES.get(package) or _KNOWN
        if isinstance(frame, list | tuple) and any(isinstance(e, str | Path) for e in frame):
            cure = "for several files pass their directory or a glob, such as 'data/*.csv'"
        exports = hasattr(frame, "__arrow_c_stream__") | _is_dataset(frame)
        if kind in _CURES or isinstance(frame, type) or not exports:
            raise DataError(f"data of type {name} cannot be read as a table; {cure}")
        if hasattr(frame, "__next__"):
            raise _once(name)
        frame, mixed = _of_one_type(frame)
        with _exporting(name):
            schema = _stream(frame).schema.remove_metadata()
        unique_names(schema.names, f"the {name}")
        return cls(frame=frame, schema=schema, rows=_length(frame), format=name, mixed=mixed)

    def prepared(self, request: Wanted, /) -> Reader:
        """The frame holds its types; text is read."""
        found = spelt(self, request, self.mixed)
        if found is self or not self.wording.notes:
            return found
        notes = (*self.wording.notes, *found.wording.notes)
        return SpeltReader(self, found.schema, replace(found.wording, notes=notes))

    def stored(self) -> Reader:
        return self if self.uncut is None else self.uncut()

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns."""
        names, rows = list(columns), 0
        with _exporting(self.format):
            for batch in _stream(self.frame, names):
                rows += batch.num_rows
                yield from sliced(batch.select(names), batch_rows)
        if rows == 0 and self.rows is None:
            raise DataError(f"the {self.format} gave no rows; it is empty or can be read only once")


def with_label_texts(frame: Any, private: str | None) -> Any:
    """Return the frame with the label column as texts if its type would follow from its values.

    That is so of Python objects (pandas, polars) and of polars' integers of 128 bits.
    """
    package = type(frame).__module__.partition(".")[0]
    if package not in ("pandas", "polars") or type(frame).__name__ != "DataFrame":
        return frame
    if list(frame.columns).count(private) != 1:
        return frame
    column = frame[private]
    if package == "pandas":
        kind = getattr(column.dtype, "categories", column).dtype
        if str(kind) != "object":
            return frame
        return frame.assign(**{str(private): label_texts(column.tolist()).to_numpy(False)})
    if str(column.dtype) not in ("Object", "Int128", "UInt128"):
        return frame
    return frame.with_columns(
        import_module("polars").Series(private, label_texts(column.to_list()))
    )


def _of_one_type(frame: Any) -> tuple[Any, tuple[str, ...]]:
    """A pandas frame whose columns of several types are text, as a CSV file would have them."""
    if type(frame).__module__.partition(".")[0] != "pandas" or not frame.columns.is_unique:
        return frame, ()
    kind_of = import_module("pandas.api.types").infer_dtype
    objects = [name for name, kind in frame.dtypes.items() if str(kind) == "object"]
    mixed = {name: frame[name] for name in objects if kind_of(frame[name]).startswith("mixed")}
    texts = {name: _texts_of_mixed(column.tolist()) for name, column in mixed.items()}
    told = frame.copy(deep=False)
    for name, column in texts.items():
        if column is not None:
            told[name] = column
    return told, tuple(str(name) for name, column in texts.items() if column is not None)


def _texts_of_mixed(values: list[Any]) -> list[str | None] | None:
    """Texts and numbers, or the like, all as texts; None if they are of one kind, or of others."""
    kinds = {type(value) for value in values if not _is_missing(value)}
    plain = (str, int, float, bool, Decimal, datetime.date, datetime.datetime, np.generic)
    if len(kinds) < 2 or str not in kinds or not all(issubclass(kind, plain) for kind in kinds):
        return None
    return [None if _is_missing(value) else str(value) for value in values]


def _is_missing(value: Any) -> bool:
    absent = value is None or type(value).__name__ in ("NAType", "NaTType")
    return absent or (isinstance(value, float) and math.isnan(value))


def _stream(frame: Any, columns: list[str] | None = None) -> pa.RecordBatchReader:
    """The batches of a frame, with these columns at least."""
    if _is_dataset(frame):
        return frame.scanner(columns=columns).to_reader()
    if isinstance(frame, pa.Table):  # exporting views of strings is the end of older versions
        return frame.to_reader()
    return pa.RecordBatchReader.from_stream(frame)


def _is_dataset(frame: Any) -> bool:
    return type(frame).__module__.startswith("pyarrow") and hasattr(frame, "scanner")


def _name(frame: Any) -> str:
    package = type(frame).__module__.partition(".")[0]
    return type(frame).__name__ if package == "builtins" else f"{package} {type(frame).__name__}"


@contextmanager
def _exporting(name: str, cure: str = _KNOWN) -> Iterator[None]:
    """Turn a failed export into one line; the cause may quote values, so it is left out."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        column = re.search(r"for column (.+?) with type", str(error))
        if "uplicate" in str(error):
            raise DataError(f"the {name} has several columns of one name; rename them") from None
        if column is None:
            raise DataError(f"the {name} does not convert to an Arrow table; {cure}") from None
        raise DataError(
            f"the {name} does not convert to Arrow: column {column.group(1)!r} mixes types; cast "
            f"it to one type"
        ) from None
    except RuntimeError:
        raise _once(name) from None


def _once(name: str) -> DataError:
    return DataError(
        f"the {name} holds no rows (any more), and can be read only once; pass a table, e.g. "
        "reader.read_all()"
    )


def _length(frame: Any) -> int | None:
    """Rows of a frame that knows them; a duckdb relation would run its query to count."""
    if type(frame).__module__.partition(".")[0].strip("_") == "duckdb":
        return None
    if _is_dataset(frame):
        return int(frame.count_rows())
    shape = getattr(frame, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None
