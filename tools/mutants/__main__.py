"""Mutations of the privacy-critical rooms, and whether the tests that guard them notice.

python -m tools.mutants [--count 60] [--room accounting] [--seed 1] [--minutes 30] [--jobs 2]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutants.guards import guards
from tools.mutants.known import Known, find, known
from tools.mutants.operators import Mutation
from tools.mutants.sample import ROOMS, sample
from tools.mutants.trial import Copy, Outcome

ROOT = Path(__file__).parents[2]
ENOUGH = 0.95
SLOWER = 4
"""A mutation whose tests take so many times as long as before has been noticed."""

Tried = list[tuple[Mutation, Outcome]]


class Trials:
    """Copies of the tree, one for each thread, and the time that is left."""

    def __init__(self, place: Path, minutes: float) -> None:
        self._place, self._until = place, time.monotonic() + 60 * minutes
        self._own = threading.local()
        self._usual: dict[str, float] = {}

    def healthy(self, tests: list[str]) -> None:
        """Tests that fail before anything is changed would notice everything."""
        self._usual |= self._copy().durations(tests)

    def _usually(self, tests: tuple[str, ...]) -> float:
        names = tuple(test.removesuffix(".py") for test in tests)
        return sum(time for file, time in self._usual.items() if file.startswith(names))

    def run(self, mutation: Mutation) -> Outcome | None:
        """None if time is up."""
        if time.monotonic() > self._until:
            return None
        tests = guards(mutation.path)
        found = self._copy().run(mutation, tests, 60 + SLOWER * self._usually(tests))
        by = f" by {found.by}" if found.noticed else ""
        print(
            f"{'noticed' if by else 'MISSED '} {found.seconds:4.0f} s  {mutation}{by}", flush=True
        )
        return found

    def _copy(self) -> Copy:
        if not hasattr(self._own, "copy"):
            place = Path(tempfile.mkdtemp(dir=self._place))
            self._own.copy = Copy(ROOT, place)
        copy: Copy = self._own.copy
        return copy


def tried(mutants: list[Mutation], minutes: float, jobs: int) -> Tried:
    """Every mutation for which there was time, after the tests without any."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(jobs) as pool:
        trials = Trials(Path(place), minutes)
        files = sorted({test for mutation in mutants for test in guards(mutation.path)})
        print(f"== {len(files)} files of tests, before anything is changed", flush=True)
        list(pool.map(trials.healthy, [files[start::jobs] for start in range(jobs)]))
        print(f"== {len(mutants)} mutations", flush=True)
        outcomes = pool.map(trials.run, mutants)
        return [(m, o) for m, o in zip(mutants, outcomes, strict=True) if o is not None]


def report(found: Tried, same: list[tuple[Mutation, Known]], skipped: int) -> bool:
    """What was noticed and what was not, with what is known about it."""
    missed = [mutation for mutation, outcome in found if not outcome.noticed]
    noticed = len(found) - len(missed)
    for title, entries in (
        ("change nothing that is promised (not run)", [(m, k.why) for m, k in same]),
        ("not noticed", [(m, _why(m)) for m in missed]),
    ):
        print(f"\n== {len(entries)} {title}")
        for mutation, why in entries:
            print(f"  {mutation}\n    {why}")
    if skipped:
        print(f"\n{skipped} were not tried: the time was up")
    share = noticed / len(found) if found else 1.0
    print(f"\n{noticed} of {len(found)} noticed: {share:.1%} (at least {ENOUGH:.0%} are asked for)")
    return share >= ENOUGH and not (skipped and not found)


def _why(mutation: Mutation) -> str:
    entry = find(mutation, known())
    return entry.why if entry else "not looked at yet: write a test, or say why in known.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many mutations")
    parser.add_argument("--room", choices=sorted(ROOMS), action="append", help="all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="start none after so many")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    chosen = parser.parse_args()
    drawn = sample(ROOT, chosen.room or list(ROOMS), chosen.count, chosen.seed)
    entries = known()
    told = [(mutation, find(mutation, entries)) for mutation in drawn]
    same = [(mutation, entry) for mutation, entry in told if entry and entry.equivalent]
    mutants = [mutation for mutation, entry in told if not (entry and entry.equivalent)]
    if chosen.list:
        print(*mutants, sep="\n")
        return
    found = tried(mutants, chosen.minutes, chosen.jobs)
    sys.exit(not report(found, same, len(mutants) - len(found)))


if __name__ == "__main__":
    main()
