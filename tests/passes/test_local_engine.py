"""Threads, file layouts, batch sizes and memory change speed and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data import readers
from labeldp.data.source import Source, scan
from labeldp.errors import DataError
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.features.fit import fit_features
from labeldp.passes.accumulator import PassRequirements
from labeldp.passes.engine import BatchStream, LocalEngine, Memory
from tests.contracts.own_accumulators import WeightedGram
from tests.tables import RANGE, table

ROWS = 900


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a part of every 100 rows, so that small files have several."""
    monkeypatch.setattr(readers, "_PART_ROWS", 100)


def rows(missing: bool = False) -> pa.Table:
    data = table(ROWS, seed=5)
    heights = data["height"].to_numpy()
    gaps = np.random.default_rng(0).random(ROWS) < 0.1
    data = data.set_column(0, "height", pa.array(heights, mask=gaps))
    if missing:
        labels = data["label"].to_numpy()
        data = data.set_column(4, "label", pa.array(labels, mask=np.arange(ROWS) % 7 == 3))
    return data


def open_(data: Any, batch_rows: int = 65_536, missing: bool = False) -> Source:
    return scan(
        data,
        label="label",
        label_range=RANGE,
        batch_rows=batch_rows,
        drop_missing_labels=missing,
    )


def everything(source: Source, engine: LocalEngine) -> tuple[Any, ...]:
    """All that a release asks of an engine, as comparable values."""
    features = fit_features(source, run_pass=engine.run_pass)
    gram = engine.run_pass("feature sums", source, GramAccumulator(features))
    factor = verified_cholesky(gram, features)
    before = engine.run_pass("leverages", source, LeverageScan(features, factor))
    grid = LabelGrid.for_range(RANGE, intercept=True)
    again, moments = engine.run_pass(
        "label sums",
        source,
        GramAccumulator(features.keep(factor.kept)),
        LabelCrossProducts(features.keep(factor.kept), grid),
    )
    after = engine.run_pass("leverages", source, LeverageScan(features.keep(factor.kept), factor))
    assert again.digest() == gram.digest()
    assert after == before
    private = (tuple(moments.cross), moments.total, moments.square, moments.rows)
    return features, gram.digest(), before, private


def split(folder: Path, data: pa.Table, sizes: list[int], row_group: int) -> str:
    start = 0
    for index, size in enumerate(sizes):
        piece = data.slice(start, size)
        pq.write_table(piece, folder / f"{index:03d}.parquet", row_group_size=row_group)
        start += size
    assert start == data.num_rows
    return str(folder)


