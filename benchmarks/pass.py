"""The pass over the data against reading alone and against other ways to sum the same things.

    python benchmarks/pass.py [--rows 500000,2000000] [--tables census,criteo,dense-16] [--json]

Each way sums XᵀX over all design columns of a synthetic table (see synthetic.py):

    read                 pyarrow decodes the same columns, and nothing else (iter_batches)
    read whole           the same into one table in memory (read_table), as most people would
    ours                 the statistics pass from Parquet: reading, encoding, Xᵀy and checks
                         included; with and without numba
    ours, in memory      the same with features kept by an earlier pass; labels are still read
    plan and release     all of it with 500 aggregates, leverages and accounting included, in a
                         process of its own
    dense                one-hot matrix in blocks of 8192 rows, B.T @ B
    scipy, tabmat        sparse and split matrices, built beforehand
    duckdb               GROUPING SETS over every pair of categories, from Parquet, Xᵀy included

"dense", "scipy" and "tabmat" see a part of the rows, encoded and in memory: reading, encoding and
building their matrices is not counted, and they are extrapolated in line. Other ways are measured
at the largest number of rows only. Trust ratios, not times.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grams
import pyarrow.parquet as pq
from report import print_report
from synthetic import Table, table_named
from timing import side_by_side
from whole_release import whole_release

from labeldp import kernels
from labeldp.engines import LocalEngine
from labeldp.engines.memory import Memory
from labeldp.features import FeatureMap, fit_features
from labeldp.source import Source
from labeldp.statistics import LabelGrid

MOST_NUMBERS = {"dense": 1 << 25, "scipy": 1 << 27, "tabmat": 1 << 27}
"""Of the one-hot matrix (which two of them never hold) of the rows that these see."""
BAGS = 500


def read(path: Path) -> None:
    for _ in pq.ParquetFile(path, memory_map=True).iter_batches(batch_size=65_536):
        pass


def read_whole(path: Path) -> None:
    pq.read_table(path)


def ours(source: Source, features: FeatureMap, grid: LabelGrid, numba: bool, memory: Memory) -> str:
    """The statistics pass; its digest shows that all ways sum the same."""
    saved = kernels.available, kernels.WORTH_COMPILING
    kernels.available, kernels.WORTH_COMPILING = (lambda: numba), 0
    try:
        memory.once = lambda _key, _columns, compute: compute()  # count what a first pass costs
        gram, _ = LocalEngine(memory=memory).labelled_sums(source, features, grid)
    finally:
        kernels.available, kernels.WORTH_COMPILING = saved
    return gram.digest()


def our_ways(table: Table, path: Path) -> tuple[dict[str, Callable[[], Any]], FeatureMap]:
    """Reading alone, and our pass: from the file and from memory."""
    source, kept = table.source(path), LocalEngine()
    features = fit_features(source, fold=kept.fold)
    grid = LabelGrid.for_range(table.label_range, intercept=True)
    ways: dict[str, Callable[[], Any]] = {
        "read": partial(read, path),
        "read whole": partial(read_whole, path),
    }
    names = {"ours, NumPy": False} | ({"ours": True} if kernels.available() else {})
    for name, numba in names.items():
        ways[name] = partial(ours, source, features, grid, numba, Memory(0))
        ways[f"{name}, in memory"] = partial(ours, source, features, grid, numba, kept.memory)
    return ways, features


def part_of(way: str, rows: int, features: FeatureMap) -> int:
    """How many of the rows a way sees; all of them unless it starts in memory."""
    return min(rows, MOST_NUMBERS.get(way, features.width * rows) // features.width)


def other_ways(
    table: Table, path: Path, features: FeatureMap, rows: int
) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """The alternatives that are installed, and a line for each that is not."""
    encoded = grams.encoded_rows(table.source(path), features, part_of("scipy", rows, features))
    found = {
        "duckdb": grams.duckdb_sums(path, features, table.label),
        "dense": partial(grams.dense_gram, encoded.first(part_of("dense", rows, features))),
        "scipy": grams.scipy_gram(encoded),
        "tabmat": grams.tabmat_gram(encoded),
    }
    notes = [f"{way} {grams.REMEDY}" for way, run in found.items() if run is None]
    return {way: run for way, run in found.items() if run is not None}, notes


def measure(
    table: Table, path: Path, rows: int, rounds: int, others: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """All ways on one table, as times of the bare read and of our pass."""
    ways, features = our_ways(table, path)
    notes = [] if kernels.available() else ["numba is not installed; pip install 'labeldp[fast]'"]
    if others:
        more, missing = other_ways(table, path, features, rows)
        ways, notes = ways | more, notes + missing
    times, answers = side_by_side(ways, rounds)
    digests = {answer for way, answer in answers.items() if way.startswith("ours")}
    if len(digests) != 1:
        raise RuntimeError(f"our ways do not agree on {table.name}: {sorted(digests)}")
    parts = {way: part_of(way, rows, features) for way in times}
    times = {way: time.scaled(rows / parts[way]) for way, time in times.items()}
    whole = whole_release(table.name, path, BAGS, rounds=rounds)
    times["plan and release"] = whole.total
    bare, own = times["read"], times["ours" if "ours" in times else "ours, NumPy"]
    records = [
        {
            "table": table.name,
            "rows": rows,
            "design_columns": features.width,
            "way": way,
            **time.to_json(),
            "million_rows_per_second": rows / time.wall / 1e6,
            "times_ours": time.wall / own.wall,
            "times_ours_cpu": time.cpu / own.cpu,
            "read_share": bare.wall / time.wall,
            "read_share_cpu": bare.cpu / time.cpu,
            "extrapolated_from_rows": parts[way] if parts.get(way, rows) < rows else None,
            "peak_mib": whole.peak_mib if way == "plan and release" else None,
        }
        for way, time in times.items()
    ]
    return records, notes


def run(names: list[str], sizes: list[int], rounds: int) -> dict[str, Any]:
    records, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for rows in sizes:
                table, path = table_named(name), Path(folder) / f"{name}-{rows}.parquet"
                table.write(path, rows)
                found, missing = measure(table, path, rows, rounds, rows == max(sizes))
                records += found
                notes += [line for line in missing if line not in notes]
                path.unlink()
    return {"benchmark": "pass", "records": records, "notes": notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="500000,2000000")
    parser.add_argument("--tables", default="census,criteo,dense-16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sizes = [int(rows) for rows in chosen.rows.split(",")]
    found = run(chosen.tables.split(","), sizes, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
