"""Passes on a Spark cluster: executors add up integers; they draw nothing and know no budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from operator import add
from typing import TypeVar

from labeldp.engines.protocol import Progress, quiet
from labeldp.errors import DataError, InputError
from labeldp.features import FeatureMap
from labeldp.features.fold import Kind, check_rows
from labeldp.kernels import best
from labeldp.source import Source
from labeldp.spark.parts import (
    fold_part,
    gram_part,
    labelled_part,
    leverage_part,
)
from labeldp.spark.progress import reported
from labeldp.spark.reader import Advance, ClusterReader, over_parts
from labeldp.statistics import Factor, FeatureGram, LabelGrid, LabelMoments, Leverage, LeverageScan

Part = TypeVar("Part")


@dataclass(frozen=True)
class SparkEngine:
    """Passes over a Spark data frame, where its partitions are."""

    progress: Progress = quiet
    threads: int = 0
    """On the driver, which draws the release; Spark has settings of its own for the passes."""

    def fold(
        self, task: str, source: Source, columns: Sequence[str], new: Callable[[], Kind]
    ) -> Kind:
        """Tally columns of all rows."""
        ask = partial(fold_part, tuple(columns), new)
        parts = self._parts(task, source, ask, columns=columns)
        rows, tally = reduce(lambda one, more: (one[0] + more[0], one[1].merge(more[1])), parts)
        check_rows(source, rows)
        return tally

    def feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        ask = partial(gram_part, features)
        parts = self._parts("feature sums", source, ask, rows=features.rows)
        return _with_rows(reduce(add, parts))

    def leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        # The form is computed here: linear algebra may round differently on each machine.
        scan = LeverageScan(features, factor, best(features.rows))
        ask = partial(leverage_part, features, scan)
        parts = self._parts("leverages", source, ask, rows=features.rows)

        def taken() -> Iterator[FeatureGram]:
            for gram, seen in parts:
                scan.take(seen)
                yield gram

        _check_same(_with_rows(reduce(add, taken())), factor)
        return scan.total()

    def labelled_sums(
        self, source: Source, features: FeatureMap, grid: LabelGrid
    ) -> tuple[FeatureGram, LabelMoments]:
        ask = partial(labelled_part, features, grid)
        parts = self._parts("label sums", source, ask, labels=True, rows=features.rows)
        total = reduce(add, parts)
        total.check.finish()
        return _with_rows(total.gram), total.moments()

    def visit(self, *_: object, **__: object) -> int:
        raise InputError(
            "rows on Spark have no numbers, so none can be named; use LocalEngine for bags"
        )

    def _parts(
        self,
        task: str,
        source: Source,
        ask: Callable[[Source, Advance], Part],
        *,
        columns: Sequence[str] | None = None,
        labels: bool = False,
        rows: int | None = None,
    ) -> Iterator[Part]:
        """The answers of all parts, one at a time: of wide tables many would not fit at once."""
        if not isinstance(source.reader, ClusterReader):
            raise InputError(
                "SparkEngine reads Spark data frames; pass one to scan, for example "
                "scan(spark.read.parquet(path), ...)"
            )
        rows = rows or source.total_rows
        with (
            self.progress(task, rows) as advance,
            reported(source.reader.frame, rows, advance),
        ):
            parts = iter(over_parts(source, ask, columns=columns, labels=labels))
        for first in parts:
            return chain([first], parts)
        raise _no_rows()


def _with_rows(gram: FeatureGram) -> FeatureGram:
    if gram.rows == 0:
        raise _no_rows()
    return gram


def _check_same(gram: FeatureGram, factor: Factor) -> None:
    """Refuse a frame that changed: leverages of other rows would not bear out the promise."""
    if not factor.is_of(gram):
        raise DataError(
            "the Spark data frame gives other rows each time it is read (a sample, a limit without "
            "an order, a table being written?); write it to a table and read that"
        )


def _no_rows() -> DataError:
    return DataError("the data have no rows; nothing can be released")
