"""Synthetic stand-ins have the paper's shape, and depend on seed and position alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp.errors import InputError
from labeldp_paper.datasets import (
    CENSUS_LEVELS,
    CRITEO_LEVELS,
    DATASETS,
    census_like,
    generate,
    synthetic_stream,
)
from tests.paper.datasets.twins import residual, rows_of

STAND_INS = [name for name, dataset in DATASETS.items() if dataset.synthetic]
WIDTHS = {
    "synthetic-census": 401 + 1,
    "synthetic-census-labelled": 401 + 1,
    "synthetic-criteo": 68 + 3,
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", STAND_INS)
def test_residual_widths_and_range_are_the_papers(name: str, seed: int) -> None:
    """The residual mean square has a relative spread below 1 % between seeds and at this size."""
    dataset = DATASETS[name]
    rows = 300_000 if name == "synthetic-criteo" else 150_000
    found, width, labels = residual(synthetic_stream(name, rows, seed), dataset.label)
    assert dataset.residual_ms is not None
    assert found == pytest.approx(dataset.residual_ms, rel=0.02)
    assert width == WIDTHS[name]
    low, high = dataset.label_range
    assert labels.min() == low
    assert high - 1 < labels.max() <= high


def test_level_counts_add_up() -> None:
    assert sum(CENSUS_LEVELS.values()) == 401
    assert sum(CRITEO_LEVELS.values()) == 68


@pytest.mark.parametrize("name", STAND_INS)
def test_the_seed_decides(name: str) -> None:
    one, again, other = (rows_of(synthetic_stream(name, 500, seed)) for seed in (5, 5, 6))
    assert one == again
    assert one != other


@pytest.mark.parametrize("name", ["synthetic-census", "synthetic-census-labelled"])
def test_a_batch_does_not_depend_on_what_comes_after(name: str) -> None:
    short, long = (synthetic_stream(name, rows, 1) for rows in (1 << 17, 10**12))
    assert next(short).equals(next(long))


def test_batches_do_not_depend_on_those_before() -> None:
    """A generator made anew at a position draws what the stream draws there."""
    from labeldp_paper.datasets import synthetic_criteo

    size = synthetic_criteo._BATCH
    batches = list(synthetic_criteo.criteo_sales(3 * size, 1))
    model = np.random.default_rng([1, 2018])
    shares = {n: synthetic_criteo._shares(model, s) for n, s in CRITEO_LEVELS.items()}
    effects = {n: model.uniform(-5.0, 5.0, s) for n, s in CRITEO_LEVELS.items()}
    for place in (2, 0, 1):
        stream = np.random.default_rng([1, 2018, place * size])
        again = synthetic_criteo._batch(stream, place * size, size, shares, effects)
        assert again.equals(batches[place])


def test_the_two_names_of_the_census_stand_in_are_one_law() -> None:
    named, coded = (
        rows_of(census_like(1000, 4)),
        rows_of(synthetic_stream("synthetic-census", 1000, 4)),
    )
    assert [row["WKSWORK1"] for row in named] == [row["WKSWORK1"] for row in coded]
    assert [int(row["OCC"]) for row in named] == [int(row["OCC"]) for row in coded]
    assert [int(row["SEX"]) + 1 for row in named] == [int(row["SEX"]) for row in coded]


@pytest.mark.parametrize("name", STAND_INS)
def test_files_say_that_they_are_synthetic(name: str, tmp_path: Path) -> None:
    made = generate(name, tmp_path / "t.parquet", 100)
    facts = pq.read_schema(tmp_path / "t.parquet").metadata
    assert facts[b"labeldp.synthetic"] == b"true"
    assert made.synthetic
    assert "synthetic" in DATASETS[name].title
    assert "synthetic" in DATASETS[name].licence


@pytest.mark.parametrize(
    ("name", "file", "rows", "message"),
    [
        ("synthetic-census", "t.csv", 10, r"must end in \.parquet or \.dat"),
        ("synthetic-criteo", "t.dat", 10, r"must end in \.parquet or \.tsv"),
        ("synthetic-census", "t.parquet", 0, "`rows` must be above 0"),
        ("criteo", "t.parquet", 10, "is not synthetic"),
        ("nothing", "t.parquet", 10, "there is no dataset 'nothing'"),
    ],
)
def test_requests_that_make_no_sense(
    name: str, file: str, rows: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        generate(name, tmp_path / file, rows)
    assert not list(tmp_path.iterdir())
