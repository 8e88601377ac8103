"""Passes on a Spark cluster: executors add up the rows they hold.

Empty accumulators travel to an executor, and their states come back in plain values. States that
involve labels are private and exist only on the way. Executors draw nothing and know no budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from labeldp.data.cluster import ClusterReader, over_parts
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.passes.accumulator import (
    Accumulator,
    PassRequirements,
    combine,
    one_or_all,
    states_in_order,
)
from labeldp.passes.engine import Engine, LocalEngine, Progress, quiet

_SECONDS = 0.5
"""Time between two questions how far a job is."""


@dataclass(frozen=True)
class SparkEngine:
    """Passes over a Spark data frame, where its partitions are."""

    progress: Progress = quiet
    threads: int = 0
    """On the driver, which draws the release; Spark has settings of its own for the passes."""

    def apart(self) -> SparkEngine:
        """Return itself: it remembers no rows."""
        return self

    def run_pass(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        """Run a pass; accumulators that were made for certain rows refuse others."""
        if not isinstance(source.reader, ClusterReader):
            raise InputError(
                "SparkEngine reads Spark data frames; pass one to scan, for example "
                "scan(spark.read.parquet(path), ...)"
            )
        required = [accumulator.requirements for accumulator in accumulators]
        checks = [each.row_check for each in required if each.row_check is not None]
        required += [row_check.requirements for row_check, _ in checks]
        requirements = combine(required)
        if requirements.row_numbers:
            raise InputError(
                "rows on Spark have no numbers, so none can be named; use LocalEngine for bags"
            )
        label_check = source.label_check() if requirements.labels else None
        totals = [each.new() for each in (*(row_check for row_check, _ in checks), *accumulators)]
        rows = source.total_rows if requirements.features is None else requirements.features.rows
        with (
            self.progress(task, rows) as advance,
            finished_rows(source.reader.frame, rows, advance),
        ):
            ask = partial(_part, totals, requirements)
            parts = over_parts(source, requirements.columns, ask, labels=requirements.labels)
        for states, flags in parts:  # one at a time: of wide tables many would not fit at once
            for total, state in zip(totals, states, strict=True):
                total.merge(state)
            if label_check is not None:
                label_check.raised.update(flags)
        if label_check is not None:
            label_check.finish()
        results = [total.result(lambda _row: None) for total in totals]
        for (_, is_same), result in zip(checks, results, strict=False):
            # A frame that changed: leverages of other rows would not support the guarantee.
            if not is_same(result):
                raise DataError(
                    "the Spark data frame gives other rows each time it is read (a sample, a "
                    "limit without an order, a table being written?); write it to a table and "
                    "read that"
                )
        return one_or_all(results[len(checks) :])


def _part(
    accumulators: Sequence[Accumulator[Any]], requirements: PassRequirements, source: Source
) -> tuple[list[Any], list[str]]:
    """Return the states of one part, and flags of wrong labels.

    Flags are only looked at after all parts: nothing is said about labels before the last row.
    """
    check = source.label_check() if requirements.labels else None
    states = states_in_order(source, accumulators, requirements, check)
    return states, [] if check is None else sorted(check.raised)


@contextmanager
def finished_rows(frame: Any, rows: int | None, advance: Callable[[int], None]) -> Iterator[None]:
    """Report the rows that finished tasks stand for to `advance` while a job over `frame` runs.

    The driver is asked now and then; executors report nothing. Where the number of rows is
    unknown, or the state of tasks (Spark Connect), nothing is reported.
    """
    try:
        tracker = None if rows is None else frame.sparkSession.sparkContext.statusTracker()
    except Exception:  # whatever Spark raises where there is none: a bar is no reason to fail
        tracker = None
    if rows is None or tracker is None:
        yield
        return
    ended, reported = threading.Event(), 0

    def report() -> None:
        nonlocal reported
        while not ended.wait(_SECONDS):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # a session that is being stopped
                continue
            known = [stage for stage in stages if stage is not None]
            done = sum(stage.numCompletedTasks for stage in known)
            share = done / max(1, sum(stage.numTasks for stage in known))
            fresh = int(rows * share) - reported
            if fresh > 0:
                advance(fresh)
                reported += fresh

    thread = threading.Thread(target=report, name="labeldp progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    advance(rows - reported)


def engine_for(source: Source) -> Engine:
    """Return the engine that can read a source, if nobody names one."""
    return SparkEngine() if source.reader.on_cluster else LocalEngine()
