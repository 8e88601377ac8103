"""A program for executors that are processes: `python -m tests.passes.on_a_cluster MASTER DIR …`.

A process can have one Spark, so what needs another master than the other tests runs here. Each
further argument names a scene; the answers are one JSON document on standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import labeldp
from labeldp import InputError, Source, scan
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.sampling.streams import Randomness
from labeldp.spark.engine import engine_for
from tests.plans import plan
from tests.tables import RANGE, table

ROWS = 1200
OPTIONS: dict[str, Any] = {
    "epsilon": 2, "delta": 1e-3, "accountant": "exact-worst-case", "floor": "added", "bags": 20,
}  # fmt: skip


def opened(data: Any) -> Source:
    return scan(data, label="label", label_range=RANGE)


def answers(source: Source) -> dict[str, str]:
    """The plan file and the sums, the private ones included, as digests."""
    made = plan(source, **OPTIONS)
    gram, moments = engine_for(source).run_pass(
        "label sums",
        source,
        GramAccumulator(made.features),
        LabelCrossProducts(made.features, made.labels),
    )
    private = (moments.rows, list(moments.cross), moments.total, moments.square)
    notes = {"notes": None, "seal": None}  # rows have numbers in one place and none in the other
    return {
        "plan": _digest(json.dumps({**made.to_json(), **notes}, sort_keys=True)),
        "features": gram.digest(),
        "labels": _digest(repr(private)),
    }


def released(source: Source) -> dict[str, str]:
    """A release with the randomness of an experiment, from a plan made here."""
    made = plan(opened(table(ROWS)), **OPTIONS)
    drawn = made.release(source, randomness=Randomness.experiment(3))
    numbers = drawn.table.combine_chunks().to_batches()[0]
    return {
        "table": _digest(repr(numbers.to_pydict())),
        "certificate": _digest(json.dumps(drawn.certificate, sort_keys=True)),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def layouts(spark: Any, place: Path) -> Any:
    """The same answers however rows lie."""
    del place
    frame = spark.createDataFrame(table(ROWS))
    rows = frame.coalesce(1)
    ways = {
        "1 partition": rows,
        "7 partitions": frame.repartition(7),
        "skewed": rows.limit(ROWS - 10).union(rows.offset(ROWS - 10)),
        "empty partitions": frame.repartition(9, "colour"),
    }
    return {name: answers(opened(way)) for name, way in ways.items()}


def killed(spark: Any, place: Path) -> Any:
    """One executor is killed after it has read some rows of the pass over labels."""
    mark = str(place / "killed")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == 0 and first(mark):
                daemon = os.getppid()
                with open(f"/proc/{daemon}/stat", encoding="utf-8") as file:
                    executor = int(file.read().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)
                time.sleep(60)

    return released(opened(mapped(spark, rows)))


def speculated(spark: Any, place: Path) -> Any:
    """A task that is slow until its duplicate runs, then they race."""
    mark = str(place / "duplicate")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 0 and not os.path.exists(mark):
            if context.attemptNumber():
                first(mark)
            for _ in range(1200):
                if os.path.exists(mark):
                    return
                time.sleep(0.05)

    return released(opened(mapped(spark, rows)))


def bare(spark: Any, place: Path) -> Any:
    """Executors whose Python lacks labeldp, or everything."""
    hidden, nothing = place / "hidden", place / "nothing"
    hidden.mkdir()
    (hidden / "labeldp.py").write_text("raise ModuleNotFoundError(\"No module named 'labeldp'\")")
    script = place / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={hidden}:$PYTHONPATH exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    import venv

    venv.create(nothing, with_pip=False)
    usual, said = spark.sparkContext.pythonExec, []
    for python in (script, nothing / "bin" / "python"):
        spark.sparkContext.pythonExec = str(python)
        try:
            answers(opened(spark.createDataFrame(table(ROWS)).repartition(2)))
        except InputError as refusal:
            said.append(str(refusal))
    spark.sparkContext.pythonExec = usual
    return said


def mapped(spark: Any, rows: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    frame = spark.createDataFrame(table(ROWS)).repartition(4)
    return frame.mapInArrow(rows, frame.schema)


def first(mark: str) -> bool:
    """Whether nobody was here before."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def session(master: str, place: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    logs = place / "events"
    logs.mkdir()
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": place / "warehouse",
        "spark.local.dir": place / "local",
        "spark.executor.memory": "900m",
        "spark.executorEnv.PYTHONPATH": Path(labeldp.__file__).parents[1],
        "spark.eventLog.enabled": True,
        "spark.eventLog.rolling.enabled": False,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": logs.as_uri(),
        "spark.speculation": True,
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": 0.5,
        "spark.speculation.multiplier": 1.1,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


SCENES: dict[str, Callable[[Any, Path], Any]] = {
    "layouts": layouts, "killed": killed, "speculated": speculated, "bare": bare,
}  # fmt: skip


def main(master: str, place: str, *scenes: str) -> None:
    warnings.simplefilter("ignore", FutureWarning)
    spark = session(master, Path(place))
    here = opened(table(ROWS))
    found = {"local": {**answers(here), **released(here)}}
    found |= {scene: SCENES[scene](spark, Path(place)) for scene in scenes}
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
