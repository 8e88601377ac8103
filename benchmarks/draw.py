"""Releasing m aggregates against drawing n·m weights, as the mechanism is written down.

    python benchmarks/draw.py [--rows 1000000] [--bags 16,247,2223,24706] [--tables ...] [--json]

    ours       plan and release, from Parquet: reading, sums, leverages, accounting,
               rounded noise; in a process of its own
    loop       the paper's algorithm: for each bag draw n weights w, publish w @ A
    blocked    8192 rows at a time, W.T @ A as one product for all bags
    sklearn    GaussianRandomProjection of Aᵀ, which holds all n·m weights in memory

The others start from a dense float64 matrix A = [1 | features | label] in memory: reading,
encoding and building it is not counted, their weights come from NumPy's ordinary generator, and
they promise nothing. They are measured on a part of the rows and of the bags and extrapolated in
line. `break_even` is the number of bags at which a way takes as long as ours.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import grams
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from report import print_report
from synthetic import Table, table_named
from timing import Timing, side_by_side
from whole_release import whole_release

from labeldp.features.fit import fit_features

Matrix = NDArray[np.float64]

MOST_NUMBERS = 1 << 22
"""Of the dense matrix that the others see."""
MOST_BAGS = {"loop": 8, "blocked": 128, "sklearn": 128}
"""Bags that the others draw; more would take as much longer."""


def loop(matrix: Matrix, bags: int) -> Matrix:
    """Bag by bag."""
    rng = np.random.default_rng()
    return np.stack([rng.standard_normal(len(matrix)) @ matrix for _ in range(bags)])


def blocked(matrix: Matrix, bags: int) -> Matrix:
    """Block of rows by block of rows."""
    rng = np.random.default_rng()
    total = np.zeros((bags, matrix.shape[1]))
    for start in range(0, len(matrix), grams.BLOCK_ROWS):
        block = matrix[start : start + grams.BLOCK_ROWS]
        total += rng.standard_normal((len(block), bags)).T @ block
    return total


def by_sklearn(matrix: Matrix, bags: int) -> Matrix:
    """All weights at once; scikit-learn divides them by √bags."""
    from sklearn.random_projection import GaussianRandomProjection

    projection = GaussianRandomProjection(n_components=bags)
    return np.sqrt(bags) * projection.fit_transform(matrix.T).T


WAYS: dict[str, Callable[[Matrix, int], Matrix]] = {
    "loop": loop,
    "blocked": blocked,
    "sklearn": by_sklearn,
}


def dense_matrix(table: Table, path: Path, most_rows: int) -> Matrix:
    """[1 | features | label], of as many rows as fit."""
    source = table.source(path)
    features = fit_features(source)
    fitting = min(most_rows, MOST_NUMBERS // (features.width + 1))
    rows = grams.encoded_rows(source, features, fitting)
    matrix = np.empty((len(rows), rows.width + 1))
    rows.fill(0, matrix[:, :-1])
    labels = pq.read_table(path, columns=[table.label]).column(0)
    matrix[:, -1] = labels.slice(0, len(rows)).to_numpy()
    return matrix


def others(matrix: Matrix, bags: int, rounds: int) -> dict[str, tuple[Timing, int]]:
    """What the others take for one bag on these rows, and how many bags they drew."""
    drawn = {way: min(bags, most) for way, most in MOST_BAGS.items()}
    ways = {way: partial(run, matrix, drawn[way]) for way, run in WAYS.items()}
    times, _ = side_by_side(ways, rounds)
    return {way: (time.scaled(1 / drawn[way]), drawn[way]) for way, time in times.items()}


def measure(table: Table, path: Path, rows: int, bags: list[int], rounds: int) -> list[Any]:
    """All ways, for every number of bags."""
    matrix = dense_matrix(table, path, rows)
    per_bag = cache(lambda count: others(matrix, count, rounds + 1))
    records = []
    for count in bags:
        whole = whole_release(table.name, path, count, rounds=rounds)
        shared = {
            "table": table.name,
            "rows": rows,
            "design_columns": matrix.shape[1] - 1,
            "bags": count,
        }
        records.append(record(shared, "ours", whole.total, whole.total, None))
        records[-1] |= {"memory_mib": whole.peak_mib, "plan_seconds": whole.plan.wall}
        for way, (time, drawn) in per_bag(min(count, max(MOST_BAGS.values()))).items():
            part = None if (drawn, len(matrix)) == (count, rows) else [drawn, len(matrix)]
            scaled = time.scaled(count * rows / len(matrix))
            records.append(record(shared, way, scaled, whole.total, part))
        records[-1]["memory_mib"] = 8 * rows * count / 2**20  # the weights of sklearn
    return records


def record(
    shared: dict[str, Any], way: str, time: Timing, own: Timing, part: list[int] | None
) -> dict[str, Any]:
    return {
        **shared,
        "way": way,
        **time.to_json(),
        "times_ours": time.wall / own.wall,
        "times_ours_cpu": time.cpu / own.cpu,
        "break_even": None if way == "ours" else shared["bags"] * own.wall / time.wall,
        "extrapolated_from": part,
        "memory_mib": None,
        "plan_seconds": None,
    }


def run(names: list[str], sizes: list[int], bags: list[int], rounds: int) -> dict[str, Any]:
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for rows in sizes:
                table, path = table_named(name), Path(folder) / f"{name}-{rows}.parquet"
                table.write(path, rows)
                records += measure(table, path, rows, bags, rounds)
                path.unlink()
    return {"benchmark": "draw", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--bags", default="16,247,2223,24706")
    parser.add_argument("--tables", default="census,criteo,dense-16")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sizes, bags = ([int(part) for part in text.split(",")] for text in (chosen.rows, chosen.bags))
    found = run(chosen.tables.split(","), sizes, bags, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
