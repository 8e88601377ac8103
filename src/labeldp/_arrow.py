"""Numbers between NumPy and Arrow, without what imports pandas wherever it is installed.

`pa.array`, `to_numpy` and `to_pandas_dtype` do, for a third of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """The same numbers, not copied if they are contiguous."""
    whole = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(whole.dtype)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])


def numpy_numbers(array: pa.Array) -> NDArray[Any]:
    """Numbers, or truth values, of which none is null; numbers are not copied."""
    if pa.types.is_boolean(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.from_dlpack(array)


def integer_kind(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy's name of an integer type."""
    return np.dtype(str(kind))
