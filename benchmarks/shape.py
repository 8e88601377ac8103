"""A shaped release against wtd-flag's of the same table, growing in rows.

python benchmarks/shape.py [--rows 1000000,5000000,20000000] [--rounds 2] [--json]

wtd-flag       plan and release of a census-like table with 500 bags
shape          the search for the best shape of the noise, between its passes: one core
all else       the rest of shaped-flag's plan and release: all passes, the draw, the certificate

Both run in processes of their own, in turn, after a release of a few rows: imports are not counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from report import print_report
from synthetic import table_named
from timing import Timing
from whole_release import WholeRelease, whole_release

TABLE, BAGS = "census", 500


def measure(path: Path, rows: int, rounds: int) -> dict[str, Any]:
    """One table: both mechanisms in turn, the best of each."""
    seen = [
        (whole_release(TABLE, path, BAGS), whole_release(TABLE, path, None)) for _ in range(rounds)
    ]
    usual = [plain.total for plain, _ in seen]
    others = [rest(shaped) for _, shaped in seen]
    facts = seen[0][1].shape_facts
    return {
        "table": TABLE,
        "rows": rows,
        "design_columns": facts["bags"],
        "passes": facts["passes"],
        "gap": facts["gap"],
        "wtd_flag_seconds": min(time.wall for time in usual),
        "wtd_flag_cpu_seconds": min(time.cpu for time in usual),
        "shape_seconds": min(shaped.shape.wall for _, shaped in seen),
        "shape_cpu_seconds": min(shaped.shape.cpu for _, shaped in seen),
        "else_seconds": min(time.wall for time in others),
        "else_cpu_seconds": min(time.cpu for time in others),
        "times_wtd_flag": min(t.wall for t in others) / min(t.wall for t in usual),
        "times_wtd_flag_cpu": min(t.cpu for t in others) / min(t.cpu for t in usual),
        "peak_mib": max(shaped.peak_mib for _, shaped in seen),
    }


def rest(shaped: WholeRelease) -> Timing:
    """All but the work on the shape."""
    return Timing(shaped.total.wall - shaped.shape.wall, shaped.total.cpu - shaped.shape.cpu)


def run(sizes: list[int], rounds: int) -> dict[str, Any]:
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            path = Path(folder) / "table.parquet"
            table_named(TABLE).write(path, rows)
            records.append(measure(path, rows, rounds))
    return {"benchmark": "shape", "records": records, "notes": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="1000000,5000000,20000000")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run([int(rows) for rows in chosen.rows.split(",")], chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
