"""A wrong request ends in exit code 2 and one line; nothing is written and no label is told."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


def test_files(write: Write, out: Path, tmp_path: Path) -> None:
    assert "no such file" in refused(out, tmp_path / "missing.parquet")
    assert "did you mean" in refused(out, write("data.parquet").with_name("dat.parquet"))
    assert "matches no files" in refused(out, tmp_path / "*.csv")
    notes = tmp_path / "notes.doc"
    notes.write_text("31337.25")
    assert "unknown format" in refused(out, notes)
    whole = write("data.parquet").read_bytes()
    for size in (0, 4, len(whole) // 2):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        assert "is not a complete Parquet file" in refused(out, tmp_path / "cut.parquet")
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refused(out, tmp_path / "empty.csv")


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


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--label", "lable"), "label: there is no column 'lable'; did you mean 'label'?"),
        (("--features", "height,weight"), "features: there is no column 'weight'"),
        (("--categorical", "weight"), "categorical: there is no column 'weight'"),
        (("--numeric", "weight"), "numeric: there is no column 'weight'"),
        (("--drop", "weight"), "drop: there is no column 'weight'"),
        (("--drop", "height,score,colour,town"), "no feature column is left"),
        (("--features", "label"), "cannot also stand in features"),
        (("--drop", "label"), "cannot also stand in drop"),
        (("--features", "height,height"), "twice"),
        (("--numeric", "colour"), "should be numeric, but most values are texts"),
        (("--numeric", "score", "--categorical", "score"), "both categorical and numeric"),
        (("--min-count", 0), "--min-count must be at least 1"),
        (("--max-leverage", 0), "--max-leverage must lie between 0 and 1"),
        (("--max-leverage", 1e-9), "no choice of columns brings every leverage down"),
        (("--threads", -1), "--threads must be at least 0, not -1"),
    ],
)
def test_columns(data: Path, out: Path, options: tuple[Any, ...], cause: str) -> None:
    assert cause in refused(out, data, *options)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_infinite_features(write: Write, out: Path, suffix: str) -> None:
    data = write(f"data.{suffix}", height=ones(float("inf"), other=170.5))
    assert "column 'height' holds an infinity at row 1" in refused(out, data)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("name", "values", "cause"),
    [
        ("flat", [1.5] * 300, "'flat' is constant"),
        ("place", ["here"] * 300, "'place' is constant"),
        ("nothing", [None] * 300, "'nothing' is constant"),
        ("copy", table(300)["height"].to_pylist(), "'copy' is (nearly)"),
        ("cm", (table(300)["height"].to_numpy() * 4 - 1).tolist(), "'cm' is (nearly)"),
    ],
)
def test_useless_columns_are_refused_if_strict_and_left_out_otherwise(
    write: Write, out: Path, suffix: str, name: str, values: list[Any], cause: str
) -> None:
    data = write(f"data.{suffix}", **{name: values})
    assert cause in refused(out, data, "--strict")
    allowed = release(out, data)
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
    assert "several columns named 'height'" in refused(out, tmp_path / "twice.parquet")


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


def test_a_measured_floor_that_is_not_enough(data: Path, out: Path) -> None:
    measured = ("--accountant", "exact-worst-case", "--floor", "measured")
    assert "use --floor measured+added" in refused(out, data, *measured)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--epsilon", 0), "--epsilon must be above 0"),
        (("--epsilon", -1), "--epsilon must be above 0"),
        (("--epsilon", "nan"), "--epsilon must be a finite number"),
        (("--epsilon", "inf"), "--epsilon must be a finite number"),
        (("--delta", 0), "wtd-flag has no guarantee with δ = 0; give --delta above 0"),
        (("--delta", 1), "--delta must be at least 0 and below 1"),
        (("--delta", -1e-9), "--delta must be at least 0 and below 1"),
        (("--delta", "nan"), "--delta must be a finite number"),
        (("--bags", 0), "--bags must be at least 1"),
        (("--bags", -3), "--bags must be at least 1"),
        (("--max-megabytes", 0), "--max-megabytes must be above 0"),
        (("--mechanism", "magic"), "mechanism 'magic' is unknown; choose auto, wtd-flag"),
        (("--accountant", "magic"), "accountant 'magic' is unknown; choose paper"),
        (("--floor", "magic"), "floor 'magic' is unknown; choose declared"),
        (("--floor", "measured+added"), "does not price a measured floor"),
        (("--floor", "measured"), "does not price a measured floor"),
        (("--floor", "declared"), "go together"),
        (("--residual-ms", 2), "go together"),
        (("--floor", "declared", "--residual-ms", 2), "more than the declared 2"),
        (("--label-range", 5, 5), "the lower one first"),
        (("--label-range", 10, 0), "the lower one first"),
        (("--label-range", 0, "inf"), "must be two finite numbers"),
        (("--label-range", "nan", 1), "must be two finite numbers"),
        (("--residual-guess", -1), "must be above 0"),
    ],
)
def test_plans(data: Path, out: Path, options: tuple[Any, ...], cause: str) -> None:
    assert cause in refused(out, data, *options)
    asked = replaced(*LABEL, *QUICK, "--out", out, *options)
    planned = labeldp("plan", "--anyway", data, *asked)
    assert cause in planned.error


def test_a_file_too_small_for_a_fit(data: Path, out: Path) -> None:
    small = ("--accountant", "paper", "--floor", "added", "--max-megabytes", 1e-4)
    result = labeldp("release", "--anyway", data, *LABEL, *small, "--out", out)
    assert "raise --max-megabytes" in result.error


def test_a_declared_floor_that_carries_too_few_bags(data: Path, out: Path) -> None:
    promise = ("--accountant", "exact-worst-case", "--floor", "declared", "--residual-ms", 0.01)
    result = labeldp("release", "--anyway", data, *LABEL, *promise, "--out", out)
    assert "the budget allows 0 aggregates under this floor" in result.error


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["publish"], "No such command 'publish'"),
        (["plan"], "Missing argument 'DATA'"),
        (["plan", "t.parquet"], "name it with --label"),
        (["plan", "t.parquet", "--label", "y", "--label-range", "0", "1", "--eps", "1"], "--eps"),
        (["plan", "t.parquet", "--label", "y", "--label-range", "0"], "--label-range"),
        (["account", "wtd-flag", "--rows", "many"], "'--rows'"),
        (["account", "wtd-flag", "--rows", "1.5"], "'--rows'"),
        (["verify"], "Missing argument 'DIRECTORY'"),
        (["verify", "a", "b"], "unexpected extra argument"),
    ],
)
def test_the_parser(arguments: list[str], cause: str) -> None:
    assert cause in labeldp(*arguments).error


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--rows", 0), "--rows must be above 0"),
        (("--residual-ms", 0), "--residual-ms must be above 0"),
        (("--residual-ms", "inf"), "--residual-ms must be a finite number"),
        (("--bags", 0), "--bags must be above 0"),
        (("--epsilon", 0), "--epsilon must be above 0"),
        (("--delta", 1), "--delta must be at least 0 and below 1"),
        (("--label-range", 1, 0), "the lower one first"),
        (("--max-leverage", 0.1), "go together"),
        (("--features", 3), "go together"),
        (("--max-leverage", 0.5, "--features", 0), "--features must be at least 1"),
        (("--max-leverage", 0, "--features", 3), "--max-leverage must be above 0"),
        (("--max-leverage", 0.001, "--features", 3), "below features/rows"),
        (("--max-leverage", 1.5, "--features", 3), "at most 1, as every leverage is"),
    ],
)
def test_account(options: tuple[Any, ...], cause: str) -> None:
    good = ("--rows", 1000, "--label-range", 0, 1, "--residual-ms", 0.1)
    assert cause in labeldp("account", "wtd-flag", *replaced(*good, *options)).error
    assert "mechanism 'magic' is unknown" in labeldp("account", "magic", *good).error


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


def test_fit(published: Path, data: Path, write: Write, out: Path) -> None:
    """Whatever is wrong with the options or the test rows, no model is written."""
    text = write("text.csv", label=ones("31337.25x", other="5.5"))
    unlabelled = write("unlabelled.csv", label=[None] * 300)
    unknown = write("unknown.parquet", town=ones("31st street", other="t1"))
    requests: dict[tuple[Any, ...], str] = {
        ("--test", data): "go together",
        ("--label", "label"): "go together",
        ("--test", data, "--label", "lable"): "there is no column 'lable'",
        ("--test", text, "--label", "label"): "holds text that is not a number",
        ("--test", unlabelled, "--label", "label"): "no row has a label",
        ("--test", unknown, "--label", "label"): "'31st street'",
        ("--ridge", -1): "--ridge must be at least 0",
        ("--ridge", 1, "--max-norm", 1): "not both",
        ("--max-norm", 0): "--max-norm must be above 0",
        ("--confidence", 1): "confidence must lie between 0 and 1",
    }
    for options, cause in requests.items():
        result = labeldp("fit", published, "--out", out, *options)
        assert cause in result.error
        assert SECRET not in result.err


def test_fit_of_too_few_bags(data: Path, tmp_path: Path) -> None:
    few = ("--accountant", "paper", "--floor", "added", "--bags", 3)
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


def test_demo(out: Path) -> None:
    for option in (("--rows", 0), ("--rows", -5)):
        assert "--rows must be above 0" in labeldp("demo", *option, "--out", out).error
    assert "--epsilon must be above 0" in labeldp("demo", "--epsilon", 0, "--out", out).error
    assert "--delta must lie" in labeldp("demo", "--delta", 1, "--out", out).error


def test_numbers_beyond_reason(data: Path, out: Path) -> None:
    assert "label range" in refused(out, data, "--label-range", -1e308, 1e308)
    planned = labeldp("plan", "--anyway", data, *LABEL, *QUICK, "--bags", 10**11)
    assert "bags" in planned.error
    promise = ("--floor", "declared", "--residual-ms", -3)
    assert "--residual-ms must be above 0" in refused(out, data, *promise)
    assert "--residual-guess must be above 0" in refused(out, data, "--residual-guess", 0)
