"""Partial sums on disk, so that an interrupted pass goes on where it stopped.

Sums are exact integers: those of the finished parts plus those of the rest are the sums of
all, the same bytes as without an interruption. A file is taken up again only for the very
same files, feature map and label grid, and is deleted when its pass has succeeded.

Partial sums of labels are as PRIVATE as the labels. They stand in a file that only its owner
may read, in a directory that only its owner may enter.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.errors import InputError
from labeldp.files import json_digest
from labeldp.source.labels import LabelCheck
from labeldp.statistics import FeatureGram, LabelMoments


@dataclass(frozen=True, repr=False)
class Totals:
    """Sums of some parts of a table; private if there are moments among them."""

    gram: FeatureGram | None
    moments: LabelMoments | None = None

    def __add__(self, other: Totals) -> Totals:
        return Totals(_plus(self.gram, other.gram), _plus(self.moments, other.moments))


class Checkpoint:
    """One pass's file in a private directory. Without a directory nothing is written."""

    def __init__(self, folder: Path | None, task: str, bound_to: Any, check: LabelCheck | None):
        self._key, self._check = json_digest([task, bound_to]), check
        self._path = None if folder is None else _private(folder) / f"{task.replace(' ', '-')}.npz"

    @property
    def wanted(self) -> bool:
        return self._path is not None

    def load(self) -> tuple[int, list[Totals]]:
        """How many parts are finished, and their sums (none or one)."""
        if self._path is None or not self._path.exists():
            return 0, []
        try:
            with np.load(self._path, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
            known = json.loads(bytes(arrays["known"]))
            if known["key"] != self._key:
                return 0, []
            totals = _from_arrays(known, arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError):
            return 0, []  # cut short by whatever stopped the pass: begin again
        if self._check is not None:
            self._check.resume(known["flags"])
        return int(known["done"]), [totals]

    def save(self, done: int, totals: Totals) -> None:
        """Replace the file by what is finished now."""
        if self._path is None:
            return
        known = {
            "key": self._key,
            "done": done,
            "flags": [] if self._check is None else self._check.raised,
            "gram": None if totals.gram is None else [totals.gram.rows, totals.gram.numbers],
            "moments": None if totals.moments is None else _to_plain(totals.moments),
        }
        arrays: dict[str, Any] = {"known": np.frombuffer(json.dumps(known).encode(), np.uint8)}
        if totals.gram is not None:
            arrays |= {"low": totals.gram.low, "high": totals.gram.high}
        buffer = BytesIO()
        np.savez(buffer, **arrays)
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(buffer.getbuffer())
        os.replace(fresh, self._path)

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


def _plus(one: Any, other: Any) -> Any:
    return None if one is None else one + other


def _to_plain(moments: LabelMoments) -> list[Any]:
    cross = [int(entry) for entry in moments.cross]
    return [moments.rows, cross, int(moments.total), int(moments.square)]


def _from_arrays(known: dict[str, Any], arrays: dict[str, Any]) -> Totals:
    gram = moments = None
    if known["gram"] is not None:
        rows, numbers = known["gram"]
        gram = FeatureGram(rows, arrays["low"], arrays["high"], tuple(numbers))
    if known["moments"] is not None:
        rows, cross, total, square = known["moments"]
        moments = LabelMoments(rows, np.array(cross, dtype=object), total, square)
    return Totals(gram, moments)
