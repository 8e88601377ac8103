"""fit --plots: files and refusals."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import LABEL
from tests.console import labeldp
from tests.extras import extra
from tests.tables import table


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plots") / "data.parquet"
    pq.write_table(table(2000), path)
    return path


def test_a_fit_is_shown(data: Path, tmp_path: Path) -> None:
    extra("matplotlib")
    budget = (*LABEL, "--epsilon", 4, "--delta", 1e-6, "--anyway")
    assert labeldp("release", data, *budget, "--out", tmp_path / "r").code in (0, 1)
    done = labeldp("fit", tmp_path / "r", "--plots", tmp_path / "pictures")
    assert done.code == 0, done
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"column-01.svg", "column-01.png"} <= names
    again = labeldp("fit", tmp_path / "r", "--plots", tmp_path / "pictures")
    assert again.code == 2
    assert "exists" in again.error


def test_the_remedy_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    asked = ("fit", tmp_path / "nowhere", "--plots", tmp_path / "p")
    assert "labeldp[plots]" in labeldp(*asked).error
    assert not (tmp_path / "p").exists()
