"""What every reader owes: the same rows, names, kinds and number of rows, however they are held.

Spark's, which is read on other machines, is held to its part of this in tests/passes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp import Source, scan
from labeldp.data import readers
from labeldp.data.readers import TableReader
from labeldp.data.source import open_table
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine
from labeldp.spark.engine import engine_for
from tests.tables import RANGE

ROWS = 500


def table() -> pa.Table:
    rng = np.random.default_rng(1)
    towns = [None if k % 11 == 3 else f"t{k % 7}" for k in range(ROWS)]
    start, hour = datetime.datetime(2021, 3, 1), datetime.timedelta(hours=7)
    return pa.table(
        {
            "height": pa.array(rng.normal(size=ROWS).round(3), mask=rng.random(ROWS) < 0.1),
            "count": rng.integers(-9, 300, ROWS),
            "town": pa.array(towns),
            "member": rng.random(ROWS) < 0.3,
            "seen": pa.array([start + k * hour for k in range(ROWS)], pa.timestamp("us")),
            "label": rng.uniform(*RANGE, ROWS).round(2),
        }
    )


TABLE = table()
FEATURES = ["height", "count", "town", "member", "seen"]
KINDS = ["numeric", "integer", "categorical", "categorical", "numeric"]
CONNECTION = duckdb.connect()


def parquet(folder: Path, **options: Any) -> Path:
    pq.write_table(TABLE, folder / "t.parquet", **options)
    return folder / "t.parquet"


def parquet_files(folder: Path) -> Path:
    """A directory as Spark writes it."""
    for number, start in enumerate(range(0, ROWS, 130)):
        pq.write_table(TABLE.slice(start, 130), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-1.parquet.crc").write_text("")
    return folder


def arrow(folder: Path, write: Any, name: str) -> Path:
    with write(folder / name, TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=70)
    return folder / name


def feather(folder: Path) -> Path:
    pa.feather.write_feather(TABLE, folder / "t.feather", compression="zstd", chunksize=100)
    return folder / "t.feather"


def delimited(folder: Path, name: str, sign: str) -> Path:
    compression = "gzip" if name.endswith("gz") else None
    with pa.output_stream(str(folder / name), compression=compression) as out:
        csv.write_csv(TABLE, out, csv.WriteOptions(delimiter=sign))
    return folder / name


FILES: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda d: parquet(d, row_group_size=60),
    "parquet without dictionaries": lambda d: parquet(d, use_dictionary=False),
    "parquet files": parquet_files,
    "parquet glob": lambda d: str(parquet_files(d) / "*.parquet"),
    "arrow file": lambda d: arrow(d, pa.ipc.new_file, "t.arrow"),
    "arrow stream": lambda d: arrow(d, pa.ipc.new_stream, "t.arrow"),
    "feather": feather,
    "csv": lambda d: delimited(d, "t.csv", ","),
    "tsv.gz": lambda d: delimited(d, "t.TSV.gz", "\t"),
}
FRAMES: dict[str, Callable[[Path], Any]] = {
    "pyarrow": lambda _: TABLE,
    "record batch": lambda _: TABLE.combine_chunks().to_batches()[0],
    "string views": lambda _: TABLE.set_column(2, "town", TABLE["town"].cast(pa.string_view())),
    "pandas": lambda _: TABLE.to_pandas().set_axis(range(900, 900 + ROWS)),
    "pandas categories": lambda _: TABLE.to_pandas().astype({"town": "category"}),
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars categories": lambda _: pl.from_arrow(TABLE).with_columns(
        pl.col("town").cast(pl.Categorical)
    ),
    "duckdb": lambda _: CONNECTION.from_arrow(TABLE),
}


@pytest.fixture(params=[*FILES, *FRAMES])
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table in one form; parts are small, so that there are several."""
    monkeypatch.setattr(readers, "_PART_ROWS", 100)
    return (FILES | FRAMES)[request.param](tmp_path)


@pytest.fixture
def source(data: Any) -> Source:
    return scan(data, label="label", label_range=RANGE)


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


@pytest.mark.parametrize(
    ("names", "batch_rows"), [(FEATURES, 64), (["town", "height"], 7), (["count"], 100_000)]
)
def test_batches_hold_these_columns_in_order_and_no_more_rows(
    reader: TableReader, names: list[str], batch_rows: int
) -> None:
    for _ in range(2):  # it can be read again
        batches = list(reader.batches(names, batch_rows))
        assert all(batch.schema.names == names for batch in batches)
        assert all(1 <= batch.num_rows <= batch_rows for batch in batches)
        assert rows_of(iter(batches)) == expected(names)


def test_a_source_tells_names_kinds_and_rows_and_makes_the_same_design(source: Source) -> None:
    assert list(source.reader.schema.names) == TABLE.column_names
    assert [column.name for column in source.columns] == FEATURES
    assert [column.kind for column in source.columns] == KINDS
    assert source.total_rows in (None, ROWS)
    assert not source.reader.on_cluster
    assert isinstance(engine_for(source), LocalEngine)
    whole = fit_features(scan(TABLE, label="label", label_range=RANGE))
    assert fit_features(source).to_json() == whole.to_json()
    labels = np.concatenate([labels for _, labels in source.labelled_batches()])
    assert np.array_equal(labels, TABLE["label"].to_numpy())


def test_an_abandoned_pass_leaves_no_trace(source: Source) -> None:
    next(iter(source.feature_batches()))
    assert sum(batch.num_rows for batch in source.feature_batches()) == ROWS


def test_units_are_the_table_in_order_and_several_know_their_rows(reader: TableReader) -> None:
    units = reader.units()
    pieces = [rows_of(unit.batches(FEATURES, 64)) for unit in units]
    assert [row for piece in pieces for row in piece] == expected(FEATURES)
    if len(units) > 1:
        assert [unit.rows for unit in units] == [len(piece) for piece in pieces]
    assert len(units) > 1 or reader.format != "Parquet" or len(reader.paths) == 1


@pytest.mark.parametrize("form", FILES)
def test_files_that_are_written_to_change_their_state(form: str, tmp_path: Path) -> None:
    source = scan(FILES[form](tmp_path))
    before = source.state()
    assert before is not None
    assert [path for path, *_ in before] == list(map(str, source.reader.paths))
    assert source.state() == before
    first = source.reader.paths[0]
    first.write_bytes(first.read_bytes() + b"\n")
    assert source.state() != before


@pytest.mark.parametrize("form", FRAMES)
def test_frames_may_change_unseen(form: str, tmp_path: Path) -> None:
    source = scan(FRAMES[form](tmp_path))
    assert source.state() is None
    assert source.reader.paths == ()


def test_a_reader_is_taken_as_it_is(data: Any) -> None:
    again = scan(open_table(data), label="label", label_range=RANGE)
    assert rows_of(again.feature_batches()) == expected(FEATURES)


def test_features_restricts_and_orders_and_drop_removes() -> None:
    source = scan(TABLE, label="label", features=["town", "count", "height"], drop=["count"])
    assert source.names == ("town", "height")
    assert next(source.feature_batches()).schema.names == ["town", "height"]
