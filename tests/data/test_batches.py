"""Rows in batches: put together, in parts, by their numbers, and in constant memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from labeldp import DataError, scan
from labeldp.data import readers
from labeldp.data.readers import merge_small_batches
from labeldp.data.source import take_rows
from labeldp.features.fit import fit_features


def batch(start: int, rows: int) -> pa.RecordBatch:
    """Rows with their numbers, and text whose dictionary is the batch's own."""
    numbers = range(start, start + rows)
    texts = pa.array([f"t{number % 7}" for number in numbers], pa.string()).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), texts], ["n", "t"])


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_joined_batches_are_few_and_hold_the_same_rows(sizes: list[int], rows: int) -> None:
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    found = list(merge_small_batches(map(batch, starts, sizes), rows))
    assert [n for piece in found for n in piece["n"].to_pylist()] == list(range(sum(sizes)))
    texts = [text for piece in found for text in piece["t"].to_pylist()]
    assert texts == [f"t{number % 7}" for number in range(sum(sizes))]
    assert all(len(piece) <= max(rows, *sizes) for piece in found)
    for one, other in pairwise(found):
        large = 2 * max(len(one), len(other)) > rows
        assert large or len(one) + len(other) > rows, "these two would have fitted together"


def test_batches_of_different_types_are_not_joined() -> None:
    other = pa.RecordBatch.from_pydict({"n": [1.0], "t": ["a"]})
    assert len(list(merge_small_batches([batch(0, 2), other, batch(2, 2)], 100))) == 3


def test_batches_of_narrow_codes_are_put_together() -> None:
    """Two dictionaries of 100 values fit 8 bits each, but not both."""

    def part(first: int) -> pa.RecordBatch:
        text = pa.array([f"v{k}" for k in range(first, first + 100)]).dictionary_encode()
        narrow = pa.DictionaryArray.from_arrays(text.indices.cast(pa.int8()), text.dictionary)
        return pa.RecordBatch.from_arrays([narrow], ["t"])

    rows = pa.Table.from_batches([part(0), part(100)])
    (found,) = scan(rows).feature_batches()
    assert found.column(0).to_pylist() == rows["t"].to_pylist()


@pytest.mark.parametrize("index", [pa.int8(), pa.uint32(), pa.int64()])
def test_batches_whose_dictionaries_hold_null_are_put_together(index: pa.DataType) -> None:
    def part(codes: list[int | None], values: list[str | None]) -> pa.RecordBatch:
        text = pa.DictionaryArray.from_arrays(pa.array(codes, index), pa.array(values))
        return pa.RecordBatch.from_arrays([text], ["t"])

    rows = pa.Table.from_batches(
        [part([0, 1, None], ["a", None]), part([1, 2, 0], [None, "b", "a"]), part([0], ["b"])]
    )
    (found,) = scan(rows).feature_batches()
    assert found.column(0).to_pylist() == ["a", None, None, "b", "a", None, "b"]


@pytest.mark.parametrize("unit", [1, 5, 12, 1000])
def test_small_files_share_a_part_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int
) -> None:
    monkeypatch.setattr(readers, "_PART_ROWS", unit)
    start = 0
    for place, rows in enumerate([3, 0, 4, 30, 2, 2, 2, 1]):
        table = pa.Table.from_batches([batch(start, rows)])
        pq.write_table(table, tmp_path / f"{place}.parquet", row_group_size=6)
        start += rows
    parts = scan(tmp_path).parts()
    pieces = [[n for b in part.feature_batches() for n in b["n"].to_pylist()] for part in parts]
    assert [*chain.from_iterable(pieces)] == list(range(start))
    assert [part.total_rows for part in parts] == [len(piece) for piece in pieces]
    assert len(parts) == {1: 11, 5: 8, 12: 4, 1000: 1}[unit]


LABELS = [None, 1.0, 2.0, None, float("nan"), 5.0, 6.0, None]
DATA = pa.table({"x": list(range(8)), "y": pa.array(LABELS)})
KEPT = [1, 2, 5, 6]


def values(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return list(chain.from_iterable(batch.column(0).to_pylist() for batch in batches))


@pytest.mark.parametrize("batch_rows", [1, 3, 8])
def test_rows_have_numbers_whether_or_not_some_are_dropped(batch_rows: int) -> None:
    every = scan(DATA.drop_columns(["y"]), batch_rows=batch_rows)
    left = scan(
        DATA, label="y", label_range=(0, 9), drop_missing_labels=True, batch_rows=batch_rows
    )
    check = left.label_check()
    shown = list(left.numbered_batches(["x"], check))
    check.finish()
    assert np.concatenate([numbers for numbers, _, _ in shown]).tolist() == KEPT
    assert values(batch for _, batch, _ in shown) == KEPT
    assert np.concatenate([labels for _, _, labels in shown]).tolist() == KEPT
    assert all(labels is None for _, _, labels in left.numbered_batches(["x"]))
    for rows in (every, left):
        found = list(take_rows(rows, ["x"], np.array(KEPT), None, of_data=True))
        assert values(batch for _, batch in found) == KEPT
        assert (found[0][0].start, found[-1][0].stop) == (0, 4)
    list(take_rows(every, ["x"], np.arange(8), 8))
    of_source = list(take_rows(left, ["x"], np.array([0, 3, 3]), 4))
    assert values(batch for _, batch in of_source) == [1, 6, 6]
    for rows, numbers, total, refusal in (
        (every, np.arange(9), None, "no row 8;"),
        (every, np.arange(7), 7, "have 8 rows but the release was made from 7"),
        (left, np.array([1, 2, 3]), None, "no row 3;"),
        (left, np.array([0, 1]), None, "no row 0;"),
    ):
        with pytest.raises(DataError, match=refusal):
            list(take_rows(rows, ["x"], numbers, total, of_data=True))


def peak(path: Path, groups: int) -> int:
    """Arrow's memory at most while a table of so many groups of rows is read."""
    rng, rows = np.random.default_rng(1), 10_000
    writer = None
    for _ in range(groups):
        towns = np.array([f"town {i}" for i in range(200)])[rng.integers(0, 200, rows)]
        table = pa.table({"a": rng.normal(size=rows), "k": towns, "y": rng.random(rows)})
        form = pq.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
        writer = writer or form(path, table.schema)
        writer.write_table(table)
    writer.close()
    pa.default_memory_pool().release_unused()
    base, most = pa.total_allocated_bytes(), 0
    source = scan(path, label="y", label_range=(0, 1), batch_rows=8_192)
    mapped = fit_features(source)
    for batch, _ in source.labelled_batches():
        mapped.encode(batch)
        most = max(most, pa.total_allocated_bytes() - base)
    return most


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_memory_does_not_grow_with_the_rows(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeldp.data.csv_stream.BLOCK", 1 << 18)
    small, large = (peak(tmp_path / f"{groups}.{form}", groups) for groups in (4, 20))
    assert large < 1.5 * small + 2e6, (small, large)
    assert large < 32e6


def test_an_arrow_file_is_mapped(tmp_path: Path) -> None:
    table = pa.table({"a": np.zeros(10**6), "b": np.arange(10**6) % 50})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=10**6)
    del table
    base, most = pa.total_allocated_bytes(), 0
    source = scan(tmp_path / "t.arrow")
    for batch in source.feature_batches():
        assert batch.num_rows <= source.batch_rows < 10**6
        most = max(most, pa.total_allocated_bytes() - base)
    assert most < 1e6
