"""Frames in memory: anything that exports the Arrow C stream, and can do so again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.errors import DataError
from labeldp.source.files import Reader, sliced, unique_names
from labeldp.source.spelling import Reading, Wording
from labeldp.source.spelt import spelt

ELSEWHERE = {"pyspark.sql": "labeldp.spark.reader"}
"""Frames that another room reads, by the module of their type; it is imported when one is met."""
_KNOWN = "pass a path, or a pandas, polars, pyarrow or duckdb table"


def frame_reader(frame: Any) -> Reader:
    """The reader of a frame; a reader is its own."""
    if hasattr(type(frame), "units"):
        reader: Reader = frame
        return reader
    for types, room in ELSEWHERE.items():
        if type(frame).__module__.startswith(types):
            found: Reader | None = import_module(room).reader_of(frame)
            if found is not None:
                return found
    return FrameReader.open(frame)


@dataclass(frozen=True)
class FrameReader:
    """A pandas, polars or pyarrow table, a duckdb relation, or the like."""

    frame: Any = field(repr=False)
    schema: pa.Schema = field(repr=False)
    rows: int | None
    format: str
    paths: tuple[Path, ...] = ()
    text: bool = False
    engine: None = None
    wording: Wording = field(default_factory=Wording, repr=False)

    @classmethod
    def open(cls, frame: Any) -> FrameReader:
        """Read the schema of a frame; refuse objects that can be read only once."""
        name = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
        if not hasattr(frame, "__arrow_c_stream__"):
            cure = "call .collect() first" if hasattr(frame, "collect") else _KNOWN
            raise DataError(f"data of type {name} cannot be read; {cure}")
        if hasattr(frame, "__next__") or hasattr(frame, "read_next_batch"):
            raise _once(name)
        with _exporting(name):
            schema = pa.RecordBatchReader.from_stream(frame).schema.remove_metadata()
        unique_names(schema.names, f"the {name}")
        return cls(frame, schema, _length(frame), name)

    def prepared(
        self,
        features: Sequence[str],
        numeric: Sequence[str],
        categorical: Sequence[str],
        reading: Reading,
    ) -> Reader:
        """The frame holds its types; text is read."""
        return spelt(self, features, numeric, categorical, reading)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns."""
        names, rows = list(columns), 0
        with _exporting(self.format):
            for batch in pa.RecordBatchReader.from_stream(self.frame):
                rows += batch.num_rows
                yield from sliced(batch.select(names), batch_rows)
        if rows == 0 and self.rows is None:
            raise DataError(f"the {self.format} gave no rows; it is empty or can be read only once")

    def units(self) -> tuple[FrameReader, ...]:
        """One stream."""
        return (self,)


@contextmanager
def _exporting(name: str) -> Iterator[None]:
    """Turn a failed export into one line; the cause may quote values, so it is left out."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, ValueError, TypeError) as error:
        column = re.search(r"for column (.+?) with type", str(error))
        if "uplicate" in str(error):
            raise DataError(f"the {name} has several columns of one name; rename them") from None
        if column is None:
            raise DataError(f"the {name} does not convert to an Arrow table; {_KNOWN}") from None
        raise DataError(
            f"the {name} does not convert to Arrow: column {column.group(1)!r} mixes types; cast "
            f"it to one type"
        ) from None
    except RuntimeError:
        raise _once(name) from None


def _once(name: str) -> DataError:
    return DataError(f"a {name} can be read only once; pass a table, e.g. reader.read_all()")


def _length(frame: Any) -> int | None:
    """Rows of a frame that knows them; a duckdb relation would run its query to count."""
    if type(frame).__module__.partition(".")[0].strip("_") == "duckdb":
        return None
    shape = getattr(frame, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None
