"""Numbers between NumPy and Arrow, without what imports pandas wherever it is installed.

`pa.array`, `to_numpy` and `to_pandas_dtype` do, for a third of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """The same numbers, not copied if they are contiguous."""
    whole = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(whole.dtype)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])


def numpy_numbers(array: pa.Array) -> NDArray[Any]:
    """The same numbers, not copied; truth values and numbers with nulls as `to_numpy` has them."""
    if array.null_count or pa.types.is_boolean(array.type) or not len(array):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    kind = np.dtype(_FLOATS.get(str(array.type), str(array.type)))
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def integer_kind(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy's name of an integer type."""
    return np.dtype(str(kind))
