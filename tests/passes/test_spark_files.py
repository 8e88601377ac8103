"""Files, tables and types as Spark holds them, against the same read here."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp import DataError, InputError, scan
from labeldp.spark.engine import read
from tests.console import labeldp
from tests.passes.fitting import fitted
from tests.tables import RANGE, table
from tests.test_docs import ROOT, blocks

LABEL: dict[str, Any] = {"label": "label", "label_range": RANGE}
QUICK = ("--label", "label", "--label-range", *RANGE, "--floor", "added",
         "--bags", "20", "--epsilon", "2", "--delta", "1e-3", "--anyway")  # fmt: skip


def typed_table(rows: int = 240) -> pa.Table:
    """One column of every type that Spark and Arrow share, each with a hole."""
    noon = datetime.datetime(2024, 3, 9, 12)
    columns: dict[str, pa.Array] = {
        "tiny": pa.array([k % 100 for k in range(rows)], pa.int8()),
        "long": pa.array([k * k for k in range(rows)], pa.int64()),
        "single": pa.array([k / 8 for k in range(rows)], pa.float32()),
        "price": pa.array([Decimal(k) / 4 for k in range(rows)], pa.decimal128(12, 2)),
        "flag": pa.array([k % 3 == 0 for k in range(rows)]),
        "day": pa.array([datetime.date(2020, 1, 1 + k % 28) for k in range(rows)]),
        "naive": pa.array([noon + datetime.timedelta(hours=k) for k in range(rows)]),
        "instant": pa.array(
            [noon + datetime.timedelta(hours=k) for k in range(rows)], pa.timestamp("us", "UTC")
        ),
        "code": pa.array([Decimal(k % 4) for k in range(rows)], pa.decimal128(6, 1)),
        "week": pa.array([datetime.date(2020, 1, 1 + 7 * (k % 4)) for k in range(rows)]),
        "shift": pa.array(
            [noon + datetime.timedelta(hours=8 * (k % 3)) for k in range(rows)],
            pa.timestamp("us", "UTC"),
        ),
        "a.b `c`": pa.array([f"é{k % 5}" for k in range(rows)]),
        "Größe": pa.array([float(k % 7) for k in range(rows)]),
    }
    holes = np.arange(rows) % 11 == 3
    made = {
        name: pc.if_else(pa.array(holes), pa.scalar(None, values.type), values)
        for name, values in columns.items()
    }
    made["label"] = pa.array([k % 10 for k in range(rows)], pa.int32())
    return pa.table(made)


CODES = ["code", "week", "shift"]


def test_types_mean_what_they_mean_here(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "typed.parquet"
    pq.write_table(typed_table(), path)
    local = fitted(scan(path, categorical=CODES, **LABEL))
    there = scan(read(str(path)), categorical=CODES, **LABEL)
    assert fitted(there) == local
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    columns = {column.name: column.kind for column in there.columns}
    assert columns == {c.name: c.kind for c in scan(path, categorical=CODES, **LABEL).columns}


def test_orc_is_read(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(table(600)).repartition(2).write.orc(str(tmp_path / "t.orc"))
    there = scan(read(str(tmp_path / "t.orc")), **LABEL)
    assert fitted(there) == fitted(scan(table(600), **LABEL))


def test_what_spark_wrote_is_released_and_verified(spark: Any, tmp_path: Path) -> None:
    """A directory of part files, by the command line from end to end; one JSON document."""
    place = tmp_path / "table"
    frame = spark.createDataFrame(table(600)).repartition(3)
    frame.write.parquet(str(place))
    there, out = ("--engine", "spark"), tmp_path / "r"
    planned = labeldp(
        "plan", "--anyway", place, *QUICK, *there, "--out", tmp_path / "plan.json", "--json"
    )
    assert planned.code == 0, planned
    local = labeldp("plan", "--anyway", place, *QUICK, "--json").json
    assert {k: v for k, v in planned.json.items() if k not in ("notes", "seal")} == {
        k: v for k, v in local.items() if k not in ("notes", "seal")
    }
    released = labeldp(
        "release",
        "--anyway",
        place,
        *QUICK[:5],
        *there,
        "--plan",
        tmp_path / "plan.json",
        "--out",
        out,
        "--json",
    )
    assert released.json["certificate"]["rows"] == 600
    assert labeldp("verify", out, "--json").json["problems"] == []
    assert labeldp("verify", out, "--data", place, *there, "--json").json["valid"]


def test_tables_go_by_name(spark: Any) -> None:
    spark.createDataFrame(table(300)).createOrReplaceTempView("people")
    result = labeldp("plan", "--anyway", "people", *QUICK, "--engine", "spark", "--json")
    assert result.json["rows"] == 300
    assert (
        "Spark knows no such table"
        in labeldp("plan", "--anyway", "persons", *QUICK, "--engine", "spark").error
    )


def test_whatever_gives_a_data_frame_is_read(spark: Any, tmp_path: Path) -> None:
    """A view, a query, a catalog table, JSON, and directories that spell a column in names."""
    data = table(600)
    local = fitted(scan(data, **LABEL))
    frame = spark.createDataFrame(data).repartition(2)
    frame.createOrReplaceTempView("seen")
    frame.write.mode("overwrite").saveAsTable("kept")
    frame.write.json(str(tmp_path / "json"))
    frame.write.partitionBy("colour").parquet(str(tmp_path / "cut"))
    names = data.column_names
    for there in (
        spark.table("seen"),
        spark.sql("select * from seen where score >= 0"),
        spark.table("kept"),
        spark.read.json(str(tmp_path / "json")).select(*names),
        spark.read.parquet(str(tmp_path / "cut")).select(*names),
    ):
        assert fitted(scan(there, **LABEL)) == local
    listed = scan(read(str(tmp_path / "cut")), features=names[:-1], **LABEL)
    assert fitted(listed) == local
    spark.sql("drop table kept")


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("struct<height:double>", "named_struct('height', height)"),
        ("array<double>", "array(height)"),
        ("map<string,double>", "map(colour, height)"),
        ("interval year", "interval '1' year"),
    ],
)
def test_nested_columns_are_refused_by_name_and_type(
    spark: Any, kind: str, expression: str
) -> None:
    frame = spark.createDataFrame(table(30)).selectExpr("*", f"{expression} as odd")
    with pytest.raises(DataError, match=r"column 'odd' has type .*; drop it") as refusal:
        scan(frame, **LABEL)
    assert f"type_name={kind}" in str(refusal.value)
    assert "odd" not in scan(frame, drop=["odd"], **LABEL).names


FILES: dict[str, tuple[str, str]] = {
    "gone.parquet": ("", "gone.parquet (PATH_NOT_FOUND)"),
    "broken.parquet": ("PAR1, said 77.25", "broken.parquet (FAILED_READ_FILE"),
    "frame.arrow": ("ARROW1", "Arrow files are not read by Spark here"),
    "text.csv": ("a,label\n1,77.25\n", "from Python scan(spark.read.csv("),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_are_refused_in_one_line(spark: Any, tmp_path: Path, name: str) -> None:
    del spark
    text, message = FILES[name]
    if text:
        (tmp_path / name).write_text(text, encoding="utf-8")
    error = labeldp(
        "release", "--anyway", tmp_path / name, *QUICK, "--out", tmp_path / "r", "--engine", "spark"
    ).error
    assert message in error
    assert "77.25" not in error
    assert not (tmp_path / "r").exists()


def test_a_directory_of_other_files_is_refused(spark: Any, tmp_path: Path) -> None:
    del spark
    csv.write_csv(table(10), tmp_path / "b.csv")
    error = labeldp("plan", "--anyway", tmp_path, *QUICK, "--engine", "spark").error
    assert f"Spark could not read {tmp_path} (" in error


def test_text_that_spark_read_is_typed_by_spark(spark: Any, tmp_path: Path) -> None:
    csv.write_csv(table(600), tmp_path / "t.csv")
    frame = spark.read.csv(str(tmp_path / "t.csv"), header=True, inferSchema=True)
    there, here = scan(frame, **LABEL), scan(table(600), **LABEL)
    assert [(c.name, c.kind) for c in there.columns] == [(c.name, c.kind) for c in here.columns]
    with pytest.raises(DataError, match="is no number or date on Spark; cast it there"):
        scan(frame, numeric=["colour"], **LABEL)
    with pytest.raises(InputError, match="`delimiter` is for text files"):
        scan(frame, delimiter=";", **LABEL)


@pytest.mark.slow
def test_a_process_of_its_own_prints_the_answer_alone(tmp_path: Path, spark: Any) -> None:
    """Spark started by the command line: its noise stays off standard output."""
    del spark
    pq.write_table(table(300), tmp_path / "t.parquet")
    start = "from labeldp.cli import main; main()"
    arguments = ["plan", str(tmp_path / "t.parquet"), *map(str, QUICK), "--engine", "spark"]
    result = subprocess.run(
        [sys.executable, "-c", start, *arguments, "--json"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("{\n")
    assert result.stdout.endswith("\n}\n")
    assert "Traceback" not in result.stderr


SAME = ("feature_sums", "features", "curve", "floor", "max_leverage")


@pytest.mark.slow
def test_a_submitted_script_gives_the_same_plan(tmp_path: Path, spark: Any) -> None:
    """The launcher that the page shows, by spark-submit, which puts all streams into one."""
    home = Path(str(sys.modules[type(spark).__module__.partition(".")[0]].__file__)).parent
    pq.write_table(table(300), tmp_path / "t.parquet")
    (launcher,) = [b for b in blocks(ROOT / "docs" / "spark.md") if "# run_labeldp.py" in b.body]
    script = tmp_path / "run_labeldp.py"
    script.write_text(launcher.body, encoding="utf-8")
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    options += ["--conf", f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}"]
    arguments = ["plan", tmp_path / "t.parquet", *map(str, QUICK), "--engine", "spark", "--json"]
    result = subprocess.run(
        [home / "bin" / "spark-submit", *options, script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout[result.stdout.index("{\n") :])
    here = labeldp(*arguments).json
    assert {name: told[name] for name in SAME} == {name: here[name] for name in SAME}


def test_the_page_on_spark_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(2000), "table.parquet")
    namespace: dict[str, Any] = {"__name__": "docs"}
    page = [block for block in blocks(ROOT / "docs" / "spark.md") if block.language == "python"]
    assert page
    for block in page:
        # The Java process does not see the change of directory.
        code = block.body.replace('"table.parquet"', repr(str(tmp_path / "table.parquet")))
        exec(compile(code, f"spark.md:{block.line}", "exec"), namespace)
    assert namespace["labeldp"].verify("published").valid
    shown = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    assert re.search(r"spark-submit", shown)
