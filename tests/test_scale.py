"""Memory does not grow with rows; no layout is a cliff; an interrupted run resumes.

Every run is a process of its own, whose peak of memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp_paper.datasets.demo_table import write_census_like
from tests.processes import PEAK

_ROWS = (
    PEAK
    + """
import hashlib, time
from labeldp import LocalEngine, plan, scan
from labeldp.passes.engine import Memory
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
path, label, high, budget = sys.argv[1:]
source = scan(path, label=label, label_range=(0, float(high)))
engine = LocalEngine(memory=Memory(int(budget) << 20))
started = time.perf_counter()
made = plan(source, epsilon=1, delta=1e-6, bags=500, engine=engine, force=True)
sums = GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels)
gram, moments = engine.run_pass("label sums", source, *sums)
private_sums = repr((moments.rows, list(moments.cross), moments.total, moments.square))
made.release(source, engine=engine)
print(json.dumps({
    "seconds": time.perf_counter() - started, "mebibytes": peak(), "rows": gram.rows,
    "columns": len(made.features.names), "notes": list(made.notes), "plan": made.to_json()["seal"],
    "features": gram.digest(), "labels": hashlib.sha256(private_sums.encode()).hexdigest(),
}))
"""
)
_BAGS = (
    PEAK
    + """
import tempfile
from labeldp import plan, scan, verify
path, bags = sys.argv[1], int(sys.argv[2])
source = scan(path, label="WKSWORK1", label_range=(0, 51), features=["AGE", "SEX"])
made = plan(source, mechanism="sampled-wtd-flag", epsilon=4, delta=1e-5, bags=bags, bag_size=64,
    force=True)
with tempfile.TemporaryDirectory() as folder:
    made.release_to(Path(folder) / "r", source)
    assert verify(Path(folder) / "r", path).valid
