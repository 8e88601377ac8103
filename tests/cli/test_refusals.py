"""A wrong request ends in exit code 2 and one line; nothing is written and no label is told."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.cli.conftest import LABEL, QUICK, Write
from tests.console import Result, labeldp, replaced
from tests.tables import table

SECRET = "31337"
"""Every label that is wrong is 31337.25 or a text with it: no output may show it."""


@pytest.fixture(autouse=True)
def out(tmp_path: Path) -> Iterator[Path]:
    """Where the output would go; whatever is refused leaves the directory as it was."""
    place = tmp_path / "place"
    place.mkdir()
    yield place / "release"
    assert os.listdir(place) == [], "a refused request wrote something"


def release(out: Path, data: Any, *options: Any) -> Result:
    asked = replaced(*LABEL, *QUICK, "--out", out, *options)
    result = labeldp("release", "--anyway", data, *asked)
    assert SECRET not in result.out + result.err
    return result


def refused(out: Path, data: Any, *options: Any) -> str:
    """The error of `release`."""
    return release(out, data, *options).error


def ones(value: Any, rows: int = 300, other: Any = 5.5) -> list[Any]:
    return [value, *[other] * (rows - 1)]


PLAN = "plan {data} {label}"
QUICK_PLAN = "plan {data} {label} {quick}"
ACCOUNT = "account wtd-flag --rows 1000 --label-range 0 1 --residual-ms 0.1"
RELEASE = "release {data} {label}"
PREDICT = "predict {place}/none.json {data} --out {place}"
MISTAKES = [
    # commands and arguments
    ("relase {data}", "No such command 'relase'"),
    ("verfy {place}", "Did you mean 'verify'?"),
    ("help plan", "; see labeldp --help"),
    ("release", "Missing"),
    ("verify", "Missing argument 'DIRECTORY'"),
    ("verify a b", "unexpected extra argument"),
    ("look {data} {data}", "see labeldp look --help"),
    (f"{PLAN} --epsilom 1", "--epsilom"),
    (f"{PLAN} -e 1", "; see labeldp plan --help"),
    (f"{PLAN} --features height town", "lists have commas and no spaces (A,B)"),
    # numbers
    (f"{PLAN} --epsilon one", "'--epsilon'"),
    (f"{PLAN} --epsilon 0,5", "'0,5' is not a valid number; write digits and a decimal point"),
    (f"{PLAN} --delta=10^-6", "'10^-6' is not a valid number"),
    (f"{PLAN} --bags 5.5", "'--bags'"),
    ("account wtd-flag --rows 1,000,000 --label-range 0 1", "is not a valid integer; write digits"),
    (f"{PLAN} --epsilon 1e308", "at most 1e+06"),
    (f"{PLAN} --epsilon nan", "--epsilon must be a finite number"),
    (f"{PLAN} --epsilon -1", "--epsilon must be above 0"),
    (f"{PLAN} --delta 1e-320", "at least 1e-100"),
    (f"{PLAN} --delta 1", "--delta must be at least 0 and below 1"),
    (f"{PLAN} --delta -1e-9", "--delta must be at least 0 and below 1"),
    # label and label range
    ("plan {data} --label-range 0 10", "name it with --label"),
    ("plan {data} --label label", "give --label-range"),
    ("plan {data} --label lable --label-range 0 1", "there is no column 'lable'; did you mean"),
    ("look {data} --label LABEL", "there is no column 'LABEL'; did you mean 'label'?"),
    ("plan {data} --label label --label-range 10 0", "the lower one first"),
    ("plan {data} --label label --label-range 5 5", "the lower one first"),
    ("plan {data} --label label --label-range 0 inf", "must be two finite numbers"),
    ("plan {data} --label label --label-range nan 1", "must be two finite numbers"),
    ("plan {data} --label label --label-range -1e308 1e308", "label range"),
    ("plan {data} --label label --label-range 0", "--label-range"),
    ("plan {data} --label label --label-range a b", "range"),
    ("plan {data} --label label --label-range 0,10", "with a space between: --label-range 0 10"),
    ("plan {data} --label-range 0,10 --label label", "write two numbers with a space between"),
    ("plan {data} --label label --label-range=0,10", "--label-range 0 10"),
    ("plan {data} --label label --label-range 0 250,000", "'250,000' is not a valid number"),
    # files
    ("plan {place}/none.csv {label}", "no such file or directory; check"),
    ("plan {data}x {label}", "did you mean"),
    ("plan {place} {label}", "holds no data files"),
    ("plan {place}/*.csv {label}", "holds no data files"),
    ("plan {notes} {label}", "unknown format"),
    ("plan {empty} {label}", "is empty"),
    ("plan {header} {label}", "have no rows"),
    ("look {header}", "have no rows"),
    ("plan {row} {label}", "constant"),
    ("plan {header} {label} --delimiter ;", "name another --delimiter"),
    # columns and design
    (f"{PLAN} --features height,weight", "features: there is no column 'weight'"),
    (f"{PLAN} --categorical twon", "categorical: there is no column 'twon'; did you mean 'town'"),
    (f"{PLAN} --numeric weight", "numeric: there is no column 'weight'"),
    (f"{PLAN} --drop weight", "drop: there is no column 'weight'"),
    (f"{PLAN} --drop height,score,colour,town", "no feature column is left"),
    (f"{PLAN} --features label", "cannot also stand in features"),
    (f"{PLAN} --drop label", "cannot also stand in drop"),
    (f"{PLAN} --features height,height", "twice"),
    (f"{PLAN} --numeric colour", "should be numeric, but most values are texts"),
    (f"{PLAN} --numeric score --categorical score", "both categorical and numeric"),
    (f"{PLAN} --min-count 0", "--min-count must be at least 1"),
    # engines
    (f"{PLAN} --engine spork", "'spork' is not one of 'local', 'spark'"),
    (f"{PLAN} --engine spark --threads 2", "--threads is for --engine local"),
    (f"{PLAN} --threads -1", "--threads must be at least 0, not -1"),
    # mechanisms
    (f"{PLAN} --mechanism flag", "mechanism 'flag' is unknown; choose auto, shaped-flag"),
    (f"{PLAN} --mechanism shaped-flag --bags 5", "--bags does not apply to shaped-flag; leave it"),
    (f"{PLAN} --residual-guess 0", "--residual-guess must be above 0"),
    (f"{QUICK_PLAN} --delta 0", "wtd-flag has no guarantee with δ = 0; give --delta above 0"),
    (f"{QUICK_PLAN} --bags 0", "--bags must be at least 1"),
    (f"{QUICK_PLAN} --bags 100000000000", "bags"),
    (f"{QUICK_PLAN} --max-megabytes 0", "--max-megabytes must be above 0"),
    (f"{QUICK_PLAN} --accountant magic", "no accountant 'magic'; plan with exact"),
    (f"{QUICK_PLAN} --floor magic", "or 'declared', not the text 'magic'"),
    (f"{QUICK_PLAN} --floor measured", "must be 'measured+added' or"),
    (f"{QUICK_PLAN} --accountant paper", "no accountant 'paper'; plan with exact"),
    (f"{QUICK_PLAN} --floor declared", "go together"),
    (f"{QUICK_PLAN} --residual-ms 2", "go together"),
    (f"{QUICK_PLAN} --floor declared --residual-ms 2", "more than the declared 2"),
    (f"{QUICK_PLAN} --floor declared --residual-ms -3", "--residual-ms must be above 0"),
    (
        "plan {data} {label} --mechanism wtd-flag --accountant exact-worst-case --floor added "
        "--max-megabytes 1e-4",
        "raise --max-megabytes",
    ),
    (
        "plan {data} {label} --accountant exact-worst-case --floor declared --residual-ms 0.01",
        "file size and floor allow 0 aggregates",
    ),
    # release
    (RELEASE, "Missing option '--out'"),
    (f"{RELEASE} --out {{place}}", "already exists; choose"),
    (f"{RELEASE} --out {{place}}/no/new", "create it first"),
    ("release {blank} {label} {quick} --out {place}/new", "has missing values"),
    ("release {words} {label} {quick} --out {place}/new", "label column 'label'"),
    (f"{RELEASE} --plan {{words}} --out {{place}}/new", "cannot be read as JSON"),
    (
        f"{RELEASE} --plan {{words}} --epsilon 1 --out {{place}}/new",
        "--epsilon is settled by the plan; leave it out",
    ),
    # verify, fit, predict
    ("verify {data}", "is not a release directory"),
    ("verify {release}/certificate.json", "is not a release directory; name the one"),
    ("verify {place}/none", "is not a release directory"),
    ("fit {data}", "is not a release directory"),
    ("fit {release} --model tree", "'tree' is not one of 'linear', 'neural'"),
    ("fit {release} --ridge much", "'much' is not a valid number"),
    ("fit {release} --confidence 95", "--confidence must lie between 0 and 1, not 95"),
    (f"{PREDICT}/p.csv", "is missing; check the path"),
    (f"{PREDICT}/p.png", ".csv or .parquet"),
    ("predict {data} {data} --out {place}/p.csv", "a fitted model was written to"),
    ("predict {release} {data} --out {place}/p.csv", "cannot be read: Is a directory"),
    # account, demo
    ("account magic --rows 1000 --label-range 0 1", "mechanism 'magic' is unknown"),
    (f"{ACCOUNT} --bags 0", "--bags must be at least 1"),
    (f"{ACCOUNT} --epsilon 0", "--epsilon must be above 0"),
    (f"{ACCOUNT} --delta 1", "--delta must be at least 0 and below 1"),
    (f"{ACCOUNT} --max-leverage 0.1", "--features is needed"),
    (f"{ACCOUNT} --max-leverage 0.5 --features 0", "--features must be at least 1"),
    (f"{ACCOUNT} --max-leverage 0 --features 3", "--max-leverage must be above 0"),
    (f"{ACCOUNT} --max-leverage 0.001 --features 3", "between features/rows and 1"),
    (f"{ACCOUNT} --max-leverage 1.5 --features 3", "between features/rows and 1"),
    ("account wtd-flag --rows 0 --label-range 0 1", "--rows must be at least 1"),
    ("account wtd-flag --rows 9 --label-range 1 0", "the lower one first"),
    ("account wtd-flag --rows 9 --label-range 0 1 --residual-ms inf", "must be a finite number"),
    ("demo --rows 0 --out {place}/new", "--rows must be above 0"),
    ("demo --epsilon 0 --out {place}/new", "--epsilon must be above 0"),
    ("demo --delta 1 --out {place}/new", "--delta must lie"),
]


@pytest.fixture(scope="module")
def places(published: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Files with one flaw each, and what the table above abbreviates."""
    folder = tmp_path_factory.mktemp("flaws")
    header = "height,score,colour,town,label\n"
    texts = {"header.csv": header, "row.csv": header + "170,3,red,t1,5\n", "empty.csv": ""}
    for name, text in (texts | {"notes.doc": "31337.25"}).items():
        (folder / name).write_text(text)
    flaws = {"blank": [None] * 299 + [5.5], "words": ["many"] * 300, "data": [5.5] * 300}
    for name, labels in flaws.items():
        rows = table(300).drop_columns(["label"]).append_column("label", pa.array(labels))
        csv.write_csv(rows, folder / f"{name}.csv")
    files = {path.stem: path for path in folder.iterdir()}
    options = {"label": " ".join(map(str, LABEL)), "quick": " ".join(QUICK) + " --anyway"}
    return files | options | {"release": published}


