"""A plan file is released once: a note beside it, before labels are read, says that it was.

Every release costs its budget again, and without a ledger nothing else would remember. A run that
is refused or stopped has published nothing and takes its note back, unless it was refused by a
measurement: tried until one is lucky, that would say nothing any more. One that was killed cannot,
and may have left what it drew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.errors import InputError, LabelDPError, SpentError
from labeldp.io_util import path_problem

if TYPE_CHECKING:
    from labeldp.mechanisms.plans import Plan

UNNOTICED = "so that a second release would go unnoticed; keep a `ledger`, or copy the plan"


@contextmanager
def mark_plan_released(plan: Plan, out: Path | None, *, again: bool) -> Iterator[None]:
    """Around the run of a plan, if it was read from a file, into `out` or into memory."""
    path = plan.path
    if path is None:
        yield
        return
    marker, seal = path.with_name(path.name + ".released"), plan.to_json()["seal"]
    notes = _read(marker)
    if seal in notes and not again:
        raise InputError(
            f"{path} was released before ({marker.name} says so), and every release costs its "
            "budget again; keep a `ledger`, or say `again=True`"
        )
    _write(marker, [*notes, seal])
    try:
        yield
    except SpentError:
        raise
    except (LabelDPError, KeyboardInterrupt, MemoryError):
        if out is None or not out.exists():
            _write(marker, notes)
        raise


def _read(marker: Path) -> list[str]:
    reason = path_problem(marker)
    try:
        if reason is not None:
            raise ValueError(reason)
        notes = marker.read_text(encoding="utf-8").split() if marker.exists() else []
        if not all(re.fullmatch("[0-9a-f]{64}", seal) for seal in notes):
            raise ValueError("something else")
        return notes
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it holds no notes"
        raise InputError(f"{marker} cannot be read ({reason or why}), {UNNOTICED}") from None


def _write(marker: Path, notes: list[str]) -> None:
    try:
        if notes:
            with marker.open("w", encoding="utf-8") as file:
                file.write("".join(f"{seal}\n" for seal in notes))
                file.flush()
                os.fsync(file.fileno())
        else:
            marker.unlink()
    except OSError as problem:
        raise InputError(f"{marker} cannot be written ({problem.strerror}), {UNNOTICED}") from None
