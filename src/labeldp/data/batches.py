"""Batches of rows: cut, put together, and some rows of them by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, no_value, numpy_numbers
from labeldp.data.columns import value_type
from labeldp.errors import DataError

if TYPE_CHECKING:
    from labeldp.data.source import Source


def sliced(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of at most `rows` rows, skipping empty ones."""
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        for index, column in enumerate(piece.columns):
            if pa.types.is_string_view(value_type(column.type)):
                name = piece.schema.names[index]
                piece = piece.set_column(index, name, _without_views(column))
        yield piece


def joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together, up to `rows` rows: each costs as much as a large one."""
    waiting: list[pa.RecordBatch] = []
    for batch in filter(len, batches):
        size = sum(piece.num_rows for piece in waiting) + batch.num_rows
        if waiting and (size > rows or batch.schema != waiting[0].schema):
            yield _together(waiting)
            waiting = []
        if not waiting and 2 * batch.num_rows > rows:
            yield batch
        else:
            waiting.append(batch)
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches([_with_joinable_codes(batch) for batch in batches])


def _with_joinable_codes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries of several batches together may need more codes than each of them."""
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if pa.types.is_dictionary(column.type):
            codes, values = _without_null_values(column)
            if codes.type.bit_width < 32:
                codes = codes.cast(pa.int32())
            wide = pa.DictionaryArray.from_arrays(codes, values, safe=False)
            batch = batch.set_column(index, name, wide)
    return batch


def _without_null_values(column: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Codes and dictionary; Arrow cannot unify dictionaries in which null is a value."""
    values = column.dictionary
    if not values.null_count:
        return column.indices, values
    valid = values.is_valid()
    codes = arrow_numbers(numpy_numbers(valid).cumsum() - 1).cast(column.indices.type, safe=False)
    return pc.if_else(valid, codes, no_value(codes.type)).take(column.indices), values.drop_null()


def _without_views(column: pa.Array) -> pa.Array:
    """Polars sends string views, for which Arrow lacks most kernels."""
    if pa.types.is_dictionary(column.type):
        texts = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    return column.cast(pa.large_string())


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
