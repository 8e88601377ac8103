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
    states_of,
)
from labeldp.passes.engine import Engine, LocalEngine, Progress, quiet


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
        label_check = source.label_check() if requirements.labels else None
        totals = [each.new() for each in (*(row_check for row_check, _ in checks), *accumulators)]
        with self.progress(task, None):
            ask = partial(part_states, totals, requirements)
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
        results = results[len(checks) :]
        return results[0] if len(results) == 1 else tuple(results)


def part_states(
    accumulators: Sequence[Accumulator[Any]], requirements: PassRequirements, source: Source
) -> tuple[list[Any], list[str]]:
    """Return the states of one part, and flags of wrong labels.

    Flags are only looked at after all parts: nothing is said about labels before the last row.
    """
    check = source.label_check() if requirements.labels else None
    batches = source.numbered_batches(requirements.columns, check)
    numbered = ((int(numbers[0]), (rows, labels)) for numbers, rows, labels in batches)
    states = states_of(accumulators, requirements.features, numbered)
    return states, [] if check is None else sorted(check.raised)


def engine_for(source: Source) -> Engine:
    """Return the engine that can read a source, if nobody names one."""
    return SparkEngine() if source.reader.on_cluster else LocalEngine()
