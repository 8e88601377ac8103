"""Passes on a Spark cluster: executors tally what they hold; they draw nothing, know no budget.

What travels to an executor is empty tallies, and what comes back is the shares of its rows,
in plain values. Shares of labels are private, and exist on their way for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.features.accumulators import (
    Accumulator,
    Fold,
    PassRequirements,
    merge_into,
    results_of,
    shares_of,
    together,
)
from labeldp.passes.protocol import Progress, quiet
from labeldp.spark.progress import reported
from labeldp.spark.reader import ClusterReader, over_parts


@dataclass(frozen=True)
class SparkEngine:
    """Passes over a Spark data frame, where its partitions are."""

    progress: Progress = quiet
    threads: int = 0
    """On the driver, which draws the release; Spark has settings of its own for the passes."""

    @property
    def run_pass(self) -> Fold:
        """One pass over all rows (see `labeldp.features.accumulators`)."""
        return self._fold

    def apart(self) -> SparkEngine:
        """It remembers no rows."""
        return self

    def _fold(self, task: str, source: Source, /, *tallies: Accumulator[Any]) -> Any:
        """Tallies that were made for certain rows refuse others."""
        asked = [tally.needs for tally in tallies]
        proofs = [each.made_for for each in asked if each.made_for is not None]
        asked += [proof.needs for proof, _ in proofs]
        every = [*(proof for proof, _ in proofs), *tallies]
        results = self._results(task, source, together(asked), every)
        for (_, is_so), result in zip(proofs, results, strict=False):
            if not is_so(result):
                raise _other_rows()
        return results_of(results[len(proofs) :])

    def _results(
        self,
        task: str,
        source: Source,
        needs: PassRequirements,
        tallies: Sequence[Accumulator[Any]],
    ) -> list[Any]:
        frame = _frame(source)
        if needs.numbered:
            raise InputError(
                "rows on Spark have no numbers, so none can be named; use LocalEngine for bags"
            )
        check, totals = needs.check(source), [tally.new() for tally in tallies]
        rows = source.total_rows if needs.features is None else needs.features.rows
        with self.progress(task, rows) as advance, reported(frame, rows, advance):
            ask = partial(_part, totals, replace(needs, bound_to=None))
            parts = over_parts(source, needs.columns, ask, labels=needs.labels)
        for shares, flags in parts:  # one at a time: of wide tables many would not fit at once
            merge_into(totals, shares)
            if check is not None:
                check.resume(flags)
        if check is not None:
            check.finish()
        return [total.result(lambda _row: None) for total in totals]


def _part(
    tallies: Sequence[Accumulator[Any]], needs: PassRequirements, source: Source
) -> tuple[list[Any], list[str]]:
    """The shares of one part, and what is wrong with its labels: that is said for all at once."""
    check = needs.check(source)
    shares = shares_of(source, tallies, needs, check)
    return shares, [] if check is None else check.raised


def _frame(source: Source) -> Any:
    if not isinstance(source.reader, ClusterReader):
        raise InputError(
            "SparkEngine reads Spark data frames; pass one to scan, for example "
            "scan(spark.read.parquet(path), ...)"
        )
    return source.reader.frame


def _other_rows() -> DataError:
    """A frame changed: leverages of other rows would not bear out the promise."""
    return DataError(
        "the Spark data frame gives other rows each time it is read (a sample, a limit without "
        "an order, a table being written?); write it to a table and read that"
    )
