"""Engines run passes. The local one: threads read parts of the table, and states are merged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError, at_least, to_int
from labeldp.passes.accumulator import (
    Accumulator,
    LabelledRows,
    PassRequirements,
    RunPass,
    add_rows,
    combine,
    merge_states,
    one_or_all,
)
from labeldp.passes.memory import Memory
from labeldp.threads import thread_count

MOST_THREADS = 1024
_MOST_STATE_BYTES = 1 << 30
"""Bytes that the accumulators of all threads may take."""

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, rows or None) opens a bar; what it yields is told of finished rows."""
Part = Callable[[], Iterable[LabelledRows]]
"""Opens a part of the table."""


def quiet(task: str, rows: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    """A progress that shows nothing."""
    return nullcontext(lambda _rows: None)


class Engine(Protocol):
    """Runs passes over a source. Results are the same bytes on every engine."""

    @property
    def progress(self) -> Progress: ...

    def apart(self) -> Engine:
        """Return an engine for another source, so that this one keeps its own rows in memory."""

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
        if self.threads > MOST_THREADS:
            raise InputError(
                f"`threads` must be at most {MOST_THREADS}, not {self.threads}; 0 is one a core"
            )

    def apart(self) -> LocalEngine:
        """Return the same with a memory of its own."""
        return replace(self, memory=Memory())

    @property
    def run_pass(self) -> RunPass:
        """Run accumulators over all rows; what is known of rows in memory is not computed again."""
        return self._run_pass

    def _run_pass(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        self.memory.open(source)
        required = [accumulator.requirements for accumulator in accumulators]
        requirements = combine(required)
        keys = [None if each.labels else each.cache_key for each in required]
        smaller = [None if each.labels else each.also_answers for each in required]
        known = self.memory.known(requirements)
        unknown = [place for place, key in enumerate(keys) if key not in known]
        results = [known.get(key) for key in keys]
        if unknown:
            run = _LocalPass(
                self,
                source,
                combine([required[place] for place in unknown]),
                [accumulators[place].new() for place in unknown],
            )
            for place, result in zip(unknown, run.results(task), strict=True):
                results[place] = result
        answers = dict(zip([*smaller, *keys], [*results, *results], strict=True))
        self.memory.remember(answers, requirements)
        return one_or_all(results)


class _LocalPass:
    """One pass over the parts of a source."""

    def __init__(
        self,
        engine: LocalEngine,
        source: Source,
        requirements: PassRequirements,
        totals: Sequence[Accumulator[Any]],
    ) -> None:
        self._engine, self._source = engine, source
        self._requirements, self._totals = requirements, totals
        self._check = requirements.label_check(source)
        sizes = [part.total_rows or 0 for part in engine.memory.parts]
        self._parts: list[Part] = [
            partial(engine.memory.read, number, requirements, self._check)
            for number in range(len(sizes))
        ]
        if requirements.row_numbers and source.drop_missing_labels:
            # Rows without labels are left out, so a number follows only from all rows before.
            self._parts = [partial(chain.from_iterable, (part() for part in self._parts))]
        # Before the pass the numbers of a part's rows are known from the file; what rows were
        # left out is known after it, and `_row` takes them off.
        self._starts = np.cumsum([0, *sizes])
        self._rows: list[int] = []

    def results(self, task: str) -> list[Any]:
        with self._engine.progress(task, self._source.total_rows) as advance:
            self._run(advance)
        if self._check is not None:
            # Labels of files that changed may belong to other rows than the features in memory.
            self._engine.memory.check_unchanged()
            # Only now, after the last row, may anything be said about labels.
            self._check.finish()
        return [total.result(self._row) for total in self._totals]

    def _run(self, advance: Callable[[int], None]) -> None:
        """Let every thread add some of the batches; fewer threads if their states are large."""
        most = max(1, _MOST_STATE_BYTES // max(1, self._requirements.state_bytes))
        count = min(thread_count(self._engine.threads), most)
        stream = BatchStream(self._parts, advance)
        with ThreadPoolExecutor(count) as pool, stream.stopping():
            jobs = [pool.submit(self._states, stream) for _ in range(count)]
            try:
                states = [job.result() for job in jobs]
            except DataError:
                self._engine.memory.check_unchanged()  # the better explanation, if it is one
                raise
        for each in states:
            merge_states(self._totals, each)
        self._rows = stream.rows

    def _states(self, stream: BatchStream) -> list[Any]:
        """Return the states after the batches that one thread got."""
        fresh = [total.new() for total in self._totals]
        numbered = ((int(self._starts[part]) + row, *batch) for part, row, batch in stream)
        add_rows(fresh, self._requirements.features, numbered)
        return [accumulator.state() for accumulator in fresh]

    def _row(self, number: int) -> int:
        """Return the row of the table, rows that were left out not counted."""
        part = int(np.searchsorted(self._starts[: len(self._rows)], number, side="right")) - 1
        return sum(self._rows[:part]) + number - int(self._starts[part])


class BatchStream(Iterable[tuple[int, int, LabelledRows]]):
    """Batches of several parts, each given once to whichever thread asks.

    A thread takes an open part that nobody is reading, or opens the next one, or, when all are
    open, waits for one to come free. So many row groups are decoded side by side, and a single
    huge one (or a CSV file, or a frame) is decoded by one thread at a time while the others add
    what was read. Every thread holds one batch, whatever the layout of the files.

    With each batch come the part and the number of the batch's first row within it.
    """

    def __init__(self, parts: Sequence[Part], advance: Callable[[int], None]) -> None:
        self._parts, self._advance = parts, advance
        self._changed = threading.Condition()
        self._free: list[tuple[int, Iterator[LabelledRows]]] = []
        self._opened = self._busy = 0
        self._failed = False
        self.rows = [0] * len(parts)
        """Given so far, of every part."""

    def __iter__(self) -> Iterator[tuple[int, int, LabelledRows]]:
        while (stream := self._take()) is not None:
            part, batches = stream
            try:
                batch = next(batches, None)
            except BaseException:
                self._give_back(None, failed=True)
                raise
            if batch is None:
                self._give_back(None)
                continue
            first, size = self.rows[part], batch[0].num_rows
            self.rows[part] += size
            self._give_back(stream)
            yield part, first, batch
            self._advance(size)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let the threads end soon if the block is left by an error or an interrupt."""
        try:
            yield
        except BaseException:
            with self._changed:
                self._failed = True
                self._changed.notify_all()
            raise

    def _take(self) -> tuple[int, Iterator[LabelledRows]] | None:
        with self._changed:
            while not self._failed:
                if self._free:
                    self._busy += 1
                    return self._free.pop()
                if self._opened < len(self._parts):
                    part = self._opened
                    self._opened += 1
                    self._busy += 1
                    return part, iter(self._parts[part]())
                if not self._busy:
                    return None
                self._changed.wait()
            return None

    def _give_back(
        self, stream: tuple[int, Iterator[LabelledRows]] | None, failed: bool = False
    ) -> None:
        with self._changed:
            self._busy -= 1
            self._failed |= failed
            if stream is not None:
                self._free.append(stream)
            self._changed.notify_all()
