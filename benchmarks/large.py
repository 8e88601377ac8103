"""A whole release of a large table against reading that table, growing in rows.

python benchmarks/large.py [--rows 10000000,20000000] [--bags 24706] [--json]

read           pyarrow decodes all columns, and nothing else (iter_batches)
read whole     the same into one table in memory (read_table), as most people would
release        plan and release of a census-like table: levels, sums, leverages, accounting,
               labels, the draw and the files, in a process of its own, after a release of a
               few rows: imports are not counted
command        `labeldp release` of the same, from its start to its end
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from reading import read, read_whole
from report import print_report
from synthetic import table_named
from timing import once
from whole_release import DELTA, EPSILON, whole_release

TABLE = "census"


def measure(path: Path, rows: int, bags: int, rounds: int) -> dict[str, Any]:
    """One table: all ways in turn, the best of each."""
    alone, whole, released, commands = [], [], [], []
    for _ in range(rounds):
        alone.append(once(partial(read, path))[0])
        whole.append(once(partial(read_whole, path))[0])
        released.append(whole_release(TABLE, path, bags, to=path.parent))
        commands.append(once(partial(command, path, bags, path.parent / "command"))[0].wall)
        for folder in (f"release-{bags}-0", "command"):
            shutil.rmtree(path.parent / folder)
    total = min(seen.total.wall for seen in released)
    return {
        "table": TABLE,
        "rows": rows,
        "bags": bags,
        "read_seconds": min(time.wall for time in alone),
        "read_whole_seconds": min(time.wall for time in whole),
        "plan_seconds": min(seen.plan.wall for seen in released),
        "seconds": total,
        "command_seconds": min(commands),
        "times_read": total / min(time.wall for time in alone),
        "times_read_whole": total / min(time.wall for time in whole),
        "peak_mib": max(seen.peak_mib for seen in released),
    }


def command(path: Path, bags: int, out: Path) -> None:
    """What a user would type."""
    table = table_named(TABLE)
    low, high = map(str, table.label_range)
    asked = ["--label", table.label, "--label-range", low, high, "--bags", str(bags), "--anyway"]
    budget = ["--epsilon", str(EPSILON), "--delta", str(DELTA)]
    program = [sys.executable, "-c", "from labeldp.cli import main; main()", "release", str(path)]
    subprocess.run([*program, *asked, *budget, "--out", str(out)], check=True, capture_output=True)


def run(sizes: list[int], bags: int, rounds: int) -> dict[str, Any]:
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            path = Path(folder) / "table.parquet"
            table_named(TABLE).write(path, rows)
            records.append(measure(path, rows, bags, rounds))
    return {"benchmark": "large", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="10000000,20000000")
    parser.add_argument("--bags", type=int, default=24_706)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run([int(rows) for rows in chosen.rows.split(",")], chosen.bags, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
