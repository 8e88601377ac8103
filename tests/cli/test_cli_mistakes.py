"""Typical mistakes on the command line: exit code 2 and one line with the cure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LABEL, QUICK, Write
from tests.console import labeldp

OUT = ("--out", "{place}/new")

MISTAKES: dict[str, tuple[tuple[Any, ...], str]] = {
    "command misspelt": (("relase", "{data}"), "No such command 'relase'"),
    "no arguments": (("release",), "Missing"),
    "no label": (("plan", "{data}", "--label-range", 0, 10), "name it with --label"),
    "no range": (("plan", "{data}", "--label", "label"), "give --label-range LO HI"),
    "label misspelt": (
        ("plan", "{data}", "--label", "lable", "--label-range", 0, 1),
        "did you mean 'label'",
    ),
    "range reversed": (
        ("plan", "{data}", "--label", "label", "--label-range", 10, 0),
        "lower one first",
    ),
    "range of words": (("plan", "{data}", "--label", "y", "--label-range", "a", "b"), "range"),
    "epsilon 0": (("plan", "{data}", *LABEL, "--epsilon", 0), "--epsilon must be above 0"),
    "epsilon below 0": (("plan", "{data}", *LABEL, "--epsilon", -1), "--epsilon must be above 0"),
    "epsilon as a word": (("plan", "{data}", *LABEL, "--epsilon", "one"), "'--epsilon'"),
    "epsilon infinite": (("plan", "{data}", *LABEL, "--epsilon", "inf"), "finite number"),
    "epsilon too large": (("plan", "{data}", *LABEL, "--epsilon", 1e308), "at most 1e+06"),
    "delta 1": (("plan", "{data}", *LABEL, "--delta", 1), "--delta must be at least 0 and below 1"),
    "delta too small": (("plan", "{data}", *LABEL, "--delta", 1e-320), "at least 1e-100"),
    "no file": (("plan", "{place}/none.csv", *LABEL), "no such file or directory; check the path"),
    "file name misspelt": (("plan", "{data}x", *LABEL), "did you mean"),
    "an empty directory": (("plan", "{place}", *LABEL), "holds no data files"),
    "an empty file": (("plan", "{empty}", *LABEL), "is empty"),
    "a header alone": (("plan", "{header}", *LABEL), "have no rows"),
    "one row": (("plan", "{row}", *LABEL), "constant"),
    "blank labels": (
        ("release", "--anyway", "{blank}", *LABEL, *QUICK, *OUT),
        "has missing values",
    ),
    "labels of text": (
        ("release", "--anyway", "{words}", *LABEL, *QUICK, *OUT),
        "label column 'label'",
    ),
    "label among features": (("plan", "{data}", *LABEL, "--features", "label"), "is the label"),
    "column misspelt": (("plan", "{data}", *LABEL, "--categorical", "twon"), "did you mean 'town'"),
    "mechanism misspelt": (("plan", "{data}", *LABEL, "--mechanism", "flag"), "unknown; choose"),
    "bags for shaped-flag": (
        ("plan", "{data}", *LABEL, "--mechanism", "shaped-flag", "--bags", 5),
        "--bags does not apply to shaped-flag; leave it out",
    ),
    "bags of 5.5": (("plan", "{data}", *LABEL, "--bags", 5.5), "'--bags'"),
    "out exists": (("release", "{data}", *LABEL, "--out", "{place}"), "already exists; choose"),
    "out nowhere": (("release", "{data}", *LABEL, "--out", "{place}/no/new"), "create it first"),
    "out forgotten": (("release", "{data}", *LABEL), "Missing option '--out'"),
    "a plan that is none": (
        ("release", "{data}", *LABEL, "--plan", "{words}", *OUT),
        "cannot be read as JSON",
    ),
    "budget beside a plan": (
        ("release", "{data}", *LABEL, "--plan", "{words}", "--epsilon", 1, *OUT),
        "--epsilon is settled by the plan; leave it out",
    ),
    "verify of a file": (("verify", "{data}"), "is not a release directory"),
    "verify of nothing": (("verify", "{place}/none"), "is not a release directory"),
    "fit of a table": (("fit", "{data}"), "is not a release directory"),
    "fit of an unknown model": (("fit", "{release}", "--model", "tree"), "choose linear or neural"),
    "test without label": (("fit", "{release}", "--test", "{data}"), "give both or neither"),
    "ridge as a word": (("fit", "{release}", "--ridge", "much"), "a number or auto"),
    "predict with no model": (
        ("predict", "{place}/none.json", "{data}", "--out", "{place}/p.csv"),
        "cannot read a model from",
    ),
    "predict to a picture": (
        ("predict", "{place}/none.json", "{data}", "--out", "{place}/p.png"),
        ".csv or .parquet",
    ),
    "engine misspelt": (("plan", "{data}", *LABEL, "--engine", "spork"), "choose local or spark"),
    "threads without end": (("plan", "{data}", *LABEL, "--threads", 100_000), "at most 1024"),
    "option misspelt": (("plan", "{data}", *LABEL, "--epsilom", 1), "--epsilom"),
    "range with a comma": (
        ("plan", "{data}", "--label", "label", "--label-range", "0,10"),
        "write two numbers with a space between: --label-range 0 10",
    ),
    "range with a comma, and more": (
        ("plan", "{data}", "--label-range", "0,10", "--label", "label"),
        "'0,10' is not a valid number; write two numbers with a space between",
    ),
    "range with an equals sign": (
        ("plan", "{data}", "--label", "label", "--label-range=0,10"),
        "--label-range 0 10",
    ),
    "range with thousands": (
        ("plan", "{data}", "--label", "label", "--label-range", 0, "250,000"),
        "'250,000' is not a valid number",
    ),
    "range in brackets": (
        ("plan", "{data}", "--label", "label", "--label-range", "[0,", "10]"),
        "'[0,' is not a valid number",
    ),
    "range in money": (
        ("plan", "{data}", "--label", "label", "--label-range", 0, "$10"),
        "'$10' is not a valid number",
    ),
    "epsilon with a comma": (
        ("plan", "{data}", *LABEL, "--epsilon", "0,5"),
        "'0,5' is not a valid number; write digits and a decimal point, like",
    ),
    "delta as a power": (
        ("plan", "{data}", *LABEL, "--delta=10^-6"),
        "'10^-6' is not a valid number",
    ),
    "rows with commas": (
        ("account", "wtd-flag", "--rows", "1,000,000", "--label-range", 0, 1),
        "'1,000,000' is not a valid integer; write digits",
    ),
    "two tables": (("look", "{data}", "{data}"), "see labeldp look --help"),
    "list with a space": (
        ("plan", "{data}", *LABEL, "--features", "height", "town"),
        "lists have commas and no spaces (A,B)",
    ),
    "a short option": (
        ("plan", "{data}", *LABEL, "-e", 1),
        "; see labeldp plan --help",
    ),
    "help as a command": (("help", "plan"), "; see labeldp --help"),
    "command nearly right": (("verfy", "{place}"), "Did you mean 'verify'?"),
    "label in capitals": (
        ("look", "{data}", "--label", "LABEL"),
        "there is no column 'LABEL'; did you mean 'label'?",
    ),
    "delimiter of another file": (
        ("plan", "{header}", *LABEL, "--delimiter", ";"),
        "the only one is 'height,score,colour,town,label'; name another --delimiter",
    ),
    "verify of a certificate": (
        ("verify", "{release}/certificate.json"),
        "is not a release directory; name the one it was saved in",
    ),
    "model and table swapped": (
        ("predict", "{data}", "{data}", "--out", "{place}/p.csv"),
        "or a damaged one; name one that a fitted model was written to",
    ),
    "predict with a release": (
        ("predict", "{release}", "{data}", "--out", "{place}/p.csv"),
        "name one that a fitted model was written to",
    ),
    "confidence in percent": (
        ("fit", "{release}", "--confidence", 95),
        "--confidence must lie between 0 and 1, not 95",
    ),
}


@pytest.fixture
def places(data: Path, published: Path, write: Write, tmp_path: Path) -> dict[str, Path]:
    """Files with one flaw each; `place` is an empty directory."""
    place = tmp_path / "place"
    place.mkdir()
    header = tmp_path / "header.csv"
    header.write_text("height,score,colour,town,label\n")
    (tmp_path / "row.csv").write_text(header.read_text() + "170,3,red,t1,5\n")
    (tmp_path / "empty.csv").write_text("")
    return {
        "data": data,
        "release": published,
        "place": place,
        "header": header,
        "row": tmp_path / "row.csv",
        "empty": tmp_path / "empty.csv",
        "blank": write("blank.csv", label=[None] * 299 + [5.5]),
        "words": write("words.csv", label=["many"] * 300),
    }


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(name: str, places: dict[str, Path]) -> None:
    words, said = MISTAKES[name]
    error = labeldp(*(str(word).format(**places) for word in words)).error
    assert said in error
    assert len(error) < 600
    assert not list(places["place"].iterdir()), "nothing was written"


def test_a_release_of_another_version(published: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(published, old)
    certificate = json.loads((old / "certificate.json").read_text(encoding="utf-8"))
    certificate["format"] = "labeldp-certificate/0"
    (old / "certificate.json").write_text(json.dumps(certificate), encoding="utf-8")
    checked = labeldp("verify", old)
    assert checked.code == 1
    assert "format" in checked.out


def test_a_name_of_many_letters_is_not_repeated(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("a,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(50)))
    answer = labeldp("plan", data, "--label", "x" * 9_000, "--label-range", 0, 9)
    assert answer.code == 2
    assert f"there is no column '{'x' * 80}…'" in answer.err.replace("\n", "")
    assert len(answer.err) < 400


def test_a_column_to_keep_that_is_none(tmp_path: Path) -> None:
    data, made, model = tmp_path / "t.csv", tmp_path / "made", tmp_path / "m.json"
    data.write_text("a,y\n" + "".join(f"{k % 71},{k % 71 / 9}\n" for k in range(3_000)))
    labeldp("release", data, "--label", "y", "--label-range", 0, 9, "--out", made)
    labeldp("fit", made, "--out", model)
    answer = labeldp("predict", model, data, "--out", tmp_path / "p.csv", "--keep", "yy")
    assert answer.code == 2
    assert "--keep: there is no column 'yy'; did you mean 'y'?" in answer.err
