"""Interrupted sums: whom they are hidden from, and for what they are never taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, FeatureMap, InputError, LocalEngine, Source, scan
from labeldp.engines import local, memory
from labeldp.features import fit_features
from labeldp.source import readers
from labeldp.statistics import GramSum, LabelGrid, MomentSum
from tests.tables import RANGE, table

ROWS = 900
GRID = LabelGrid.for_range(RANGE, intercept=True)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of every 100 rows, and a checkpoint after every second one."""
    monkeypatch.setattr(readers, "_PART_ROWS", 100)
    monkeypatch.setattr(local, "_ROUND", 2)


class Stopped(KeyboardInterrupt):
    """Somebody pressed a key."""


@contextmanager
def interrupting(task: str, _: int | None) -> Iterator[Callable[[int], None]]:
    """A progress that stops the label sums half-way."""
    told = 0

    def advance(count: int) -> None:
        nonlocal told
        told += count
        if task == "label sums" and told >= ROWS // 2:
            raise Stopped

    yield advance


def file_with(folder: Path, first: float | None) -> Path:
    """A file whose first label is `first`; a second column of labels runs the other way."""
    data = table(ROWS, seed=5)
    labels = data["label"].to_pylist()
    data = data.set_column(4, "label", pa.array([first, *labels[1:]], pa.float64()))
    data = data.append_column("other", pa.array(10.0 - np.array(labels)))
    pq.write_table(data, folder / "a.parquet", row_group_size=100)
    return folder / "a.parquet"


def source(path: Path, label: str = "label", **options: Any) -> Source:
    spare = "other" if label == "label" else "label"
    return scan(path, label=label, label_range=RANGE, drop=(spare,), **options)


def features_of(path: Path) -> FeatureMap:
    """Of all rows: the same for every source below, so that nothing else tells them apart."""
    public = scan(path, drop=("label", "other"))
    return fit_features(public, fold=LocalEngine(1).fold)


def sums(
    rows: Source, features: FeatureMap, folder: Path | None, **options: Any
) -> tuple[Any, ...]:
    engine = LocalEngine(1, memory=memory.Memory(0), checkpoint=folder, **options)
    _, moments = engine.fold("label sums", rows, GramSum(features), MomentSum(features, GRID))
    return moments.rows, tuple(moments.cross), moments.total, moments.square


def interrupted(rows: Source, features: FeatureMap, folder: Path) -> None:
    with pytest.raises(Stopped):
        sums(rows, features, folder, progress=interrupting)
    assert [path.name for path in folder.iterdir()] == ["label-sums.npz"]


@pytest.mark.parametrize(
    ("first", "option", "words"),
    [
        (11.0, "clip", "outside the range"),
        (None, "drop_missing_labels", "missing values"),
    ],
)
def test_leniency_with_labels_does_not_outlive_an_interruption(
    tmp_path: Path, first: float | None, option: str, words: str
) -> None:
    """A bad label that was let pass before the interruption is refused where it may not."""
    path, private = file_with(tmp_path, first), tmp_path / "private"
    features = features_of(path)
    interrupted(source(path, **{option: True}), features, private)
    with pytest.raises(DataError, match=words):
        sums(source(path), features, private)


def test_sums_of_another_column_are_not_taken_up(tmp_path: Path) -> None:
    path, private = file_with(tmp_path, 5.0), tmp_path / "private"
    features = features_of(path)
    interrupted(source(path), features, private)
    want = sums(source(path, "other"), features, None)
    assert sums(source(path, "other"), features, private) == want
    assert want != sums(source(path), features, None)


@pytest.mark.parametrize("bit", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001])
def test_a_directory_with_any_door_open_to_others_is_refused(tmp_path: Path, bit: int) -> None:
    """Group or all, to read, to write or to enter: one is enough."""
    path, folder = file_with(tmp_path, 5.0), tmp_path / "open"
    features = features_of(path)
    folder.mkdir()
    folder.chmod(0o700 | bit)
    with pytest.raises(InputError, match="open to others; chmod 700"):
        sums(source(path), features, folder)
    assert not list(folder.iterdir())
    folder.chmod(0o700)
    assert sums(source(path), features, folder) == sums(source(path), features, None)
