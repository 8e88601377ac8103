"""The paper's encoding of categories: a random projection of L levels to ⌈log₂ L⌉ numbers.

The paper says "log k" and no base; base 2 is ours. The projection is public: the vector
of a level is drawn from the seed and from the names of column and level alone, so it is the
same whatever else is in the table and however it is read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NULL = "(missing)"


def dimensions(levels: int) -> int:
    """⌈log₂ L⌉, at least 1."""
    return max(1, math.ceil(math.log2(levels)))


def level_vector(seed: int, column: str, level: str, size: int) -> NDArray[np.float64]:
    """The projected level: independent N(0, 1/size) entries (Johnson–Lindenstrauss)."""
    digest = hashlib.sha256(f"{seed}\x00{column}\x00{level}".encode()).digest()
    stream = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    return np.asarray(stream.normal(0.0, size**-0.5, size))


def projected(
    batches: Callable[[], Iterable[pa.RecordBatch]], categorical: Sequence[str], seed: int
) -> Iterator[pa.RecordBatch]:
    """Yield the table with each category replaced by numeric columns NAME_1, NAME_2, …

    `batches` is called twice: levels must be counted before they are projected.
    """
    levels: dict[str, set[str]] = {name: set() for name in categorical}
    for batch in batches():
        for name in categorical:
            encoded = _encoded(batch.column(name))
            levels[name].update(encoded.dictionary.take(pc.unique(encoded.indices)).to_pylist())
    vectors = {name: _vectors(seed, name, found) for name, found in levels.items()}
    for batch in batches():
        columns: dict[str, pa.Array] = {}
        for name in batch.schema.names:
            if name not in vectors:
                columns[name] = batch.column(name)
                continue
            encoded = _encoded(batch.column(name))
            unused = np.zeros(dimensions(len(levels[name])))
            names = encoded.dictionary.to_pylist()
            table = np.array([vectors[name].get(level, unused) for level in names])
            values = table[encoded.indices.to_numpy()]
            for place in range(values.shape[1]):
                columns[f"{name}_{place + 1}"] = pa.array(np.ascontiguousarray(values[:, place]))
        yield pa.RecordBatch.from_pydict(columns)


def _vectors(seed: int, name: str, levels: set[str]) -> dict[str, NDArray[np.float64]]:
    size = dimensions(len(levels))
    return {level: level_vector(seed, name, level, size) for level in levels}


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    if column.null_count or not pa.types.is_dictionary(column.type):
        return pc.fill_null(column.cast(pa.string()), _NULL).dictionary_encode()
    return column
