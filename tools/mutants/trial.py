"""One mutation, one copy of the tree, the tests that guard it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tools.mutants.operators import Mutation
from tools.mutants.sample import PACKAGE

_LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "site", "reproduction"
)


@dataclass(frozen=True)
class Outcome:
    """`by`: the test that failed, "time" if none ended, "" if all passed."""

    by: str
    seconds: float
    words: str = ""

    @property
    def noticed(self) -> bool:
        return bool(self.by)


class Copy:
    """A copy of the tree, in which one module at a time is wrong."""

    def __init__(self, root: Path, place: Path) -> None:
        self._place = place / "tree"
        shutil.copytree(root, self._place, ignore=_LEFT_BEHIND)

    def run(self, mutation: Mutation, tests: Sequence[str], most: float) -> Outcome:
        """Whether one of the tests fails within so many seconds."""
        with self._wrong(mutation):
            return self._tested(tests, most)

    def durations(self, tests: Sequence[str]) -> dict[str, float]:
        """Seconds of each file of tests, before anything is changed; all must pass."""
        told = self._place / "durations.xml"
        found = self._tested([*tests, f"--junitxml={told}"], most=7200)
        if found.noticed:
            sys.exit(f"{found.by} fails before anything is changed:\n{found.words}")
        seconds: dict[str, float] = {}
        for case in ElementTree.parse(told).iter("testcase"):
            file = case.get("classname", "").replace(".", "/")
            seconds[file] = seconds.get(file, 0.0) + float(case.get("time", 0.0))
        return seconds

    @contextmanager
    def _wrong(self, mutation: Mutation) -> Iterator[None]:
        module = self._place / PACKAGE / mutation.path
        source = module.read_bytes()
        try:
            _write(module, mutation.apply(source))
            yield
        finally:
            _write(module, source)

    def _tested(self, tests: Sequence[str], most: float) -> Outcome:
        options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=line"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        paths = os.pathsep.join(map(str, (self._place / "src", self._place)))
        started = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            process = subprocess.Popen(
                command,
                cwd=self._place,
                env={**os.environ, "PYTHONPATH": paths},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout=most)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                _end(process)
            said.seek(0)
            words = said.read()
        return Outcome(_noticed_by(code, words), time.monotonic() - started, words)


def _write(module: Path, source: bytes) -> None:
    """Compiled code of the same length and second would pass for this one's."""
    module.write_bytes(source)
    for stale in module.parent.glob(f"__pycache__/{module.stem}.*"):
        stale.unlink()


def _end(process: subprocess.Popen[bytes]) -> None:
    """It, and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _noticed_by(code: int, words: str) -> str:
    if code == 0:
        return ""
    if code == -1:
        return "time"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", words, re.MULTILINE)
    return failed.group(1) if failed else "pytest"
