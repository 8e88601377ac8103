"""Passes on this machine: threads read parts of the table, and their sums are added."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from itertools import chain, repeat
from operator import add
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.checkpoint import Checkpoint, Totals
from labeldp.engines.memory import Keeper, Memory
from labeldp.engines.protocol import Progress, Visitor, quiet
from labeldp.engines.streams import Streams, place, recut
from labeldp.errors import DataError, at_least
from labeldp.features import Encoder, FeatureMap, Rows
from labeldp.features.fold import Kind, check_rows
from labeldp.kernels import Kernels, best
from labeldp.source import Source
from labeldp.source.labels import LabelCheck
from labeldp.statistics import (
    Factor,
    FeatureGram,
    GramSum,
    LabelGrid,
    LabelMoments,
    Leverage,
    LeverageScan,
    MomentSum,
)

Batch = TypeVar("Batch")
Part = TypeVar("Part")
Labelled = tuple[Rows, NDArray[np.float64]]
Visited = tuple[pa.RecordBatch, NDArray[np.float64] | None]

_SUMS = 1 << 30
"""Bytes that the sums of all threads may take."""
_ROUND = 8
"""Parts between two checkpoints: some million rows, or as many small files."""


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
        at_least(0, threads=self.threads)

    def fold(
        self, task: str, source: Source, columns: Sequence[str], new: Callable[[], Kind]
    ) -> Kind:
        """Tally columns of all rows."""
        starts = np.cumsum([0, *(part.total_rows or 0 for part in self.memory.parts(source))])

        def work(streams: Streams[pa.RecordBatch]) -> Kind:
            tally = new()
            for number, batch in streams:
                part, row = place(number)
                tally.add(int(starts[part]) + row, batch)
            return tally

        keep = len(columns) == len(source.names)
        read = partial(self.memory.batches, columns=columns, keep=keep)
        opened = [partial(read, part) for part in range(len(self.memory.parts(source)))]
        with self.progress(task, source.total_rows) as advance:
            parts, streams = self._work(opened, _rows_in, work, 0, advance)
        check_rows(source, streams.rows)
        return reduce(lambda one, other: one.merge(other), parts)

    def feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        self.memory.parts(source)
        every = replace(features, kept=None)  # sums are over all columns, kept or not
        return self.memory.once(every, every, lambda: self._feature_gram(source, every))

    def _feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        kernels = best(source.total_rows)

        def work(streams: Streams[Rows]) -> Totals:
            encode, sums = Encoder(features, kernels), GramSum(features, kernels)
            for _, batch in streams:
                sums.add(encode(batch))
            return Totals(sums.total())

        resident = self.memory.holds_all(features)
        checkpoint = self._checkpoint("feature sums", source, features, None, None, resident)
        opened = self._rows(source, features, kernels)
        size = GramSum.size(features)
        total = self._total("feature sums", source, opened, _rows_in, work, size, checkpoint)
        return cast(FeatureGram, total.gram)

    def leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        self.memory.parts(source)
        key = (replace(features, kept=None), *factor.identity())
        return self.memory.once(key, features, lambda: self._leverage(source, features, factor))

    def _leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        kernels = best(source.total_rows)
        tables = LeverageScan(features, factor, kernels)

        def work(streams: Streams[Rows]) -> LeverageScan:
            encode, scan = Encoder(features, kernels), tables.another()
            for first, batch in streams:
                scan.add(first, encode(batch))
            return scan

        opened = self._rows(source, features, kernels)
        with self.progress("leverages", source.total_rows) as advance:
            parts, streams = self._work(opened, _rows_in, work, 0, advance)
        _check_some(streams.rows)
        return reduce(LeverageScan.merge, parts).total().renumbered(streams.row)

    def labelled_sums(
        self, source: Source, features: FeatureMap, grid: LabelGrid
    ) -> tuple[FeatureGram, LabelMoments]:
        kernels, check = best(source.total_rows), source.label_check()
        memory, parts = self.memory, self.memory.parts(source)

        def read(index: int) -> Iterator[Labelled]:
            held = memory.held_rows(index, features)
            keeper = partial(memory.packer, index, features, kernels)
            return self._labelled(parts[index], check, held, keeper)

        opened = [partial(read, index) for index in range(len(parts))]
        resident = memory.holds_all(features)
        known = self.feature_gram(source, features) if resident else None

        def work(streams: Streams[Labelled]) -> Totals:
            encode, moments = Encoder(features, kernels), MomentSum(features, grid, kernels)
            gram = None if resident else GramSum(features, kernels)
            for _, (batch, labels) in streams:
                encoded = encode(batch)
                moments.add(encoded, labels)
                if gram is not None:
                    gram.add(encoded)
            return Totals(None if gram is None else gram.total(), moments.total())

        size = 0 if resident else GramSum.size(features)
        checkpoint = self._checkpoint("label sums", source, features, grid, check, resident)
        total = self._total("label sums", source, opened, _labels_in, work, size, checkpoint)
        self.memory.check_unchanged()
        check.finish()
        return cast(FeatureGram, known or total.gram), cast(LabelMoments, total.moments)

    def visit(
        self,
        task: str,
        source: Source,
        columns: Sequence[str],
        new: Callable[[], Visitor],
        check: LabelCheck | None = None,
    ) -> int:
        parts = self.memory.parts(source)
        starts = np.cumsum([0, *(part.total_rows or 0 for part in parts)])

        def read(number: int) -> Iterable[Visited]:
            if check is None:
                return zip(self.memory.batches(number, columns), repeat(None))
            held = self.memory.held(number, columns)
            keeper = partial(self.memory.keeper, number, columns)
            return self._labelled(parts[number], check, held, keeper)

        opened: list[Callable[[], Iterable[Visited]]]
        opened = [partial(read, number) for number in range(len(parts))]
        unknown = any(part.total_rows is None for part in parts[:-1])
        if source.drop_missing_labels or unknown:  # numbers then follow only from all rows before
            opened = [partial(chain.from_iterable, map(read, range(len(parts))))]

        def work(streams: Streams[Visited]) -> None:
            visitor = new()
            for number, (batch, labels) in streams:
                part, row = place(number)
                visitor(int(starts[part]) + row, batch, labels)

        with self.progress(task, source.total_rows) as advance:
            _, streams = self._work(opened, lambda seen: _rows_in(seen[0]), work, 0, advance)
        if check is not None:
            self.memory.check_unchanged()
            check.finish()
        return streams.rows

    def _labelled(
        self,
        part: Source,
        check: LabelCheck,
        held: Sequence[Rows] | None,
        keeper: Callable[[], Keeper],
    ) -> Iterator[Labelled]:
        """Features with labels; of features in memory only the labels are read."""
        if held is not None:
            lengths = [batch.num_rows for batch in held]
            yield from zip(held, recut(part.labels(check), lengths), strict=True)
            return
        keep = keeper()
        for batch, labels in part.labelled_batches(check):
            yield keep.add(batch), labels
        keep.finish()

    def _rows(
        self, source: Source, features: FeatureMap, kernels: Kernels
    ) -> list[Callable[[], Iterator[Rows]]]:
        """What opens each part for encoders."""
        read = partial(self.memory.rows, features=features, kernels=kernels)
        return [partial(read, part) for part in range(len(self.memory.parts(source)))]

    def _checkpoint(
        self,
        task: str,
        source: Source,
        features: FeatureMap,
        grid: LabelGrid | None,
        check: LabelCheck | None,
        resident: bool,
    ) -> Checkpoint:
        """Bound to all that the sums depend on; a frame changes unseen and has none."""
        state = source.reader.state()
        bound_to = None
        if self.checkpoint is not None:
            parts = [part.total_rows for part in self.memory.parts(source)]
            options = [source.label, source.clip, source.drop_missing_labels, resident]
            shown = replace(features, kept=None).to_json()
            bound_to = [state, parts, options, shown, None if grid is None else asdict(grid)]
        return Checkpoint(None if state is None else self.checkpoint, task, bound_to, check)

    def _total(
        self,
        task: str,
        source: Source,
        opened: Sequence[Callable[[], Iterable[Batch]]],
        length: Callable[[Batch], int],
        work: Callable[[Streams[Batch]], Totals],
        size: int,
        checkpoint: Checkpoint,
    ) -> Totals:
        """The sums of all parts; with a checkpoint in rounds, each saved when it is finished."""
        done, totals = checkpoint.load()
        step = _ROUND if checkpoint.wanted else len(opened)
        rows = sum(part.total_rows or 0 for part in self.memory.parts(source)[:done])
        with self.progress(task, source.total_rows) as advance:
            advance(rows)
            for start in range(done, len(opened), step):
                some = opened[start : start + step]
                parts, streams = self._work(some, length, work, size, advance)
                rows += streams.rows
                totals = [reduce(add, [*totals, *parts])]
                checkpoint.save(start + len(some), totals[0])
        checkpoint.finish()
        _check_some(rows)
        return totals[0]

    def _work(
        self,
        opened: Sequence[Callable[[], Iterable[Batch]]],
        length: Callable[[Batch], int],
        work: Callable[[Streams[Batch]], Part],
        size: int,
        advance: Callable[[int], None],
    ) -> tuple[list[Part], Streams[Batch]]:
        """Let every thread work on the shared batches; fewer threads if their sums are large."""
        workers = self.threads or os.cpu_count() or 1
        workers = max(1, min(workers, _SUMS // max(1, size)))
        streams = Streams(opened, length, advance)
        with ThreadPoolExecutor(workers) as pool, streams.stopping():
            jobs = [pool.submit(work, streams) for _ in range(workers)]
            try:
                return [job.result() for job in jobs], streams
            except DataError:
                self.memory.check_unchanged()  # the better explanation, if it is one
                raise


def _check_some(rows: int) -> None:
    if rows == 0:
        raise DataError("the data have no rows; nothing can be released")


def _rows_in(batch: Rows) -> int:
    return int(batch.num_rows)


def _labels_in(batch: Labelled) -> int:
    return len(batch[1])
