"""Conversions between NumPy and Arrow that do not import pandas.

`pa.array`, `pa.scalar` (which Arrow's kernels call on Python values), `to_numpy` and
`to_pandas_dtype` import pandas if it is installed, which takes a third of a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array of the same numbers, without a copy if they are contiguous."""
    whole = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(whole.dtype)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])


def numpy_numbers(array: pa.Array) -> NDArray[Any]:
    """Return the numbers or truth values of an array: a view, or floats with NaN for null."""
    if pa.types.is_boolean(array.type):
        bits = numpy_numbers(array.cast(pa.uint8()))
        return bits if array.null_count else bits.astype(bool)
    kind = np.dtype(_FLOATS.get(str(array.type), str(array.type)))
    if not len(array):
        return np.empty(0, kind)
    values = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)
    if array.null_count:
        values = values.astype(kind if kind.kind == "f" else np.float64)
        values[numpy_numbers(array.is_null())] = np.nan
    return values


def arrow_words(words: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Return texts as an array of one of Arrow's string types."""
    letters = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, letters)], dtype=np.int32)
    buffers = pa.py_buffer(ends), pa.py_buffer(b"".join(letters))
    return pa.StringArray.from_buffers(len(letters), *buffers).cast(kind)


def no_value(kind: pa.DataType) -> pa.Scalar:
    """Return the null of a type."""
    return pa.nulls(1, kind)[0]


def column_numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return all numbers of a column, copied."""
    return np.array(numpy_numbers(column.combine_chunks()))


def narrow_integers(column: pa.Array) -> pa.Array:
    """Return the same integers in the narrowest type that holds them."""
    ends = pc.min_max(column).as_py()
    if column.type.bit_width == 8 or ends["min"] is None:
        return column
    for kind in (pa.int8(), pa.int16(), pa.int32()):
        limits = np.iinfo(str(kind))
        if limits.min <= ends["min"] and ends["max"] <= limits.max:
            if column.null_count:
                return column.cast(kind, safe=False)
            # Several times faster than a cast.
            return arrow_numbers(numpy_numbers(column).astype(str(kind), copy=False))
    return column


def same_dictionary(one: pa.Array, other: pa.Array | None) -> bool:
    """Whether two dictionaries hold the same; the same object mostly, which is quick to see."""
    return other is not None and (one is other or (len(one) == len(other) and one.equals(other)))


def avoid_large_pages() -> None:
    """Let Arrow use jemalloc instead of mimalloc, unless the user chose a memory pool.

    mimalloc asks Linux for pages of 2 MiB. Where these are scarce, as on a virtual machine,
    getting them takes longer than the pass that fills them.
    """
    chosen = "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    asks = sys.platform == "linux" and pa.default_memory_pool().backend_name == "mimalloc"
    if asks and not chosen and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
