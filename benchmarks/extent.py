"""Tables too wide, and files larger than memory should hold: time and memory of the command line.

python benchmarks/extent.py [--rows 50000] [--columns 5000] [--megabytes 2000] [--json]

wide, numbers    a Parquet file of so many numeric columns
wide, levels     one of categories with a hundred levels each, as many design columns
tall, CSV        plan and release of a text file of so many megabytes

Labels of the wide tables lie outside their range: whoever reads them first refuses them instead.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

LEVELS = 100
_BATCH = 5_000
_PROGRAM = """
import sys
from pathlib import Path
from labeldp.cli import main

place, status = Path(sys.argv.pop()), Path("/proc/self/status")
try:
    main()
finally:
    place.write_text(status.read_text() if status.exists() else "")
"""
_LABEL = ("--label", "label", "--label-range", "0", "10", "--epsilon", "1", "--delta", "1e-6")


def numbers(rows: int, columns: int) -> Iterator[pa.RecordBatch]:
    """Columns of normal numbers."""
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        drawn = np.random.default_rng([1, start]).normal(size=(columns, count)).astype(np.float32)
        names = [f"x{place}" for place in range(columns)]
        yield pa.RecordBatch.from_arrays([*map(pa.array, drawn), _secret(count)], [*names, "label"])


def levels(rows: int, columns: int) -> Iterator[pa.RecordBatch]:
    """Categories that make as many design columns."""
    names = pa.array([f"level {place}" for place in range(LEVELS)])
    kinds = [f"c{place}" for place in range(-(-columns // LEVELS))]
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        drawn = np.random.default_rng([2, start]).integers(0, LEVELS, (len(kinds), count))
        arrays = [pa.DictionaryArray.from_arrays(codes.astype(np.int32), names) for codes in drawn]
        yield pa.RecordBatch.from_arrays([*arrays, _secret(count)], [*kinds, "label"])


def _secret(count: int) -> pa.Array:
    return pa.array(np.full(count, 77.25))


def write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> Path:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return path


def write_csv(path: Path, size: int) -> Path:
    """Two numbers, a category and a label a line, until the file is so large."""
    rng, lines = np.random.default_rng(3), 200_000
    towns = np.array([f"town {place}" for place in range(40)])
    with path.open("wb") as file:
        header = True
        while file.tell() < size:
            height = np.round(rng.normal(170, 9, lines), 2)
            part = {
                "height": height,
                "score": rng.integers(0, 1000, lines),
                "town": towns[rng.integers(0, 40, lines)],
                "label": np.round(np.clip(height / 34 + rng.normal(0, 1, lines), 0, 10), 3),
            }
            csv.write_csv(pa.table(part), file, csv.WriteOptions(include_header=header))
            header = False
    return path


def command(verb: str, path: Path, *options: str) -> dict[str, Any]:
    """What a command of labeldp said and took, in a process of its own."""
    program = [sys.executable, "-c", _PROGRAM, verb, str(path), *_LABEL, "--anyway", *options]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        tempfile.NamedTemporaryFile("r", encoding="utf-8") as told,
    ):
        started = time.perf_counter()
        running = subprocess.Popen([*program, told.name], stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(running.pid, 0)
        seconds = time.perf_counter() - started
        running.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().strip().splitlines()
        peak = re.search(r"VmHWM:\s*(\d+)", told.read())
    return {
        "exit": running.returncode,
        "said": lines[-1] if lines else "",
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        # ru_maxrss counts from the peak of the process that started this one
        "peak_mib": (int(peak.group(1)) if peak else used.ru_maxrss) / 1024,
    }


def wide(
    folder: Path, table: Callable[[int, int], Iterator[pa.RecordBatch]], rows: int, columns: int
) -> dict[str, Any]:
    path = write_parquet(folder / "wide.parquet", table(rows, columns))
    found = {"bytes": path.stat().st_size, **command("plan", path)}
    path.unlink()
    return found


def tall(folder: Path, size: int) -> dict[str, Any]:
    path = write_csv(folder / "tall.csv", size)
    found = command("release", path, "--out", str(folder / "released"))
    return {"bytes": path.stat().st_size, **found}


def run(rows: int, columns: int, megabytes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records = [
            {"table": "wide, numbers", **wide(folder, numbers, rows, columns)},
            {"table": "wide, levels", **wide(folder, levels, rows, columns)},
            {"table": "tall, CSV", **tall(folder, megabytes * 10**6)},
        ]
    return {"benchmark": "extent", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=5_000)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run(chosen.rows, chosen.columns, chosen.megabytes)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    for each in found["records"]:
        print(
            f"{each['table']:14} {each['bytes'] / 1e9:5.2f} GB  exit {each['exit']}  "
            f"{each['cpu_seconds']:6.1f} s CPU  {each['peak_mib']:6.0f} MiB  {each['said']}"
        )


if __name__ == "__main__":
    main()
