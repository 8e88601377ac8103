"""What `look` finds in columns, and what it says and prints."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import look
from labeldp.data.labels import LabelParser
from tests.console import labeldp as run

RNG = np.random.default_rng(11)


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(facts for facts in found["columns"] if facts["name"] == name)


def kinds(found: dict[str, Any]) -> dict[str, str]:
    return {facts["name"]: facts["kind"] for facts in found["columns"]}


def test_no_label_is_read_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LabelParser, "parse", lambda *_: pytest.fail("labels were read"))
    told = look({"x": [1.5, 2.5], "y": ["1", "2"]}, drop=["y"])
    assert told["label"] is None
    assert told["needed"][0] == "--label COLUMN"


def test_labels_sway_nothing_but_what_is_marked() -> None:
    """Two tables that differ in labels only: everything outside `label` is the same."""
    answers = []
    for factor in (1, 7):
        made = {"x": np.arange(300) % 37 + 0.5, "k": ["ab"[n % 2] for n in range(300)]}
        made["y"] = (np.arange(300.0) % 11 * factor) % 13
        answers.append(look(pa.table(made), label="y"))
    assert [answer.pop("label")["copies"] for answer in answers] == [{}, {}]
    assert answers[0] == answers[1]


def test_ids_that_repeat_and_duplicates() -> None:
    rows = np.arange(4000)
    made = {"user_id": rows % 1000, "basket_id": rows // 3 + 7, "x": rows % 11 + 0.5}
    told = look(pa.table(made))
    assert [person["column"] for person in told["persons"]] == ["user_id", "basket_id"]
    assert (told["persons"][0]["mean"], told["persons"][0]["most"]) == (4.0, 4)
    assert told["options"] == ["--person", "user_id", "--drop", "basket_id"]
    assert any("`person=basket_id`" in t and t.endswith("wanted") for t in told["findings"])


@pytest.mark.parametrize("name", ["user_id", "patient_nbr", "Kunde", "policy_no", "email", "id"])
def test_ids_that_repeat_are_protected_together(name: str) -> None:
    ids = (np.arange(3000) * 7 % 1_100 + 50_000).tolist()
    texts = name in ("Kunde", "email")
    table = {name: [f"u{k}" for k in ids] if texts else ids, "x": RNG.normal(size=3000)}
    found = look(pa.table(table))
    assert found["options"] == ["--person", name]
    assert any(f"`person={name}` protects all rows of one together" in t for t in found["findings"])
    shop = look({"store_id": np.arange(3000) % 20, "x": table["x"]})
    assert "--person" not in shop["options"]


def test_columns_that_no_model_can_use() -> None:
    table = pa.table({
        "x": [0.5, 1.5, 2.5],
        "list": [[1], [2], []],
        "none": pa.nulls(3),
        "half": pa.array(np.array([1.5, 2, 3], np.float16)),
        "y": [1.0, 2.0, 3.0],
    })  # fmt: skip
    found = look(table, label="y")
    assert found["options"][2:4] == ["--drop", "list"]
    assert any(note.startswith("list: list<") for note in found["notes"])
    assert kinds(found) == {"x": "number", "none": "constant", "half": "number"}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_codes_and_texts_stay_what_they_are(form: str, tmp_path: Path) -> None:
    """ICD codes become no missing values, and 'Stadt 12' is not taken apart."""
    codes = RNG.choice(["250.83", "428", "V57", "E909", "401.9", *map(str, range(1, 20))], 3000)
    towns = [f"Stadt {k}" for k in RNG.integers(1, 40, 3000)]
    table = pd.DataFrame({"diag_1": codes, "town": towns, "x": RNG.normal(size=3000)})
    path = tmp_path / f"t.{form}"
    table.to_csv(path, index=False) if form == "csv" else table.to_parquet(path)
    found = look(path)
    assert [c["kind"] for c in found["columns"]] == ["category", "category", "number"]
    assert found["options"] == []
    said = [text for text in (*found["findings"], *found["notes"]) if "diag_1" in text]
    assert not any("numeric" in text or "na=" in text or "pandas" in text for text in said)


def day(k: int) -> int:
    return int(f"{datetime.date(2019, 12, 1) + datetime.timedelta(days=7 * k % 900):%Y%m%d}")


MENDS: dict[str, Callable[[int], Any]] = {
    "days": lambda k: str(day(k)),
    "days in numbers": day,
    "days with gaps": lambda k: day(k) if k else np.nan,
    "numbers": lambda k: f"{k * 37 % 500 / 4}",
    "dates": lambda k: f"{k % 28 + 1} {('Jan', 'Feb', 'Mar')[k % 3]} {2015 + k % 9}",
    "times": lambda k: f"{k % 24:02d}:{k * 7 % 60:02d}",
    "numbers with units": lambda k: f"{k * 37 % 500} {('hp', 'kW')[k % 2]}",
}


@pytest.mark.parametrize("kind", MENDS)
def test_two_lines_of_pandas_mend_text_that_is_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"how much": [MENDS[kind](k) for k in range(900)]})
    found = look(table)
    (facts,) = found["columns"]
    (mend,) = (text for text in facts["findings"] if "in pandas" in text)
    said, first, second = mend.split("\n")
    assert re.findall("look like (.*);", said)[0] in kind
    assert mend in found["findings"]
    exec(f"{first}\n{second}", {"pandas": pd, "table": table})
    (mended,) = look(tmp_path / "mended.parquet")["columns"]
    assert mended["kind"] in ("number", "date")
    assert mended["missing"] == ("gaps" in kind)
    assert look({"x": [20_210_000 + 37 * k for k in range(60)]})["findings"] == []


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1, 2, 3, 4, 5, 99], [99]),
        ([*range(60), 999], [999]),
        ([*range(60), 77, 999], [999]),
        ([k / 7 for k in range(60)] + [-99.9], [-99.9]),
        ([*range(18, 100)], []),
        ([1, 2, 3, 4, 5, 9], []),
        ([-1, 0, 1], []),
        ([-9, -8, -7, -2, 0, 4], []),
        ([0.5, 99.5, 1.5], []),
        ([99, 98], []),
        ([77, 78, 79, 88], []),
        ([0, 100, 101], []),
    ],
)
def test_numbers_that_stand_for_no_answer_are_named_and_left_as_they_are(
    values: list[float], codes: list[float]
) -> None:
    """They may be numbers all the same: what they mean is the curator's to say."""
    found = look({"x": values * 20})
    said = [text for text in found["findings"] if "if it means missing" in text]
    assert len(said) == len(codes)
    assert "--na" not in found["options"]
    if codes:
        assert said[0].endswith(f"add `na=x={codes[0]}`")
        again = look({"x": values * 20}, na=[f"x={codes[0]}"])
        assert again["options"][-2:] == ["--na", f"x={codes[0]}"]
        assert not any("if it means missing" in text for text in again["findings"])


