"""Files for the command line: a small table, a release of it, and tables with one flaw each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.console import labeldp
from tests.tables import RANGE, table

LABEL = ("--label", "label", "--label-range", *RANGE)
QUICK = (
    "--mechanism",
    "wtd-flag",
    "--accountant",
    "exact-worst-case",
    "--floor",
    "added",
    "--bags",
    "40",
)
"""One law for any features, and no measurement: planning and certifying take little time."""

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as Parquet."""
    path = tmp_path_factory.mktemp("data") / "table.parquet"
    pq.write_table(table(), path)
    return path


@pytest.fixture(scope="session")
def published(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of it; tests must not change it."""
    path = tmp_path_factory.mktemp("published") / "release"
    result = labeldp("release", "--anyway", data, *LABEL, *QUICK, "--out", path)
    assert result.code == 0, result
    return path


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write("x.csv", column=values, …): the table with columns replaced, added or (None) gone."""

    def write(name: str, rows: int = 300, **columns: Any) -> Path:
        made = table(rows)
        for column, values in columns.items():
            if column in made.column_names:
                made = made.drop_columns([column])
            if values is not None:
                made = made.append_column(column, pa.array(values))
        path = tmp_path / name
        (csv.write_csv if path.suffix == ".csv" else pq.write_table)(made, path)
        return path

    return write
