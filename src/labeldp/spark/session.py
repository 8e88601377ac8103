"""The Spark session, and what it reads under a name that the command line gives.

The only module that imports pyspark, and only when it is used.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from labeldp.data.cluster import asking_spark
from labeldp.data.files import FORMATS
from labeldp.errors import DataError, InputError, MissingExtraError


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
