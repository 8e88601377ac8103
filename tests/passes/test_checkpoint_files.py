"""One checkpoint's file: what it holds, who may read it, and what is told of it."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.errors import InputError, LabelDPWarning
from labeldp.passes import checkpoint as module
from labeldp.passes.checkpoint import Checkpoint, Finished

FINISHED = Finished(
    [5, 7],
    ["missing"],
    [
        {"sums": np.array([[1, -2], [3, 2**62]]), "total": 2**80, "name": "x"},
        {"held": np.array([0.5]), "rows": 9},
    ],
)


@pytest.fixture(autouse=True)
def open_handed() -> Iterator[None]:
    """A process that would let everybody read everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def made(folder: Path | None, bound_to: Any = "these rows", task: str = "label sums") -> Checkpoint:
    return Checkpoint(folder, task, bound_to)


def plain(finished: Finished | None) -> Any:
    assert finished is not None
    shares = [
        {name: getattr(value, "tolist", lambda v=value: v)() for name, value in share.items()}
        for share in finished.shares
    ]
    return finished.rows, finished.flags, shares


def test_what_is_finished_is_there_again_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    checkpoint = made(folder)
    assert checkpoint.wanted
    assert checkpoint.load() is None
    checkpoint.save(FINISHED)
    (file,) = folder.iterdir()
    assert file.name == "label-sums.npz"
    assert (folder.stat().st_mode & 0o7777, file.stat().st_mode & 0o7777) == (0o700, 0o600)
    assert plain(made(folder).load()) == plain(FINISHED)
    checkpoint.finish()
    assert not list(folder.iterdir())
    checkpoint.finish()


def test_without_a_directory_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = made(None)
    assert not checkpoint.wanted
    checkpoint.save(FINISHED)
    assert checkpoint.load() is None
    checkpoint.finish()
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_pass_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path / "p").save(FINISHED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made(tmp_path / "p", "other rows").load() is None
        assert made(tmp_path / "p", task="label-sums").load() is None
    assert made(tmp_path / "p").load() is not None


def test_a_damaged_file_is_told_to_whoever_asks(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "p")
    file = tmp_path / "p" / "label-sums.npz"
    file.write_bytes(b"nonsense")
    with pytest.warns(LabelDPWarning) as told:
        assert checkpoint.load() is None
    (one,) = told
    assert str(one.message) == f"checkpoint {file} is damaged; the pass starts over"
    assert one.filename == __file__


def test_a_save_is_whole_on_disk_before_it_takes_the_place_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = made(tmp_path / "p")
    checkpoint.save(FINISHED)
    file = tmp_path / "p" / "label-sums.npz"
    before, synced = file.read_bytes(), []

    def fsync(number: int) -> None:
        synced.append(os.fstat(number).st_size)
        assert file.read_bytes() == before

    monkeypatch.setattr(os, "fsync", fsync)
    (tmp_path / "p" / "label-sums.new").write_bytes(b"left behind")
    checkpoint.save(Finished([1], [], []))
    assert synced == [file.stat().st_size]
    assert file.read_bytes() != before
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["label-sums.npz"]


def test_a_save_that_fails_leaves_the_last_one_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = made(tmp_path / "p")
    checkpoint.save(FINISHED)
    file = tmp_path / "p" / "label-sums.npz"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as refusal:
        checkpoint.save(Finished([1], [], []))
    assert str(refusal.value) == (
        f"checkpoint {file} was not written: No space left on device; free space, or run without "
        "`checkpoint`"
    )
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["label-sums.npz"]
    assert plain(checkpoint.load()) == plain(FINISHED)


@pytest.mark.parametrize(("folder", "saved"), [(None, False), ("p", False), ("p", True)])
def test_whoever_stops_a_pass_is_told_of_what_waits(
    folder: str | None, saved: bool, tmp_path: Path
) -> None:
    checkpoint = made(None if folder is None else tmp_path / folder)
    if saved:
        checkpoint.save(FINISHED)

    def stopped() -> None:
        with checkpoint.telling():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stop:
        stopped()
    file = tmp_path / "p" / "label-sums.npz"
    told = f"PRIVATE sums of labels wait in {file} for the same command to go on with; to give them"
    notes = getattr(stop.value, "__notes__", [])
    assert notes == ([f"{told} up: rm {file}"] if saved else [])


def test_where_files_have_no_such_modes_none_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    monkeypatch.setattr(os, "name", "nt")
    found = module._private(tmp_path / "open")
    monkeypatch.undo()
    assert found == tmp_path / "open"


def test_a_directory_that_fails_without_a_reason_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(Path, "mkdir", failing)
    with pytest.raises(InputError) as refusal:
        made(tmp_path / "p")
    words = f"checkpoint directory {tmp_path / 'p'}: it cannot be used; choose another"
    assert str(refusal.value) == words


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError) as refusal:
        made(tmp_path / "file" / "below")
    assert str(refusal.value) == (
        f"checkpoint directory {tmp_path / 'file' / 'below'}: Not a directory; choose another"
    )
    (tmp_path / "open").mkdir(mode=0o711)
    with pytest.raises(InputError) as refusal:
        made(tmp_path / "open")
    assert str(refusal.value) == (
        f"checkpoint directory {tmp_path / 'open'} is open to others; chmod 700 it"
    )
