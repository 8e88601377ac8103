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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from labeldp import errors
from labeldp.data.columns import NULL_WORDS
from labeldp.data.decision import Decision, retyped, stray_texts, without_strays
from labeldp.data.files import sliced, unique_names
from labeldp.data.looks import TextTypes
from labeldp.data.protocol import TableReader, Wanted
from labeldp.data.reading import Reading
from labeldp.data.spelling import Spelling, Wording
from labeldp.data.typed_text import wording_of
from labeldp.errors import DataError, InputError, LabelDPError

if TYPE_CHECKING:
    from labeldp.data.source import Source

Result = TypeVar("Result")

_ANSWER = pa.schema([("refusal", pa.string()), ("answer", pa.binary())])
_TYPES = {
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("ns"),
    "binary": pa.binary(),
    "void": pa.null(),
}
"""Spark's types as Arrow's; what is not here is nested or the like, and of no use."""

_MOST_PARTS = 512
"""More answers than this would crowd the driver; the data are then read in fewer tasks."""


def reader_of(data: Any) -> ClusterReader | None:
    """The reader of a Spark data frame; None for anything else that Spark makes."""
    return ClusterReader.open(data) if hasattr(data, "mapInArrow") else None


@dataclass(frozen=True, kw_only=True)
class ClusterReader(TableReader):
    """A Spark data frame, its columns renamed to c0, c1, …: Spark takes `a.b` for two names.

    With `text`, one of delimited text that is still to be typed: strings, and a last column
    that says which lines are malformed. Its parts are Spark's to divide.
    """

    frame: Any = field(repr=False)
    format: str = "Spark"
    nulls: tuple[str, ...] = NULL_WORDS
    """Of delimited text: what means missing."""

    @classmethod
    def open(cls, frame: Any, *, text: bool = False) -> ClusterReader:
        """Read the schema; no job runs."""
        with asking():
            unique_names(frame.columns, "the Spark data frame")
            numbered = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
            names = [(column.name, column.dataType.simpleString()) for column in frame.schema]
        fields = [(name, _arrow_type(spelt)) for name, spelt in names]
        schema = pa.schema(fields[:-1] if text else fields)
        return cls(frame=numbered, schema=schema, text=text)

    @property
    def engine(self) -> Callable[[], Any]:
        """The one that reads it."""
        from labeldp.spark.engine import SparkEngine

        return SparkEngine

    def prepared(self, request: Wanted, /) -> ClusterReader:
        """Decide the types of text as for local tables."""
        reading = request.reading
        find = partial(self._stray_texts, reading)
        if not self.text:
            wording = wording_of(self.schema, request, self._looks, find)
            return replace(self, schema=retyped(self.schema, wording), wording=wording)
        asked = replace(self, nulls=reading.nulls(True))
        types = asked._looks(request.features, reading)
        settled, notes = without_strays(request, types.looks, find)
        if settled.reading != reading:
            again = [name for name in request.features if name in settled.reading.codes]
            types = replace(types, looks=types.looks | asked._looks(again, settled.reading).looks)
        wording = Decision(settled, asked.nulls).worded(types.looks)
        wording = replace(wording, notes=(*notes, *wording.notes))
        schema = retyped(self.schema, wording)
        return replace(asked, schema=schema, rows=types.rows, wording=wording)

    def stored(self) -> ClusterReader:
        """What was read as something else is text again."""
        schema = self.schema
        for name in self.wording.spellings:
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
        return replace(self, schema=schema, wording=Wording(), nulls=("",))

    def count_rows(self) -> int:
        """Return the number of rows; Spark counts them if it is not known."""
        if self.rows is not None:
            return self.rows
        with asking():
            return int(self.frame.count())

    def _stray_texts(self, reading: Reading, name: str, dates: bool) -> set[str]:
        ask = partial(stray_texts, name=name, reading=reading, dates=dates)
        return set[str]().union(*self.parts([name], ask))

    def _looks(self, names: Sequence[str], reading: Reading) -> TextTypes:
        """What text columns look like."""
        ask = partial(TextTypes.of, features=tuple(names), reading=reading)
        return sum(self.parts(names, ask), TextTypes())

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refused: rows stay where they are."""
        del columns, batch_rows
        raise InputError(
            "the rows of a Spark data frame stay on the cluster, so only SparkEngine reads them; "
            "for a table that fits here, pass its toArrow()"
        )

    def parts(
        self, columns: Sequence[str], ask: Callable[[PartReader], Result]
    ) -> Iterator[Result]:
        """Put a question to every part of these columns; the answers in the order of the parts.

        They stay compressed until they are looked at.
        """
        chosen = [self.schema.get_field_index(name) for name in columns]
        schema = pa.schema([self.schema.field(index) for index in chosen])
        extra = [len(self.schema)] if self.text else []
        template = PartReader(schema=schema, text=self.text, wording=self.wording, nulls=self.nulls)

        def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield _answer(ask, replace(template, stream=batches))

        with asking():
            wanted = self.frame.select(*(f"c{index}" for index in chosen + extra))
            few = wanted.coalesce(_MOST_PARTS)
            table = few.mapInArrow(answers, "refusal string, answer binary").toArrow()
        for refusal in table["refusal"].drop_null().to_pylist():
            name, _, message = refusal.partition(":")
            raise getattr(errors, name)(message)
        return (pickle.loads(zlib.decompress(given.as_py())) for given in table["answer"])


@dataclass(frozen=True, kw_only=True)
class PartReader(TableReader):
    """One part of a cluster's table, on the machine that reads it; it can be read once.

    Types were settled for the whole table.
    """

    format: str = "Spark"
    stream: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()), repr=False)
    nulls: tuple[str, ...] = NULL_WORDS

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns, in batches as Spark sends them or smaller."""
        for batch in self.stream:
            yield from sliced(self._shaped(batch).select(list(columns)), batch_rows)

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the names and types of the schema."""
        columns = list(batch.columns)
        if self.text:
            _refuse_malformed(columns.pop())
        named = zip(columns, self.schema, strict=True)
        arrays = [self._column(column, wanted) for column, wanted in named]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, column: pa.Array, wanted: pa.Field) -> pa.Array:
        if wanted.name in self.wording.spellings:
            return self.wording.value(wanted.name, column)
        if self.text:
            column = Spelling(pa.string(), blanks=self.nulls).read(column, wanted.name)
        return self.wording.value(wanted.name, column.cast(wanted.type))


def _refuse_malformed(flags: pa.Array) -> None:
    """Refuse lines that have not as many fields as the header, without quoting any."""
    if pc.any(flags).as_py():
        raise DataError(
            "a line of the delimited text has not as many fields as the header; correct the "
            "quoting or the delimiter (Spark reads no line breaks inside quotes)"
        )


def over_parts(
    source: Source, columns: Sequence[str], ask: Callable[[Source], Result], *, labels: bool = False
) -> Iterator[Result]:
    """Ask every part of a source whose rows are on a cluster.

    These columns, that of persons, and the label only with `labels` or where rows without one
    are dropped, are all that the cluster reads.
    """
    reader = source.reader
    names = [*columns, *([] if source.person is None else [source.person])]
    assert isinstance(reader, ClusterReader)
    if source.label is not None and (labels or source.drop_missing_labels):
        names.append(source.label)
    bare = replace(source, reader=PartReader(schema=pa.schema([]), text=reader.text))
    return reader.parts(names, partial(_ask_source, bare, ask))


def _ask_source(source: Source, ask: Callable[[Source], Result], part: PartReader) -> Result:
    return ask(replace(source, reader=part))


def _answer(ask: Callable[[PartReader], Any], part: PartReader) -> pa.RecordBatch:
    """One row: the answer, or why the data are refused.

    A refusal is an answer, since trying again would not help. Any other failure is raised, for
    Spark to retry, without its text: that goes to logs and might quote a label.
    """
    refusal, answer = None, None
    try:
        answer = zlib.compress(pickle.dumps(ask(part)), 1)  # counts: several times smaller
    except LabelDPError as problem:
        where = re.sub(r" at row (\d+)(?=; )", r" at row \1 of its Spark partition", str(problem))
        refusal = f"{type(problem).__name__}:{where}"
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        raise RuntimeError(
            f"{type(problem).__name__} in {place.name}, line {place.lineno} of {place.filename}"
        ) from None
    return pa.RecordBatch.from_pydict({"refusal": [refusal], "answer": [answer]}, schema=_ANSWER)


@contextmanager
def asking(what: str = "the data") -> Iterator[None]:
    """Turn any failure of Spark into one line; its own text may quote rows."""
    try:
        with _unlogged():
            yield
    except LabelDPError:
        raise
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise _explained(problem, what) from None


@contextmanager
def _unlogged() -> Iterator[None]:
    """Silence the two loggers with which pyspark repeats an error's text, values and all."""
    module = sys.modules.get("pyspark.logger")
    names = ("DataFrameQueryContextLogger", "SQLQueryContextLogger") if module else ()
    loggers = [module.PySparkLogger.getLogger(name) for name in names]  # type: ignore[union-attr]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _explained(problem: Exception, what: str) -> LabelDPError:
    text = str(problem)
    module = re.search(r"No module named '([\w.]+)'", text)
    if module:
        return InputError(
            f"the Python of the Spark workers has no module {module.group(1)!r}; install "
            f"labeldp[spark] there, or set PYSPARK_PYTHON to a Python that has it"
        )
    if "maxResultSize" in text:
        return InputError(
            "the partial sums do not fit the Spark driver; raise spark.driver.maxResultSize, or "
            "use fewer design columns"
        )
    condition = re.search(r"\[([A-Z]+_[A-Z_.]+)\]", text)
    name = condition.group(1) if condition else type(problem).__name__
    return DataError(
        f"Spark could not read {what} ({name}); its own message is not shown because it may "
        f"quote rows: see Spark's log, or read the data with Spark alone"
    )


def _arrow_type(spelt: str) -> pa.DataType:
    """The Arrow type of a Spark type; timestamps with a zone are instants, in any session."""
    decimal = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", spelt)
    if decimal:
        return pa.decimal128(*map(int, decimal.groups()))
    if re.match(r"interval (day|hour|minute|second)", spelt):
        return pa.duration("us")
    plain = re.split(r"[ (]", spelt, maxsplit=1)[0]  # varchar(9), string collate UNICODE
    return _TYPES.get(plain) or pa.opaque(pa.null(), spelt, "Spark")
