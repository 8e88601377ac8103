"""Categories as random projections: public, seeded, the same however the table is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from labeldp_paper.datasets.declaration import Options
from labeldp_paper.datasets.demo_table import CENSUS_LEVELS
from labeldp_paper.datasets.making import convert, generate
from labeldp_paper.datasets.projection import dimensions, level_vector, projected
from labeldp_paper.datasets.synthetic_criteo import CRITEO_LEVELS
from tests.paper.datasets.twins import rows_of


@pytest.mark.parametrize(
    ("levels", "size"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (141, 8), (224, 8)]
)
def test_dimensions(levels: int, size: int) -> None:
    assert dimensions(levels) == size


@given(st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=40), st.integers(1, 7))
def test_cutting_the_table_does_not_matter(values: list[str], cut: int) -> None:
    whole = pa.record_batch({"c": values, "y": list(range(len(values)))})
    parts = [whole.slice(start, cut) for start in range(0, len(values), cut)]
    one = rows_of(projected(lambda: [whole], ["c"], 9))
    assert rows_of(projected(lambda: parts, ["c"], 9)) == one
    size = dimensions(len(set(values)))
    for row, value in zip(one, values, strict=True):
        vector = level_vector(9, "c", value, size)
        assert [row[f"c_{place + 1}"] for place in range(size)] == vector.tolist()


def test_vectors_are_gaussian_and_differ_between_seeds_columns_and_levels() -> None:
    """10,000 entries: mean and variance within 4.5 standard errors (false alarm below 1e-5)."""
    entries = np.concatenate([level_vector(0, "c", str(i), 8) for i in range(1250)]) * 8**0.5
    assert abs(entries.mean()) < 4.5 / 100
    assert abs(entries.var() - 1) < 4.5 * 2**0.5 / 100
    vectors = {
        tuple(level_vector(*key, 4))
        for key in [(0, "c", "a"), (1, "c", "a"), (0, "d", "a"), (0, "c", "b")]
    }
    assert len(vectors) == 4


def test_missing_is_a_level() -> None:
    batch = pa.record_batch({"c": pa.array(["a", None, "b"]).dictionary_encode()})
    rows = rows_of(projected(lambda: [batch], ["c"], 0))
    assert len({tuple(row.values()) for row in rows}) == 3
    assert all(value is not None for row in rows for value in row.values())


@pytest.mark.parametrize(
    ("name", "levels", "others"),
    [("synthetic-census", CENSUS_LEVELS, 2), ("synthetic-criteo", CRITEO_LEVELS, 4)],
)
def test_stand_ins_project_to_logarithms(
    name: str, levels: dict[str, int], others: int, tmp_path: Path
) -> None:
    made = generate(name, tmp_path / "t.parquet", 60_000, 2, encoding="projection")
    assert not made.categorical
    width = sum(dimensions(size) for size in levels.values())
    assert len(made.numeric) + 1 == width + others


def test_reading_and_generating_project_alike(census_file: Path, tmp_path: Path) -> None:
    generate("synthetic-census", tmp_path / "a.parquet", 2000, 3, encoding="projection")
    keep = Options(keep_zero_weeks=True)
    convert(
        "census-1940",
        [census_file],
        tmp_path / "b.parquet",
        encoding="projection",
        seed=3,
        options=keep,
    )
    assert rows_of(tmp_path / "a.parquet") == rows_of(tmp_path / "b.parquet")


def test_levels_that_do_not_occur_do_not_count() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["a", "b", "c", "d"]))
    rows = rows_of(projected(lambda: [pa.record_batch({"c": column})], ["c"], 0))
    assert list(rows[0]) == ["c_1"]
    assert rows[1]["c_1"] == level_vector(0, "c", "c", 1)[0]
