"""Drawing and writing a release of many bags against writing as many numbers with pyarrow alone.

    python benchmarks/writing.py [--bags 100000,1000000] [--table dense-8] [--rows 200000] [--json]

    release      `Plan.release_to`: one pass over the labels of a synthetic table, then aggregates
                 are drawn, labels rounded, hashed and written in a stream; in a
                 process of its own
    pyarrow      one batch of normal numbers, drawn beforehand, written as often as it takes

    same file    the same, in the layout that a release has: columns without nulls, labels alone
                 compressed

pyarrow's columns are as they come from `RecordBatch.from_pydict`: nullable, with snappy, here
without dictionaries. Planning is not counted; the certificate's curve and the pass over the
labels are, and do not grow with bags.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import print_report
from synthetic import table_named
from timing import best, once
from whole_release import whole_release

BATCH_ROWS = 1 << 17


def write_alone(path: Path, bags: int, columns: int, *, same_file: bool = False) -> None:
    """As many numbers as a release of so many bags has."""
    batch = normal_batch(min(bags, BATCH_ROWS), columns)
    layout: dict[str, Any] = {"use_dictionary": False}
    if same_file:
        fields = [field.with_nullable(False) for field in batch.schema]
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
        layout["compression"] = {f"x{columns - 1}": "snappy"}
    with pq.ParquetWriter(path, batch.schema, **layout) as file:
        for start in range(0, bags, BATCH_ROWS):
            file.write_batch(batch.slice(0, min(BATCH_ROWS, bags - start)))


def normal_batch(rows: int, columns: int) -> pa.RecordBatch:
    rng = np.random.default_rng(0)
    return pa.RecordBatch.from_pydict({f"x{k}": rng.standard_normal(rows) for k in range(columns)})


def measure(name: str, path: Path, bags: int, rounds: int, folder: Path) -> dict[str, Any]:
    """One number of bags: the release's time and memory, and pyarrow's time."""
    released, alone, alike = [], [], []
    for _ in range(rounds):
        released.append(whole_release(name, path, bags, to=folder))
        written = folder / f"release-{bags}-0"
        kept = pq.ParquetFile(written / "aggregates.parquet").metadata
        size = sum(file.stat().st_size for file in written.iterdir()) / 2**20
        shutil.rmtree(written)
        target = folder / "alone.parquet"
        write = partial(write_alone, target, bags, kept.num_columns)
        alone.append(once(write)[0])
        alike.append(once(partial(write, same_file=True))[0])
        target.unlink()
    own, bare, same = best(run.release for run in released), best(alone), best(alike)
    return {
        "table": name,
        "bags": bags,
        "columns": kept.num_columns,
        **own.to_json(),
        "pyarrow_seconds": bare.wall,
        "pyarrow_cpu_seconds": bare.cpu,
        "same_file_seconds": same.wall,
        "same_file_cpu_seconds": same.cpu,
        "times_pyarrow": own.wall / bare.wall,
        "times_pyarrow_cpu": own.cpu / bare.cpu,
        "million_bags_per_second": bags / own.wall / 1e6,
        "file_mib": size,
        "peak_mib": max(run.peak_mib for run in released),
    }


def run(name: str, rows: int, bags: list[int], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        path = folder / "table.parquet"
        table_named(name).write(path, rows)
        records = [measure(name, path, count, rounds, folder) for count in bags]
    for record in records:
        record["rows"] = rows
    return {"benchmark": "writing", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--bags", default="10000,100000,1000000")
    parser.add_argument("--table", default="dense-8")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    bags = [int(count) for count in chosen.bags.split(",")]
    found = run(chosen.table, chosen.rows, bags, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
