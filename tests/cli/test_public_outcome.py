"""Neighbours through the command line with the same randomness differ in drawn numbers alone.

One label is another number, and in a text file it is spelt in another way as well: its width,
quotes, sign and currency must not be seen in anything that a run writes or says.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, tzinfo
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp import planning
from labeldp.sampling.streams import Randomness
from tests.console import Result, labeldp

ROWS = 200
DRAWN = {"seal", "second_moment"}
"""Fields of a certificate that hold drawn numbers, or follow from them."""
HASHES = re.compile(r"[0-9a-f]{64}|\"contentSize\": \"[^\"]*\"")
"""Of files and their sizes, which hold drawn numbers."""
OPTIONS: dict[str, tuple[Any, ...]] = {
    "shaped": (),
    "persons": ("--person", "who"),
    "rows of persons": ("--mechanism", "noisy-rows", "--person", "who", "--with-features"),
    "all rows": ("--mechanism", "wtd-flag", "--bags", "60"),
    "curves": ("--basis", "splines:3", "--interactions", "a:c", "--log", "c", "--winsor", "0.01"),
    "paid": ("--ledger", "{}.db", "--dataset", "table", "--about", "about.toml", "--json"),
}
SPELLINGS = {
    "wide": "0099.50000000000000",
    "quoted": '"99.5"',
    "exponent": "9.95e1",
    "currency": "$99.5",
    "sign": " +99.5",
}
Published = tuple[Result, dict[str, Any]]


def write(path: Path, odd: str) -> None:
    """A table whose seventh label is this text."""
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=ROWS).round(3), (rng.random(ROWS) * 1000).round(1)
    b, who = rng.choice(["u", "v", "w"], ROWS), rng.integers(0, 90, ROWS)
    labels = [f"{value:.2f}" for value in 50 + 10 * a + rng.normal(size=ROWS)]
    labels[6] = odd
    rows = zip(a, b, c, who, labels, strict=True)
    lines = ["a,b,c,who,label", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def published(folder: Path, odd: str, options: tuple[Any, ...]) -> Published:
    """What a release of that table says, and its public files but for the drawn numbers."""
    write(folder / "table.csv", odd)
    (folder / "about.toml").write_text('name = "a"\ncurator = "b"\n', encoding="utf-8")
    options = tuple(option.format(folder) for option in options)
    asked = ("--label", "label", "--label-range", 0, 100, "--epsilon", 2, "--anyway", *options)
    run = labeldp("release", "table.csv", *asked, "--out", "out")
    assert run.code == 0, run.err
    certificate = json.loads((folder / "out" / "certificate.json").read_text(encoding="utf-8"))
    certificate["digests"].pop("aggregates")
    if certificate["ledger"] is not None:
        certificate["ledger"] = {**certificate["ledger"], "digest": None}  # it has the time in it
    if certificate["floor"] is not None:
        certificate["floor"] = sorted(certificate["floor"])
    seen: dict[str, Any] = {key: said for key, said in certificate.items() if key not in DRAWN}
    for path in sorted((folder / "out").iterdir()):
        if path.suffix == ".json":
            text = HASHES.sub("", path.read_text(encoding="utf-8"))
            seen[path.name] = path.name == "certificate.json" or text
        else:
            table = pq.read_table(path)
            drawn = path.name == "aggregates.parquet"
            seen[path.name] = table.select(table.column_names[:-1]) if drawn else table
    return run, seen


class SameTime(datetime):
    """The clock of the certificates, stopped."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SameTime:
        return cls(2020, 1, 1, tzinfo=tz)


def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, str], *options: Any
) -> tuple[Published, Published]:
    """The same run on two neighbours, each with its copy of an empty ledger."""
    assert labeldp("ledger", "create", tmp_path / "book.db", "--epsilon", 9).code == 0
    monkeypatch.setattr(planning, "datetime", SameTime)
    monkeypatch.setattr(Randomness, "from_os", lambda: Randomness.experiment(5))
    found = []
    for place, text in zip("xy", texts, strict=True):
        folder = tmp_path / place
        folder.mkdir()
        copyfile(tmp_path / "book.db", tmp_path / f"{place}.db")
        monkeypatch.chdir(folder)
        found.append(published(folder, text, options))
    return found[0], found[1]


def agree(one: Published, two: Published) -> None:
    (first, here), (second, there) = one, two
    assert first.remarks == second.remarks
    assert here.keys() == there.keys()
    for name in here:
        assert here[name] == there[name], name


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_another_label_changes_drawn_numbers_alone(
    options: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(*both(tmp_path, monkeypatch, ("12.50", "99.5"), *options))


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_how_a_label_is_spelt_changes_drawn_numbers_alone(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(*both(tmp_path, monkeypatch, ("12.50", text)))
