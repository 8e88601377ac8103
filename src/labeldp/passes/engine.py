"""Engines run passes. The local one: threads read parts of the table, and states are merged.

A release passes over the features several times. The first pass that reads them keeps them in
memory, as many parts as fit, and later passes read only the rest. The first pass that encodes them
keeps their codes instead, which take less room and need no look-ups. While all rows are kept, so
are the results computed from them (sums, leverages, norms): the same rows would give the same
again. Only public features are kept, never labels.

What is kept is used only while the files are what they were (size, times, number on disk):
`Memory.open` sees to that, and a pass that pairs kept features with labels asks again at its end.
Should a file change within a tick of the clock all the same, labels might be paired with other
rows' features. That spoils the fit, not the guarantee: it holds for any labels given the features
that were summed, and those are the ones whose leverages or norms are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, repeat
from queue import LifoQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import avoid_large_pages, narrow_integers
from labeldp.data.columns import is_text_type
from labeldp.data.files import FileState
from labeldp.data.labels import LabelCheck
from labeldp.data.source import Source
from labeldp.errors import DataError, at_least, to_int
from labeldp.kernels import keep_freed_memory
from labeldp.passes.accumulator import (
    Accumulator,
    Batch,
    Labels,
    PassRequirements,
    RunPass,
    combine,
    states_of,
)
from labeldp.threads import thread_count

BUDGET = 1 << 30
"""Bytes. The 132 million rows of the paper's census, packed, take two thirds of them."""
_MOST_STATE_BYTES = 1 << 30
"""Bytes that the accumulators of all threads may take."""

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, rows or None) opens a bar; what it yields is told of finished rows."""


def quiet(task: str, rows: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    """A progress that shows nothing."""
    return nullcontext(lambda _rows: None)


# ---- features kept between passes


class _KeptPart(NamedTuple):
    """A part in memory: some raw columns (`form` None), or all that one packed form needs."""

    columns: frozenset[str]
    form: object
    batches: list[Any]


class Memory:
    """Feature batches of one source at a time, by part, and results computed from all of them."""

    def __init__(self, budget: int = BUDGET) -> None:
        keep_freed_memory()
        avoid_large_pages()
        self._budget = budget
        self._lock = threading.Lock()
        self._forget(None, None)

    def __reduce__(self) -> tuple[type[Memory], tuple[int]]:
        """A copy, such as another process is given, begins empty."""
        return type(self), (self._budget,)

    def open(self, source: Source) -> None:
        """Turn to a source; what is kept of another one, or of older files, is dropped."""
        state = source.state()
        if state is not None and source.seen not in (None, state):
            raise _changed()
        if self._source is not source or self._state != state or state is None:
            self._forget(source, state)

    def _forget(self, source: Source | None, state: tuple[FileState, ...] | None) -> None:
        self._source, self._state = source, state
        self.parts = () if source is None else source.parts()
        self._kept: dict[int, _KeptPart] = {}
        self._sizes: dict[int, int] = {}  # bytes by part, also of parts that are being read
        self._full = False
        self._results: dict[object, object] = {}

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `open`."""
        if self._source is not None and self._source.state() != self._state:
            raise _changed()

    def _holds(self, number: int, requirements: PassRequirements) -> bool:
        kept = self._kept.get(number)
        if kept is None or kept.form not in (None, requirements.packed_form):
            return False
        return kept.columns.issuperset(requirements.columns)

    def holds_all(self, requirements: PassRequirements) -> bool:
        """Return whether no part's features need reading."""
        return all(self._holds(number, requirements) for number in range(len(self.parts)))

    def known_results(self, requirements: PassRequirements) -> Mapping[object, object]:
        """Return results for these very rows by their keys, for a pass with such requirements.

        Labels are only summed beside what is known of rows in memory: rows that are read again
        might be other ones.
        """
        return {} if requirements.labels and not self.holds_all(requirements) else self._results

    def remember(self, results: Mapping[object, object], requirements: PassRequirements) -> None:
        """Keep results by their keys as long as the rows are in memory."""
        if self.holds_all(requirements):
            self._results |= results

    def read(
        self, number: int, requirements: PassRequirements, check: LabelCheck | None
    ) -> Iterator[Batch]:
        """Yield a part's rows, from memory if they are there; else read them, and keep them.

        Of rows in memory only the labels are read. Rows that are kept encoded are given packed, and
        raw ones perhaps with more columns than are required.
        """
        source = self.parts[number]
        if not self._holds(number, requirements):
            batches = source.numbered_batches(requirements.columns, check)
            rows = ((batch, labels) for _, batch, labels in batches)
            yield from self._keep(number, requirements, rows)
            return
        kept = self._kept[number]
        lengths = [batch.num_rows for batch in kept.batches]
        labels: Iterable[Labels | None] = repeat(None, len(lengths))
        if check is not None:
            alone = source.numbered_batches((), check, persons=False)
            labels = _recut((y for _, _, y in alone if y is not None), lengths)
        if kept.form == requirements.packed_form:
            yield from zip(kept.batches, labels, strict=True)
        else:
            # Raw columns become packed ones: each batch is let go before the next is packed.
            raw = ((kept.batches.pop(0), each) for each in labels)
            yield from self._keep(number, requirements, raw)

    def _keep(
        self, number: int, requirements: PassRequirements, rows: Iterable[Batch]
    ) -> Iterator[Batch]:
        """Yield the same rows, narrow or packed, and keep them if the whole part fits."""
        if self._state is None:  # frames may change between passes, unseen
            yield from rows
            return
        features = requirements.features
        narrow = narrow_columns if features is None else features.encoder().pack
        with self._lock:  # drop what was kept of the part, or gathered by a pass that failed
            self._kept.pop(number, None)
            if self._sizes.get(number):
                self._full = False
            self._sizes[number] = 0
        batches, fits = list[Any](), not self._full  # once it is full, no further part is tried
        for batch, labels in rows:
            if fits:
                batch = narrow(batch)
                batches.append(batch)
                with self._lock:
                    self._sizes[number] += batch.nbytes
                    fits = self._spent <= self._budget
                    if not fits:
                        self._full, self._sizes[number] = True, 0
                        batches.clear()
            yield batch, labels
        if batches:
            columns = frozenset(requirements.columns)
            self._kept[number] = _KeptPart(columns, requirements.packed_form, batches)

    @property
    def _spent(self) -> int:
        return sum(self._sizes.values())


def narrow_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make every integer column as narrow as its values allow, and text into narrow codes."""
    columns = []
    for column in batch.columns:
        if is_text_type(column.type):
            column = column.dictionary_encode()
        if pa.types.is_integer(column.type):
            column = narrow_integers(column)
        elif pa.types.is_dictionary(column.type):
            codes = narrow_integers(column.indices)
            column = pa.DictionaryArray.from_arrays(codes, column.dictionary, safe=False)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _recut(arrays: Iterator[Labels], lengths: Sequence[int]) -> Iterator[Labels]:
    """Yield the same numbers in pieces of these lengths; refuse if there are more or fewer."""
    rest: Labels = np.empty(0)
    for length in lengths:
        while len(rest) < length:
            fresh = next(arrays, None)
            if fresh is None:
                raise _changed()
            rest = np.concatenate([rest, fresh]) if len(rest) else fresh
        yield rest[:length]
        rest = rest[length:]
    if len(rest) or next(arrays, None) is not None:
        raise _changed()


def _changed() -> DataError:
    return DataError("the files changed while they were read; leave them alone, run again")


# ---- engines


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
