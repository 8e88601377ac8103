"""Spark data frames: their schema, and the parts that an executor reads.

Rows never leave the machines that hold them; `spark/engine.py` sends the work to them. Nothing here
imports pyspark: a data frame brings its methods along.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from labeldp.data.columns import check_unique_names
from labeldp.data.readers import TableReader
from labeldp.data.text_types import TextCounts
from labeldp.errors import DataError, InputError

_TYPES = {
    "string": pa.string(), "char": pa.string(), "varchar": pa.string(), "binary": pa.binary(),
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "void": pa.null(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""Spark's types as Arrow's; what is not here is nested or the like, and of no use."""


@dataclass(frozen=True, kw_only=True)
class ClusterReader(TableReader):
    """A Spark data frame, its columns renamed to c0, c1, …: Spark takes `a.b` for two names."""

    on_cluster: ClassVar[bool] = True

    format: str = "Spark"
    frame: Any = field(repr=False)
    """The data frame; None on a machine that reads a part."""
    stream: Iterator[pa.RecordBatch] | None = field(default=None, repr=False)
    """There: the batches that Spark sends, which come once."""

    @classmethod
    def open(cls, frame: Any) -> ClusterReader:
        """Read the schema; no job runs."""
        with asking_spark():
            check_unique_names(frame.columns, "the Spark data frame")
            numbered = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
            fields = [
                (column.name, _arrow_type(column.dataType.simpleString()))
                for column in frame.schema
            ]
        return cls(frame=numbered, stored_schema=pa.schema(fields))

    def read(self, _columns: list[str], _batch_rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a part; refuse a whole table, whose rows stay where they are."""
        if self.stream is None:
            raise InputError(
                "the rows of a Spark data frame stay on the cluster, so only SparkEngine reads "
                "them; for a table that fits here, pass its toArrow()"
            )
        for batch in self.stream:
            typed = zip(batch.columns, self.stored_schema.types, strict=True)
            arrays = [array.cast(type_) for array, type_ in typed]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.stored_schema)

    def count_texts(self, names: Sequence[str], *_: object) -> tuple[int, dict[str, TextCounts]]:
        """Refuse: texts of numbers and dates are Spark's to read."""
        raise DataError(
            f"column {names[0]!r} is no number or date on Spark; cast it there (`withColumn`)"
        )

    def count_rows(self) -> int:
        with asking_spark():
            return int(self.frame.count())


@contextmanager
def asking_spark(what: str = "the data") -> Iterator[None]:
    """Turn any failure of Spark into one line; its own text may quote rows.

    Two loggers with which pyspark repeats an error's text, values and all, are silenced meanwhile.
    """
    module = sys.modules.get("pyspark.logger")
    names = ("DataFrameQueryContextLogger", "SQLQueryContextLogger") if module else ()
    loggers = [module.PySparkLogger.getLogger(name) for name in names]  # type: ignore[union-attr]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        text = str(problem)
        if absent := re.search(r"No module named '([\w.]+)'", text):
            raise InputError(
                f"the Python of the Spark workers has no module {absent.group(1)!r}; install "
                f"labeldp[spark] there, or set PYSPARK_PYTHON to a Python that has it"
            ) from None
        if "maxResultSize" in text:
            raise InputError(
                "the partial sums do not fit the Spark driver; raise spark.driver.maxResultSize, "
                "or use fewer design columns"
            ) from None
        condition = re.search(r"\[([A-Z]+_[A-Z_.]+)\]", text)
        name = condition.group(1) if condition else type(problem).__name__
        raise DataError(
            f"Spark could not read {what} ({name}); its own message is not shown because it may "
            f"quote rows: see Spark's log, or read the data with Spark alone"
        ) from None
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _arrow_type(type_name: str) -> pa.DataType:
    """The Arrow type of a Spark type; timestamps with a zone are instants, in any session."""
    decimal = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", type_name)
    if decimal:
        return pa.decimal128(*map(int, decimal.groups()))
    plain = re.split(r"[ (]", type_name, maxsplit=1)[0]  # varchar(9), string collate UNICODE
    return _TYPES.get(plain) or pa.opaque(pa.null(), type_name, "Spark")
