"""One Spark session, and one list of the ways to hold a table that every engine test runs over."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pytest

from labeldp import LocalEngine, Source, SparkEngine, scan
from labeldp.passes.engine import Engine
from tests.tables import RANGE


def why_no_spark() -> str | None:
    """What is missing for the Spark tests, or None."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    told = subprocess.run([java, "-version"], capture_output=True, text=True).stderr if java else ""
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version.group(1)) < 17:
        return "THE SPARK ENGINE IS NOT TESTED: no Java 17 or newer"
    if find_spec("pyspark") is None:
        return "THE SPARK ENGINE IS NOT TESTED: pip install 'labeldp[spark]'"
    return None


REASON = why_no_spark()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of two cores that tries a failed task once more."""
    if REASON:
        pytest.skip(REASON)
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2,2]").appName("labeldp tests")
        for name, value in {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # short jobs: compile less
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",  # tiny stages: planning them anew costs more
            "spark.sql.session.timeZone": "America/New_York",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.log.level": "OFF",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@dataclass(frozen=True)
class Home:
    """An engine, and how a table is given to it."""

    engine: Engine
    hold: Callable[[pa.Table], Any]

    def scan(self, table: pa.Table, **options: Any) -> Source:
        return scan(self.hold(table), **{"label": "label", "label_range": RANGE, **options})


def skewed(frame: Any) -> Any:
    """Nearly all rows in one partition, ten in another, none in a third."""
    many = frame.count() - 10
    rows = frame.coalesce(1)
    return rows.limit(many).union(rows.offset(many)).union(rows.limit(0).repartition(1))


def with_empty_partitions(frame: Any) -> Any:
    """Rows by the hash of a column: with few values, most of the partitions are empty."""
    return frame.repartition(3, "colour")


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "2 partitions": lambda frame: frame.repartition(2),
    "skewed": skewed,
    "empty partitions": with_empty_partitions,
}

HOMES = ["local", "spark, skewed", "spark, empty partitions"]
"""Two even partitions are those of `either`."""


def _home(name: str, request: pytest.FixtureRequest) -> Home:
    if name == "local":
        return Home(LocalEngine(threads=2), lambda table: table)
    session = request.getfixturevalue("spark")
    layout = LAYOUTS[name.removeprefix("spark, ")]
    return Home(SparkEngine(), lambda table: _laid_out(session, layout, _Same(table)))


@dataclass(frozen=True, eq=False)
class _Same:
    """A table that is equal to itself alone."""

    table: pa.Table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.table is other.table

    def __hash__(self) -> int:
        return id(self.table)


@cache
def _laid_out(session: Any, layout: Callable[[Any], Any], same: _Same) -> Any:
    """The frame, laid out once for all passes and tests: else every pass would shuffle it anew."""
    return layout(session.createDataFrame(same.table)).cache()


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest) -> Home:
    """Every engine, and for Spark layouts of every kind."""
    return _home(request.param, request)


@pytest.fixture(params=["local", "spark, 2 partitions"])
def either(request: pytest.FixtureRequest) -> Home:
    """Every engine, in one layout."""
    return _home(request.param, request)
