"""What a cluster does to tasks, and what a machine may lack."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, InputError, LocalEngine, MissingExtraError, SparkEngine, scan
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp.spark import engine
from labeldp.spark.engine import over_parts
from tests.console import labeldp
from tests.passes.fitting import fitted
from tests.plans import plan
from tests.tables import RANGE, table

OPTIONS: dict[str, Any] = {
    "epsilon": 2, "delta": 1e-3, "accountant": "exact-worst-case", "floor": "added", "bags": 20,
}  # fmt: skip
LABEL: dict[str, Any] = {"label": "label", "label_range": RANGE}


def flaky(frame: Any, place: Path, how: str) -> Any:
    """The same rows, but the first attempt at every partition fails after some of them."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        first = context.attemptNumber() == 0
        for batch in batches:
            yield batch
            if first:
                with open(place, "a", encoding="utf-8") as log:
                    log.write(f"{context.partitionId()}\n")
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("injected")

    return frame.mapInArrow(rows, frame.schema)


@pytest.mark.parametrize("how", [pytest.param("raises", marks=pytest.mark.slow), "is killed"])
def test_tasks_that_fail_and_run_again_count_once(
    spark: Any, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the pass over labels too: the same bytes, and labels leave once, in one draw."""
    data, drawn = table(400), Mock(wraps=rounded_noise.sample_rounded)
    local = scan(data, **LABEL)
    made = plan(local, **OPTIONS)
    log = tmp_path / "failures"
    source = scan(flaky(spark.createDataFrame(data).repartition(2), log, how), **LABEL)
    monkeypatch.setattr(rounded_noise, "sample_rounded", drawn)
    ours = made.release(source, randomness=Randomness.experiment(3))
    assert drawn.call_count == 1
    theirs = made.release(local, randomness=Randomness.experiment(3))
    assert drawn.call_count == 2, "as many as where nothing fails"
    assert ours.table.equals(theirs.table)
    assert ours.certificate == theirs.certificate
    failures = log.read_text(encoding="utf-8").split()
    assert failures.count("0") == failures.count("1") == 2, "for sums and for leverages"


def test_a_task_that_always_fails_is_one_line_without_its_words(spark: Any) -> None:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("the label is 77.25")

    frame = spark.createDataFrame(table(50)).coalesce(1)
    with pytest.raises(DataError, match="Spark could not read the data") as refusal:
        fitted(scan(frame.mapInArrow(rows, frame.schema), **LABEL))
    assert "77.25" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def restless(frame: Any, place: Path, column: str) -> Any:
    """The same rows, but in every pass the first row of this column holds another number."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(place, "a+", encoding="utf-8") as log:
            log.write("x")
            log.seek(0)
            passes = len(log.read())
        for batch in batches:
            index = batch.schema.get_field_index(column)
            values = batch.column(index).to_pylist()
            values[0] = passes
            yield batch.set_column(index, batch.schema.field(index), pa.array(values))

    return frame.coalesce(1).mapInArrow(rows, frame.schema)


def test_a_frame_that_changes_between_passes_is_refused(spark: Any, tmp_path: Path) -> None:
    """Leverages of other rows than those that were summed would not bear out the promise."""
    frame = spark.createDataFrame(table(600))
    with pytest.raises(DataError, match="gives other rows each time it is read"):
        plan(scan(restless(frame, tmp_path / "plan", "score"), **LABEL), **OPTIONS)
    here = scan(table(600), **LABEL)
    features = fitted(here)
    factor = verified_cholesky(
        LocalEngine().run_pass("feature sums", here, GramAccumulator(features)), features
    )
    there = scan(spark.createDataFrame(table(601)), **LABEL)
    with pytest.raises(DataError, match="gives other rows each time it is read"):
        SparkEngine().run_pass("leverages", there, LeverageScan(features, factor))


def test_a_frame_that_grows_between_passes_is_refused(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(log, "a+", encoding="utf-8") as file:
            file.write("x")
            file.seek(0)
            passes = len(file.read())
        for batch in batches:
            yield batch
        yield batch.slice(0, passes)

    frame = spark.createDataFrame(table(600)).coalesce(1)
    source = scan(frame.mapInArrow(rows, frame.schema), **LABEL)
    with pytest.raises(DataError, match="602 rows in one pass and 604 in the next"):
        plan(source, **OPTIONS)


def _break(source: Any) -> None:
    for _batch, labels in source.labelled_batches():
        raise KeyError(float(labels[0]))


def test_a_failure_of_ours_says_where_and_quotes_nothing(spark: Any) -> None:
    """What executors raise ends up in logs: the error's own words, here a label, must not."""
    data = table(50)
    source = scan(spark.createDataFrame(data).coalesce(1), **LABEL)
    with pytest.raises(RuntimeError) as raised:
        engine._answer(_break, scan(data, **LABEL))
    assert str(raised.value).startswith("KeyError in _break, line ")
    assert str(data["label"][0].as_py()) not in str(raised.value)
    with pytest.raises(DataError, match="Spark could not read"):
        over_parts(source, source.names, _break, labels=True)


def test_the_label_column_is_not_read_by_passes_over_features(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A label that cannot be computed does no harm until labels are asked for."""
    pq.write_table(table(300), tmp_path / "t.parquet")
    frame = spark.read.parquet(str(tmp_path / "t.parquet"))
    source = scan(frame.selectExpr("height", "town", "cast(colour as double) as label"), **LABEL)
    made = plan(source, **OPTIONS)
    assert made.claim.rows == 300
    with pytest.raises(DataError, match=r"Spark could not read the data \(CAST_INVALID_INPUT"):
        made.release(source)
    printed = capfd.readouterr()
    assert "red" not in printed.out + printed.err, "what was wrong is not quoted on the console"


def test_each_engine_says_what_it_reads(spark: Any) -> None:
    here = scan(table(300), **LABEL)
    there = scan(spark.createDataFrame(table(300)), **LABEL)
    features = fitted(here)
    with pytest.raises(InputError, match="SparkEngine reads Spark data frames"):
        SparkEngine().run_pass("feature sums", here, GramAccumulator(features))
    with pytest.raises(InputError, match="stay on the cluster"):
        LocalEngine().run_pass("feature sums", there, GramAccumulator(features))


def test_workers_without_our_packages_are_one_line(spark: Any) -> None:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401

        yield from batches

    frame = spark.createDataFrame(table(50)).coalesce(1)
    with pytest.raises(InputError, match=r"no module 'no_such_package'.*PYSPARK"):
        fitted(scan(frame.mapInArrow(rows, frame.schema), **LABEL))


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no Spark ran in this process yet."""
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: None)


REQUEST = ("plan", "t.parquet", "--anyway", "--label", "label", "--label-range", "0", "10")


@pytest.mark.usefixtures("no_session")
def test_without_java_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    def fails(_builder: Any) -> Any:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fails)
    error = labeldp(*REQUEST, "--engine", "spark").error
    assert error.startswith("Spark did not start (RuntimeError); it needs Java 17 or newer")


def test_without_pyspark_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labeldp\[spark\]'"):
        engine.session()
    assert "labeldp[spark]" in labeldp(*REQUEST, "--engine", "spark").error


def test_engine_options_are_checked() -> None:
    assert "'flink' is not one of" in labeldp(*REQUEST, "--engine", "flink").error
    assert "--threads is for" in labeldp(*REQUEST, "--engine", "spark", "--threads", "2").error


def test_pyspark_is_imported_by_one_module_and_late() -> None:
    root = Path(engine.__file__).parents[1]
    importers = {
        path.name
        for path in root.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(("import pyspark", "from pyspark"))
    }
    assert importers == {"engine.py"}
    code = "import sys, labeldp.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
