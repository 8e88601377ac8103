"""What every engine does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from labeldp.features.accumulators import Fold

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, rows or None) opens a bar; the value it yields is told of finished rows."""


def quiet(task: str, rows: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    """A progress that shows nothing."""
    return nullcontext(lambda _rows: None)


class Engine(Protocol):
    """Passes over a source. Results are the same bytes on every engine."""

    @property
    def progress(self) -> Progress: ...

    @property
    def threads(self) -> int:
        """How many threads work here, where the release is drawn; 0: one for each core."""

    def apart(self) -> Engine:
        """An engine for another source, so that this one still remembers the rows of its own."""

    @property
    def run_pass(self) -> Fold:
        """One pass over all rows; what is tallied is no concern of an engine."""