@pytest.mark.parametrize(("line", "cause"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line(
    line: str, cause: str, places: dict[str, Any], data: Path, out: Path
) -> None:
    """The error is one short line, and nothing is written."""
    words = line.format(**places | {"data": data, "place": out.parent}).split()
    error = labeldp(*replaced(*words)).error
    assert cause in error
    assert len(error) < 600


LABELS: dict[str, tuple[list[Any], str]] = {
    "nan": (ones(float("nan")), "has missing values"),
    "inf": (ones(float("inf")), "holds infinities"),
    "minus-inf": (ones(float("-inf")), "holds infinities"),
    "missing": (ones(None), "has missing values"),
    "above": (ones(31337.25), "has values outside the range 0 to 10"),
    "below": (ones(-31337.25), "has values outside the range 0 to 10"),
}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("name", LABELS)
def test_labels(write: Write, out: Path, name: str, suffix: str) -> None:
    labels, cause = LABELS[name]
    data = write(f"data.{suffix}", label=labels)
    assert cause in refused(out, data)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_text_labels(write: Write, out: Path, suffix: str) -> None:
    data = write(f"data.{suffix}", label=ones("31337.25x", other="5.5"))
    assert "label column 'label'" in refused(out, data)


def test_a_ragged_line_is_not_quoted(write: Write, out: Path) -> None:
    data = write("data.csv")
    data.write_text(data.read_text() + "1,2,red,t0,31337.25,31337.25\n")
    assert "a delimiter or quote too many in a line" in refused(out, data)


def test_a_broken_quote_is_not_quoted(write: Write, out: Path) -> None:
    data = write("data.csv")
    data.write_text(data.read_text() + '1,2,"red,t0,31337.25\n')
    refused(out, data)


def test_files_cut_short(write: Write, out: Path, tmp_path: Path) -> None:
    whole = write("data.parquet").read_bytes()
    for size in (0, 4, len(whole) // 2):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        assert "is not a complete Parquet file" in refused(out, tmp_path / "cut.parquet")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.5,red,31337.25\n2.5,blue,31338\n", "the columns are 'red'"),
        ("1;31337,25\n2;31338,5\n", "the columns are numbers: is there a line with their names?"),
    ],
)
def test_without_a_header_no_value_of_a_label_is_said(
    text: str, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "bare.csv").write_text(text)
    said = labeldp("plan", tmp_path / "bare.csv", *LABEL).error
    assert said == f"label: there is no column 'label'; {shown}"


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_infinite_features(write: Write, out: Path, suffix: str) -> None:
    data = write(f"data.{suffix}", height=ones(float("inf"), other=170.5))
    assert "column 'height' holds an infinity at row 1" in refused(out, data)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("flat", [1.5] * 300),
        ("place", ["here"] * 300),
        ("nothing", [None] * 300),
        ("copy", table(300)["height"].to_pylist()),
        ("cm", (table(300)["height"].to_numpy() * 4 - 1).tolist()),
    ],
)
def test_useless_columns_are_left_out_with_a_note(
    write: Write, out: Path, suffix: str, name: str, values: list[Any]
) -> None:
    data = write(f"data.{suffix}", **{name: values})
    allowed = release(out, data, "--verbose")
    assert allowed.code == 0, allowed
    assert name in allowed.err, "a note says what was left out"
    assert labeldp("verify", out).code == 0
    shutil.rmtree(out)


