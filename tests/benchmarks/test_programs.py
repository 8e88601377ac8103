"""Every benchmark runs at toy size and says what the report needs; no time is asserted."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labeldp import LabelDPWarning

Program = Callable[[str], Any]

TOY = {
    "pass": (["dense-3"], [99], [6000], 1),
    "large": ([5000], 50, 1),
    "default_command": ([3000], 1),
    "draw": (["dense-3"], [3000], [2, 300], 1),
    "accountant": ([10], 1),
    "writing": ("dense-3", 3000, [50, 100], 1),
    "bags": ("dense-3", 3000, [5, 20], 30, 1),
    "neural_bags": (4, 1),
}


@pytest.fixture(scope="module")
def documents(program: Program) -> dict[str, Any]:
    """What each benchmark found, after a trip through JSON."""
    seen = {"dense": 4000 * 4, "scipy": 5000 * 4}  # four design columns
    program("pass").MOST_NUMBERS = seen
    found = {}
    for name, arguments in TOY.items():
        with pytest.MonkeyPatch.context() as patch:
            releases_here(program("whole_release"), patch)
            found[name] = json.loads(json.dumps(program(name).run(*arguments)))
    return found


def releases_here(program: Any, patch: pytest.MonkeyPatch) -> None:
    """In this process: to start another takes longer than a toy release."""

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        patch.setattr(sys, "argv", command[1:])
        with redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelDPWarning)
            program.main()
        return SimpleNamespace(stdout=out.getvalue())

    patch.setattr(program, "subprocess", SimpleNamespace(run=run, PIPE=subprocess.PIPE))


def ways(document: dict[str, Any]) -> set[str]:
    return {record["way"] for record in document["records"]}


def test_documents_have_one_shape(documents: dict[str, Any]) -> None:
    for name, found in documents.items():
        assert set(found) == {"benchmark", "records", "notes"}
        assert found["benchmark"] == name
        assert all(isinstance(note, str) for note in found["notes"])
        assert len({tuple(record) for record in found["records"]}) <= 1, name
        for record in found["records"]:
            for key in ("seconds", "cpu_seconds", "milliseconds", "peak_mib"):
                value = record.get(key)
                assert value is None or value >= 0


def test_every_way_is_measured_or_said_to_be_missing(documents: dict[str, Any]) -> None:
    asked = {
        "pass": {"read", "read whole", "ours", "duckdb", "dense", "scipy", "tabmat"},
        "draw": {"ours", "loop", "blocked", "sklearn"},
        "bags": {"ours", "loop"},
        "accountant": {"contour", "dp_accounting"},
        "neural_bags": {"weighted bags", "plain loop"},
    }
    packages = {"weighted bags": "torch", "plain loop": "torch"}
    for name, expected in asked.items():
        seen = {way.partition(",")[0] for way in ways(documents[name])}
        for way in expected - seen:
            package = packages.get(way, way)
            assert importlib.util.find_spec(package) is None
            assert any(note.startswith(package) for note in documents[name]["notes"])


def test_parts_are_extrapolated_in_line_and_said_so(documents: dict[str, Any]) -> None:
    parts = {r["way"]: r["extrapolated_from_rows"] for r in documents["pass"]["records"]}
    assert parts["dense"] == 4000
    assert parts["scipy"] == 5000
    assert parts["read"] is None
    drawn = {(r["way"], r["bags"]): r["extrapolated_from"] for r in documents["draw"]["records"]}
    assert drawn["loop", 2] is None
    assert drawn["loop", 300] == [8, 3000]
    assert drawn["blocked", 300] == [128, 3000]


def test_both_accountants_are_right(documents: dict[str, Any]) -> None:
    for record in documents["accountant"]["records"]:
        error = record["relative_error"]
        if record["way"].startswith("dp_accounting"):
            assert -1e-6 < error < 0.01
        else:
            assert abs(error) < 2e-8


def test_reports_show_every_record(documents: dict[str, Any], program: Program) -> None:
    report = program("report")
    for name, found in documents.items():
        shown = list(report.views(found))
        assert shown or not found["records"], name
        for view in shown:
            assert all(len(row) == len(view.headings) for row in view.rows)
            assert view.text().count("\n") == len(view.rows) + 1
            assert view.markdown().count("\n|") == len(view.rows) + 2


def test_losses_are_told(program: Program) -> None:
    record = {
        "table": "census",
        "rows": 10,
        "start": "file",
        "design_columns": 2,
        "times_ours": 0.5,
    }
    found = {
        "benchmark": "pass",
        "records": [
            {**record, "way": "tabmat"},
            {**record, "way": "read"},
            {**record, "way": "scipy", "times_ours": 2.0},
        ],
    }
    lines = program("report").losses([found])
    assert lines == ["tabmat, XᵀX of census-like, 10 rows, from the file: 0.50 × ours"]


def test_the_page_is_written_between_its_marks(
    documents: dict[str, Any], program: Program, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the plots need the extra plots")
    run, page = program("run"), tmp_path / "page.md"
    page.write_text(f"before\n{run.TOP}\nold\n{run.BOTTOM}\nafter\n", encoding="utf-8")
    extra = {"arguments": "", "minutes": 0.0}
    found = [document | extra for document in documents.values()]
    run.write_page(page, {"machine": program("machine").machine(), "benchmarks": found})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{run.BOTTOM}\nafter\n")
    assert "old" not in text.splitlines()
    for plots in run.PLOTS.values():
        for name in plots:
            assert f"plots/{name}.svg" in text
            assert (tmp_path / "plots" / f"{name}.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize("name", sorted(TOY))
def test_programs_take_the_options_that_a_run_gives(
    name: str,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        program(name).main()
    shown = capsys.readouterr().out
    for sizes in program("run").SIZES.values():
        given = {word for word in sizes[name].split() if word.startswith("--")} | {"--json"}
        assert given <= set(re.findall(r"--[a-z-]+", shown))
