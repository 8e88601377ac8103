"""Many small files, and batches put together: the rows and their order stay."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from labeldp import scan
from labeldp.data import readers
from labeldp.data.batches import joined
from labeldp.data.source import _suitable_rows


def batch(start: int, rows: int) -> pa.RecordBatch:
    """Rows with their numbers, and text whose dictionary is the batch's own."""
    numbers = range(start, start + rows)
    texts = pa.array([f"t{number % 7}" for number in numbers], pa.string()).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), texts], ["n", "t"])


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_joined_batches_are_few_and_hold_the_same_rows(sizes: list[int], rows: int) -> None:
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    found = list(joined(map(batch, starts, sizes), rows))
    assert [n for piece in found for n in piece["n"].to_pylist()] == list(range(sum(sizes)))
    texts = [text for piece in found for text in piece["t"].to_pylist()]
    assert texts == [f"t{number % 7}" for number in range(sum(sizes))]
    assert all(len(piece) <= max(rows, *sizes) for piece in found)
    for one, other in pairwise(found):
        large = 2 * max(len(one), len(other)) > rows
        assert large or len(one) + len(other) > rows, "these two would have fitted together"


def test_batches_of_different_types_are_not_joined() -> None:
    other = pa.RecordBatch.from_pydict({"n": [1.0], "t": ["a"]})
    assert len(list(joined([batch(0, 2), other, batch(2, 2)], 100))) == 3


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
    source = scan(tmp_path)
    parts = source.parts()
    read = [n for part in parts for piece in part.feature_batches() for n in piece["n"].to_pylist()]
    assert read == list(range(start))
    assert [part.total_rows for part in parts] == [
        sum(len(piece) for piece in part.feature_batches()) for part in parts
    ]
    assert len(parts) == {1: 11, 5: 8, 12: 5, 1000: 1}[unit]


def test_batches_suit_the_table() -> None:
    assert _suitable_rows(8, 10**9) == _suitable_rows(1, None) == 1 << 18
    assert _suitable_rows(64, 10**9) == 1 << 17  # 64 MiB of doubles
    assert _suitable_rows(100_000, 10**9) == 1 << 12
    assert _suitable_rows(8, 1_000_000) == 1 << 16  # some for each thread


def test_batches_of_narrow_codes_are_put_together() -> None:
    """Two dictionaries of 100 values fit 8 bits each, but not both."""

    def part(first: int) -> pa.RecordBatch:
        text = pa.array([f"v{k}" for k in range(first, first + 100)]).dictionary_encode()
        narrow = pa.DictionaryArray.from_arrays(text.indices.cast(pa.int8()), text.dictionary)
        return pa.RecordBatch.from_arrays([narrow], ["t"])

    rows = pa.Table.from_batches([part(0), part(100)])
    (found,) = scan(rows).feature_batches()
    assert found.column(0).to_pylist() == rows["t"].to_pylist()


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint32(), pa.int64()])
def test_batches_whose_dictionaries_hold_null_are_put_together(index: pa.DataType) -> None:
    def part(codes: list[int | None], values: list[str | None]) -> pa.RecordBatch:
        text = pa.DictionaryArray.from_arrays(pa.array(codes, index), pa.array(values))
        return pa.RecordBatch.from_arrays([text], ["t"])

    rows = pa.Table.from_batches(
        [part([0, 1, None], ["a", None]), part([1, 2, 0], [None, "b", "a"]), part([0], ["b"])]
    )
    (found,) = scan(rows).feature_batches()
    assert found.column(0).to_pylist() == ["a", None, None, "b", "a", None, "b"]
