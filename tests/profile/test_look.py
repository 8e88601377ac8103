"""What `look` finds in a messy table, and that its options make a release."""

from __future__ import annotations

import csv
import datetime
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import LinearRegressor, look, plan, scan
from labeldp.data.labels import LabelParser
from labeldp.features.column_type import named_like_an_id
from labeldp.profile.page import page
from tests.console import labeldp as run

ROWS = 4000
HEADER = ["customer_id", "age", "income", "town", "zip", "joined", "score", "one", "cents", "y"]


def messy(path: Path, seed: int = 1) -> dict[str, Any]:
    """A table as people send it; what is behind it is returned."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, ROWS)
    income = rng.lognormal(10, 0.5, ROWS).round(2) * np.where(rng.random(ROWS) < 0.02, -1, 1)
    town = rng.choice(["Köln", "São Paulo", "東京"], ROWS)
    zips = rng.choice(np.arange(10_000, 10_030), ROWS)
    joined = [
        datetime.date(2015, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 2500, ROWS)
    ]
    score = rng.normal(size=ROWS).round(3)
    y = 20 + 0.2 * age + 3 * (town == "Köln") + 2 * score + rng.normal(0, 2, ROWS)
    income[7] = 99_999_999.0
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(HEADER)
        for k in range(ROWS):
            money = f"(${-income[k]:,.2f})" if income[k] < 0 else f"${income[k]:,.2f}"
            years = {3: "forty", 4: "", 5: "NA", 6: "-"}.get(k % 200, str(age[k]))
            label = "" if k % 100 == 50 else f"{y[k]:.2f}"
            when = joined[k].strftime("%d/%m/%Y")
            person = f"C{k:06d}"
            out.writerow(
                [
                    person,
                    years,
                    money,
                    town[k],
                    zips[k],
                    when,
                    score[k],
                    "same",
                    score[k] * 100,
                    label,
                ]
            )
    return {"age": age, "town": town, "score": score, "y": y}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("look") / "messy.csv"
    messy(path)
    return path


@pytest.fixture(scope="module")
def found(table: Path) -> dict[str, Any]:
    return look(table, label="y")


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(facts for facts in found["columns"] if facts["name"] == name)


def test_kinds(found: dict[str, Any]) -> None:
    kinds = {facts["name"]: facts["kind"] for facts in found["columns"]}
    assert kinds == {
        "customer_id": "id",
        "age": "number",
        "income": "number",
        "town": "category",
        "zip": "category",
        "joined": "date",
        "score": "number",
        "one": "constant",
        "cents": "number",
    }


def test_missing_values_and_how_they_are_spelt(found: dict[str, Any]) -> None:
    assert column(found, "age")["missing"] == 80
    assert any(
        note.startswith("age: texts such as 'forty' count as missing") for note in found["notes"]
    )


def test_an_outlier_and_what_it_costs(found: dict[str, Any]) -> None:
    outlier = column(found, "income")["outlier"]
    assert outlier["value"] == 99_999_999.0
    assert outlier["leverage"] > 0.9 > 0.1 > outlier["leverage_winsorised"]
    assert column(found, "score")["outlier"] is None


def test_options(found: dict[str, Any]) -> None:
    assert found["options"] == [
        "--label", "y", "--drop", "customer_id", "--drop-missing-labels", "--clip",
    ]  # fmt: skip
    assert found["needed"] == ["--label-range LO HI", "--out DIR"]


def test_the_options_alone_make_a_release(
    table: Path, found: dict[str, Any], tmp_path: Path
) -> None:
    asked = ["--label-range", "0", "60", "--epsilon", "8", "--out", str(tmp_path / "r")]
    done = run("release", str(table), *found["options"], *asked)
    assert done.code == 0, done.err
    assert (tmp_path / "r" / "certificate.json").exists()


def test_the_fit_is_as_good_as_of_the_clean_table(tmp_path: Path) -> None:
    """Within 10 % of the residual of least squares with all labels, at ε = 8 on few rows."""
    clean = messy(tmp_path / "t.csv", seed=2)
    words = look(tmp_path / "t.csv", label="y")["options"]
    drop = words[words.index("--drop") + 1].split(",")
    source = scan(
        tmp_path / "t.csv",
        label="y",
        label_range=(0, 60),
        drop_missing_labels=True,
        clip=True,
        drop=drop,
    )
    release = plan(source, epsilon=8, delta=1e-6).release(source)
    rows = pa.Table.from_batches(source.feature_batches())
    kept = np.arange(ROWS) % 100 != 50
    y = clean["y"][kept]
    blank = np.isin(np.arange(ROWS) % 200, [3, 4, 5, 6])
    age = np.where(blank, clean["age"][~blank].mean(), clean["age"])
    columns = (np.ones(ROWS), age, blank, clean["town"] == "Köln", clean["score"])
    design = np.column_stack(columns)[kept]
    best = np.mean((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)
    ours = np.mean((y - LinearRegressor().fit(release).predict(rows)) ** 2)
    assert ours < 1.1 * best


def test_no_label_is_read_unless_it_is_named(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LabelParser, "parse", lambda *_: pytest.fail("labels were read"))
    told = look(table, drop=["y"])
    assert told["label"] is None
    assert told["needed"][0] == "--label COLUMN"


def test_labels_sway_nothing_but_what_is_marked() -> None:
    """Two tables that differ in labels only: everything outside `label` is the same."""
    answers = []
    for factor in (1, 7):
        made = {"x": np.arange(300) % 37 + 0.5, "k": ["ab"[n % 2] for n in range(300)]}
        made["y"] = np.arange(300.0) % 11 * factor
        answers.append(look(pa.table(made), label="y"))
    labels = [answer.pop("label") for answer in answers]
    assert labels[0] != labels[1]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("scale", [1.0, -1000.0])
def test_a_feature_that_is_the_label(scale: float) -> None:
    rng = np.random.default_rng(5)
    y = rng.normal(size=400)
    made = pa.table({"x": rng.normal(size=400), "copy": y * scale + 3, "y": y})
    told = look(made, label="y")
    assert told["label"]["copies"] == {"copy": "is the label in other units"}
    assert told["options"] == ["--label", "y", "--drop", "copy", "--clip"]
    told = look(made.drop(["copy"]), label="y")
    assert told["label"]["copies"] == {}
    assert not told["findings"]


def test_latin_1_is_found_out_here_too(tmp_path: Path) -> None:
    lines = ["ort;x;y", *(f"{'Köln' if k % 2 else 'Bonn'};{k % 37},5;{k}" for k in range(300))]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="latin-1")
    told = look(tmp_path / "t.csv", label="y")
    assert {facts["name"]: facts["kind"] for facts in told["columns"]} == {
        "ort": "category",
        "x": "number",
    }
    assert any("cp1252" in text for text in told["notes"])


@pytest.mark.parametrize(
    ("name", "rows", "values", "advised"),
    [
        ("kids", 2000, range(6), True),
        ("kids", 12_000, range(6), False),
        ("kids", 2000, (0, 1, 2, 9), False),
        ("region", 2000, range(6), False),
        ("month", 2000, range(1, 13), False),
    ],
)
def test_counts_on_few_rows_are_numbers(name: str, rows: int, values: Any, advised: bool) -> None:
    told = look(pa.table({name: np.resize(list(values), rows), "x": np.arange(rows) % 7 + 0.5}))
    assert (["--numeric", name] == told["options"][:2]) is advised


def test_a_share_that_reaches_an_outlier_of_a_short_table() -> None:
    values = np.random.default_rng(6).normal(size=400)
    values[9] = 1e6
    assert look(pa.table({"x": values}))["options"] == ["--winsor", "x=0.005"]


def test_rows_per_person_and_duplicates() -> None:
    ids = np.repeat(np.arange(1000, 1100), 4)
    told = look(
        pa.table({"user_id": ids, "k": ["a"] * 200 + ["b"] * 200, "x": np.tile([0.5, 1.5], 200)})
    )
    (person,) = told["persons"]
    assert (person["column"], person["mean"], person["most"]) == ("user_id", 4.0, 4)
    assert told["duplicates"] == 200
    assert told["options"] == ["--person", "user_id"]


def test_persons_before_things_and_beside_drop() -> None:
    rows = np.arange(4000)
    made = {"user_id": rows % 1000, "basket_id": rows // 3 + 7, "x": rows % 11 + 0.5}
    told = look(pa.table(made))
    assert [person["column"] for person in told["persons"]] == ["user_id", "basket_id"]
    assert told["options"] == ["--person", "user_id", "--drop", "basket_id"]
    assert any(text.endswith("add `person=basket_id`") for text in told["findings"])


@pytest.mark.parametrize(
    ("name", "is_id"),
    [("id", True), ("userId", True), ("order_no", True), ("E-Mail", True), ("idle", False),
     ("width", False), ("paid", False), ("age", False), ("NationalID", True)],
)  # fmt: skip
def test_names_of_ids(name: str, is_id: bool) -> None:
    assert named_like_an_id(name) == is_id


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_quotes_what_it_shows(found: dict[str, Any]) -> None:
    bad = found | {"table": "<script>alert(1)</script>"}
    text = page(bad)
    assert "<script" not in text
    assert not re.search(r"(src|href)=", text)
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    for facts in found["columns"]:
        assert facts["name"] in text


def test_the_command(table: Path, tmp_path: Path) -> None:
    done = run("look", str(table), "--label", "y", "--html", str(tmp_path / "p.html"))
    assert done.code == 0, done.err
    assert "--label y --drop customer_id --drop-missing-labels --clip --label-range" in done.out
    assert "FOR THE CURATOR ONLY" in done.err
    assert (tmp_path / "p.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    done = run("look", str(table), "--label", "y", "--json")
    assert json.loads(done.out)["options"][:2] == ["--label", "y"]


def test_a_line_of_units_under_the_header(tmp_path: Path) -> None:
    """Its words count as missing, and those of the label are told."""
    start = datetime.datetime(2020, 1, 1)
    rows = [f"{start + datetime.timedelta(hours=k):%Y-%m-%dT%H:%M:%SZ},{k * 7 % 37}.5,{k % 50}.25"
            for k in range(300)]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["stamp,wind,temp", "UTC,mph,°F", *rows]))
    found = look(tmp_path / "t.csv", label="temp")
    assert [column(found, name)["kind"] for name in ("stamp", "wind")] == ["date", "number"]
    assert found["options"][2:] == ["--clip"]
    assert found["label"]["texts"] == ["°F"]
    (said,) = (finding for finding in found["findings"] if "°F" in finding)
    assert said.startswith("1 labels are texts such as °F or no finite numbers")


def test_a_column_that_no_model_can_use_is_dropped() -> None:
    table = pa.table({"x": [0.5, 1.5, 2.5], "list": [[1], [2], []], "y": [1.0, 2.0, 3.0]})
    found = look(table, label="y")
    assert found["options"][2:4] == ["--drop", "list"]
    assert any(note.startswith("list: list<") for note in found["notes"])


def test_a_number_for_no_answer_is_named_and_left_as_it_is() -> None:
    """It may be a number all the same: what it means is the curator's to say."""
    cold = [-99.9 if k % 40 == 0 else k % 300 / 10 for k in range(900)]
    found = look({"x": cold, "y": range(900)}, label="y")
    assert column(found, "x")["no_answer"] == [-99.9]
    assert found["options"] == ["--label", "y", "--clip"]
    assert any(
        text.endswith("if that means missing, add `na=x=-99.9`") for text in found["findings"]
    )


def test_more_outliers_than_the_default_reaches() -> None:
    """Twenty typing errors of ten thousand numbers: the share that is winsorised reaches them."""
    rng = np.random.default_rng(7)
    x = rng.normal(10, 2, 10_000).round(2)
    few, many = x.copy(), x.copy()
    few[:5] *= 1000
    many[:20] *= 1000
    said = [
        look({"x": each, "y": np.arange(10_000) % 11}, label="y")["options"][2:-1]
        for each in (x, few, many)
    ]
    assert said == [[], [], ["--winsor", "x=0.005"]]