def test_a_line_of_units_under_the_header(tmp_path: Path) -> None:
    """Its words count as missing, and those of the label are told."""
    start = datetime.datetime(2020, 1, 1)
    rows = [f"{start + datetime.timedelta(hours=k):%Y-%m-%dT%H:%M:%SZ},{k * 7 % 37}.5,{k % 50}.25"
            for k in range(300)]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["stamp,wind,temp", "UTC,mph,°F", *rows]))
    found = look(tmp_path / "t.csv", label="temp")
    assert kinds(found) == {"stamp": "date", "wind": "number"}
    assert found["options"][2:] == ["--clip"]
    said = "1 labels are texts or no finite numbers"
    assert any(finding.startswith(said) for finding in found["findings"])
    far = look({"a": [0.5 * k for k in range(40)], "y": [1e300, np.inf, 3.0, 4.0] * 10}, label="y")
    assert far["label"]["unreadable"] == 20


def test_the_command(tmp_path: Path) -> None:
    x = RNG.normal(size=900)
    table = pa.table({"x": x, "who": [f"p{k}" for k in range(900)], "y": x + RNG.normal(size=900)})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    done = run("look", str(path), "--label", "y")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == (
        f"labeldp release {path} --label y --drop who --clip --label-range LO HI --out DIR"
    )
    assert "FOR THE CURATOR ONLY" in done.err
    found = run("look", str(path), "--label", "y", "--json").json
    assert json.dumps(found) == json.dumps(look(path, label="y"))


def test_answers_in_words_need_classes() -> None:
    """A range would refuse them all; a table of numbers with one word in it keeps the range."""
    words = pa.table({"x": list(range(300)), "y": ["positive", "negative", "negative"] * 100})
    found = look(words, label="y")
    assert "--classes NO,YES" in found["needed"]
    assert "--clip" not in found["options"]
    numbers = words.set_column(1, "y", pa.array(["?", *map(str, range(299))]))
    assert "--label-range LO HI" in look(numbers, label="y")["needed"]
