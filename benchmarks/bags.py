"""Many small bags (sampled-wtd-flag) against the plain loop over bags that one would write.

    python benchmarks/bags.py [--rows 1200000] [--bags 1000,16000] [--size 64] [--json]

    ours               `plan` and `Plan.release_to`: rows of bags read by number; ranks, leverages
                       and residuals with proven bounds; labels rounded exactly
    ours, verify       `verify` with the table: leverages of all bags again
    ours, one by one   the same release with every bag looked at alone, in exact integers, as
                       happens to bags that the stacked way cannot prove good
    loop               pyarrow reads the table, and for every bag NumPy makes a QR factor, the
                       largest leverage, β̂, σ, one weighted sum and one draw: no bounds, no
                       certificate, nothing written

Bags one by one are timed for a few bags; what each adds to the time of ours is multiplied.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from report import print_report
from synthetic import Table, table_named
from timing import Timing, best, once

from labeldp import plan, verify
from labeldp.exact import stacked

FEW = 300
"""Bags that are looked at one by one."""


def release(table: Table, path: Path, bags: int, size: int, folder: Path) -> Path:
    """Plan and release, as a user would."""
    source = table.source(path)
    asked = {"epsilon": 4, "delta": 1e-5, "bags": bags, "bag_size": size}
    made = plan(source, mechanism="sampled-wtd-flag", force=True, **asked)
    target = Path(tempfile.mkdtemp(dir=folder)) / "release"
    made.release_to(target, source)
    return target


def loop(table: Table, path: Path, bags: int, size: int) -> None:
    """What one would write without a library."""
    rng = np.random.default_rng(0)
    data = pq.read_table(path)
    chosen = data.take(rng.permutation(data.num_rows)[: bags * size])
    labels = chosen.column(table.label).to_numpy()
    numbers = [c.to_numpy() for c in chosen.drop_columns(table.label).columns]
    design = np.column_stack([np.ones(bags * size), *numbers])
    largest, smallest, drawn = 0.0, np.inf, []
    for bag in range(bags):
        rows = slice(bag * size, (bag + 1) * size)
        q, r = np.linalg.qr(design[rows])
        slope = np.linalg.solve(r, q.T @ labels[rows])
        residual = float(np.linalg.norm(labels[rows] - design[rows] @ slope))
        largest = max(largest, float(np.square(q).sum(axis=1).max()))
        smallest = min(smallest, residual)
        total = rng.standard_normal(size) @ design[rows]
        drawn.append((total, total @ slope + residual * rng.standard_normal()))


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within the block, no bag is proven good by the stacked way."""
    usual, stacked.MOST_BAG_COLUMNS = stacked.MOST_BAG_COLUMNS, 0
    try:
        yield
    finally:
        stacked.MOST_BAG_COLUMNS = usual


def alone(table: Table, path: Path, bags: int, size: int, folder: Path) -> Timing:
    """What a bag adds to the time of a release when it is looked at alone."""
    usual, _ = once(lambda: release(table, path, bags, size, folder))
    with one_by_one():
        slow, _ = once(lambda: release(table, path, bags, size, folder))
    more = max(0.0, slow.wall - usual.wall), max(0.0, slow.cpu - usual.cpu)  # noise, if less
    return Timing(more[0] / bags, more[1] / bags)


def measure(
    table: Table, path: Path, bags: int, size: int, rounds: int, folder: Path
) -> dict[str, Timing]:
    """Ours and the loop at one number of bags."""
    timings: dict[str, list[Timing]] = {"ours": [], "ours, verify": [], "loop": []}
    for _ in range(rounds):
        timing, target = once(lambda: release(table, path, bags, size, folder))
        timings["ours"].append(timing)
        timing, checked = once(lambda: verify(target, path))  # noqa: B023
        assert checked.valid, checked.problems
        timings["ours, verify"].append(timing)
        timings["loop"].append(once(lambda: loop(table, path, bags, size))[0])
    return {way: best(found) for way, found in timings.items()}


def run(name: str, rows: int, bags: list[int], size: int, rounds: int) -> dict[str, Any]:
    table, records = table_named(name), []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        path = folder / "table.parquet"
        table.write(path, rows)
        few = min(FEW, *bags)
        release(table, path, few, size, folder)  # what a process pays once is paid
        each = alone(table, path, few, size, folder)
        for count in bags:
            found = measure(table, path, count, size, rounds, folder)
            ours, more = found["ours"], each.scaled(count)
            found["ours, one by one"] = Timing(ours.wall + more.wall, ours.cpu + more.cpu)
            records += [
                {
                    "way": way,
                    "table": name,
                    "rows": rows,
                    "bags": count,
                    "bag_size": size,
                    **timing.to_json(),
                    "bags_per_second": count / timing.wall,
                    "times_ours": timing.wall / ours.wall,
                }
                for way, timing in found.items()
            ]
    return {"benchmark": "bags", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--bags", default="1000,4000,16000")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--table", default="dense-7")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    bags = [int(count) for count in chosen.bags.split(",")]
    found = run(chosen.table, chosen.rows, bags, chosen.size, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