def test_tables_with_nothing_to_learn_from(write: Write, out: Path) -> None:
    flat = {"height": [1.5] * 300, "score": [2] * 300, "colour": ["a"] * 300, "town": ["b"] * 300}
    assert "every feature column is constant" in refused(out, write("flat.parquet", **flat))
    assert "have no rows" in refused(out, write("none.parquet", rows=0))
    assert "have no rows" in refused(out, write("none.csv", rows=0))
    few = {"height": [1.5, 2.5, 3.0], "score": [1, 20, 300]}
    assert "3 rows cannot protect labels" in refused(out, write("few.parquet", rows=3, **few))


def test_more_features_than_rows(out: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    wide = {f"x{k}": random.normal(size=20) for k in range(30)} | {"label": [5.5] * 20}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    assert "20 rows cannot protect labels" in refused(out, tmp_path / "wide.parquet")


def test_duplicate_column_names(out: Path, tmp_path: Path) -> None:
    rows = table(300)
    twice = pa.Table.from_arrays(
        [rows["height"], rows["score"], rows["label"]], names=["height", "height", "label"]
    )
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert "several columns of one name, 'height'" in refused(out, tmp_path / "twice.parquet")


def test_labels_in_the_span_of_the_features(write: Write, out: Path) -> None:
    """Aggregation alone hides nothing there; an added floor does."""
    exact = (table(300)["height"].to_numpy() / 32).tolist()
    data = write("exact.parquet", label=exact)
    promise = ("--floor", "declared", "--residual-ms", 1e9)
    assert "lie in the span of the features" in refused(out, data, *promise)
    default = ("--accountant", "exact-worst-case", "--floor", "measured+added")
    assert release(out, data, *default).code == 0
    assert labeldp("verify", out).code == 0
    shutil.rmtree(out)


def test_a_promise_that_does_not_hold(data: Path, out: Path) -> None:
    promise = ("--floor", "declared", "--residual-ms", 1e9)
    assert "declared residual floor does not hold" in refused(out, data, *promise)


def test_what_exists_is_never_touched(published: Path, data: Path, tmp_path: Path) -> None:
    """A directory, a file or a dangling link in the way of any output is left alone."""
    labeldp("fit", published, "--out", tmp_path / "model.json")
    folder, file, link = (tmp_path / name for name in ("folder", "file.csv", "link.csv"))
    folder.mkdir()
    (folder / "mine").write_text("mine")
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.iterdir())
    for target in (folder, file, link):
        commands: list[tuple[Any, ...]] = [
            ("release", data, *LABEL, *QUICK),
            ("plan", data, *LABEL, *QUICK),
            ("fit", published),
            ("demo", "--rows", 1000),
        ]
        if target.suffix == ".csv":
            commands.append(("predict", tmp_path / "model.json", data))
        for command in commands:
            assert "already exists" in labeldp(*command, "--out", target).error
    assert sorted(tmp_path.iterdir()) == before
    assert (folder / "mine").read_text() == file.read_text() == "mine"
    assert link.is_symlink()


