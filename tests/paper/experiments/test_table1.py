"""Table 1 and the random-projection comparison: printed, recomputed, and flagged."""

from __future__ import annotations

import re
from pathlib import Path

import mpmath
import pytest

from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments import EXPERIMENTS
from labeldp_paper.experiments.printed import PARAMETERS, TABLE1
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.table1 import residual_interval
from tests.console import labeldp


def theorem(rows: int, bound: float, residual: float, epsilon: int, delta: float) -> int:
    """Theorem 1 in 60 digits, straight from the paper's text."""
    with mpmath.workdps(60):
        c0, log = mpmath.mpf("0.145"), mpmath.log(2 / mpmath.mpf(str(delta)))
        ratio = mpmath.mpf(str(residual)) / mpmath.mpf(str(bound)) ** 2
        if rows < 16 / ratio * max(1, 25 * log**2 / (c0 * epsilon) ** 2):
            return 0
        return int(epsilon * ratio * rows / 160 * min(1, 2 * c0 * epsilon / (5 * log)))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    out = tmp_path_factory.mktemp("table1") / "out"
    document = labeldp("reproduce", "table1", "--json", "--out", out).json
    assert document["note"].startswith("An experiment, not a private release")
    return document["results"]["table1"]["rows"]


def test_every_printed_row_is_there_with_the_theorem(rows: list[dict]) -> None:
    assert {(r["dataset"], r["epsilon"]): r["paper_printed"] for r in rows} == {
        (name, epsilon): bags for name, column in TABLE1.items() for epsilon, bags in column.items()
    }
    for row in rows:
        said = PARAMETERS[row["dataset"]]
        expected = theorem(
            said.rows, said.label_bound, said.residual_ms, row["epsilon"], said.delta
        )
        assert row["theorem"] == expected, row


def test_exact_values(rows: list[dict]) -> None:
    exact = {(r["dataset"], r["epsilon"]): r["exact_worst_case"] for r in rows}
    assert [exact["census", e] for e in (1, 2, 6, 10)] == [61_364, 228_839, 1_735_265, 4_279_111]
    assert [exact["criteo", e] for e in (6, 10)] == [4_154, 9_884]


def test_flags_are_the_rows_that_disagree_and_say_why(rows: list[dict]) -> None:
    flagged = {(r["dataset"], r["epsilon"]) for r in rows if r["disagrees"]}
    assert flagged == {("census", 4)} | {("criteo", e) for e in TABLE1["criteo"]}
    for row in rows:
        assert bool(row["reason"]) == row["disagrees"]
        assert row["disagrees"] == (row["theorem"] != row["paper_printed"])
    reasons = {(r["dataset"], r["epsilon"]): r["reason"] for r in rows}
    assert "3,953" in reasons["census", 4]
    assert "B_Y = 127" in reasons["criteo", 6]
    assert "rows here" in reasons["criteo", 11]
    assert "the theorem gives 89" in reasons["criteo", 12]


def test_the_criteo_column_follows_from_half_the_bound() -> None:
    low, high = residual_interval("criteo", 63.5)
    assert 195.5 < low < high < 196.2
    said = PARAMETERS["criteo"]
    middle = (low + high) / 2
    for epsilon, printed in TABLE1["criteo"].items():
        assert theorem(said.rows, 63.5, middle, epsilon, said.delta) == printed


def test_notes_say_where_the_criteo_column_starts(tmp_path: Path, quiet: Progress) -> None:
    notes = " ".join(EXPERIMENTS["table1"](Run(tmp_path, quiet, small=True)).notes)
    low, high = residual_interval("criteo", 63.5)
    said = [float(x) for x in re.findall(r"γ from ([\d.]+) to ([\d.]+)", notes)[0]]
    assert low <= said[0] < low + 1e-4
    assert high - 1e-4 < said[1] < high
    assert "fails at ε = 5" in notes
    assert "holds at ε = 6 (89 bags)" in notes


def test_random_projection_allows_no_bag(tmp_path: Path, quiet: Progress) -> None:
    result = EXPERIMENTS["random-projection"](Run(tmp_path, quiet, small=True))
    assert {row["random_projection"] for row in result.rows} == {0}
    for row in result.rows:
        assert row["needed_singular_value_ss"] > row["singular_value_ss"]
