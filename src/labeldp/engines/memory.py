"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them all keeps
them as the narrowest integers that hold them, as many parts as fit, and later passes read
the rest only. While all rows are kept, so are the sums and leverages computed from them: to
compute them again from the same rows would give the same. Public features alone are kept,
never labels.

What is kept is used only while the files are what they were (size, time, number on disk);
`unchanged` says so, and a pass that pairs kept features with labels asks again at its end.
Should a file be changed within a tick of the clock all the same, labels might be paired with
other rows' features: that spoils the fit, not the promise, which holds for any labels given
the features that were summed, and those are the ones whose leverages are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import DataError
from labeldp.features.levels import same_dictionary
from labeldp.source import Source
from labeldp.source.files import FileState
from labeldp.source.kinds import is_text

Result = TypeVar("Result")

BUDGET = 512 << 20

_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())
_SIGNED = (pa.int8(), pa.int16(), pa.int32())


class Memory:
    """Feature batches of one source at a time, by part."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._forget(None, None)

    def parts(self, source: Source) -> tuple[Source, ...]:
        """The parts of a source; what is kept of another one, or of older files, is dropped."""
        state = source.reader.state()
        if self._source is not source or self._state != state or state is None:
            self._forget(source, state)
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
        keeper = self.keeper(part, keep=keep)
        for batch in self._parts[part].feature_batches(names):
            yield keeper.add(batch)
        keeper.finish()

    def keeper(self, part: int, *, keep: bool = True) -> Keeper:
        """What keeps the batches of a part that is being read, if it may and can."""
        return Keeper(self, part, keep and self._state is not None)

    def holds(self, part: int, columns: Sequence[str]) -> bool:
        """Whether a part's columns need not be read."""
        kept = self._kept.get(part)
        return kept is not None and set(columns) <= set(kept[0].schema.names)

    def holds_all(self, columns: Sequence[str]) -> bool:
        """Whether no part needs reading."""
        return all(self.holds(part, columns) for part in range(len(self._parts)))

    def once(self, key: object, columns: Sequence[str], compute: Callable[[], Result]) -> Result:
        """What `compute` makes of these columns; not computed again for the rows in memory."""
        if key in self._results:
            return cast(Result, self._results[key])
        result = compute()
        if self.holds_all(columns):
            self._results[key] = result
        return result

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `parts`."""
        if self._source is not None and self._source.reader.state() != self._state:
            raise DataError("the files changed while they were read; leave them alone, run again")

    def spend(self, size: int) -> bool:
        """Account for bytes; once past the budget no further part is kept."""
        with self._lock:
            self._spent += size
            self._full |= self._spent > self._budget
            return not self._full

    def replace(self, part: int, kept: list[pa.RecordBatch]) -> None:
        """Hold the batches of a part, in place of fewer columns of it."""
        with self._lock:
            self._spent -= sum(batch.nbytes for batch in self._kept.pop(part, []))
            self._kept[part] = kept

    def _forget(self, source: Source | None, state: tuple[FileState, ...] | None) -> None:
        self._source, self._state = source, state
        self._parts = () if source is None else source.parts()
        self._spent, self._full = 0, False
        self._kept: dict[int, list[pa.RecordBatch]] = {}
        self._results: dict[object, object] = {}


class Keeper:
    """Narrows and holds the batches of one part until it is complete or the budget is spent."""

    def __init__(self, memory: Memory, part: int, keep: bool) -> None:
        self._memory, self._part, self._keep = memory, part, keep
        self._narrow = _Narrow()
        self._batches: list[pa.RecordBatch] = []
        self._spent = 0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, narrow if they are kept."""
        if self._keep and self._memory.spend(0):
            batch = self._narrow(batch)
            self._batches.append(batch)
            self._spent += batch.nbytes
            self._memory.spend(batch.nbytes)
        else:
            self._give_up()
        return batch

    def finish(self) -> None:
        """The part is complete."""
        if self._batches:
            self._memory.replace(self._part, self._batches)

    def _give_up(self) -> None:
        self._memory.spend(-self._spent)
        self._keep, self._batches, self._spent = False, [], 0


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
        indices = _cast(column.indices, kind)
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
            return _cast(column, kind)
    return column


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow's cast; NumPy's where it can, whose memory is touched several times faster."""
    if column.null_count:
        return column.cast(kind, safe=False)
    return pa.array(column.to_numpy().astype(kind.to_pandas_dtype(), copy=False))
