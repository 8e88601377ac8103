"""A whole release in a process of its own, so that its peak memory is its own.

    python benchmarks/whole_release.py census TABLE.parquet --bags 500 [--to DIR]
    python benchmarks/whole_release.py census TABLE.parquet --shaped

Prints one JSON document: seconds of planning and of releasing, of the search for a shape between
its passes, how far that ended from the best, and the peak of the resident memory. A release of a
few rows comes first, so that imports are not counted in the
times.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    shape: Timing
    """Of planning: work on the shape between passes, with shaped-flag."""
    shape_facts: dict[str, Any]
    """Its columns, passes and certified gap."""

    @property
    def total(self) -> Timing:
        return Timing(self.plan.wall + self.release.wall, self.plan.cpu + self.release.cpu)


def whole_release(
    name: str, path: Path, bags: int | None, *, rounds: int = 1, to: Path | None = None
) -> WholeRelease:
    """Run this file as a program, some times over; the best times, the worst memory.

    The mechanism is wtd-flag with so many bags, or shaped-flag without a number.
    """
    asked = ["--shaped"] if bags is None else ["--bags", str(bags)]
    command = [sys.executable, __file__, name, str(path), *asked]
    seen = []
    for number in range(rounds):
        target = [] if to is None else ["--to", str(to / f"release-{bags}-{number}")]
        done = subprocess.run([*command, *target], stdout=subprocess.PIPE, text=True, check=True)
        seen.append(json.loads(done.stdout))
    plans, releases, shapes = (
        best(Timing(*run[part]) for run in seen) for part in ("plan", "release", "shape")
    )
    peak = max(run["peak_mib"] for run in seen)
    return WholeRelease(plans, releases, peak, shapes, seen[0]["shape_facts"])


class Clock:
    """A progress that shows nothing, and adds up what tasks of one name took."""

    def __init__(self, name: str) -> None:
        self._name, self.spent = name, Timing(0.0, 0.0)

    @contextmanager
    def __call__(self, task: str, _rows: int | None) -> Iterator[Callable[[int], None]]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield lambda _rows: None
        if task == self._name:
            self.spent = Timing(
                self.spent.wall + time.perf_counter() - wall,
                self.spent.cpu + time.process_time() - cpu,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table")
    parser.add_argument("path", type=Path)
    parser.add_argument("--bags", type=int, default=500)
    parser.add_argument("--shaped", action="store_true", help="shaped-flag instead of wtd-flag")
    parser.add_argument("--to", type=Path, help="stream into this new directory")
    chosen = parser.parse_args()

    from labeldp import LocalEngine, plan

    table = table_named(chosen.table)
    asked: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "force": True}
    asked |= {"mechanism": "shaped-flag"} if chosen.shaped else {"mechanism": "wtd-flag"}
    warm_up(table, asked if chosen.shaped else asked | {"bags": 10})
    asked |= {} if chosen.shaped else {"bags": chosen.bags}
    clock = Clock("shape")
    engine, source = LocalEngine(progress=clock), table.source(chosen.path)
    planning, made = once(lambda: plan(source, engine=engine, **asked))
    if chosen.to is None:
        releasing, _ = once(lambda: made.release(source, engine=engine))
    else:
        releasing, _ = once(lambda: made.release_to(chosen.to, source, engine=engine))
    found = {
        "plan": [planning.wall, planning.cpu],
        "release": [releasing.wall, releasing.cpu],
        "peak_mib": peak_mib(),
        "shape": [clock.spent.wall, clock.spent.cpu],
        "shape_facts": {
            name: getattr(made.claim, name) for name in ("bags", "passes", "gap") if chosen.shaped
        },
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
