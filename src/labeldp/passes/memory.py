"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them all keeps them
as the narrowest integers that hold them, as many parts as fit, and later passes read only the
rest. The first pass that encodes them keeps their codes instead, which take less room and need no
look-ups. While all rows are kept, so are sums, leverages and norms computed from them: the same
rows would give the same again. Only public features are kept, never labels.

What is kept is used only while the files are what they were (size, times, number on disk): `open`
sees to that, and a pass that pairs kept features with labels asks again at its end. Should a file
change within a tick of the clock all the same, labels might be paired with other rows' features.
That spoils the fit, not the guarantee: it holds for any labels given the features that were
summed, and those are the ones whose leverages or norms are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import avoid_large_pages, cast_integers, narrow_integers, same_dictionary
from labeldp.data.columns import is_text
from labeldp.data.files import FileState
from labeldp.data.labels import LabelCheck
from labeldp.data.persons import PERSON_COLUMN
from labeldp.data.source import Source
from labeldp.errors import DataError
from labeldp.kernels import keep_freed_memory
from labeldp.passes.accumulator import Labels, PassRequirements, read_rows

if TYPE_CHECKING:
    from labeldp.features.encoder import Rows

BUDGET = 1 << 30
"""Bytes. The 132 million rows of the paper's census, packed, take two thirds of them."""
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())


@dataclass(frozen=True)
class _KeptPart:
    """A part in memory: some raw columns, or all that one packed form needs."""

    columns: frozenset[str]
    form: object
    """None: raw columns."""
    batches: list[Any]

    def serves(self, requirements: PassRequirements) -> bool:
        fits = self.form in (None, requirements.packed_form)
        return fits and self.columns.issuperset(requirements.columns)

    def rows(self, requirements: PassRequirements) -> list[Rows]:
        if self.form is not None:
            return self.batches
        person = [PERSON_COLUMN] if PERSON_COLUMN in self.batches[0].schema.names else []
        return [batch.select([*requirements.columns, *person]) for batch in self.batches]


