"""One of every file that labeldp reads, and the commands that read it.

Labels of this table are all 31337 and something in a wide range, so that any of them would be
recognised in whatever a command prints or leaves.
"""

from __future__ import annotations

import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from tests.cli.conftest import QUICK
from tests.console import Result, labeldp
from tests.tables import table

LABEL = ("--label", "label", "--label-range", 0, 40000)
SECRET = "31337."
MOST_SECONDS = 10
"""Of CPU for any command here."""

SLOTS: dict[str, tuple[str, ...]] = {
    "data.csv": (
        "plan --anyway {file} {label} {quick}",
        "look {file} --drop label",
    ),
    "data.parquet": ("plan --anyway {file} {label} {quick}", "look {file} --drop label"),
    "plan.json": ("release {data} {label} --plan {file} --out {new}",),
    "plan.json.released": ("release {data} {label} --plan {plan} --out {new}",),
    "model.json": ("predict {file} {data} --out {new}.csv",),
    "about.toml": ("release --anyway {data} {label} {quick} --about {file} --out {new}",),
    "ledger": (
        "ledger show {file}",
        "release --anyway {data} {label} {quick} --ledger {file} --dataset t --out {new}",
    ),
    "key": ("sign {release} --key {file}",),
    "key.pub": ("verify {release} --key {file}",),
    "release/certificate.json": (
        "verify {folder}",
        "fit {folder}",
        "report {folder} --out {new}.html",
        "describe {folder}",
        "compose {folder}",
        "sign {folder} --key {key}",
        "verify {folder} --data {data}",
        "fit {folder} --no-verify",
    ),
    "release/features.json": ("verify {folder}", "fit {folder}", "fit {folder} --no-verify"),
    "release/aggregates.parquet": ("verify {folder}", "fit {folder}", "fit {folder} --no-verify"),
    "release/release.intoto.json": ("verify {folder}", "verify {folder} --key {pub}"),
}
"""Every file that is read, and commands that read it."""


@dataclass(frozen=True)
class World:
    """A directory with all of them; nothing in it is changed."""

    place: Path

    def words(self, command: str, name: str, file: Path, new: Path) -> list[str]:
        """The command whose file of that name is another one."""
        folder = file.parent
        known = {
            "file": file, "folder": folder, "new": new, "data": self.place / "data.parquet",
            "plan": self.place / "plan.json", "release": self.place / "release",
            "key": self.place / "key", "pub": self.place / "key.pub",
        }  # fmt: skip
        if name == "plan.json.released":
            known["plan"] = file.with_name("plan.json")
        label, quick = " ".join(map(str, LABEL)), " ".join(QUICK)
        return [word.format(**known) for word in command.format(
            label=label, quick=quick, **{key: "{" + key + "}" for key in known}
        ).split()]  # fmt: skip

    def beside(self, name: str, place: Path) -> Path:
        """A place for another file of that name, with all that belongs to it; not the file."""
        place.mkdir()
        if name.startswith("release/"):
            shutil.copytree(self.place / "release", place / "release")
            (place / name).unlink()
        if name == "plan.json.released":
            shutil.copy(self.place / "plan.json", place)
        return place / name


def make(place: Path) -> World:
    """Every file, made by the commands themselves."""
    data = table(300)
    labels = 31337 + np.asarray(data["label"]) / 16
    data = data.set_column(4, "label", pa.array(labels))
    pq.write_table(data, place / "data.parquet")
    csv.write_csv(data, place / "data.csv")
    (place / "about.toml").write_text('purpose = "a test"\n', encoding="utf-8")
    (place / "plan.json.released").write_text("")
    at = str(place / "data.parquet")
    for words in (
        ("plan", "--anyway", at, *LABEL, *QUICK, "--out", place / "plan.json"),
        ("keygen", place / "key"),
        ("ledger", "create", place / "ledger", "--epsilon", 4),
        ("release", "--anyway", at, *LABEL, *QUICK, "--out", place / "release"),
        ("sign", place / "release", "--key", place / "key"),
        ("fit", place / "release", "--out", place / "model.json"),
    ):
        done = labeldp(*words)
        assert done.code == 0, done
    return World(place)


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and whether that is an end that any command may come to."""

    result: Result
    seconds: float
    left: tuple[str, ...]

    @property
    def fault(self) -> str | None:
        """A traceback, a hang, a label, a leftover, or a refusal that is no single line."""
        said = self.result.out + self.result.err
        lines = [line for line in self.result.err.splitlines() if line.startswith("labeldp: ")]
        faults = {
            "a traceback": "Traceback" in said,
            "a label": SECRET in said,
            "a leftover": bool(self.left),
            "too long": self.seconds > MOST_SECONDS,
            "another exit code": self.result.code not in (0, 1, 2),
            "no single line": self.result.code == 2 and (len(lines) != 1 or bool(self.result.out)),
        }
        return next((name for name, found in faults.items() if found), None)


def run(words: list[str], where: Path) -> Outcome:
    """A command and what it leaves hidden in a directory."""
    before = _seconds()
    result = labeldp(*words)
    left = tuple(str(path) for path in where.rglob(".*") if ".partial-" in path.name)
    return Outcome(result, _seconds() - before, left)


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
