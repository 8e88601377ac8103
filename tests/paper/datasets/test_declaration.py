"""A dataset is what its module declares: one more declaration is one more dataset."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp_paper.datasets.catalogue import DATASETS
from labeldp_paper.datasets.declaration import Dataset, Model, Options
from tests.console import labeldp


def _draw(rows: int, seed: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"x": [float(seed)] * rows, "y": [1.0] * rows})]


def _write(batch: pa.RecordBatch, done: int, sink: BinaryIO) -> None:
    sink.write(f"{done} {batch.num_rows}\n".encode())


def _read(paths: list[Path], options: Options, watch: object) -> list[pa.RecordBatch]:  # noqa: ARG001
    rows = sum(int(path.read_text().split()[1]) for path in paths)
    return _draw(rows, int(options.log_base))


def _limits(options: Options) -> tuple[float, float]:
    return 0.0, options.log_base


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ("a toy", "files of toys", "ours", "y", _limits, ("x",), ())
    real = Dataset("toy", *facts, options=("log_base",), read=_read)  # type: ignore[arg-type]
    model = Model(_draw, _write, ".toy")  # type: ignore[arg-type]
    monkeypatch.setitem(DATASETS, "toy", real)
    monkeypatch.setitem(DATASETS, "synthetic-toy", Dataset("synthetic-toy", *facts, model=model))


@pytest.mark.usefixtures("toys")
def test_the_command_knows_it(tmp_path: Path) -> None:
    assert {"toy", "synthetic-toy"} <= {
        d["name"] for d in labeldp("datasets", "--json").json["datasets"]
    }
    original, table = tmp_path / "a.toy", tmp_path / "a.parquet"
    assert labeldp("datasets", "synthetic-toy", "--rows", 7, "--out", original).code == 0
    made = labeldp("datasets", "toy", original, "--log-base", 3, "--out", table, "--json").json
    assert (made["rows"], made["label"], made["label_range"]) == (7, "y", [0.0, 3.0])
    assert pq.read_table(table).column("x").to_pylist() == [3.0] * 7
    assert (
        "toy needs files of toys"
        in labeldp("datasets", "toy", "--out", tmp_path / "b.parquet").error
    )
    refused = labeldp("datasets", "synthetic-toy", "--log-base", 3, "--out", tmp_path / "b.parquet")
    assert "--log-base does not apply" in refused.error
    refused = labeldp("datasets", "synthetic-toy", "--out", tmp_path / "b.dat")
    assert "must end in .parquet or .toy or .toy.gz" in refused.error
