"""The Spark session, and what it reads under a name that the command line gives.

The only module that imports pyspark, and only when it is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from labeldp.data.cluster import ClusterReader, asking_spark
from labeldp.data.delimited import infer_delimiter
from labeldp.data.files import DELIMITERS, FORMATS
from labeldp.errors import DataError, InputError, MissingExtraError

_JAVA = 17
_ENDINGS = {**FORMATS, ".orc": "ORC", ".avro": "Avro", ".json": "JSON"}
_MALFORMED = "labeldp malformed line"


def read(data: str, delimiter: str | None = None, encoding: str | None = None) -> ClusterReader:
    """Return the reader of what Spark has under a name: files by their ending, else a table."""
    spark = session()
    with asking_spark(data):
        is_path = "/" in data or os.sep in data or _ending(data) or Path(data).exists()
        if not is_path:
            if not spark.catalog.tableExists(data):
                raise DataError(
                    f"{data}: Spark knows no such table; register it, or pass a path (with a / or "
                    f"an ending such as .parquet)"
                )
            return ClusterReader.open(spark.table(data))
        form = _format(spark, data)
        if form in DELIMITERS:
            first = spark.read.text(data).first()  # the delimiter is inferred from the header
            usual = DELIMITERS[form]
            sign = delimiter or (usual if first is None else infer_delimiter(first[0], usual))
            frame = _delimited(spark, data, sign, encoding or "UTF-8")
            return ClusterReader.open(frame, text=True)
        if form not in ("Parquet", "ORC"):
            raise DataError(
                f"{data}: {form} files are not read by Spark here; write Parquet, or register a "
                f"table"
            )
        return ClusterReader.open(spark.read.format(form.lower()).load(data))


def _ending(path: str) -> str | None:
    name = path.rstrip("/").lower()
    return next((form for end, form in _ENDINGS.items() if name.endswith(end)), None)


def _format(spark: Any, path: str) -> str:
    """Return the format that a path's name announces, or else the names of the files in it."""
    from pyspark.errors import AnalysisException

    try:
        files = spark.read.format("binaryFile").load(path).inputFiles()  # listed and not read
    except AnalysisException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        files = []
    if not files:
        raise DataError(f"{path}: Spark finds no such file or directory; check the path")
    announced = None if "*" in path else _ending(path)
    forms = {announced or _ending(name) for name in files}
    form = forms.pop()
    if forms or form is None:
        raise DataError(
            f"{path}: its files have no single known format; their names must all end in one of "
            f".parquet, .orc, .csv, .tsv"
        )
    return form


def _delimited(spark: Any, path: str, delimiter: str, encoding: str) -> Any:
    """Return every column as text, for types that do not depend on Spark's guesses.

    Spark's own refusal of a malformed line would quote the line, label and all, in its log: it
    is asked to mark such lines instead.
    """
    options = {
        "header": True,
        "enforceSchema": False,
        "sep": delimiter,
        "encoding": encoding,
        "quote": '"',
        "escape": '"',
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _MALFORMED,
        "columnPruning": False,
        "maxCharsPerColumn": -1,
    }
    names = spark.read.options(**options).csv(path).columns
    schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in (*names, _MALFORMED))
    frame = spark.read.options(**options).schema(schema).csv(path)
    return frame.withColumn(_MALFORMED, frame[_MALFORMED].isNotNull())


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
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    problem = f"there is none {f'in JAVA_HOME={home}' if home else 'on PATH'}"
    if java is not None:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(\d+)', run.stderr)
        problem = f"{java} is {f'Java {version.group(1)}' if version else 'something else'}"
        if version is not None and int(version.group(1)) >= _JAVA:
            problem = ""
    if problem:
        raise InputError(
            f"Spark needs Java {_JAVA} or newer, and {problem}; install one (JDK {_JAVA}) and set "
            "JAVA_HOME, or read the table without Spark"
        )
    # In local mode workers would otherwise be whatever python3 is found first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("labeldp").config("spark.ui.showConsoleProgress", False)
    # The Java process inherits standard error twice: standard output is for the answer.
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        spark = builder.getOrCreate()
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")
    return spark
