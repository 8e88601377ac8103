"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them all keeps
them as the narrowest integers that hold them, as many parts as fit, and later passes read
the rest only. Public features alone are kept, never labels.

What is kept is used only while the files are what they were (size, time, number on disk);
`unchanged` says so, and a pass that pairs kept features with labels asks again at its end.
Should a file be changed within a tick of the clock all the same, labels might be paired with
other rows' features: that spoils the fit, not the promise, which holds for any labels given
the features that were summed, and those are the ones whose leverages are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import DataError
from labeldp.features.levels import same_dictionary
from labeldp.source import Source
from labeldp.source.kinds import is_text

BUDGET = 512 << 20

_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())
_SIGNED = (pa.int8(), pa.int16(), pa.int32())


class Memory:
    """Feature batches of one source at a time, by part."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._source: Source | None = None
        self._forget()

    def parts(self, source: Source) -> tuple[Source, ...]:
        """The parts of a source; what is kept of another one, or of older files, is dropped."""
        state = source.reader.state()
        if self._source is not source or self._state != state or state is None:
            self._forget()
            self._source, self._state = source, state
            self._parts = source.parts()
        return self._parts

    def batches(
        self, part: int, columns: Sequence[str], *, keep: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a part, from memory if they are there, else read and perhaps kept."""
        names = list(columns)
        if self.holds(part, names):
            for batch in self._kept[part]:
                yield batch.select(names)
            return
        narrow, spent = _Narrow(), 0
        kept: list[pa.RecordBatch] | None = [] if keep and self._state is not None else None
        for batch in self._parts[part].feature_batches(names):
            if kept is not None:
                batch = narrow(batch)
                size = batch.nbytes
                if self._spend(size):
                    spent += size
                    kept.append(batch)
                else:
                    self._spend(-spent)
                    kept = None
            yield batch
        if kept:
            self._replace(part, kept)

    def holds(self, part: int, columns: Sequence[str]) -> bool:
        """Whether a part's columns need not be read."""
        kept = self._kept.get(part)
        return kept is not None and set(columns) <= set(kept[0].schema.names)

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `parts`."""
        if self._source is not None and self._source.reader.state() != self._state:
            raise DataError("the files changed while they were read; leave them alone, run again")

    def _spend(self, size: int) -> bool:
        with self._lock:
            if self._spent + size > self._budget:
                return False
            self._spent += size
            return True

    def _replace(self, part: int, kept: list[pa.RecordBatch]) -> None:
        with self._lock:
            old = self._kept.pop(part, [])
            self._spent -= sum(batch.nbytes for batch in old)
            self._kept[part] = kept

    def _forget(self) -> None:
        self._spent = 0
        self._kept: dict[int, list[pa.RecordBatch]] = {}
        self._parts: tuple[Source, ...] = ()
        self._state: object = None


class _Narrow:
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
            return _narrow_integers(column)
        return column

    def _codes(self, name: str, column: pa.Array) -> pa.Array:
        """The same with one dictionary object for equal ones, so that it is stored once."""
        dictionary = column.dictionary
        if same_dictionary(dictionary, self._dictionaries.get(name)):
            dictionary = self._dictionaries[name]
        self._dictionaries[name] = dictionary
        kind = next(kind for kind in _UNSIGNED if len(dictionary) < 2**kind.bit_width)
        indices = column.indices.cast(kind, safe=False)
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


def _narrow_integers(column: pa.Array) -> pa.Array:
    if column.type.bit_width == 8:
        return column
    ends = pc.min_max(column).as_py()
    if ends["min"] is None:
        return column
    for kind in _SIGNED:
        limits = np.iinfo(kind.to_pandas_dtype())
        if limits.min <= ends["min"] and ends["max"] <= limits.max:
            return column.cast(kind, safe=False)
    return column
