"""Passes on this machine: threads read parts of the table, and their shares are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError, at_least, to_int
from labeldp.features.accumulators import (
    Accumulator,
    Fold,
    Pair,
    PassRequirements,
    add_up,
    merge_into,
    results_of,
    together,
)
from labeldp.passes.checkpoint import Checkpoint, Finished
from labeldp.passes.memory import Memory
from labeldp.passes.protocol import Engine, Progress, quiet
from labeldp.passes.streams import Streams
from labeldp.threads import workers

MOST_THREADS = 1024
_SUMS = 1 << 30
"""Bytes that the sums of all threads may take."""
_ROUND = 8
"""Parts between two checkpoints: some million rows, or as many small files."""

Part = Callable[[], Iterable[Pair]]
"""Opens a part of the table."""


@dataclass(frozen=True)
class LocalEngine:
    """Threads over parts of the table. No knob can change a result."""

    threads: int = 0
    """How many; 0 means one for each core."""
    progress: Progress = quiet
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
    """Where features stay between passes."""
    checkpoint: Path | None = None
    """A private directory in which interrupted sums wait to be resumed (see `checkpoint.py`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", to_int("threads", self.threads))
        at_least(0, threads=self.threads)
        if self.threads > MOST_THREADS:
            raise InputError(
                f"`threads` must be at most {MOST_THREADS}, not {self.threads}; 0 is one a core"
            )

    @property
    def run_pass(self) -> Fold:
        """One pass over all rows (see `labeldp.features.accumulators`)."""
        return self._fold

    def apart(self) -> LocalEngine:
        """With a memory of its own."""
        return replace(self, memory=Memory(), checkpoint=None)

    def _fold(self, task: str, source: Source, /, *tallies: Accumulator[Any]) -> Any:
        """What is known of rows in memory is not tallied again."""
        self.memory.open(source)
        asked = [tally.needs for tally in tallies]
        needs, keys = together(asked), [None if each.labels else each.key for each in asked]
        less = [None if each.labels else each.answers for each in asked]
        known = self.memory.known(needs)
        fresh = [place for place, key in enumerate(keys) if key not in known]
        results = [known.get(key) for key in keys]
        if fresh:
            some = _Pass(
                self,
                task,
                source,
                together([asked[place] for place in fresh]),
                [tallies[place].new() for place in fresh],
            )
            for place, result in zip(fresh, some.results(), strict=True):
                results[place] = result
        self.memory.remember(dict(zip([*less, *keys], [*results, *results], strict=True)), needs)
        return results_of(results)


class _Pass:
    """One pass over the parts of a source: the totals so far, and the rows of every part."""

    def __init__(
        self,
        engine: LocalEngine,
        task: str,
        source: Source,
        needs: PassRequirements,
        totals: Sequence[Accumulator[Any]],
    ) -> None:
        self._engine, self._task, self._source = engine, task, source
        self._needs, self._totals = needs, totals
        self._check = needs.check(source)
        self._sizes = [part.total_rows or 0 for part in engine.memory.parts]
        self._parts: list[Part] = [
            partial(engine.memory.read, number, needs, self._check)
            for number in range(len(self._sizes))
        ]
        if needs.numbered and source.drop_missing_labels:
            # numbers then follow only from all rows before
            self._parts = [partial(chain.from_iterable, (part() for part in self._parts))]
        self._starts = np.cumsum([0, *self._sizes])
        self._rows: list[int] = []
        """Of the parts that are finished, so that other parts' rows can be numbered."""

    def results(self) -> list[Any]:
        """In rounds if there is a checkpoint, each saved when it is finished."""
        checkpoint = self._checkpoint()
        self._resume(checkpoint.load())
        step = _ROUND if checkpoint.wanted else len(self._parts)
        progress = self._engine.progress(self._task, self._source.total_rows)
        with checkpoint.telling(), progress as advance:
            advance(sum(self._rows))
            while len(self._rows) < len(self._parts):
                self._round(self._parts[len(self._rows) :][:step], advance)
                checkpoint.save(self._finished)
        checkpoint.finish()
        if self._check is not None:
            self._engine.memory.check_unchanged()
            self._check.finish()
        return [total.result(self._row) for total in self._totals]

    def _round(self, parts: Sequence[Part], advance: Callable[[int], None]) -> None:
        """Let every thread tally some of the batches; fewer threads if their sums are large."""
        most = max(1, _SUMS // max(1, self._needs.room))
        count = min(workers(self._engine.threads), most)
        streams = Streams(parts, lambda pair: int(pair[0].num_rows), advance)
        with ThreadPoolExecutor(count) as pool, streams.stopping():
            jobs = [pool.submit(self._shares, streams) for _ in range(count)]
            try:
                shares = [job.result() for job in jobs]
            except DataError:
                self._engine.memory.check_unchanged()  # the better explanation, if it is one
                raise
        for each in shares:
            merge_into(self._totals, each)
        self._rows += streams.rows

    def _shares(self, streams: Streams[Pair]) -> list[Any]:
        """What one thread's batches showed."""
        starts, fresh = self._starts[len(self._rows) :], [total.new() for total in self._totals]
        numbered = ((int(starts[part]) + row, *pair) for part, row, pair in streams)
        add_up(fresh, self._needs.features, numbered)
        return [tally.share() for tally in fresh]

    def _row(self, number: int) -> int:
        """The row of the table, rows that were left out not counted."""
        part = int(np.searchsorted(self._starts[: len(self._rows)], number, side="right")) - 1
        return sum(self._rows[:part]) + number - int(self._starts[part])

    def _checkpoint(self) -> Checkpoint:
        """Bound to all that the sums depend on; a frame changes unseen and has none."""
        source, state, bound_to = self._source, self._source.state(), self._needs.bound_to
        folder = self._engine.checkpoint
        if folder is None or state is None or bound_to is None:
            return Checkpoint(None, self._task, None)
        options = [source.label, source.clip, source.drop_missing_labels, source.person]
        return Checkpoint(folder, self._task, [state, self._sizes, options, bound_to()])

    @property
    def _finished(self) -> Finished:
        flags = [] if self._check is None else self._check.raised
        return Finished(self._rows, flags, [total.share() for total in self._totals])

    def _resume(self, finished: Finished | None) -> None:
        if finished is None:
            return
        self._rows = finished.rows
        merge_into(self._totals, finished.shares)
        if self._check is not None:
            self._check.resume(finished.flags)


def engine_for(source: Source) -> Engine:
    """The engine that can read a source, if nobody names one."""
    made = source.reader.engine
    return LocalEngine() if made is None else made()
