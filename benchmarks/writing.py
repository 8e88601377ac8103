"""Drawing and writing a release of many bags against writing as many numbers with pyarrow alone.

    python benchmarks/writing.py [--bags 100000,1000000] [--table dense-8] [--rows 200000] [--json]

    release      `Plan.release_to`: one pass over the labels of a synthetic table, then aggregates
                 are drawn, labels rounded at the door, hashed and written in a stream; in a
                 process of its own
    pyarrow      one batch of normal numbers, drawn beforehand, written as often as it takes

Both write float64 columns with snappy and without dictionaries. Planning is not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
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


def write_alone(path: Path, bags: int, columns: int) -> None:
    """As many numbers as a release of so many bags has."""
    batch = normal_batch(min(bags, BATCH_ROWS), columns)
    with pq.ParquetWriter(path, batch.schema, use_dictionary=False) as file:
        for start in range(0, bags, BATCH_ROWS):
            file.write_batch(batch.slice(0, min(BATCH_ROWS, bags - start)))


def normal_batch(rows: int, columns: int) -> pa.RecordBatch:
    rng = np.random.default_rng(0)
    return pa.RecordBatch.from_pydict({f"x{k}": rng.standard_normal(rows) for k in range(columns)})


def measure(name: str, path: Path, bags: int, rounds: int, folder: Path) -> dict[str, Any]:
    """One number of bags: the release's time and memory, and pyarrow's time."""
    released, alone = [], []
    for _ in range(rounds):
        released.append(whole_release(name, path, bags, to=folder))
        written = folder / f"release-{bags}-0"
        kept = pq.ParquetFile(written / "aggregates.parquet").metadata
        size = sum(file.stat().st_size for file in written.iterdir()) / 2**20
        shutil.rmtree(written)
        target = folder / "alone.parquet"
        alone.append(once(lambda: write_alone(target, bags, kept.num_columns))[0])  # noqa: B023
        target.unlink()
    own, bare = best(run.release for run in released), best(alone)
    return {
        "table": name,
        "bags": bags,
        "columns": kept.num_columns,
        **own.to_json(),
        "pyarrow_seconds": bare.wall,
        "pyarrow_cpu_seconds": bare.cpu,
        "times_pyarrow": own.wall / bare.wall,
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
