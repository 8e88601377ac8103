"""What the curator says of a release stands in its certificate; what was not said is listed."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import InputError, verify
from labeldp.releases.certificate import read_about
from labeldp.sampling.streams import Randomness
from tests.console import labeldp as command
from tests.plans import plan
from tests.tables import RANGE, source, table

LABEL = ("--label", "label", "--label-range", *RANGE)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4}


def test_words_dates_and_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "about.toml"
    path.write_text('name = "Heights"\ncurator = "An office"\ndate = 2026-01-31\npurpose = " "\n')
    told = read_about(path)
    assert (told["name"], told["curator"], told["date"]) == ("Heights", "An office", "2026-01-31")
    assert told["missing"] == [
        *("contact", "purpose", "region", "licence", "why_label_range", "why_epsilon")
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"colour": "red"}, "no field 'colour'"),
        ({"name": 5}, "must be a text"),
        ({"name": "x" * 2001}, "2,000 letters"),
        ({"name": "a\x1b[31m"}, "cannot be printed"),
    ],
)
def test_anything_else_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_about(said)


def test_the_certificate_says_it_and_verifies(tmp_path: Path) -> None:
    data, about = tmp_path / "t.parquet", tmp_path / "about.toml"
    pq.write_table(table(), data)
    about.write_text('name = "Heights"\n')
    asked = ("release", data, *LABEL, "--anyway", "--out", tmp_path / "r", "--about", about)
    before = datetime.now(UTC).replace(microsecond=0)
    result = command(*asked)
    assert "about.toml does not say: curator, contact" in result.err
    told = labeldp.Release.load(tmp_path / "r").certificate
    assert told["about"]["name"] == "Heights"
    assert told["about"]["curator"] is None
    assert "curator" in told["about"]["missing"]
    assert datetime.fromisoformat(told["released_at"]) >= before
    assert set(told["software"]["libraries"]) >= {"numpy", "scipy"}
    assert re.fullmatch(r"3\.\d+\.\S+", told["software"]["python"])
    assert verify(tmp_path / "r").valid
    about.write_text("name = ")
    refused = ("release", data, *LABEL, "--anyway", "--out", tmp_path / "r2", "--about", about)
    assert "cannot be read as TOML" in command(*refused).error
    assert not (tmp_path / "r2").exists()


def test_experiments_have_no_time_and_are_the_same_again() -> None:
    rows = source()
    made = plan(rows, **BUDGET, mechanism="shaped-flag")
    one, two = (
        made.release(rows, randomness=Randomness.experiment(1), about={"name": "x"})
        for _ in range(2)
    )
    assert one.certificate == two.certificate
    assert one.certificate["released_at"] is None


def test_the_deviation_of_every_label() -> None:
    rows = source()
    shaped = plan(rows, **BUDGET, mechanism="shaped-flag").release(rows).certificate
    assert shaped["label_noise_std"] == shaped["shape"]["noise_std"]
    row = plan(rows, **BUDGET, mechanism="noisy-rows").release(rows)
    assert row.certificate["label_noise_std"] == row.noise[0]
    sketch = plan(rows, **BUDGET, mechanism="wtd-flag", bags=20).release(rows).certificate
    assert sketch["label_noise_std"] == math.sqrt(sketch["floor"]["added_variance"])
    bags = plan(rows, **BUDGET, mechanism="sampled-noisy-wtd-lag", bags=9, bag_size=60)
    assert bags.release(rows).certificate["label_noise_std"] is None
