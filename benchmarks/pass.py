"""The pass over the data against reading alone and against other ways to sum the same things.

    python benchmarks/pass.py [--rows 500000,2000000] [--dense-rows 500000]
                              [--tables census,criteo,dense-16] [--json]

Each way sums XᵀX over all design columns of a synthetic table (see synthetic.py).

From the file, as one would:

    read                 pyarrow decodes the same columns, and nothing else (iter_batches)
    read whole           the same into one table in memory (read_table), as most people would
    ours                 the statistics pass: reading, encoding, Xᵀy and checks
    tabmat               read_table, a split matrix, its sandwich, and Xᵀy
    duckdb               GROUPING SETS over every pair of categories, Xᵀy included
    plan and release     all of it with 500 aggregates, leverages and accounting included, in a
                         process of its own

From encoded rows in memory, XᵀX alone; reading, encoding and building matrices is not counted:

    ours                 compound codes, counted on all cores
    dense                one-hot matrix in blocks of 8192 rows, B.T @ B
    scipy, tabmat        sparse and split matrices

"dense" and "scipy" see a part of the rows and are extrapolated in line. Other ways are measured at
the largest number of rows only. Trust ratios, not times.
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
from reading import read, read_whole
from report import print_report
from synthetic import Table, table_named
from timing import Timing, side_by_side
from whole_release import whole_release

from labeldp.data.source import Source
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine, Memory

MOST_NUMBERS = {"dense": 1 << 25, "scipy": 1 << 27}
"""Of the one-hot matrix (which scipy never holds) of the rows that these see."""
MOST_ROWS = 32_000_000
"""In memory."""
BAGS = 500

Ways = dict[str, Callable[[], Any]]


def our_pass(source: Source, features: FeatureMap, grid: LabelGrid) -> FeatureGram:
    """The statistics pass from the file."""
    gram, _ = LocalEngine(memory=Memory(0)).run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, grid)
    )
    return gram


def from_file(table: Table, path: Path, features: FeatureMap, others: bool) -> Ways:
    """Reading alone, our pass, and what else starts from the file; None where not installed."""
    grid = LabelGrid.for_range(table.label_range, intercept=True)
    ways: dict[str, Any] = {"read": partial(read, path), "read whole": partial(read_whole, path)}
    ways["ours"] = partial(our_pass, table.source(path), features, grid)
    if others:
        ways["tabmat"] = grams.tabmat_sums(path, features, table.label)
        ways["duckdb"] = grams.duckdb_sums(path, features, table.label)
    return ways


def from_rows(encoded: grams.Rows, features: FeatureMap) -> Ways:
    """What starts from encoded rows in memory; None where not installed."""
    ways: dict[str, Any] = {"ours": grams.our_gram(encoded, features)}
    few = {way: encoded.first(part_of(way, len(encoded), features)) for way in MOST_NUMBERS}
    ways["dense"] = partial(grams.dense_gram, few["dense"])
    ways["scipy"] = grams.scipy_gram(few["scipy"])
    ways["tabmat"] = grams.tabmat_gram(encoded)
    return ways


def part_of(way: str, rows: int, features: FeatureMap) -> int:
    """How many of the rows in memory a way sees."""
    return min(rows, MOST_NUMBERS.get(way, features.width * rows) // features.width)


def timed(ways: Ways, rounds: int) -> dict[str, Timing]:
    """Times of what is installed."""
    times, _ = side_by_side({way: run for way, run in ways.items() if run}, rounds)
    return times


def measure(
    table: Table, path: Path, rows: int, rounds: int, others: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """All ways on one table, and a line for each that is not installed."""
    features = fit_features(table.source(path), run_pass=LocalEngine().run_pass)
    ways = from_file(table, path, features, others)
    missing = [way for way, run in ways.items() if run is None]
    times = timed(ways, rounds)
    whole = whole_release(table.name, path, BAGS, rounds=rounds)
    times["plan and release"] = whole.total
    parts = dict.fromkeys(times, rows)
    records = _records("file", times, parts, rows, times["read"])
    if others:
        encoded = grams.encoded_rows(table.source(path), features, min(rows, MOST_ROWS))
        times = timed(from_rows(encoded, features), rounds)
        parts = {way: part_of(way, len(encoded), features) for way in times}
        scaled = {way: time.scaled(rows / parts[way]) for way, time in times.items()}
        records += _records("rows", scaled, parts, rows, None)
    facts = {"table": table.name, "rows": rows, "design_columns": features.width}
    for record in records:
        record |= {"peak_mib": whole.peak_mib if record["way"] == "plan and release" else None}
    return [facts | record for record in records], [f"{way} {grams.REMEDY}" for way in missing]


def _records(
    start: str, times: dict[str, Timing], parts: dict[str, int], rows: int, bare: Timing | None
) -> list[dict[str, Any]]:
    """Times as multiples of ours with the same start, and reading's share in them."""
    own = times["ours"]
    return [
        {
            "start": start,
            "way": way,
            **time.to_json(),
            "million_rows_per_second": rows / time.wall / 1e6,
            "times_ours": time.wall / own.wall,
            "times_ours_cpu": time.cpu / own.cpu,
            "read_share": bare and bare.wall / time.wall,
            "read_share_cpu": bare and bare.cpu / time.cpu,
            "extrapolated_from_rows": parts[way] if parts[way] < rows else None,
        }
        for way, time in times.items()
    ]


def run(names: list[str], sizes: list[int], dense_sizes: list[int], rounds: int) -> dict[str, Any]:
    records, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            wanted = dense_sizes if name.startswith("dense") else sizes
            for rows in wanted:
                table, path = table_named(name), Path(folder) / f"{name}-{rows}.parquet"
                table.write(path, rows)
                found, missing = measure(table, path, rows, rounds, rows == max(wanted))
                records += found
                notes += [line for line in missing if line not in notes]
                path.unlink()
    return {"benchmark": "pass", "records": records, "notes": notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="500000,2000000")
    parser.add_argument("--dense-rows", help="of tables of numbers; default: as many")
    parser.add_argument("--tables", default="census,criteo,dense-16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sizes, dense_sizes = (
        [int(rows) for rows in text.split(",")]
        for text in (chosen.rows, chosen.dense_rows or chosen.rows)
    )
    found = run(chosen.tables.split(","), sizes, dense_sizes, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
