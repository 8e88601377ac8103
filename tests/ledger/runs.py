"""Releases on a ledger in processes that are killed: python -m tests.ledger.runs FOLDER HOW …

FOLDER has table.parquet and plan.json. What is imported is imported once; every run is a process of
its own, forked before anything was read, so that hundreds of them take seconds.

    killed STEPS…    a run killed at each of these steps, counted in calls of labeldp
    steps            how many calls a run has that nobody kills
    race COUNT       so many runs at once, and how each ended
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from labeldp import Ledger, LedgerError, Plan, Release, scan
from labeldp.ledger.ledger import Account
from labeldp.releases.pending import CERTIFICATE
from tests.tables import RANGE

FITS = 3
TABLE = "table"
LATE = ("labeldp.mechanisms.shaped_flag", "labeldp.learners.linear", "pandas", "randomgen")
"""What a run would import."""


def cap(epsilon: float, delta: float) -> tuple[float, float]:
    """What three Gaussian releases of one budget cost, and a little more."""
    from labeldp.accounting.calibrate import calibrate, epsilon_at
    from labeldp.accounting.compose import compose
    from labeldp.accounting.gaussian import GaussianProfile

    mu = calibrate(GaussianProfile(1.0), "mu", epsilon, delta)
    return epsilon_at(compose([GaussianProfile(mu)] * FITS), delta) * 1.001, delta


def run(folder: Path, out: str) -> None:
    """One release on the ledger."""
    made = Plan.from_json(json.loads((folder / "plan.json").read_text()))
    rows = scan(folder / "table.parquet", label="label", label_range=RANGE)
    made.release_to(folder / out, rows, ledger=Ledger(folder / "book"), dataset=TABLE)


class Steps:
    """Counts the calls of our functions, and of what these call in C, and kills at one of them."""

    def __init__(self, last: int = sys.maxsize) -> None:
        self.count, self.last = 0, last

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event not in ("call", "c_call") or "labeldp" not in frame.f_code.co_filename:
            return
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], None]) -> int:
    """The process that does it; it ends with 3 if the ledger refused."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except LedgerError:
            code = 3
        finally:
            os._exit(code)
    return process


def counted(folder: Path, last: int, out: str) -> Callable[[], None]:
    def work() -> None:
        steps = Steps(last)
        sys.setprofile(steps)
        try:
            run(folder, out)
        finally:
            sys.setprofile(None)
            (folder / "steps").write_text(str(steps.count))

    return work


def check(folder: Path) -> int:
    """Never over the cap, never half a release, every release in the book; how many debits."""
    book = Ledger(folder / "book")
    account = book.account(TABLE)
    assert len(account.debits) <= FITS, "overspent"
    assert account.spent <= account.cap.epsilon, "overspent"
    numbers = [entry.number for entry in account.debits]
    for place in folder.glob("out-*"):
        certificate = Release.load(place).certificate
        assert json.loads((place / CERTIFICATE).read_text()) == certificate
        assert certificate["ledger"]["entry"] in numbers, "a release that nobody paid for"
        numbers.remove(certificate["ledger"]["entry"])
    return len(account.debits)


def fresh(folder: Path) -> None:
    """A new ledger, and no release."""
    import shutil

    for place in folder.glob("*out-*"):
        shutil.rmtree(place)
    for name in ("book", "book-journal"):
        (folder / name).unlink(missing_ok=True)
    epsilon, delta = cap(1.0, 1e-6)
    Ledger.create(folder / "book", epsilon=epsilon, delta=delta)


def rounds(folder: Path, ways: Iterator[Callable[[str], int]]) -> dict[str, int]:
    """One killed run after another, on ledgers that are full after some of them."""
    told = {"killed": 0, "done": 0, "refused": 0, "debits": 0}
    for number, way in enumerate(ways):
        if number == 0:
            fresh(folder)
        _, status = os.waitpid(way(f"out-{number}"), 0)
        code = os.waitstatus_to_exitcode(status)
        told["killed" if code < 0 else {0: "done", 3: "refused"}[code]] += 1
        if check(folder) == FITS:
            told["debits"] += FITS
            os.waitpid(forked(lambda: run(folder, "out-last")), 0)
            assert check(folder) == FITS
            fresh(folder)
    told["debits"] += check(folder)
    return told


def killed(folder: Path, steps: list[int]) -> Iterator[Callable[[str], int]]:
    for last in steps:
        yield lambda out, last=last: forked(counted(folder, last, out))  # type: ignore[misc]


def race(folder: Path, count: int) -> list[int]:
    """How runs end that begin together, and take their time between a look and an entry."""
    fresh(folder)
    total = Account.epsilon_with

    def slowly(*given: Any) -> Any:
        time.sleep(0.1)
        return total(*given)

    Account.epsilon_with = slowly  # type: ignore[method-assign]
    racing = [forked(lambda out=f"out-{k}": run(folder, out)) for k in range(count)]  # type: ignore[misc]
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in racing]


def main() -> None:
    folder, how, *numbers = Path(sys.argv[1]), *sys.argv[2:]
    for name in LATE:
        import_module(name)
    if how == "race":
        print(json.dumps(race(folder, int(numbers[0]))))
        return
    if how == "steps":
        fresh(folder)
        os.waitpid(forked(counted(folder, sys.maxsize, "out-0")), 0)
        print((folder / "steps").read_text())
        return
    print(json.dumps(rounds(folder, killed(folder, list(map(int, numbers))))))


if __name__ == "__main__":
    main()
