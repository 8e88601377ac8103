"""Running over the rows of a source: the fit says what to tally, a fold says how.

A fold reads batches, in any order and on any number of threads, into tallies of the same
kind and merges them. Tallies are exact, so all folds give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

from labeldp.errors import DataError
from labeldp.source import Source


class Tally(Protocol):
    """What adds up batches."""

    def add(self, first: int, batch: pa.RecordBatch) -> None:
        """Take in a batch whose first row has this number."""

    def merge(self, other: Any) -> Self:
        """Take in what another tally saw."""


Kind = TypeVar("Kind", bound=Tally)


class Fold(Protocol):
    """fold(task, source, columns, new): tally these columns of all rows; `task` names the bar."""

    def __call__(
        self, task: str, source: Source, columns: Sequence[str], new: Callable[[], Kind]
    ) -> Kind: ...


def serial(
    task: str,  # noqa: ARG001
    source: Source,
    columns: Sequence[str],
    new: Callable[[], Kind],
    progress: Callable[[int], None] = lambda _rows: None,
) -> Kind:
    """One batch after another."""
    tally, rows = new(), 0
    for batch in source.feature_batches(columns):
        tally.add(rows, batch)
        rows += batch.num_rows
        progress(batch.num_rows)
    check_rows(source, rows)
    return tally


def check_rows(source: Source, rows: int) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise DataError(f"the {source.reader.format} data have no rows; nothing can be learnt")