print(json.dumps({"mebibytes": peak()}))
"""
)
_BUDGET = 512
"""Mebibytes of features that an engine keeps unless it is told otherwise."""
_ALONE = 450
"""Mebibytes that a run may take besides: the libraries, batches in flight, sums."""


def command(path: Path, label: str, high: float, budget: int) -> list[str]:
    arguments = [str(path), label, str(high), str(budget)]
    return [sys.executable, "-c", _ROWS, *arguments]


def told(program: list[str]) -> dict[str, Any]:
    """What a program says in a process of its own."""
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def ran(
    path: Path,
    label: str = "label",
    high: float = 10,
    budget: int = _BUDGET,
) -> dict[str, Any]:
    """Plan and release once; what it took and what it found."""
    result = told(command(path, label, high, budget))
    print({key: result[key] for key in ("seconds", "mebibytes", "rows", "columns")})
    return result


def measured(folder: Path, rows: int) -> dict[str, Any]:
    path = folder / f"{rows}.parquet"
    write_census_like(path, rows)
    return ran(path, "WKSWORK1", 51)


def test_memory_does_not_grow_with_rows(tmp_path: Path) -> None:
    """Decoded, five million rows more would take 160 MiB more."""
    small, large = measured(tmp_path, 2_000_000), measured(tmp_path, 7_000_000)
    assert large["mebibytes"] < small["mebibytes"] + 120


@pytest.mark.slow
def test_memory_is_the_same_for_twice_the_rows(tmp_path: Path) -> None:
    """Past what is kept between passes there is nothing left to grow."""
    for rows in (10_000_000, 20_000_000):
        write_census_like(tmp_path / f"{rows}.parquet", rows)
    small, large = (
        ran(tmp_path / f"{rows}.parquet", "WKSWORK1", 51, budget=0)
        for rows in (10_000_000, 20_000_000)
    )
    assert large["mebibytes"] < small["mebibytes"] + 60


@pytest.mark.slow
def test_twenty_million_rows_stay_under_a_gibibyte(tmp_path: Path) -> None:
    assert measured(tmp_path, 20_000_000)["mebibytes"] < 1024


_BATCH = 250_000


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """A synthetic table: two numbers, a long-tailed category, labels from 0 to 10."""
    for start in range(0, rows, _BATCH):
        rng = np.random.default_rng([7, start])
        count = min(_BATCH, rows - start)
        town = np.minimum(rng.zipf(1.6, count), 300)
        size = np.round(rng.normal(50, 9, count), 2)
        label = np.clip(np.round((size / 9 + rng.normal(0, 1, count)) * 64) / 64, 0, 10)
        yield pa.RecordBatch.from_pydict(
            {
                "size": size,
                "score": rng.integers(0, 1000, count),
                "town": pa.array([f"t{k:03d}" for k in town]),
                "label": label,
            }
        )


ROWS = 4_000_000


def written(path: Path, pieces: list[pa.Table], group: int) -> Path:
    path.mkdir()
    for number, piece in enumerate(pieces):
        pq.write_table(piece, path / f"{number:04d}.parquet", row_group_size=group)
    return path


def cut(data: pa.Table, files: int) -> list[pa.Table]:
    size = -(-data.num_rows // files)
    return [data.slice(start, size) for start in range(0, data.num_rows, size)]


@pytest.mark.slow
def test_no_layout_is_a_cliff(tmp_path: Path) -> None:
    """One huge row group, thousands of files, sorted or skewed rows: one answer, bounded memory."""
    data = pa.Table.from_batches(batches(ROWS))
    usual = ran(written(tmp_path / "usual", [data], 1 << 17))
    order = data.sort_by([("town", "ascending"), ("label", "ascending")])
    layouts = {
        "one row group": ([data], ROWS),
        "2,000 files": (cut(data, 2000), 1 << 17),
        "sorted": ([order], 1 << 17),
        "one huge file among small ones": ([data.slice(500), *cut(data.slice(0, 500), 50)], ROWS),
    }
    for name, (pieces, group) in layouts.items():
        print(name)
        found = ran(written(tmp_path / name, pieces, group))
        same = ("rows", "features", "labels")
        assert {key: found[key] for key in same} == {key: usual[key] for key in same}
        assert found["mebibytes"] < _BUDGET + _ALONE


def with_levels(path: Path, rows: int, levels: int, tail: float) -> Path:
    """A text column with so many distinct values, some of them common."""
    writer = None
    names = pa.array([f"user-{k:07d}" for k in range(levels)])
    for number, batch in enumerate(batches(rows)):
        rng = np.random.default_rng([11, number])
        codes = (levels * rng.random(batch.num_rows) ** tail).astype(np.int64)
        codes[: max(0, min(len(codes), levels - number * _BATCH))] = np.arange(
            number * _BATCH, number * _BATCH + max(0, min(len(codes), levels - number * _BATCH))
        )
        wide = batch.append_column("user", names.take(pa.array(codes)))
        writer = writer or pq.ParquetWriter(path, wide.schema)
        writer.write_batch(wide)
    assert writer is not None
    writer.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("levels", [100_000, 999_000])
def test_a_category_of_very_many_levels_is_merged(tmp_path: Path, levels: int) -> None:
    found = ran(with_levels(tmp_path / "t.parquet", 2_000_000, levels, 6.0))
    assert any(note.startswith("user: ") and "merged" in note for note in found["notes"])
    assert found["columns"] < 4096
    assert found["mebibytes"] < _BUDGET + _ALONE + 600, "each thread counts the levels it meets"


@pytest.mark.slow
def test_an_identifier_is_left_out_by_name(tmp_path: Path) -> None:
    found = ran(with_levels(tmp_path / "t.parquet", 2_000_000, 1_500_000, 1.0))
    told = "user: more than 1,000,000 different texts, taken for an id and left out"
    assert any(note.startswith(told) for note in found["notes"])


@pytest.mark.slow
def test_many_bags_take_the_memory_of_their_rows(tmp_path: Path) -> None:
    """40,000 bags more of 64 rows: 160 bytes a row at most, and under a gibibyte in all."""
    path = tmp_path / "table.parquet"
    write_census_like(path, 4_000_000)
    few, many = (
        told([sys.executable, "-c", _BAGS, str(path), str(bags)])["mebibytes"]
        for bags in (10_000, 50_000)
    )
    print(few, many)
    assert many < 1024
    assert many < few + 40_000 * 64 * 160 / 2**20
