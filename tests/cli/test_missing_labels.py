"""`release --drop-missing-labels` says how many rows it leaves out, wherever people look."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp import plan, scan
from tests.console import labeldp

RNG = np.random.default_rng(2)
X = RNG.normal(size=2_000).round(3)
LABELS = np.where(np.arange(2_000) % 80 == 3, np.nan, np.clip(5 + 2 * X, 0, 10))
TABLE = pd.DataFrame({"x": X, "y": LABELS})
WORDS = "rows without a label: 25 of 2,000 (1.2%) left out; who lacks a label becomes visible"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_notes_the_certificate_and_the_report_say_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    TABLE.to_csv(path, index=False) if form == "csv" else TABLE.to_parquet(path)
    asked = ("--label", "y", "--label-range", 0, 10, "--drop-missing-labels")
    done = labeldp("release", path, *asked, "--out", tmp_path / "r")
    assert done.code == 0
    assert WORDS in done.err.splitlines()
    certificate = json.loads((tmp_path / "r" / "certificate.json").read_text())
    assert certificate["labels"]["rows_left_out"] == 25
    assert labeldp("verify", tmp_path / "r", "--data", path).code == 0
    assert labeldp("report", tmp_path / "r", "--out", tmp_path / "r.html").code == 0
    assert WORDS.partition(": ")[2] in (tmp_path / "r.html").read_text()
    planned = labeldp("plan", path, *asked, "--report", tmp_path / "p.html")
    assert planned.code == 0
    page = (tmp_path / "p.html").read_text()
    assert WORDS.partition(": ")[2] in page
    assert "treated as public" in page
    assert "no label was read" not in page


def test_nothing_is_said_where_nothing_is_dropped() -> None:
    source = scan(TABLE.dropna(), label="y", label_range=(0, 10))
    assert not [note for note in plan(source, 1, 1e-6).notes if "without a label" in note]


def test_a_table_that_does_not_know_its_length(tmp_path: Path) -> None:
    TABLE.to_feather(tmp_path / "t.feather")
    source = scan(tmp_path / "t.feather", label="y", label_range=(0, 10), drop_missing_labels=True)
    assert source.total_rows is None
    assert WORDS in plan(source, 1, 1e-6).notes
