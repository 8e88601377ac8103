"""Tables on a cluster: work is sent to the parts of a Spark data frame, answers come back.

Rows never leave the machines that hold them. What travels is a function, and one answer for
each part, as a row of an Arrow table; Spark keeps the answer of the one attempt that
succeeded, so retried and duplicated tasks count once. Nothing here imports pyspark: a data
frame brings its methods along.
"""

from __future__ import annotations

import logging
import pickle
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pyarrow as pa

from labeldp.data.options import check_unique_names
from labeldp.data.readers import TableReader
from labeldp.data.text_types import TextCounts
from labeldp.errors import DataError, InputError, LabelDPError

if TYPE_CHECKING:
    from labeldp.data.source import Source

Result = TypeVar("Result")

_ANSWER = pa.schema([("refusal", pa.string()), ("answer", pa.binary())])
_TYPES = {
    "string": pa.string(), "char": pa.string(), "varchar": pa.string(), "binary": pa.binary(),
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "void": pa.null(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "time": pa.time64("ns"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""Spark's types as Arrow's; what is not here is nested or the like, and of no use."""

_MOST_PARTS = 512
"""More answers than this would crowd the driver; the data are then read in fewer tasks."""


@dataclass(frozen=True, kw_only=True)
class ClusterReader(TableReader):
    """A Spark data frame, its columns renamed to c0, c1, …: Spark takes `a.b` for two names."""

    on_cluster: ClassVar[bool] = True

    frame: Any = field(repr=False)
    format: str = "Spark"

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

    def read(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: rows stay where they are."""
        del columns, batch_rows
        raise InputError(
            "the rows of a Spark data frame stay on the cluster, so only SparkEngine reads them; "
            "for a table that fits here, pass its toArrow()"
        )

    def count_texts(self, names: Sequence[str], *_: object) -> tuple[int, dict[str, TextCounts]]:
        """Refuse: texts of numbers and dates are Spark's to read."""
        raise DataError(
            f"column {names[0]!r} is no number or date on Spark; cast it there (`withColumn`)"
        )

    def count_rows(self) -> int:
        with asking_spark():
            return int(self.frame.count()) if self.rows is None else self.rows


@dataclass(frozen=True, kw_only=True)
class PartReader(TableReader):
    """One part of a cluster's table, on the machine that reads it; it can be read once.

    Parsers were settled for the whole table.
    """

    format: str = "Spark"
    stream: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()), repr=False)

    def read(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns, in batches as Spark sends them."""
        del columns, batch_rows
        for batch in self.stream:
            typed = zip(batch.columns, self.stored_schema.types, strict=True)
            arrays = [array.cast(type_) for array, type_ in typed]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.stored_schema)


def over_parts(
    source: Source, columns: Sequence[str], ask: Callable[[Source], Result], *, labels: bool = False
) -> Iterator[Result]:
    """Ask every part of a source whose rows are on a cluster; yield the answers in their order.

    These columns, that of persons, and the label only with `labels` or where rows without one
    are dropped, are all that the cluster reads. Answers stay compressed until they are looked at.
    """
    reader = source.reader
    assert isinstance(reader, ClusterReader)
    names = [*columns, *([] if source.person is None else [source.person])]
    if source.label is not None and (labels or source.drop_missing_labels):
        names.append(source.label)
    places = [reader.stored_schema.get_field_index(name) for name in names]
    schema = pa.schema([reader.stored_schema.field(place) for place in places])
    parsers = {name: reader.parsers[name] for name in names if name in reader.parsers}
    part = PartReader(stored_schema=schema, parsers=parsers)
    bare = replace(source, reader=part)  # travels to the workers, without the frame

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _answer(ask, replace(bare, reader=replace(part, stream=batches)))

    with asking_spark():
        few = reader.frame.select(*(f"c{index}" for index in places)).coalesce(_MOST_PARTS)
        table = few.mapInArrow(answers, "refusal string, answer binary").toArrow()
    for refusal in table["refusal"].drop_null().to_pylist():
        raise DataError(refusal)
    return (pickle.loads(zlib.decompress(answer.as_py())) for answer in table["answer"])


def _answer(ask: Callable[[Source], Any], part: Source) -> pa.RecordBatch:
    """Return one row: the answer, or why the data are refused.

    A refusal is an answer, since trying again would not help. Any other failure is raised, for
    Spark to retry, without its text: that goes to logs and might quote a label.
    """
    refusal, answer = None, None
    try:
        answer = zlib.compress(pickle.dumps(ask(part)), 1)  # counts: several times smaller
    except LabelDPError as problem:
        refusal = re.sub(r" at row (\d+)(?=; )", r" at row \1 of its Spark partition", str(problem))
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        raise RuntimeError(
            f"{type(problem).__name__} in {place.name}, line {place.lineno} of {place.filename}"
        ) from None
    return pa.RecordBatch.from_pydict({"refusal": [refusal], "answer": [answer]}, schema=_ANSWER)


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
    if re.match(r"interval (day|hour|minute|second)", type_name):
        return pa.duration("us")
    plain = re.split(r"[ (]", type_name, maxsplit=1)[0]  # varchar(9), string collate UNICODE
    return _TYPES.get(plain) or pa.opaque(pa.null(), type_name, "Spark")
