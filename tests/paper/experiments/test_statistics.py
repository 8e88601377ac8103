"""What the paper prints about a table, of any table, against dense arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp_paper.datasets.projection import level_vector
from tests.console import labeldp


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    level = random.integers(0, 5, 300)
    number = random.uniform(3.0, 9.0, 300)
    label = np.rint(2 * number + level + random.normal(0, 2, 300)).clip(0)
    label[:30] = 0
    names = np.array(list("abcde"))[level]
    made = pa.table({"x": number, "c": names, "y": label})
    pq.write_table(made, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_statistics_of_a_table(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = labeldp(
        "reproduce", "statistics", "--data", table, "--label", "y", "--json", "--out", out
    )
    (row,) = said.json["results"]["statistics"]["rows"]
    seen = pq.read_table(table)
    x, y = seen["x"].to_numpy(), seen["y"].to_numpy()
    vectors = np.array([level_vector(0, "c", name, 3) for name in seen["c"].to_pylist()])
    both = np.column_stack([x, vectors, y])
    assert row["rows"] == 300
    assert row["zero_share"] == pytest.approx(np.mean(y == 0))
    assert (row["label_low"], row["label_high"]) == (y.min(), y.max())
    assert row["columns"] == 6
    assert row["projected_columns"] == 4
    assert row["row_norm"] == pytest.approx(np.linalg.norm(both, axis=1).max())
    least = np.linalg.svd(both, compute_uv=False)[-1]
    assert row["singular_value_ss"] == pytest.approx(least**2, rel=1e-6)
    for key, design in (
        ("projected_residual_ms", np.column_stack([np.ones(300), both[:, :-1]])),
        ("residual_ms", np.column_stack([x, seen["c"].to_numpy()[:, None] == list("abcde")])),
    ):
        fitted = design.astype(float) @ np.linalg.lstsq(design.astype(float), y, rcond=None)[0]
        assert row[key] == pytest.approx(np.mean((y - fitted) ** 2), rel=1e-4)


def test_one_table_needs_its_label_and_is_for_statistics(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--label" in labeldp("reproduce", "statistics", "--data", table, "--out", out).error
    other = labeldp("reproduce", "table1", "--data", table, "--out", out).error
    assert "reproduce statistics" in other