class Memory:
    """Feature batches of one source at a time, by part."""

    def __init__(self, budget: int = BUDGET) -> None:
        keep_freed_memory()
        avoid_large_pages()
        self._budget = budget
        self._lock = threading.Lock()
        self._forget(None, None)

    def __reduce__(self) -> tuple[type[Memory], tuple[int]]:
        """A copy, such as another process is given, begins empty."""
        return type(self), (self._budget,)

    def open(self, source: Source) -> None:
        """Turn to a source; what is kept of another one, or of older files, is dropped."""
        state = source.state()
        if state is not None and source.seen not in (None, state):
            raise _changed()
        if self._source is not source or self._state != state or state is None:
            self._forget(source, state)

    def _forget(self, source: Source | None, state: tuple[FileState, ...] | None) -> None:
        self._source, self._state = source, state
        self.parts = () if source is None else source.parts()
        self._sizes: dict[int, int] = {}
        self._full = False
        self._kept: dict[int, _KeptPart] = {}
        self._results: dict[object, object] = {}

    def read(
        self, number: int, requirements: PassRequirements, check: LabelCheck | None
    ) -> Iterator[tuple[Rows, Labels | None]]:
        """Yield a part's rows, from memory if they are there; else read them, and keep them.

        Of rows in memory only the labels are read. Rows that are kept encoded are given packed.
        """
        source, kept = self.parts[number], self._kept.get(number)
        if kept is None or not kept.serves(requirements):
            rows = read_rows(source, requirements, check)
            yield from self._keeping(number, requirements, rows)
            return
        lengths = [batch.num_rows for batch in kept.batches]
        labels: Iterable[Labels | None] = (
            repeat(None, len(lengths)) if check is None else _recut(source.labels(check), lengths)
        )
        if kept.form == requirements.packed_form:
            yield from zip(kept.rows(requirements), labels, strict=True)
        else:
            # Raw columns become packed ones: each batch is let go before the next is packed.
            released = zip(_popping(kept.rows(requirements)), labels, strict=True)
            del kept
            yield from self._keeping(number, requirements, released)

    def holds(self, number: int, requirements: PassRequirements) -> bool:
        """Return whether a part's features need no reading."""
        kept = self._kept.get(number)
        return kept is not None and kept.serves(requirements)

    def holds_all(self, requirements: PassRequirements) -> bool:
        """Return whether no part's features need reading."""
        return all(self.holds(number, requirements) for number in range(len(self.parts)))

    def known(self, requirements: PassRequirements) -> Mapping[object, object]:
        """Return results for these very rows by their keys, for a pass with such requirements.

        Labels are only summed beside what is known of rows in memory: rows that are read again
        might be other ones.
        """
        return {} if requirements.labels and not self.holds_all(requirements) else self._results

    def remember(self, results: Mapping[object, object], requirements: PassRequirements) -> None:
        """Keep results by their keys as long as the rows are in memory."""
        if self.holds_all(requirements):
            self._results |= {key: value for key, value in results.items() if key is not None}

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `open`."""
        if self._source is not None and self._source.state() != self._state:
            raise _changed()

    def _keeping(
        self,
        number: int,
        requirements: PassRequirements,
        rows: Iterable[tuple[Rows, Labels | None]],
    ) -> Iterator[tuple[Rows, Labels | None]]:
        """Yield the same rows, shrunk and kept as long as there is room for the whole part."""
        features = requirements.features
        if features is None and not requirements.keep_columns:
            yield from rows
            return
        shrink: Callable[[Any], Rows] = (
            NarrowColumns() if features is None else features.encoder().pack
        )
        with self._lock:  # drop what was kept of the part, or gathered by a pass that failed
            self._kept.pop(number, None)
            if self._sizes.pop(number, 0):
                self._full = self._spent > self._budget
        may = self._state is not None  # rows that may change between passes are not kept
        batches: list[Rows] = []
        for batch, labels in rows:
            may = may and not self._full
            if may:
                batch = shrink(batch)
                batches.append(batch)
                with self._lock:  # once past the budget no further part is kept
                    self._sizes[number] = self._sizes.get(number, 0) + batch.nbytes
                    self._full |= self._spent > self._budget
            elif batches:
                batches = []
                with self._lock:
                    self._sizes.pop(number, None)
            yield batch, labels
        if batches:
            columns = frozenset(requirements.columns)
            self._kept[number] = _KeptPart(columns, requirements.packed_form, batches)

    @property
    def _spent(self) -> int:
        return sum(self._sizes.values())


class NarrowColumns:
    """Makes every integer column as narrow as its values allow, and text into dictionary codes."""

    def __init__(self) -> None:
        self._dictionaries: dict[str, pa.Array] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.schema.names
        columns = [
            self._narrow(name, column) for name, column in zip(names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _narrow(self, name: str, column: pa.Array) -> pa.Array:
        if is_text(column.type):
            column = column.dictionary_encode()
        if pa.types.is_integer(column.type):
            return narrow_integers(column)
        if not pa.types.is_dictionary(column.type):
            return column
        # One object for equal dictionaries, so that they are stored once.
        dictionary = column.dictionary
        if same_dictionary(dictionary, self._dictionaries.get(name)):
            dictionary = self._dictionaries[name]
        self._dictionaries[name] = dictionary
        kind = next(kind for kind in _UNSIGNED if len(dictionary) < 2**kind.bit_width)
        indices = cast_integers(column.indices, kind)
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


def _popping(batches: list[Rows]) -> Iterator[Rows]:
    """Yield each batch in turn, removed from the list."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _recut(arrays: Iterator[Labels], lengths: Sequence[int]) -> Iterator[Labels]:
    """Yield the same numbers in pieces of these lengths; refuse if there are more or fewer."""
    rest: Labels = np.empty(0)
    for length in lengths:
        while len(rest) < length:
            fresh = next(arrays, None)
            if fresh is None:
                raise _changed()
            rest = np.concatenate([rest, fresh]) if len(rest) else fresh
        yield rest[:length]
        rest = rest[length:]
    if len(rest) or next(arrays, None) is not None:
        raise _changed()


def _changed() -> DataError:
    return DataError("the files changed while they were read; leave them alone, run again")
