"""Some rows of a stream, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.errors import DataError

if TYPE_CHECKING:
    from labeldp.data.source import Source


def take_rows(
    batches: Iterable[pa.RecordBatch], wanted: NDArray[np.int64], total: int
) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """Yield the rows with these increasing numbers, with their places among the wanted ones.

    The table must have `total` rows. Every batch is read, so that checks at the end of the
    stream are made.
    """
    first = start = 0
    for batch in batches:
        stop = int(np.searchsorted(wanted, first + batch.num_rows))
        if stop > start:
            yield slice(start, stop), batch.take(arrow_numbers(wanted[start:stop] - first))
        first, start = first + batch.num_rows, stop
    check_rows(wanted, first, total)


def check_rows(wanted: NDArray[np.int64], found: int, total: int) -> None:
    """Refuse a table of so many rows if these increasing numbers are not of it."""
    if len(wanted) and wanted[-1] >= found:
        raise DataError(
            f"the bags name row {wanted[-1]} but the data have only {found} rows; give the table "
            "that they were drawn from"
        )
    if found != total:
        raise DataError(
            f"the data have {found} rows but the release was made from {total}; give the "
            "table that its bags were drawn from"
        )


def take_numbered(
    source: Source, columns: Sequence[str], wanted: NDArray[np.int64], *, whole: bool
) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """Yield a source's rows with these increasing numbers, with their places among the wanted ones.

    A row that is not there is refused and, if the wanted ones are the `whole` table, any other.
    """
    start = rows = 0
    for numbers, batch, _ in source.numbered_batches(columns):
        stop = int(np.searchsorted(wanted, numbers[-1], side="right"))
        here = np.searchsorted(numbers, wanted[start:stop])
        if not np.array_equal(numbers[here], wanted[start:stop]):
            break
        if stop > start:
            yield slice(start, stop), batch.take(arrow_numbers(here))
        start, rows = stop, rows + batch.num_rows
    if start < len(wanted) or (whole and rows > start):
        raise DataError(
            f"the data do not have the {len(wanted)} rows that the release names; give the table "
            "that it was made from"
        )
