"""What every engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.features import FeatureMap
from labeldp.features.fold import Kind
from labeldp.source import Source
from labeldp.source.labels import LabelCheck
from labeldp.statistics import Factor, FeatureGram, LabelGrid, LabelMoments, Leverage

Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""progress(task, rows or None) opens a bar; the value it yields is told of finished rows."""

Visitor = Callable[[int, pa.RecordBatch, NDArray[np.float64] | None], None]
"""visitor(first, batch, labels or None) sees the rows of the table from number `first` on."""


def quiet(task: str, rows: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG001
    """A progress that shows nothing."""
    return nullcontext(lambda _rows: None)


class Engine(Protocol):
    """Passes over a source. Results are the same bytes on every engine."""

    @property
    def progress(self) -> Progress: ...

    @property
    def threads(self) -> int:
        """How many threads work here, where the release is drawn; 0: one for each core."""

    def fold(
        self, task: str, source: Source, columns: Sequence[str], new: Callable[[], Kind]
    ) -> Kind:
        """Tally columns of all rows (see `labeldp.features.fold`); reads features only."""

    def feature_gram(self, source: Source, features: FeatureMap) -> FeatureGram:
        """XᵀX; reads features only."""

    def leverage(self, source: Source, features: FeatureMap, factor: Factor) -> Leverage:
        """The largest leverage; reads features only."""

    def labelled_sums(
        self, source: Source, features: FeatureMap, grid: LabelGrid
    ) -> tuple[FeatureGram, LabelMoments]:
        """XᵀX, and Xᵀy with yᵀy, in the one pass that reads labels."""

    def visit(
        self,
        task: str,
        source: Source,
        columns: Sequence[str],
        new: Callable[[], Visitor],
        check: LabelCheck | None = None,
    ) -> int:
        """Show every row once, by its number, to visitors of one thread each; say how many.

        With a `check` labels come along and are checked; a refusal comes after the last row.
        """