def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    published: Path, tmp_path: Path
) -> None:
    """The data do not even exist: the place is looked at first."""
    labeldp("fit", published, "--out", tmp_path / "model.json")
    (tmp_path / "file").write_text("")
    nothing = tmp_path / "missing.parquet"
    for parent in (tmp_path / "nowhere", tmp_path / "file"):
        for command in (
            ("release", nothing, *LABEL, *QUICK),
            ("plan", nothing, *LABEL, *QUICK),
            ("predict", tmp_path / "model.json", nothing),
            ("fit", nothing),
            ("demo", "--rows", 10**9),
        ):
            error = labeldp(*command, "--out", parent / "new.csv").error
            assert error == f"{parent} is not a directory; create it first"


def half_written(published: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Copies of a release with each file missing, empty, cut short or another file."""
    names = sorted(path.name for path in published.iterdir())
    for place, (name, flaw) in enumerate(
        itertools.product(names, ("missing", "empty", "cut", "text", "folder"))
    ):
        copy = tmp_path / f"half{place}"
        shutil.copytree(published, copy)
        file = copy / name
        content = file.read_bytes()
        file.unlink()
        match flaw:
            case "empty":
                file.write_bytes(b"")
            case "cut":
                file.write_bytes(content[: len(content) // 2])
            case "text":
                file.write_bytes(b"\xff[31]")
            case "folder":
                file.mkdir()
        yield name, copy


def test_half_written_releases(published: Path, tmp_path: Path) -> None:
    """verify says no (1) and which file; fit refuses (2)."""
    for name, copy in half_written(published, tmp_path):
        checked = labeldp("verify", copy, "--json")
        assert (checked.code, checked.err) == (1, ""), copy
        assert any(name in problem for problem in checked.json["problems"]), checked.out
        assert "\n" not in "".join(checked.json["problems"])
        assert name in labeldp("fit", copy).error
    for command in ("verify", "fit"):
        assert "is not a release directory" in labeldp(command, tmp_path / "nowhere").error


def test_fit(published: Path, out: Path) -> None:
    """Whatever is wrong with the options, no model is written."""
    requests: dict[tuple[Any, ...], str] = {
        ("--ridge", -1): "--ridge must be at least 0",
        ("--ridge", 1, "--max-norm", 1): "exclude each other",
        ("--max-norm", 0): "--max-norm must be above 0",
        ("--confidence", 1): "confidence must lie between 0 and 1",
    }
    for options, cause in requests.items():
        result = labeldp("fit", published, "--out", out, *options)
        assert cause in result.error
        assert SECRET not in result.err


def test_fit_of_too_few_bags(data: Path, tmp_path: Path) -> None:
    few = ("--accountant", "exact-worst-case", "--floor", "added", "--bags", 3)
    assert labeldp("release", "--anyway", data, *LABEL, *few, "--out", tmp_path / "r").code == 0
    assert "3" in labeldp("fit", tmp_path / "r").error


def test_predict(published: Path, data: Path, write: Write, out: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    labeldp("fit", published, "--out", model)
    place = out.with_suffix(".csv")
    assert (
        "no column 'town'"
        in labeldp("predict", model, write("less.csv", town=None), "--out", place).error
    )
    unknown = write("unknown.parquet", town=ones("31st street", other="t1"))
    asked = ("predict", model, unknown, "--unknown", "error", "--out", place)
    assert "'31st street'" in labeldp(*asked).error
    assert (
        "holds an infinity"
        in labeldp(
            "predict", model, write("inf.csv", height=ones(float("inf"))), "--out", place
        ).error
    )
    assert ".csv or .parquet" in labeldp("predict", model, data, "--out", out).error
    assert "no such file" in labeldp("predict", model, tmp_path / "no.csv", "--out", place).error
    for content in (b"", b"{}", b"\xff", model.read_bytes()[:-20]):
        (tmp_path / "bad.json").write_bytes(content)
        result = labeldp("predict", tmp_path / "bad.json", data, "--out", place)
        assert "bad.json" in result.error
    missing = labeldp("predict", tmp_path / "missing.json", data, "--out", place)
    assert "missing.json" in missing.error


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
    assert "there is no column 'yy'; did you mean 'y'?" in answer.err


def test_a_lack_of_memory_is_called_so(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    data = write("t.csv")
    monkeypatch.setattr("labeldp.data.source.scan", fail)
    found = labeldp("plan", data, *LABEL)
    assert found.code == 2
    assert found.error.startswith("out of memory; ")
