"""The bar of a Spark pass moves as tasks finish, and ends at all rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from labeldp import SparkEngine, scan
from labeldp.exact.gram import GramAccumulator
from labeldp.features.fit import fit_features
from labeldp.spark import engine as spark_engine
from labeldp.spark.engine import finished_rows
from tests.tables import RANGE, table


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "_SECONDS", 0.005)


def frame_of(tracker: Any) -> Any:
    context = SimpleNamespace(statusTracker=lambda: tracker)
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))


def stage(tasks: int, done: int) -> Any:
    return SimpleNamespace(numTasks=tasks, numCompletedTasks=done)


def test_finished_tasks_stand_for_their_share_of_the_rows() -> None:
    """Two stages, one that is gone, and a count that falls when the next stage begins."""
    states = iter(
        [{}, {1: stage(4, 1), 2: stage(4, 1)}, {1: stage(4, 3), 2: None}, {3: stage(9, 0)}]
    )
    now: dict[int, Any] = {}
    seen, told = threading.Event(), []

    def active() -> list[int]:
        now.clear()
        now.update(next(states, {}))
        if not now:
            seen.set()
        return list(now)

    tracker = SimpleNamespace(getActiveStageIds=active, getStageInfo=now.get)
    with finished_rows(frame_of(tracker), 1000, told.append):
        seen.wait(10)
        seen.clear()
        seen.wait(10)
    assert told == [250, 500, 250]


def test_a_pass_that_fails_is_not_told_as_finished() -> None:
    told: list[int] = []
    tracker = SimpleNamespace(getActiveStageIds=list)
    with pytest.raises(KeyError), finished_rows(frame_of(tracker), 10, told.append):
        raise KeyError
    assert told == []


def test_the_bar_of_a_pass_ends_at_all_rows(spark: Any) -> None:
    told: dict[str, list[int]] = {}

    @contextmanager
    def progress(task: str, rows: int | None) -> Iterator[Callable[[int], None]]:
        told[task] = []
        assert rows == (None if task in ("levels and ranges", "numeric grids") else 600)
        yield told[task].append

    frame = spark.createDataFrame(table(600)).repartition(4)
    source, engine = scan(frame, label="label", label_range=RANGE), SparkEngine(progress)
    features = fit_features(source, run_pass=engine.run_pass)
    engine.run_pass("feature sums", source, GramAccumulator(features))
    assert sum(told.pop("feature sums")) == 600
    assert all(not rows for rows in told.values())
