"""How far a Spark job is: the driver is asked now and then, executors report nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_EVERY = 0.5
"""Seconds between two questions."""


@contextmanager
def reported(frame: Any, rows: int | None, advance: Callable[[int], None]) -> Iterator[None]:
    """Tell `advance` of the rows that finished tasks stand for while a job over `frame` runs.

    Where the number of rows is unknown, or the state of tasks (Spark Connect), nothing is told.
    """
    tracker = None if rows is None else _tracker(frame)
    if rows is None or tracker is None:
        yield
        return
    ended, told = threading.Event(), 0

    def tell() -> None:
        nonlocal told
        while not ended.wait(_EVERY):
            fresh = int(rows * _share(tracker)) - told
            if fresh > 0:
                advance(fresh)
                told += fresh

    teller = threading.Thread(target=tell, name="labeldp progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
    advance(rows - told)


def _tracker(frame: Any) -> Any:
    try:
        return frame.sparkSession.sparkContext.statusTracker()
    except Exception:  # whatever Spark says where there is none: a bar is no reason to fail
        return None


def _share(tracker: Any) -> float:
    """Of the tasks of all stages at work, those that are finished."""
    try:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # a session that is being stopped
        return 0.0
    known = [stage for stage in stages if stage is not None]
    tasks = sum(stage.numTasks for stage in known)
    return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0
