"""The default command against wtd-flag's, and against reading alone: processor time.

python benchmarks/default_command.py [--rows 1000000,5000000] [--rounds 2] [--real FOLDER] [--json]

read         pyarrow decodes all columns, and nothing else
wtd-flag     `labeldp release --mechanism wtd-flag` from its start to its end
default      the same without a mechanism named: shaped-flag, with its search for a shape

They run in turn on census-like and Criteo-like tables of each size, on dense numbers, a sixteenth
as many rows, and on real tables if their folder is there. The gap says how far from the best
possible the shape is at most.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reading import read
from report import print_report
from synthetic import table_named
from timing import once
from whole_release import DELTA, EPSILON

SYNTHETIC = {"census": 1, "criteo": 1, "dense-16": 16, "dense-100": 16}
"""Tables, and what share of the rows they have."""
REAL_DATA = Path(os.environ.get("LABELDP_REAL_DATA", "../shared/data"))


@dataclass(frozen=True)
class Table:
    """A file, and what a user would say of it."""

    name: str
    path: Path
    label: str
    label_range: tuple[float, float]
    more: tuple[str, ...] = ()

    def release(self, out: Path, *asked: str) -> float:
        """Run the command; the seconds that all processors spent."""
        low, high = map(str, self.label_range)
        facts = ["--label", self.label, "--label-range", low, high, *self.more]
        budget = ["--epsilon", str(EPSILON), "--delta", str(DELTA), "--anyway"]
        program = [sys.executable, "-c", "from labeldp.cli import main; main()"]
        before = spent()
        subprocess.run(
            [*program, "release", str(self.path), *facts, *budget, *asked, "--out", str(out)],
            check=True,
            capture_output=True,
        )
        return spent() - before


REAL = [
    Table("fertility", Path("census1980_fertility_weeks.parquet"), "work", (0, 52)),
    Table("sales", Path("completejourney_sales.parquet"), "sales_value", (0, 100)),
    Table("flights", Path("flights_3m_delay.parquet"), "delay", (-60, 600), ("--clip",)),
    Table(
        "wages",
        Path("taxcalc_cps_wages.parquet"),
        "e00200",
        (0, 250_000),
        ("--clip", "--drop", "e00200p,e00200s"),
    ),
]


def spent() -> float:
    """Seconds that programs started here have spent on all processors."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(table: Table, rounds: int) -> dict[str, Any]:
    """One table: all ways in turn, the best of each."""
    alone, usual, default = [], [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            alone.append(once(partial(read, table.path))[0].cpu)
            usual.append(table.release(Path(folder) / "usual", "--mechanism", "wtd-flag"))
            default.append(table.release(Path(folder) / "default"))
            if number == 0:
                text = (Path(folder) / "default" / "certificate.json").read_text(encoding="utf-8")
    certificate = json.loads(text)
    shape = certificate.get("shape", {})
    return {
        "table": table.name,
        "rows": certificate["rows"],
        "design_columns": certificate["rank"],
        "passes": shape.get("passes"),
        "gap": shape.get("gap"),
        "read_cpu_seconds": min(alone),
        "wtd_flag_cpu_seconds": min(usual),
        "default_cpu_seconds": min(default),
        "times_wtd_flag": min(default) / min(usual),
        "times_read": min(default) / min(alone),
    }


def run(sizes: list[int], rounds: int, real: Path | None = None) -> dict[str, Any]:
    records, notes = [], []
    for rows in sizes:
        for name, share in SYNTHETIC.items():
            with tempfile.TemporaryDirectory() as folder:
                path, table = Path(folder) / "table.parquet", table_named(name)
                table.write(path, rows // share)
                records.append(measure(Table(name, path, table.label, table.label_range), rounds))
    for each in REAL if real else []:
        path = (real or Path()) / each.path
        if path.exists():
            facts = each.label, each.label_range, each.more
            records.append(measure(Table(each.name, path, *facts), rounds))
        else:
            notes.append(f"{each.name} is absent: {path}")
    return {"benchmark": "default_command", "records": records, "notes": notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="1000000,5000000")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--real", type=Path, default=REAL_DATA, help="where real tables are")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run([int(rows) for rows in chosen.rows.split(",")], chosen.rounds, chosen.real)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
