"""A whole release in a process of its own, so that its peak memory is its own.

    python benchmarks/whole_release.py census TABLE.parquet --bags 500 [--to DIR]

Prints one JSON document: seconds of planning and of releasing, and the peak of the resident memory.
A release of a few rows comes first, so that imports are not counted in the times.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthetic import Table, table_named
from timing import Timing, best, once

EPSILON, DELTA = 1.0, 1e-6


@dataclass(frozen=True)
class WholeRelease:
    """What planning and releasing took, and the most memory the process held."""

    plan: Timing
    release: Timing
    peak_mib: float

    @property
    def total(self) -> Timing:
        return Timing(self.plan.wall + self.release.wall, self.plan.cpu + self.release.cpu)


def whole_release(
    name: str, path: Path, bags: int, *, rounds: int = 1, to: Path | None = None
) -> WholeRelease:
    """Run this file as a program, some times over; the best times, the worst memory."""
    command = [sys.executable, __file__, name, str(path), "--bags", str(bags)]
    seen = []
    for number in range(rounds):
        target = [] if to is None else ["--to", str(to / f"release-{bags}-{number}")]
        done = subprocess.run([*command, *target], stdout=subprocess.PIPE, text=True, check=True)
        seen.append(json.loads(done.stdout))
    plans, releases = (best(Timing(*run[part]) for run in seen) for part in ("plan", "release"))
    return WholeRelease(plans, releases, max(run["peak_mib"] for run in seen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table")
    parser.add_argument("path", type=Path)
    parser.add_argument("--bags", type=int, default=500)
    parser.add_argument("--to", type=Path, help="stream into this new directory")
    chosen = parser.parse_args()

    from labeldp import LocalEngine, plan

    table = table_named(chosen.table)
    asked: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "force": True}
    asked |= {"mechanism": "wtd-flag"}
    warm_up(table, asked | {"bags": 10})
    engine, source = LocalEngine(), table.source(chosen.path)
    planning, made = once(lambda: plan(source, engine=engine, bags=chosen.bags, **asked))
    if chosen.to is None:
        releasing, _ = once(lambda: made.release(source, engine=engine))
    else:
        releasing, _ = once(lambda: made.release_to(chosen.to, source, engine=engine))
    found = {
        "plan": [planning.wall, planning.cpu],
        "release": [releasing.wall, releasing.cpu],
        "peak_mib": peak_mib(),
    }
    print(json.dumps(found))


def warm_up(table: Table, asked: dict[str, Any]) -> None:
    """A release of a few rows."""
    from labeldp import plan

    with tempfile.TemporaryDirectory() as folder:
        table.write(Path(folder) / "few.parquet", 5000)
        source = table.source(Path(folder) / "few.parquet")
        few = plan(source, **asked)
        few.release_to(f"{folder}/r", source)


def peak_mib() -> float:
    """The peak of this process (on Linux ru_maxrss would count the process that started it)."""
    status = Path("/proc/self/status")
    found = status.exists() and re.search(r"VmHWM:\s*(\d+)", status.read_text(encoding="utf-8"))
    if found:
        return int(found.group(1)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
