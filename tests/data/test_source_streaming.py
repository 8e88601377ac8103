"""Memory does not grow with the number of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data.source import scan
from labeldp.features.fit import fit_features


def write(path, groups, rows=20_000):
    rng = np.random.default_rng(1)
    towns = np.array([f"town {i}" for i in range(200)])
    writer = None
    for _ in range(groups):
        table = pa.table(
            {
                "a": rng.normal(size=rows),
                "b": rng.integers(0, 10**6, rows),
                "k": towns[rng.integers(0, 200, rows)],
                "y": rng.random(rows),
            }
        )
        if path.suffix == ".parquet":
            writer = writer or pq.ParquetWriter(path, table.schema)
        else:
            writer = writer or pa.csv.CSVWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    return path


def peak(path):
    pa.default_memory_pool().release_unused()
    base, most = pa.total_allocated_bytes(), 0
    source = scan(path, label="y", label_range=(0, 1), batch_rows=16_384)
    mapped = fit_features(source)
    for batch, _ in source.labelled_batches():
        mapped.encode(batch)
        most = max(most, pa.total_allocated_bytes() - base)
    return most


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_memory_is_constant(form, tmp_path, monkeypatch):
    monkeypatch.setattr("labeldp.data.csv_stream.BLOCK", 1 << 20)
    small = peak(write(tmp_path / f"small.{form}", 4))
    large = peak(write(tmp_path / f"large.{form}", 16))
    assert large < 1.5 * small + 4e6, (small, large)
    assert large < 64e6


def test_arrow_file_is_mapped(tmp_path):
    table = pa.table({"a": np.zeros(10**6), "b": np.arange(10**6) % 50})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=10**6)
    del table
    base, most = pa.total_allocated_bytes(), 0
    source = scan(tmp_path / "t.arrow")
    for batch in source.feature_batches():
        assert batch.num_rows <= source.batch_rows < 10**6
        most = max(most, pa.total_allocated_bytes() - base)
    assert most < 1e6
