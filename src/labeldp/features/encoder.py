"""`Encoder`: batches to codes, looking each distinct level up once per dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.features.columns import CategoricalColumn
from labeldp.features.encoded import Encoded
from labeldp.features.levels import codes_of, same_dictionary
from labeldp.kernels import Kernels, Positions, Scratch, with_numpy

if TYPE_CHECKING:
    from labeldp.features.encoding import FeatureMap


class Encoder:
    """Encodes batch after batch, for one thread: the rows it returns last until the next batch."""

    def __init__(self, features: FeatureMap, kernels: Kernels | None = None) -> None:
        self._features = features
        self._scratch = Scratch()
        self._categories = [
            _Category(column, kernels or with_numpy(), self._scratch)
            for column in features.categorical
        ]

    def __call__(self, batch: pa.RecordBatch) -> Encoded:
        """Return the rows of a batch as exact integers; extra columns are ignored."""
        shape = (len(self._features.number_columns), batch.num_rows)
        numbers = self._scratch("numbers", shape, np.float64).T
        at = 0
        for column in self._features.numeric:
            column.encode(_find(batch, column.name), numbers[:, at : at + 2])
            at += len(column.design_names)
        categories = tuple(each.encode(_find(batch, each.name)) for each in self._categories)
        return Encoded(batch.num_rows, numbers, categories)


class _Category:
    """A categorical column with the codes of the dictionary it met last."""

    def __init__(self, column: CategoricalColumn, kernels: Kernels, scratch: Scratch) -> None:
        self.name = column.name
        self._column, self._kernels, self._scratch = column, kernels, scratch
        self._dictionary: pa.Array | None = None
        self._table: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._met: pa.Array | None = None

    def encode(self, array: pa.Array) -> NDArray[np.int32]:
        """Return the code of every row."""
        dictionary, positions = codes_of(array)
        if not same_dictionary(dictionary, self._dictionary):
            if len(dictionary) > len(positions) and not same_dictionary(dictionary, self._met):
                self._met = dictionary
                return self._encode_used(dictionary, positions)
            self._dictionary, self._table = dictionary, self._column.table(dictionary)
        return self._look_up(dictionary, positions, self._table)

    def _encode_used(self, dictionary: pa.Array, positions: Positions) -> NDArray[np.int32]:
        """Look up only what occurs: a few rows may bring the dictionary of a large table."""
        used, places = np.unique(positions, return_inverse=True)
        few = dictionary.take(pa.array(used, mask=used == len(dictionary)))
        return self._look_up(few, places.astype(np.int32), self._column.table(few))

    def _look_up(
        self, dictionary: pa.Array, positions: Positions, table: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        codes: NDArray[np.int32] = self._scratch((self.name, "codes"), positions.shape, np.int32)
        self._kernels.lookup(codes, table, positions)
        if table.min() < 0:
            self._column.check_known(dictionary, positions, codes)
        return codes


def _find(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise DataError(f"the rows have no single column {name!r}; add it")
    return batch.column(index)
