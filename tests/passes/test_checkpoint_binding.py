"""Interrupted sums: whom they are hidden from, and for what they are never taken up again."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, FeatureMap, InputError, LocalEngine, Source, scan
from labeldp.data import readers
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.person_norms import PersonScan
from labeldp.features.fit import fit_features
from labeldp.passes import local, memory
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
    return fit_features(public, run_pass=LocalEngine(1).run_pass)


def sums(
    rows: Source, features: FeatureMap, folder: Path | None, **options: Any
) -> tuple[Any, ...]:
    engine = LocalEngine(1, memory=memory.Memory(0), checkpoint=folder, **options)
    _, moments = engine.run_pass(
        "label sums", rows, GramAccumulator(features), LabelCrossProducts(features, GRID)
    )
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


def test_persons_go_on_where_they_were_and_not_as_other_persons(tmp_path: Path) -> None:
    """Two columns of ids: one of few persons, one of a person for every row."""
    path, private = file_with(tmp_path, 5.0), tmp_path / "private"
    data = pq.read_table(path).append_column("few", pa.array([k % 7 for k in range(ROWS)]))
    data = data.append_column("many", pa.array(range(ROWS)))
    pq.write_table(data, path, row_group_size=100)
    features = fit_features(
        scan(path, drop=("label", "other", "few", "many")), run_pass=LocalEngine(1).run_pass
    )

    def rows(person: str) -> Source:
        return scan(path, label="label", label_range=RANGE, person=person)

    def most(person: str, **options: Any) -> list[int]:
        engine = LocalEngine(1, memory=memory.Memory(0), checkpoint=private, **options)
        tallies = LabelCrossProducts(features, GRID), PersonScan(features)
        _, seen = engine.run_pass("label sums", rows(person), *tallies)
        return [int(most) for most in seen.largest]

    with pytest.raises(Stopped):
        most("few", progress=interrupting)
    assert [path.name for path in private.iterdir()] == ["label-sums.npz"]
    assert most("many") == [0, 1]
    with pytest.raises(Stopped):
        most("few", progress=interrupting)
    assert most("few") == [0, -(-ROWS // 7)]


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


def damage(content: bytes) -> Iterator[bytes]:
    """Cut short, emptied, of another kind, and flipped at thirty places."""
    yield from (b"", b"PK", content[: len(content) // 2], content[:-1], b"[1, 2]")
    for place in np.random.default_rng(0).integers(0, len(content), 30):
        yield content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


def test_a_damaged_file_is_said_and_not_taken_up(tmp_path: Path) -> None:
    path, private = file_with(tmp_path, 5.0), tmp_path / "private"
    features, rows = features_of(path), source(path)
    interrupted(rows, features, private)
    file, want = private / "label-sums.npz", sums(rows, features, None)
    whole = file.read_bytes()
    said = 0
    for content in damage(whole):
        file.write_bytes(content)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert sums(rows, features, private) == want
        said += any("is damaged; the pass starts over" in str(each.message) for each in found)
        assert not list(private.iterdir())
    assert said > 25, "a few flips are of no consequence"


def test_a_full_disk_under_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, private = file_with(tmp_path, 5.0), tmp_path / "private"
    features = features_of(path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; free space, or run without"):
        sums(source(path), features, private)
    assert not list(private.iterdir())
