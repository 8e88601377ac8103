"""Passes on this machine: threads read parts of the table, and their sums are added."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
from operator import add
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp._check import at_least
from labeldp.engines.memory import Memory
from labeldp.engines.protocol import Progress, quiet
from labeldp.engines.streams import Streams, place
from labeldp.errors import DataError
from labeldp.features import Encoder, FeatureMap
from labeldp.features.fold import Kind, check_rows
from labeldp.kernels import best
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
Labelled = tuple[pa.RecordBatch, NDArray[np.float64]]

_SUMS = 1 << 30
"""Bytes that the sums of all threads may take."""


@dataclass(frozen=True)
class LocalEngine:
    """Threads over parts of the table. No knob can change a result."""

    threads: int = 0
    """How many; 0 means one for each core."""
    progress: Progress = quiet
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)
    """Where features stay between passes."""

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
        parts, streams = self._over_features(task, source, columns, work, keep=keep)
        check_rows(source, streams.rows)
        return reduce(lambda one, other: one.merge(other), parts)

    def feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        self.memory.parts(source)
        every = replace(features, kept=None)  # sums are over all columns, kept or not
        return self.memory.once(every, every.columns, lambda: self._feature_gram(source, every))

    def _feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        kernels = best(source.total_rows)

        def work(streams: Streams[pa.RecordBatch]) -> FeatureGram:
            encode, sums = Encoder(features, kernels), GramSum(features, kernels)
            for _, batch in streams:
                sums.add(encode(batch))
            return sums.total()

        parts, _ = self._over_features(
            "feature sums", source, features.columns, work, size=GramSum.size(features)
        )
        return reduce(add, parts)

    def leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        self.memory.parts(source)
        key = (replace(features, kept=None), *factor.identity())
        return self.memory.once(
            key, features.columns, lambda: self._leverage(source, features, factor)
        )

    def _leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        kernels = best(source.total_rows)
        tables = LeverageScan(features, factor, kernels)

        def work(streams: Streams[pa.RecordBatch]) -> LeverageScan:
            encode, scan = Encoder(features, kernels), tables.another()
            for first, batch in streams:
                scan.add(first, encode(batch))
            return scan

        parts, streams = self._over_features("leverages", source, features.columns, work)
        return reduce(LeverageScan.merge, parts).total().renumbered(streams.row)

    def labelled_sums(
        self, source: Source, features: FeatureMap, grid: LabelGrid
    ) -> tuple[FeatureGram, LabelMoments]:
        kernels, check = best(source.total_rows), source.label_check()
        opened = [
            partial(self._labelled, index, part, check)
            for index, part in enumerate(self.memory.parts(source))
        ]
        resident = self.memory.holds_all(features.columns)
        known = [self.feature_gram(source, features)] if resident else []

        def work(streams: Streams[Labelled]) -> tuple[list[FeatureGram], LabelMoments]:
            encode, moments = Encoder(features, kernels), MomentSum(features, grid, kernels)
            grams = [] if resident else [GramSum(features, kernels)]
            for _, (batch, labels) in streams:
                encoded = encode(batch)
                moments.add(encoded, labels)
                for gram in grams:
                    gram.add(encoded)
            return [gram.total() for gram in grams], moments.total()

        size = 0 if resident else GramSum.size(features)
        parts, _ = self._run("label sums", source, opened, _labels_in, work, size)
        grams, moments = zip(*parts, strict=True)
        self.memory.check_unchanged()
        check.finish()
        return reduce(add, chain(known, *grams)), reduce(add, moments)

    def _labelled(self, index: int, part: Source, check: LabelCheck) -> Iterator[Labelled]:
        """Features with labels; of features in memory only the labels are read."""
        if self.memory.holds(index, part.names):
            batches = list(self.memory.batches(index, part.names))
            lengths = [batch.num_rows for batch in batches]
            yield from zip(batches, _recut(part.labels(check), lengths), strict=True)
            return
        keeper = self.memory.keeper(index)
        for batch, labels in part.labelled_batches(check):
            yield keeper.add(batch), labels
        keeper.finish()

    def _over_features(
        self,
        task: str,
        source: Source,
        columns: Sequence[str],
        work: Callable[[Streams[pa.RecordBatch]], Part],
        *,
        size: int = 0,
        keep: bool = True,
    ) -> tuple[list[Part], Streams[pa.RecordBatch]]:
        opened = [
            partial(self.memory.batches, index, columns, keep=keep)
            for index, _ in enumerate(self.memory.parts(source))
        ]
        return self._run(task, source, opened, _rows_in, work, size)

    def _run(
        self,
        task: str,
        source: Source,
        opened: Sequence[Callable[[], Iterable[Batch]]],
        length: Callable[[Batch], int],
        work: Callable[[Streams[Batch]], Part],
        size: int,
    ) -> tuple[list[Part], Streams[Batch]]:
        """Let every thread work on the shared batches; fewer threads if their sums are large."""
        workers = self.threads or os.cpu_count() or 1
        workers = max(1, min(workers, _SUMS // max(1, size)))
        with self.progress(task, source.total_rows) as advance:
            streams = Streams(opened, length, advance)
            with ThreadPoolExecutor(workers) as pool:
                jobs = [pool.submit(work, streams) for _ in range(workers)]
            try:
                parts = [job.result() for job in jobs]
            except DataError:
                self.memory.check_unchanged()  # the better explanation, if it is one
                raise
        if streams.rows == 0:
            raise DataError("the data have no rows; nothing can be released")
        return parts, streams


def _rows_in(batch: pa.RecordBatch) -> int:
    return int(batch.num_rows)


def _labels_in(batch: Labelled) -> int:
    return len(batch[1])


def _recut(
    arrays: Iterator[NDArray[np.float64]], lengths: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """The same numbers in pieces of these lengths; a refusal if there are more or fewer."""
    rest: NDArray[np.float64] = np.empty(0)
    for length in lengths:
        pieces = [rest]
        while sum(map(len, pieces)) < length:
            fresh = next(arrays, None)
            if fresh is None:
                raise _uneven()
            pieces.append(fresh)
        joined = np.concatenate(pieces)
        yield joined[:length]
        rest = joined[length:]
    if len(rest) or next(arrays, None) is not None:
        raise _uneven()


def _uneven() -> DataError:
    return DataError("the files changed while they were read; leave them alone, run again")
