"""Tiny grids end to end: every cell has an ε or a reason, and files agree with each other."""

from __future__ import annotations

import re
import socket
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp import pictures
from labeldp.errors import LabelDPWarning, MissingExtraError
from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments import EXPERIMENTS
from labeldp_paper.experiments.page import write_page
from labeldp_paper.experiments.result import Result
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.writing import body, versions, write
from tests.console import labeldp

FACTS = {"profile": "small", "seed": 0, "versions": versions(), "seconds": 1.0}
FAST = ("figure1", "sampled")
SLOW = tuple(pytest.param(n, marks=pytest.mark.slow) for n in ("figure2", "noisy", "bags-table"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, quiet: Progress) -> Run:
    return Run(tmp_path_factory.mktemp("run"), quiet, small=True)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("experiments do not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def result_of(name: str, run: Run) -> Result:
    return EXPERIMENTS[name](run)


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_every_cell_has_an_epsilon_or_a_reason(name: str, run: Run) -> None:
    result = result_of(name, run)
    assert result.rows
    assert "SYNTHETIC" in result.data
    for row in result.rows:
        epsilon = row["epsilon"]
        assert epsilon is None or np.isfinite(epsilon)
        assert epsilon is not None or row["reason"].startswith("no privacy: ")
        assert row.get("mse") is not None or row["reason"]
    for table in result.tables:
        for line in table.lines:
            assert len(line) == len(table.header)
            assert all(line), line


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_parquet_and_markdown_hold_the_same_numbers(name: str, run: Run, tmp_path: Path) -> None:
    result = result_of(name, run)
    write(result, tmp_path, FACTS, plots=False)
    read = pq.read_table(tmp_path / f"{name}.parquet")
    assert b"not a private release" in read.schema.metadata[b"labeldp.experiment"]
    assert b"SYNTHETIC" in read.schema.metadata[b"labeldp.experiment"]
    errors = [error for error in read.column("mse").to_pylist() if error is not None]
    assert len(read) == len(result.rows)
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert "An experiment, not a private release" in text
    shown = [
        float(x.replace(",", "")) for x in re.findall(r"\| ([\d.,]+(?:e\+\d+)?)(?= ± | \|)", text)
    ]
    for error in errors:
        assert np.isclose(error, shown, rtol=5e-3).any(), error


def test_results_are_the_same_again(run: Run, quiet: Progress, tmp_path: Path) -> None:
    again = Run(tmp_path, quiet, small=True)
    assert result_of("figure1", again) == result_of("figure1", run)
    other = Run(tmp_path, quiet, small=True, seed=1)
    assert result_of("figure1", other).rows != result_of("figure1", run).rows


def test_trends_show(run: Run) -> None:
    rows = result_of("figure1", run).rows
    paper = [row["mse"] for row in rows if row["accountant"].startswith("paper")]
    assert paper[0] > paper[3] > paper[-1]
    ours = [row for row in rows if row["accountant"].startswith("exact")]
    for row in ours:
        assert row["mse"] < 1.01 * ours[-1]["mse"]
        assert row["forecast_low"] <= row["forecast"] <= row["forecast_high"]


def test_labels_bought_today_stand_beside_the_papers_mechanism(run: Run) -> None:
    """5,000 rows: shaped-flag adds less than the noise that makes bags of 16 private."""
    result = result_of("sampled", run)
    captions = [table.caption for table in result.tables]
    assert sum("what the same ε buys today" in caption for caption in captions) == 2
    for name in ("criteo", "census"):
        mine = [row for row in result.rows if row["dataset"] == name and row["epsilon"] == 1.0]
        ours = [row["mse"] for row in mine if row.get("mechanism") == "shaped-flag"]
        bags = [row["mse"] for row in mine if row.get("form") == "ε = 1"]
        assert len(ours) == 1
        assert ours[0] < min(bags)


def test_pages_and_pictures(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = result_of("figure1", run)
    write(result, run.out, FACTS, plots=True)
    for suffix in ("svg", "png"):
        assert 1_000 < (run.out / f"figure1.{suffix}").stat().st_size < 200_000
    page = tmp_path / "experiments.md"
    pages = []
    for _ in range(2):
        write_page([result], page, run)
        pages.append((page.read_bytes(), (tmp_path / "experiments" / "figure1.svg").read_bytes()))
        write(result, run.out, FACTS, plots=True)
    assert pages[0] == pages[1]
    text = page.read_text(encoding="utf-8")
    assert "SYNTHETIC" in text
    assert f"(experiments/figure1.svg)\n\n{result.glances['figure1']}\n" in text
    assert "minutes of processor time" in text
    assert "\n".join(body(result, "experiments/", pictures=True)).strip() in text


def test_without_matplotlib_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"labeldp\[plots\]"):
        pictures.need_matplotlib()


def test_real_data_are_skipped_with_a_note(run: Run, tmp_path: Path, quiet: Progress) -> None:
    absent = result_of("real-data", run)
    assert "LABELDP_REAL_DATA" in str(absent.skipped)
    empty = EXPERIMENTS["real-data"](Run(tmp_path, quiet, small=True, tables=tmp_path))
    assert "none of the tables" in str(empty.skipped)
    write(absent, tmp_path, FACTS, plots=False)
    assert "Skipped" in (tmp_path / "real-data.md").read_text(encoding="utf-8")


def test_poor_releases_of_experiments_are_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tables say how poor they are."""

    def poor(_run: Run) -> Result:
        warnings.warn("hardly of use", LabelDPWarning, stacklevel=1)
        return Result("table1", "a title", "none", skipped="nothing to show")

    monkeypatch.setitem(EXPERIMENTS, "table1", poor)
    done = labeldp("reproduce", "table1", "--no-plots", "--out", tmp_path / "out")
    assert (done.code, "hardly of use" in done.err) == (0, False)


def test_refusals(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "random-projection" in labeldp("reproduce", "table9", "--out", out).error
    both = labeldp("reproduce", "table1", "--full", "--quick", "--out", out).error
    assert "--full and --quick" in both
    assert "reproduce all" in labeldp("reproduce", "table1", "--docs", "x.md", "--out", out).error
    missing = labeldp("reproduce", "table1", "--census", tmp_path / "no.parquet", "--out", out)
    assert "labeldp datasets" in missing.error