LAYOUTS = {
    "one row group": ([ROWS], ROWS),
    "row groups": ([ROWS], 64),
    "tiny files": ([25] * 36, 25),
    "one large file among small ones": ([10] * 10 + [ROWS - 200] + [10] * 10, 1000),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", [0, 4000, 1 << 29])
def test_nothing_but_the_rows_matters(
    tmp_path: Path, layout: str, budget: int, missing: bool
) -> None:
    data = rows(missing)
    want = everything(open_(data, missing=missing), LocalEngine(1))
    path = split(tmp_path, data, *LAYOUTS[layout])
    for threads, batch_rows in [(1, 65_536), (3, 50)]:
        engine = LocalEngine(threads, memory=Memory(budget))
        assert everything(open_(path, batch_rows, missing), engine) == want


def test_dictionary_and_plain_text_columns_give_the_same(tmp_path: Path) -> None:
    data = rows()
    want = everything(open_(data), LocalEngine(1))
    place_ = data.column_names.index("town")
    coded = data.set_column(place_, "town", data["town"].dictionary_encode())
    pq.write_table(coded, tmp_path / "a.parquet", row_group_size=100, use_dictionary=["town"])
    assert everything(open_(tmp_path / "a.parquet"), LocalEngine(2)) == want
    assert everything(open_(coded), LocalEngine(2)) == want


def test_features_in_memory_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = split(tmp_path, rows(), [ROWS], 100)
    asked: list[tuple[str, ...]] = []
    plain = readers.ParquetReader.batches

    def batches(self: Any, columns: Any, size: int) -> Iterator[pa.RecordBatch]:
        asked.append(tuple(columns))
        return plain(self, columns, size)

    monkeypatch.setattr(readers.ParquetReader, "batches", batches)
    everything(open_(path), LocalEngine(2))
    features, labels = ("height", "score", "colour", "town"), ("label",)
    assert sorted(set(asked)) == [features, labels]
    assert asked.count(features) == asked.count(labels) == ROWS // 100


def rewritten(path: Path, data: pa.Table) -> None:
    """The same file with other rows, as another program would leave it."""
    pq.write_table(data, path.with_suffix(".new"), row_group_size=100)
    os.replace(path.with_suffix(".new"), path)


def test_files_that_changed_between_passes_are_refused_until_they_are_looked_at_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    rewritten(path, rows())
    source, engine = open_(path), LocalEngine(2)
    features = fit_features(source, run_pass=engine.run_pass)
    digest = engine.run_pass("feature sums", source, GramAccumulator(features)).digest()
    scores = rows()["score"].to_numpy().copy()
    scores[3] += 1 if scores[3] < 500 else -1
    rewritten(path, rows().set_column(1, "score", pa.array(scores)))
    grid = LabelGrid.for_range(RANGE, intercept=True)
    sums = GramAccumulator(features), LabelCrossProducts(features, grid)
    with pytest.raises(DataError, match="the files changed"):
        engine.run_pass("label sums", source, *sums)
    gram, _ = engine.run_pass("label sums", open_(path), *sums)
    assert gram.digest() != digest


@pytest.mark.parametrize("how", ["other rows", "another time"])
def test_files_that_change_while_labels_are_read_are_refused(tmp_path: Path, how: str) -> None:
    """Whether or not they can still be read: the features in memory are of the old ones."""
    path = tmp_path / "a.parquet"
    rewritten(path, rows())

    @contextmanager
    def meddling(task: str, rows_: int | None) -> Iterator[Callable[[int], None]]:  # noqa: ARG001
        if task == "label sums" and how == "other rows":
            rewritten(path, rows().take(np.arange(ROWS)[::-1]))
        elif task == "label sums":
            os.utime(path, (0, 0))
        yield lambda _rows: None

    source, engine = open_(path), LocalEngine(2, meddling)
    features = fit_features(source, run_pass=engine.run_pass)
    grid = LabelGrid.for_range(RANGE, intercept=True)
    with pytest.raises(DataError, match="changed while"):
        engine.run_pass(
            "label sums", source, GramAccumulator(features), LabelCrossProducts(features, grid)
        )


def test_frames_are_not_kept_because_they_change_unseen() -> None:
    engine = LocalEngine(1)
    source = open_(rows())
    fit_features(source, run_pass=engine.run_pass)
    assert not engine.memory.holds_all(PassRequirements(source.names))


def test_another_source_replaces_what_is_kept(tmp_path: Path) -> None:
    path = split(tmp_path, rows(), [ROWS], 100)
    engine, one, two = LocalEngine(1), open_(path), open_(path)
    features = fit_features(one, run_pass=engine.run_pass)
    needs = GramAccumulator(features).requirements
    assert engine.memory.holds_all(needs)
    engine.memory.open(two)
    assert not engine.memory.holds_all(needs)


def telling(told: list[int]) -> Any:
    """A progress that tells how the last pass went."""

    @contextmanager
    def progress(_task: str, _rows: int | None) -> Iterator[Callable[[int], None]]:
        told.clear()
        yield told.append

    return progress


def test_what_is_known_of_rows_in_memory_is_not_computed_again(tmp_path: Path) -> None:
    told: list[int] = []
    source = open_(split(tmp_path, rows(), [ROWS], 100))
    engine = LocalEngine(2, telling(told))
    features = fit_features(source, run_pass=engine.run_pass)
    once = engine.run_pass("mine", source, WeightedGram(features))
    told.clear()
    assert engine.run_pass("mine", source, WeightedGram(features)) is once
    assert not told
    gram, again = engine.run_pass("both", source, GramAccumulator(features), WeightedGram(features))
    assert again is once
    assert gram.rows == sum(told) == ROWS


def test_bad_labels_are_refused_after_the_last_batch(tmp_path: Path) -> None:
    data = rows()
    labels = data["label"].to_numpy().copy()
    labels[0] = 11.0
    path = split(tmp_path, data.set_column(4, "label", pa.array(labels)), [ROWS], 100)
    told: list[int] = []
    source, engine = open_(path), LocalEngine(2, telling(told))
    features = fit_features(source, run_pass=engine.run_pass)
    with pytest.raises(DataError, match="outside the range"):
        engine.run_pass(
            "label sums",
            source,
            GramAccumulator(features),
            LabelCrossProducts(features, LabelGrid.for_range(RANGE, intercept=True)),
        )
    assert sum(told) == ROWS


def test_row_numbers_in_messages_are_those_of_the_table(tmp_path: Path) -> None:
    heights = np.linspace(1.0, 2.0, ROWS)
    heights[777] = np.inf
    path = split(tmp_path, pa.table({"height": heights}), [300, 600], 100)
    with pytest.raises(DataError, match="at row 778"):
        fit_features(scan(path), run_pass=LocalEngine(2).run_pass)


def rows_of(*numbers: int) -> tuple[pa.RecordBatch, None]:
    return pa.record_batch({"x": list(numbers)}), None


class TestBatchStream:
    def test_every_batch_is_given_once_with_its_first_row(self) -> None:
        parts = [[(0, rows_of(0, 1)), (2, rows_of(2))], [], [(9, rows_of(3)), (10, rows_of(4, 5))]]
        told: list[int] = []
        stream = BatchStream([iter(part) for part in parts], told.append)
        seen = {batch[0][0].as_py(): first for first, (batch, _) in stream}
        assert seen == {0: 0, 2: 2, 3: 9, 4: 10}
        assert sum(told) == 6

    def test_a_failure_reaches_the_caller_and_stops_the_others(self) -> None:
        def broken() -> Iterator[Any]:
            yield 0, rows_of(1)
            raise DataError("no")

        one = 0, rows_of(1)
        endless = (one for _ in iter(int, 1))
        stream = BatchStream([endless, broken()], lambda _rows: None)
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(lambda: sum(1 for _ in stream)) for _ in range(3)]
            assert sum(job.exception() is not None for job in waiting) == 1
