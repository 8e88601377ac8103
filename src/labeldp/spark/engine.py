"""Passes on a Spark cluster, where executors add up the rows they hold, and the Spark session.

Empty accumulators travel to an executor, and their states come back in plain values, as a row of an
Arrow table. Spark keeps the answer of the one attempt that succeeded, so retried and duplicated
tasks count once. States that involve labels are private and exist only on the way. Executors draw
nothing and know no budget.

The only module that imports pyspark, and only when it is used.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from labeldp.data.cluster import ClusterReader, asking_spark
from labeldp.data.files import FORMATS
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError, LabelDPError, MissingExtraError
from labeldp.passes.accumulator import (
    Accumulator,
    PassRequirements,
    combine,
    states_of,
)
from labeldp.passes.engine import Engine, LocalEngine, Progress, quiet

Result = TypeVar("Result")

_ANSWER = pa.schema([("refusal", pa.string()), ("answer", pa.binary())])
_MOST_PARTS = 512
"""More answers than this would crowd the driver; the data are then read in fewer tasks."""


@dataclass(frozen=True)
class SparkEngine:
    """Passes over a Spark data frame, where its partitions are."""

    progress: Progress = quiet
    threads: int = 0
    """On the driver, which draws the release; Spark has settings of its own for the passes."""

    def apart(self) -> SparkEngine:
        """Return itself: it remembers no rows."""
        return self

    def run_pass(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        """Run a pass; accumulators that were made for certain rows refuse others."""
        if not isinstance(source.reader, ClusterReader):
            raise InputError(
                "SparkEngine reads Spark data frames; pass one to scan, for example "
                "scan(spark.read.parquet(path), ...)"
            )
        required = [accumulator.requirements for accumulator in accumulators]
        checks = [each.row_check for each in required if each.row_check is not None]
        required += [row_check.requirements for row_check, _ in checks]
        requirements = combine(required)
        label_check = source.label_check() if requirements.labels else None
        totals = [each.new() for each in (*(row_check for row_check, _ in checks), *accumulators)]
        ask = partial(part_states, totals, requirements)
        with self.progress(task, None):
            parts = over_parts(source, requirements.columns, ask, labels=requirements.labels)
            for states, flags in parts:  # one at a time: of wide tables many would not fit at once
                for total, state in zip(totals, states, strict=True):
                    total.merge(state)
                if label_check is not None:
                    label_check.raised.update(flags)
        if label_check is not None:
            label_check.finish()
        results = [total.result(lambda _row: None) for total in totals]
        for (_, is_same), result in zip(checks, results, strict=False):
            # A frame that changed: leverages of other rows would not support the guarantee.
            if not is_same(result):
                raise DataError(
                    "the Spark data frame gives other rows each time it is read (a sample, a "
                    "limit without an order, a table being written?); write it to a table and "
                    "read that"
                )
        results = results[len(checks) :]
        return results[0] if len(results) == 1 else tuple(results)


def part_states(
    accumulators: Sequence[Accumulator[Any]], requirements: PassRequirements, source: Source
) -> tuple[list[Any], list[str]]:
    """Return the states of one part, and flags of wrong labels.

    Flags are only looked at after all parts: nothing is said about labels before the last row.
    """
    check = source.label_check() if requirements.labels else None
    batches = source.numbered_batches(requirements.columns, check)
    numbered = ((int(numbers[0]), (rows, labels)) for numbers, rows, labels in batches)
    states = states_of(accumulators, requirements.features, numbered)
    return states, [] if check is None else sorted(check.raised)


def over_parts(
    source: Source, columns: Sequence[str], ask: Callable[[Source], Result], *, labels: bool = False
) -> Iterator[Result]:
    """Ask every part of a source whose rows are on a cluster; yield the answers in their order.

    These columns, that of persons, and the label only with `labels` or where rows without one
    are dropped, are all that the cluster reads. Answers stay compressed until they are looked at.
    """
    reader = source.reader
    assert isinstance(reader, ClusterReader)
    label = source.label if labels or source.drop_missing_labels else None
    names = [name for name in (*columns, source.person, label) if name is not None]
    places = [reader.stored_schema.get_field_index(name) for name in names]
    schema = pa.schema([reader.stored_schema.field(place) for place in places])
    parsers = {name: reader.parsers[name] for name in names if name in reader.parsers}
    # What travels to the executors has no frame.
    part = replace(reader, frame=None, stored_schema=schema, parsers=parsers)
    bare = replace(source, reader=part)

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


def engine_for(source: Source) -> Engine:
    """Return the engine that can read a source, if nobody names one."""
    return SparkEngine() if source.reader.on_cluster else LocalEngine()


def read(data: str) -> Any:
    """Return the data frame of what Spark has under a name: Parquet or ORC files, or a table."""
    spark, ending = session(), Path(data).suffix.lower()
    if ending in FORMATS and FORMATS[ending] != "Parquet":
        raise DataError(
            f"{data}: {FORMATS[ending]} files are not read by Spark here; pass Parquet or ORC, or "
            "a table, or from Python scan(spark.read.csv(path, header=True, inferSchema=True))"
        )
    with asking_spark(data):
        if "/" in data or ending in (*FORMATS, ".orc") or Path(data).exists():
            return spark.read.format("orc" if ending == ".orc" else "parquet").load(data)
        if not spark.catalog.tableExists(data):
            raise DataError(
                f"{data}: Spark knows no such table; register it, or pass a path (with a / or "
                f"an ending such as .parquet)"
            )
        return spark.table(data)


def session() -> Any:
    """Return the Spark session that runs, or a new one with the settings of spark-submit."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise MissingExtraError("the Spark engine", "spark") from None
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    # In local mode workers would otherwise be whatever python3 is found first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("labeldp").config("spark.ui.showConsoleProgress", False)
    # The Java process inherits standard error twice: standard output is for the answer.
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        spark = builder.getOrCreate()
    except Exception as problem:  # whatever is raised where Java is missing or too old
        raise InputError(
            f"Spark did not start ({type(problem).__name__}); it needs Java 17 or newer: install "
            "one (JDK 17) and set JAVA_HOME, or read the table without Spark"
        ) from None
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")
    return spark
