"""Shares of a pass on disk, so that an interrupted pass goes on where it stopped.

Sums are exact integers: those of the finished parts plus those of the rest are the sums of
all, the same bytes as without an interruption. A file is taken up again only for the very
same files, feature map and label grid, and is deleted when its pass has succeeded.

Sums of labels are as PRIVATE as the labels. They stand in a file that only its owner may
read, in a directory that only its owner may enter.
"""

from __future__ import annotations

import json
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.errors import InputError, LabelDPWarning
from labeldp.io_util import json_digest


@dataclass(frozen=True, repr=False)
class Finished:
    """What a pass has so far: the rows of every finished part, what is wrong with their labels,
    and every tally's share of them. Private if labels are read."""

    rows: list[int]
    flags: list[str]
    shares: list[dict[str, Any]]


class Checkpoint:
    """One pass's file in a private directory. Without a directory nothing is written."""

    def __init__(self, folder: Path | None, task: str, bound_to: Any) -> None:
        self._path = None if folder is None else _private(folder) / f"{task.replace(' ', '-')}.npz"
        self._key = "" if folder is None else json_digest([task, bound_to])

    @property
    def wanted(self) -> bool:
        return self._path is not None

    def load(self) -> Finished | None:
        """What is finished, if there is a file that belongs to this pass."""
        if self._path is None or not self._path.exists():
            return None
        try:
            with np.load(self._path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            known = json.loads(bytes(arrays.pop("known")))
            if known["key"] != self._key:
                return None
            shares: list[dict[str, Any]] = known["shares"]
            for name, array in arrays.items():
                place, _, field = name.partition(" ")
                shares[int(place)][field] = array
            return Finished(known["rows"], known["flags"], shares)
        except Exception:  # whatever a damaged archive makes its parsers raise
            warnings.warn(
                f"checkpoint {self._path} is damaged; the pass starts over", LabelDPWarning, 2
            )
            return None

    def save(self, finished: Finished) -> None:
        """Replace the file by what is finished now."""
        if self._path is None:
            return
        arrays: dict[str, Any] = {}
        shares: list[dict[str, Any]] = []
        for place, share in enumerate(finished.shares):
            large = {name: value for name, value in share.items() if isinstance(value, np.ndarray)}
            arrays |= {f"{place} {name}": value for name, value in large.items()}
            shares.append({name: value for name, value in share.items() if name not in large})
        known = {"key": self._key, "rows": finished.rows, "flags": finished.flags, "shares": shares}
        arrays["known"] = np.frombuffer(json.dumps(known).encode(), np.uint8)
        buffer = BytesIO()
        np.savez(buffer, **arrays)
        self._replace(buffer.getbuffer())

    def _replace(self, content: Any) -> None:
        """The old file or the new one, on disk when this returns."""
        assert self._path is not None
        fresh = self._path.with_suffix(".new")
        try:
            fresh.unlink(missing_ok=True)
            mode = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            with os.fdopen(os.open(fresh, mode, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as problem:
            fresh.unlink(missing_ok=True)
            raise InputError(
                f"checkpoint {self._path} was not written: {problem.strerror}; free space, or run "
                "without `checkpoint`"
            ) from None

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Whoever stops the pass is told of the private sums that wait."""
        try:
            yield
        except BaseException as stop:
            if self._path is not None and self._path.exists():
                stop.add_note(
                    f"PRIVATE sums of labels wait in {self._path} for the same command to go on "
                    f"with; to give them up: rm {self._path}"
                )
            raise

    def finish(self) -> None:
        """The pass succeeded: nothing is left behind."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _private(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as problem:
        reason = problem.strerror or "it cannot be used"
        raise InputError(f"checkpoint directory {folder}: {reason}; choose another") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise InputError(f"checkpoint directory {folder} is open to others; chmod 700 it")
    return folder
