"""Passes on a Spark cluster: executors add up the rows they hold.

Empty accumulators travel to an executor, and their states come back in plain values. States that
involve labels are private and exist only on the way. Executors draw nothing and know no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    merge_states,
    one_or_all,
    states_in_order,
)
from labeldp.passes.engine import Engine, LocalEngine, Progress, quiet
from labeldp.spark.progress import reported


@dataclass(frozen=True)
class SparkEngine:
    """Passes over a Spark data frame, where its partitions are."""

    progress: Progress = quiet
    threads: int = 0
    """On the driver, which draws the release; Spark has settings of its own for the passes."""

    def apart(self) -> SparkEngine:
        """It remembers no rows."""
        return self

    def run_pass(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        """Run a pass; accumulators that were made for certain rows refuse others."""
        asked = [accumulator.requirements for accumulator in accumulators]
        checks = [each.row_check for each in asked if each.row_check is not None]
        asked += [row_check.requirements for row_check, _ in checks]
        every = [*(row_check for row_check, _ in checks), *accumulators]
        results = self._results(task, source, combine(asked), every)
        for (_, is_so), result in zip(checks, results, strict=False):
            if not is_so(result):
                raise _other_rows()
        return one_or_all(results[len(checks) :])

    def _results(
        self,
        task: str,
        source: Source,
        requirements: PassRequirements,
        accumulators: Sequence[Accumulator[Any]],
    ) -> list[Any]:
        frame = _frame(source)
        if requirements.row_numbers:
            raise InputError(
                "rows on Spark have no numbers, so none can be named; use LocalEngine for bags"
            )
        check = requirements.label_check(source)
        totals = [accumulator.new() for accumulator in accumulators]
        rows = source.total_rows if requirements.features is None else requirements.features.rows
        with self.progress(task, rows) as advance, reported(frame, rows, advance):
            ask = partial(_part, totals, requirements)
            parts = over_parts(source, requirements.columns, ask, labels=requirements.labels)
        for states, flags in parts:  # one at a time: of wide tables many would not fit at once
            merge_states(totals, states)
            if check is not None:
                check.resume(flags)
        if check is not None:
            check.finish()
        return [total.result(lambda _row: None) for total in totals]


def _part(
    accumulators: Sequence[Accumulator[Any]], requirements: PassRequirements, source: Source
) -> tuple[list[Any], list[str]]:
    """Return the states of one part, and flags of wrong labels, which are told after all parts."""
    check = requirements.label_check(source)
    states = states_in_order(source, accumulators, requirements, check)
    return states, [] if check is None else check.raised


def _frame(source: Source) -> Any:
    if not isinstance(source.reader, ClusterReader):
        raise InputError(
            "SparkEngine reads Spark data frames; pass one to scan, for example "
            "scan(spark.read.parquet(path), ...)"
        )
    return source.reader.frame


def engine_for(source: Source) -> Engine:
    """Return the engine that can read a source, if nobody names one."""
    return SparkEngine() if source.reader.on_cluster else LocalEngine()


def _other_rows() -> DataError:
    """A frame changed: leverages of other rows would not bear out the promise."""
    return DataError(
        "the Spark data frame gives other rows each time it is read (a sample, a limit without "
        "an order, a table being written?); write it to a table and read that"
    )
