"""Rows by their numbers in the data, whether or not some are dropped."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from labeldp import DataError, scan
from labeldp.data.batches import take_numbered

LABELS = [None, 1.0, 2.0, None, float("nan"), 5.0, 6.0, None]
DATA = pa.table({"x": list(range(8)), "y": pa.array(LABELS)})
KEPT = [1, 2, 5, 6]


def values(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return list(chain.from_iterable(batch.column(0).to_pylist() for batch in batches))


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 8])
def test_dropped_rows_count(batch_rows: int) -> None:
    rows = scan(
        DATA, label="y", label_range=(0, 9), drop_missing_labels=True, batch_rows=batch_rows
    )
    check = rows.label_check()
    shown = list(rows.numbered_batches(["x"], check))
    check.finish()
    assert np.concatenate([numbers for numbers, _, _ in shown]).tolist() == KEPT
    assert values(batch for _, batch, _ in shown) == KEPT
    assert np.concatenate([labels for _, _, labels in shown]).tolist() == KEPT
    bare = [(numbers.tolist(), labels) for numbers, _, labels in rows.numbered_batches(["x"])]
    assert list(chain.from_iterable(numbers for numbers, _ in bare)) == KEPT
    assert all(labels is None for _, labels in bare)


@pytest.mark.parametrize("batch_rows", [1, 3, 8])
def test_rows_are_taken_by_number(batch_rows: int) -> None:
    wanted = np.array(KEPT)
    every = scan(DATA.drop_columns(["y"]), batch_rows=batch_rows)
    left = scan(
        DATA, label="y", label_range=(0, 9), drop_missing_labels=True, batch_rows=batch_rows
    )
    for rows in (every, left):
        found = list(take_numbered(rows, ["x"], wanted, whole=False))
        assert values(batch for _, batch in found) == KEPT
        assert (found[0][0].start, found[-1][0].stop) == (0, 4)
    list(take_numbered(every, ["x"], np.arange(8), whole=True))
    for rows, numbers, whole in (
        (every, np.arange(9), False),
        (every, np.arange(7), True),
        (left, np.array([1, 2, 3]), False),
        (left, np.array([0, 1]), False),
    ):
        with pytest.raises(DataError, match="that the release names"):
            list(take_numbered(rows, ["x"], numbers, whole=whole))
