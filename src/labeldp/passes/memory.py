"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them keeps them, as
many parts as fit, and later passes read only the rest. The first pass that encodes them keeps
their codes instead, which take less room and need no look-ups. While all rows are kept, so are
the results computed from them (sums, leverages, norms): the same rows would give the same again.
Only public features are kept, never labels.

What is kept is used only while the files are what they were (size, times, number on disk): `open`
sees to that, and a pass that pairs kept features with labels asks again at its end. Should a file
change within a tick of the clock all the same, labels might be paired with other rows' features.
That spoils the fit, not the guarantee: it holds for any labels given the features that were
summed, and those are the ones whose leverages or norms are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import avoid_large_pages, narrow_integers
from labeldp.data.columns import is_text_type
from labeldp.data.files import FileState
from labeldp.data.labels import LabelCheck
from labeldp.data.source import Source
from labeldp.errors import DataError
from labeldp.kernels import keep_freed_memory
from labeldp.passes.accumulator import Batch, Labels, PassRequirements

BUDGET = 1 << 30
"""Bytes. The 132 million rows of the paper's census, packed, take two thirds of them."""


class _KeptPart(NamedTuple):
    """A part in memory: some raw columns (`form` None), or all that one packed form needs."""

    columns: frozenset[str]
    form: object
    batches: list[Any]


class Memory:
    """Feature batches of one source at a time, by part, and results computed from all of them."""

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
        self._kept: dict[int, _KeptPart] = {}
        self._sizes: dict[int, int] = {}  # bytes by part, also of parts that are being read
        self._full = False
        self._results: dict[object, object] = {}

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `open`."""
        if self._source is not None and self._source.state() != self._state:
            raise _changed()

    def _holds(self, number: int, requirements: PassRequirements) -> bool:
        kept = self._kept.get(number)
        if kept is None or kept.form not in (None, requirements.packed_form):
            return False
        return kept.columns.issuperset(requirements.columns)

    def holds_all(self, requirements: PassRequirements) -> bool:
        """Return whether no part's features need reading."""
        return all(self._holds(number, requirements) for number in range(len(self.parts)))

    def known_results(self, requirements: PassRequirements) -> Mapping[object, object]:
        """Return results for these very rows by their keys, for a pass with such requirements.

        Labels are only summed beside what is known of rows in memory: rows that are read again
        might be other ones.
        """
        return {} if requirements.labels and not self.holds_all(requirements) else self._results

    def remember(self, results: Mapping[object, object], requirements: PassRequirements) -> None:
        """Keep results by their keys as long as the rows are in memory."""
        if self.holds_all(requirements):
            self._results |= results

    def read(
        self, number: int, requirements: PassRequirements, check: LabelCheck | None
    ) -> Iterator[Batch]:
        """Yield a part's rows, from memory if they are there; else read them, and keep them.

        Of rows in memory only the labels are read. Rows that are kept encoded are given packed, and
        raw ones perhaps with more columns than are required.
        """
        source = self.parts[number]
        if not self._holds(number, requirements):
            batches = source.numbered_batches(requirements.columns, check)
            rows = ((batch, labels) for _, batch, labels in batches)
            yield from self._keep(number, requirements, rows)
            return
        kept = self._kept[number]
        lengths = [batch.num_rows for batch in kept.batches]
        labels: Iterable[Labels | None] = repeat(None, len(lengths))
        if check is not None:
            alone = source.numbered_batches((), check, persons=False)
            labels = _recut((y for _, _, y in alone if y is not None), lengths)
        if kept.form == requirements.packed_form:
            yield from zip(kept.batches, labels, strict=True)
        else:
            # Raw columns become packed ones: each batch is let go before the next is packed.
            raw = ((kept.batches.pop(0), each) for each in labels)
            yield from self._keep(number, requirements, raw)

    def _keep(
        self, number: int, requirements: PassRequirements, rows: Iterable[Batch]
    ) -> Iterator[Batch]:
        """Yield the same rows, narrow or packed, and keep them if the whole part fits."""
        if self._state is None:  # frames may change between passes, unseen
            yield from rows
            return
        features = requirements.features
        narrow = narrow_columns if features is None else features.encoder().pack
        with self._lock:  # drop what was kept of the part, or gathered by a pass that failed
            self._kept.pop(number, None)
            if self._sizes.get(number):
                self._full = False
            self._sizes[number] = 0
        batches, fits = list[Any](), not self._full  # once it is full, no further part is tried
        for batch, labels in rows:
            if fits:
                batch = narrow(batch)
                batches.append(batch)
                with self._lock:
                    self._sizes[number] += batch.nbytes
                    fits = self._spent <= self._budget
                    if not fits:
                        self._full, self._sizes[number] = True, 0
                        batches.clear()
            yield batch, labels
        if batches:
            columns = frozenset(requirements.columns)
            self._kept[number] = _KeptPart(columns, requirements.packed_form, batches)

    @property
    def _spent(self) -> int:
        return sum(self._sizes.values())


def narrow_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make every integer column as narrow as its values allow, and text into narrow codes."""
    columns = []
    for column in batch.columns:
        if is_text_type(column.type):
            column = column.dictionary_encode()
        if pa.types.is_integer(column.type):
            column = narrow_integers(column)
        elif pa.types.is_dictionary(column.type):
            codes = narrow_integers(column.indices)
            column = pa.DictionaryArray.from_arrays(codes, column.dictionary, safe=False)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


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
