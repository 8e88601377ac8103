"""Columns in as little room as their values allow."""

from __future__ import annotations

import pyarrow as pa

from labeldp.arrow_util import cast_integers, narrow_integers
from labeldp.data.columns import is_text
from labeldp.features.levels import same_dictionary

_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())


class Narrow:
    """Batches with every integer as narrow as its values allow, text as dictionary codes."""

    def __init__(self) -> None:
        self._dictionaries: dict[str, pa.Array] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self._column(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        if is_text(column.type):
            column = column.dictionary_encode()
        if pa.types.is_dictionary(column.type):
            return self._codes(name, column)
        if pa.types.is_integer(column.type):
            return narrow_integers(column)
        return column

    def _codes(self, name: str, column: pa.Array) -> pa.Array:
        """The same with one dictionary object for equal ones, so that it is stored once."""
        dictionary = column.dictionary
        if same_dictionary(dictionary, self._dictionaries.get(name)):
            dictionary = self._dictionaries[name]
        self._dictionaries[name] = dictionary
        kind = next(kind for kind in _UNSIGNED if len(dictionary) < 2**kind.bit_width)
        indices = cast_integers(column.indices, kind)
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
