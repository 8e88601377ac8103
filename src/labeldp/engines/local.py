"""Passes on this machine: threads share one stream of batches and their sums are added."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

from labeldp._check import at_least
from labeldp.engines.protocol import Progress, quiet
from labeldp.errors import DataError
from labeldp.features import FeatureMap
from labeldp.source import Source
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


@dataclass(frozen=True)
class LocalEngine:
    """Threads over batches. Neither knob can change a result."""

    threads: int = 0
    """How many; 0 means one for each core."""
    progress: Progress = quiet

    def __post_init__(self) -> None:
        at_least(0, threads=self.threads)

    def feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        def part(batches: _Shared[Any]) -> FeatureGram:
            sums = GramSum(features)
            for _, batch in batches:
                sums.add(features.encode(batch))
            return sums.total()

        return reduce(add, self._parts("feature sums", source, source.feature_batches(), part))

    def leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        def part(batches: _Shared[Any]) -> LeverageScan:
            scan = LeverageScan(features, factor)
            for first, batch in batches:
                scan.add(first, features.encode(batch))
            return scan

        parts = self._parts("leverages", source, source.feature_batches(), part)
        return reduce(LeverageScan.merge, parts).total()

    def labelled_sums(
        self, source: Source, features: FeatureMap, grid: LabelGrid
    ) -> tuple[FeatureGram, LabelMoments]:
        def part(batches: _Shared[Any]) -> tuple[FeatureGram, LabelMoments]:
            gram, moments = GramSum(features), MomentSum(features, grid)
            for _, (batch, labels) in batches:
                encoded = features.encode(batch)
                gram.add(encoded)
                moments.add(encoded, labels)
            return gram.total(), moments.total()

        parts = self._parts("label sums", source, source.labelled_batches(), part)
        grams, moments = zip(*parts, strict=True)
        return reduce(add, grams), reduce(add, moments)

    def _parts(
        self,
        task: str,
        source: Source,
        batches: Iterable[Batch],
        part: Callable[[_Shared[Batch]], Part],
    ) -> list[Part]:
        workers = self.threads or os.cpu_count() or 1
        with self.progress(task, source.total_rows) as advance:
            shared = _Shared(batches, advance)
            with ThreadPoolExecutor(workers) as pool:
                parts = list(pool.map(part, [shared] * workers))
        if shared.rows == 0:
            raise DataError("the data have no rows; nothing can be released")
        return parts


class _Shared(Iterable[tuple[int, Batch]]):
    """One stream of batches, each given once to whichever thread asks, with its first row."""

    def __init__(self, batches: Iterable[Batch], advance: Callable[[int], None]) -> None:
        self._batches, self._advance = iter(batches), advance
        self._lock = threading.Lock()
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        while True:
            with self._lock:
                batch = next(self._batches, None)
                if batch is None:
                    return
                first, size = self.rows, _length(batch)
                self.rows += size
            yield first, batch
            self._advance(size)


def _length(batch: Any) -> int:
    """Rows of a record batch, or of a (record batch, labels) pair."""
    return len(batch[1]) if isinstance(batch, tuple) else int(batch.num_rows)
