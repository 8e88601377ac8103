"""What every reader owes: the same rows, names, kinds and number of rows, however they are held.

Spark's, which is read on other machines, is held to its part of this in tests/passes.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp import Source, scan
from labeldp.data import readers
from labeldp.data.readers import TableReader
from labeldp.data.source import open_table
from labeldp.passes.engine import LocalEngine
from labeldp.spark.engine import engine_for
from tests.tables import RANGE

ROWS = 500


def table() -> pa.Table:
    rng = np.random.default_rng(1)
    towns = [None if k % 11 == 3 else f"t{k % 7}" for k in range(ROWS)]
    return pa.table(
        {
            "height": rng.normal(size=ROWS).round(3),
            "count": rng.integers(-9, 300, ROWS),
            "town": pa.array(towns),
            "member": rng.random(ROWS) < 0.3,
            "label": rng.uniform(*RANGE, ROWS).round(2),
        }
    )


TABLE = table()
FEATURES = ["height", "count", "town", "member"]
KINDS = ["numeric", "integer", "categorical", "categorical"]


def parquet(folder: Path) -> Any:
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=60)
    return folder / "t.parquet"


def parquet_files(folder: Path) -> Any:
    for number, start in enumerate(range(0, ROWS, 130)):
        pq.write_table(TABLE.slice(start, 130), folder / f"{number}.parquet")
    return folder


def arrow_file(folder: Path) -> Any:
    with pa.ipc.new_file(folder / "t.arrow", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=70)
    return folder / "t.arrow"


def arrow_stream(folder: Path) -> Any:
    with pa.ipc.new_stream(folder / "t.feather", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=70)
    return folder / "t.feather"


def delimited(folder: Path) -> Any:
    csv.write_csv(TABLE, folder / "t.csv")
    return folder / "t.csv"


def zipped(folder: Path) -> Any:
    options = csv.WriteOptions(delimiter="\t")
    with gzip.open(folder / "t.tsv.gz", "wb") as file:
        csv.write_csv(TABLE, file, options)
    return folder / "t.tsv.gz"


def polars(_: Path) -> Any:
    return pytest.importorskip("polars").from_arrow(TABLE)


CONNECTIONS: list[Any] = []


def duckdb(_: Path) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    CONNECTIONS.append(connection)  # as long as a relation is used: older versions do not keep it
    return connection.from_arrow(TABLE)


FILES = [parquet, parquet_files, arrow_file, arrow_stream, delimited, zipped]


def pyarrow(_: Path) -> Any:
    return TABLE


def pandas(_: Path) -> Any:
    pytest.importorskip("pandas")
    return TABLE.to_pandas()


FRAMES = [pyarrow, pandas, polars, duckdb]


@pytest.fixture(params=[*FILES, *FRAMES], ids=lambda hold: hold.__name__)
def hold(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    """A way to hold the table; parts are small, so that there are several."""
    found: Callable[[Path], Any] = request.param
    return found


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_PART_ROWS", 100)


@pytest.fixture
def source(hold: Callable[[Path], Any], tmp_path: Path) -> Source:
    return scan(hold(tmp_path), label="label", label_range=RANGE)


@pytest.fixture
def reader(source: Source) -> TableReader:
    return source.reader


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Row by row in plain values; what is missing is None."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        columns = [[_plain(value) for value in column.to_pylist()] for column in batch.columns]
        found += zip(*columns, strict=True)
    return found


def _plain(value: Any) -> Any:
    return None if value != value else value


def expected(names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(TABLE[name].to_pylist() for name in names), strict=True))


def test_names_and_kinds(source: Source) -> None:
    assert list(source.reader.schema.names) == TABLE.column_names
    assert [(column.name, column.kind) for column in source.columns] == list(
        zip(FEATURES, KINDS, strict=True)
    )


@pytest.mark.parametrize("names", [FEATURES, ["town", "height"], ["count"]], ids=str)
@pytest.mark.parametrize("batch_rows", [7, 64, 100_000])
def test_batches_hold_these_columns_in_order_and_no_more_rows(
    reader: TableReader, names: list[str], batch_rows: int
) -> None:
    batches = list(reader.batches(names, batch_rows))
    assert all(batch.schema.names == names for batch in batches)
    assert all(1 <= batch.num_rows <= batch_rows for batch in batches)
    assert rows_of(iter(batches)) == expected(names)


def test_it_can_be_read_again(reader: TableReader) -> None:
    once, again = (rows_of(reader.batches(FEATURES, 64)) for _ in range(2))
    assert once == again


def test_rows_are_known_or_not_but_never_wrong(reader: TableReader) -> None:
    assert reader.rows in (None, ROWS)


def test_units_are_the_table_in_order_and_several_know_their_rows(reader: TableReader) -> None:
    units = reader.units()
    pieces = [rows_of(unit.batches(FEATURES, 64)) for unit in units]
    assert [row for piece in pieces for row in piece] == expected(FEATURES)
    if len(units) > 1:
        assert [unit.rows for unit in units] == [len(piece) for piece in pieces]


def test_parquet_has_several_units(tmp_path: Path) -> None:
    assert len(scan(parquet(tmp_path)).reader.units()) > 1


def test_labels_are_read_whether_they_are_text_or_numbers(source: Source) -> None:
    found = np.concatenate([labels for _, labels in source.labelled_batches()])
    assert np.array_equal(found, TABLE["label"].to_numpy())


@pytest.mark.parametrize("make", FILES)
def test_files_that_are_written_to_change_their_state(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    source = scan(make(tmp_path))
    before = source.state()
    assert before is not None
    assert [path for path, *_ in before] == list(map(str, source.reader.paths))
    assert source.state() == before
    first = source.reader.paths[0]
    first.write_bytes(first.read_bytes() + b"\n")
    assert source.state() != before


@pytest.mark.parametrize("make", FRAMES)
def test_frames_may_change_unseen(make: Callable[[Path], Any], tmp_path: Path) -> None:
    source = scan(make(tmp_path))
    assert source.state() is None
    assert source.reader.paths == ()


def test_a_reader_is_taken_as_it_is(hold: Callable[[Path], Any], tmp_path: Path) -> None:
    again = scan(open_table(hold(tmp_path)), label="label", label_range=RANGE)
    assert rows_of(again.feature_batches()) == expected(FEATURES)


def test_rows_are_read_here_and_have_numbers(source: Source) -> None:
    assert source.numbered
    assert isinstance(engine_for(source), LocalEngine)
