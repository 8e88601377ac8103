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
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.data.batches import sliced
from labeldp.data.labels import label_texts
from labeldp.data.options import ReadRequest
from labeldp.data.readers import TableReader
from labeldp.data.roles import check_unique_names
from labeldp.errors import DataError

_KNOWN = (
    "pass a path, a directory or a glob, or a pandas, polars, pyarrow or duckdb table with named "
    "columns"
)


def as_rereadable(data: Any, label: str | None = None) -> Any:
    """Return the same data as something that can be read again and again."""
    if isinstance(data, Mapping):
        columns = dict(data)
        if label is not None and isinstance(columns.get(label), list | tuple):
            columns[label] = label_texts(columns[label])
        with _exporting("dictionary", "its values must be lists of one length, by column"):
            return pa.table(columns)
    if type(data).__name__ == "LazyFrame":
        try:
            return data.collect()
        except MemoryError:
            raise
        except Exception:  # whose message may quote values
            raise DataError(
                "the polars LazyFrame fails when it is run; its collect() says why (and may show "
                "labels), and what it gives can be passed"
            ) from None
    if hasattr(data, "read_next_batch"):
        with _exporting(_type_name(data)):
            table = pa.RecordBatchReader.from_stream(data).read_all()
        if not table.num_rows:
            raise _read_once(_type_name(data))
        return table
    return data


@dataclass(frozen=True, kw_only=True)
class FrameReader(TableReader):
    """A pandas, polars or pyarrow table, a duckdb relation, or the like."""

    frame: Any = field(repr=False)
    mixed: tuple[str, ...] = ()
    """Columns that mix numbers and texts, and are text only for that."""
    uncut: Callable[[], TableReader] | None = field(default=None, repr=False, compare=False)
    """Opens the same file with the rows that `skip_footer` leaves out."""

    @classmethod
    def open(cls, frame: Any, label: str | None = None) -> FrameReader:
        """Read the schema of a frame; refuse what is none."""
        name, frame = _type_name(frame), with_label_texts(as_rereadable(frame, label), label)
        package = _package(frame)
        exports = hasattr(frame, "__arrow_c_stream__") or _is_dataset(frame)
        if type(frame).__name__ == "Series" or isinstance(frame, type) or not exports:
            raise DataError(f"data of type {name} cannot be read as a table; {_KNOWN}")
        if hasattr(frame, "__next__"):
            raise _read_once(name)
        mixed: tuple[str, ...] = ()
        if package == "pandas" and frame.columns.is_unique:
            frame, mixed = _with_plain_columns(frame)
        with _exporting(name):
            schema = _stream(frame).schema.remove_metadata()
        check_unique_names(schema.names, f"the {name}")
        rows = None
        if _is_dataset(frame):
            rows = int(frame.count_rows())
        elif package not in ("duckdb", "_duckdb") and getattr(frame, "shape", None):
            rows = int(frame.shape[0])  # duckdb would run its query to count
        return cls(frame=frame, stored_schema=schema, rows=rows, format=name, mixed=mixed)

    def stored(self) -> TableReader:
        reader = self if self.uncut is None else self.uncut()
        return TableReader.stored(reader)

    def stored_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        names, rows = list(columns), 0
        with _exporting(self.format):
            for batch in _stream(self.frame, names):
                rows += batch.num_rows
                yield from sliced(batch.select(names), batch_rows)
        if rows == 0 and self.rows is None:
            raise DataError(f"the {self.format} gave no rows; it is empty or can be read only once")

    def _is_undecided(self, name: str, request: ReadRequest, said: Mapping[str, Any]) -> bool:
        mixed = name in self.mixed and name not in request.categorical
        return mixed or TableReader._is_undecided(self, name, request, said)


def with_label_texts(frame: Any, label: str | None) -> Any:
    """Return the frame with the label column as texts if its type would follow from its values.

    That is so of Python objects (pandas, polars) and of polars' integers of 128 bits.
    """
    package = _package(frame)
    is_frame = package in ("pandas", "polars") and type(frame).__name__ == "DataFrame"
    if not is_frame or list(frame.columns).count(label) != 1:
        return frame
    column = frame[label]
    if package == "pandas":
        kind = getattr(column.dtype, "categories", column).dtype
        if str(kind) != "object":
            return frame
        return frame.assign(**{str(label): label_texts(column.tolist()).to_numpy(False)})
    if str(column.dtype) not in ("Object", "Int128", "UInt128"):
        return frame
    import polars

    return frame.with_columns(polars.Series(label, label_texts(column.to_list())))


def _with_plain_columns(frame: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a pandas frame whose columns of several types are text, and their names."""
    plain, mixed = frame.copy(deep=False), []
    for name, kind in frame.dtypes.items():
        texts = plain_texts(frame[name].tolist()) if str(kind) == "object" else None
        if texts is not None:
            plain[name] = texts
            mixed.append(str(name))
    return plain, tuple(mixed)


def plain_texts(values: Sequence[Any]) -> list[str | None] | None:
    """Return texts and numbers, or the like, all as texts; None if they are of one kind."""
    kinds = {type(value) for value in values if not _is_missing(value)}
    plain = (str, int, float, bool, Decimal, datetime.date, datetime.time, np.generic)
    if len(kinds) < 2 or str not in kinds or not all(issubclass(kind, plain) for kind in kinds):
        return None
    return [None if _is_missing(value) else str(value) for value in values]


def _is_missing(value: Any) -> bool:
    absent = value is None or type(value).__name__ in ("NAType", "NaTType")
    return absent or (isinstance(value, float) and math.isnan(value))


def _stream(frame: Any, columns: list[str] | None = None) -> pa.RecordBatchReader:
    """Return the batches of a frame, with these columns at least."""
    if _is_dataset(frame):
        return frame.scanner(columns=columns).to_reader()
    if isinstance(frame, pa.Table):  # older versions crash where views of strings are exported
        return frame.to_reader()
    return pa.RecordBatchReader.from_stream(frame)


def _is_dataset(frame: Any) -> bool:
    return _package(frame) == "pyarrow" and hasattr(frame, "scanner")


def _package(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0]


def _type_name(frame: Any) -> str:
    name = type(frame).__name__
    return name if _package(frame) == "builtins" else f"{_package(frame)} {name}"


@contextmanager
def _exporting(name: str, remedy: str = _KNOWN) -> Iterator[None]:
    """Turn a failed export into one line; the cause may quote values, so it is left out."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if "uplicate" in str(error):
            raise DataError(f"the {name} has several columns of one name; rename them") from None
        column = re.search(r"for column (.+?) with type", str(error))
        if column is not None:
            remedy = f"column {column.group(1)!r} mixes types; cast it to one type"
        raise DataError(f"the {name} does not convert to an Arrow table; {remedy}") from None
    except RuntimeError:
        raise _read_once(name) from None


def _read_once(name: str) -> DataError:
    return DataError(
        f"the {name} holds no rows (any more), and can be read only once; pass a table, e.g. "
        "reader.read_all()"
    )
