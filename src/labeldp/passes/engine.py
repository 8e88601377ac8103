"""Engines run passes. The local one: threads read parts of the table, and states are merged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from queue import LifoQueue
from typing import Any, Protocol

from labeldp.data.source import Source
from labeldp.errors import DataError, at_least, to_int
from labeldp.passes.accumulator import (
    Accumulator,
    Batch,
    PassRequirements,
    RunPass,
    combine,
    states_of,
)
from labeldp.passes.memory import Memory
from labeldp.threads import thread_count

_MOST_STATE_BYTES = 1 << 30
"""Bytes that the accumulators of all threads may take."""

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, rows or None) opens a bar; what it yields is told of finished rows."""


def quiet(task: str, rows: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    """A progress that shows nothing."""
    return nullcontext(lambda _rows: None)


class Engine(Protocol):
    """Runs passes over a source. Results are the same bytes on every engine."""

    @property
    def progress(self) -> Progress: ...

    def apart(self) -> Engine:
        """Return an engine for one pass over another source; this one keeps its rows in memory."""

    @property
    def threads(self) -> int:
        """How many threads work here, where the release is drawn; 0: one for each core."""

    @property
    def run_pass(self) -> RunPass:
        """Runs accumulators over all rows and returns their results."""


@dataclass(frozen=True)
class LocalEngine:
    """Threads over parts of the table. No setting can change a result."""

    threads: int = 0
    """How many; 0 means one for each core."""
    progress: Progress = quiet
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
    """Where features stay between passes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", to_int("threads", self.threads))
        at_least(0, threads=self.threads)

    def apart(self) -> LocalEngine:
        """Return the same with a memory of its own, which keeps nothing."""
        return replace(self, memory=Memory(0))

    def run_pass(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        """Run accumulators over all rows; what is known of rows in memory is not computed again."""
        self.memory.open(source)
        required = [accumulator.requirements for accumulator in accumulators]
        requirements = combine(required)
        remembered = self.memory.known_results(requirements)
        # Nothing that depends on labels is remembered.
        keys = [() if each.labels else each.cache_keys for each in required]
        results = [remembered.get(own[0]) if own else None for own in keys]
        unknown = [place for place, result in enumerate(results) if result is None]
        if unknown:
            needed = combine([required[place] for place in unknown])
            totals = [accumulators[place].new() for place in unknown]
            computed = self._results(task, source, needed, totals)
            for place, result in zip(unknown, computed, strict=True):
                results[place] = result
        answers = zip(keys, results, strict=True)
        self.memory.remember({key: one for own, one in answers for key in own}, requirements)
        return results[0] if len(results) == 1 else tuple(results)

    def _results(
        self,
        task: str,
        source: Source,
        requirements: PassRequirements,
        totals: Sequence[Accumulator[Any]],
    ) -> list[Any]:
        """Let every thread add some of the batches, merge their states, return the results."""
        memory, check = self.memory, source.label_check() if requirements.labels else None
        sizes = [part.total_rows or 0 for part in memory.parts]
        parts = [memory.read(number, requirements, check) for number in range(len(sizes))]
        if source.drop_missing_labels:
            # Rows without labels are left out, so a number follows only from all rows before.
            parts = [chain.from_iterable(parts)]
        starts = accumulate(sizes, initial=0)
        numbered = [_numbered(part, start) for part, start in zip(parts, starts, strict=False)]
        # Fewer threads if the states are large.
        most = max(1, _MOST_STATE_BYTES // max(1, requirements.state_bytes))
        count = min(thread_count(self.threads), most)
        with self.progress(task, source.total_rows) as advance, ThreadPoolExecutor(count) as pool:
            stream = BatchStream(numbered, advance)
            # Each thread adds the batches that it gets from the stream to states of its own.
            jobs = [
                pool.submit(states_of, totals, requirements.features, stream) for _ in range(count)
            ]
            try:
                states = [job.result() for job in jobs]
            except DataError:
                memory.check_unchanged()  # the better explanation, if it is one
                raise
            finally:
                stream.stop()  # after an error or an interrupt the other threads end soon
        if check is not None:
            # Labels of files that changed may belong to other rows than the features in memory.
            memory.check_unchanged()
            # Only now, after the last row, may anything be said about labels.
            check.finish()
        for of_thread in states:
            for total, state in zip(totals, of_thread, strict=True):
                total.merge(state)
        return [total.result(int) for total in totals]


def _numbered(batches: Iterator[Batch], first: int) -> Iterator[tuple[int, Batch]]:
    """Yield batches with the numbers of their first rows."""
    for batch in batches:
        yield first, batch
        first += batch[0].num_rows


class BatchStream:
    """Batches of several parts, each given once to whichever thread asks, with its first row.

    A thread takes an open part that nobody is reading, or opens the next one, or, when all are
    open, waits for one to come free. So many row groups are decoded side by side, and a single
    huge one (or a CSV file, or a frame) is decoded by one thread at a time while the others add
    what was read. Every thread holds one batch, whatever the layout of the files.
    """

    def __init__(
        self, parts: Sequence[Iterator[tuple[int, Batch]]], advance: Callable[[int], None]
    ) -> None:
        """`advance` is told of added rows."""
        self._advance, self._stopped = advance, False
        # Last in, first out: a part that is open comes before one that is not.
        self._free: LifoQueue[Iterator[tuple[int, Batch]] | None] = LifoQueue()
        for part in reversed(parts):
            self._free.put(part)
        self._unfinished, self._lock = len(parts), threading.Lock()
        if not parts:
            self.stop()

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        while (part := self._free.get()) is not None and not self._stopped:
            try:
                item = next(part, None)
            except BaseException:
                self.stop()
                raise
            if item is None:
                with self._lock:
                    self._unfinished -= 1
                    if not self._unfinished:
                        self.stop()
                continue
            self._free.put(part)
            yield item
            self._advance(item[1][0].num_rows)
        self._free.put(None)  # the next thread that waits ends too

    def stop(self) -> None:
        """Let all threads end after the batch that they have."""
        self._stopped = True
        self._free.put(None)
