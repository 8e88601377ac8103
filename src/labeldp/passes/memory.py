"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them all keeps
them as the narrowest integers that hold them, as many parts as fit, and later passes read
the rest only. The first pass that encodes them keeps their codes in their place, which take
less room and need no look-ups. While all rows are kept, so are sums, leverages and lengths
computed from them: to compute them again from the same rows would give the same. Public
features alone are kept, never labels.

What is kept is used only while the files are what they were (size, times, number on disk);
`open` sees to that, and a pass that pairs kept features with labels asks again at its end.
Should a file be changed within a tick of the clock all the same, labels might be paired with
other rows' features: that spoils the fit, not the promise, which holds for any labels given
the features that were summed, and those are the ones whose leverages or lengths are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from labeldp.arrow_util import avoid_large_pages
from labeldp.data.files import FileState
from labeldp.data.labels import LabelCheck
from labeldp.data.persons import PERSON_COLUMN
from labeldp.data.source import Source
from labeldp.errors import DataError
from labeldp.features.accumulators import Labels, Pair, PassRequirements, pairs_of
from labeldp.features.encoder import Encoder, Rows
from labeldp.kernels import kernels_for
from labeldp.kernels.scratch import keep_freed_memory
from labeldp.passes.narrow import Narrow

BUDGET = 1 << 30
"""Bytes. The 132 million rows of the paper's census, packed, take two thirds of them."""


@dataclass(frozen=True)
class _Part:
    """A part in memory: some columns as they came, or all that one form of encoded rows needs."""

    columns: frozenset[str]
    form: object
    batches: list[Any]
    """Record batches, or packed ones if they have a form."""

    def serves(self, needs: PassRequirements) -> bool:
        return self.form in (None, needs.form) and self.columns.issuperset(needs.columns)

    def given(self, needs: PassRequirements) -> list[Rows]:
        if self.form is not None:
            return self.batches
        marks = [PERSON_COLUMN] if PERSON_COLUMN in self.batches[0].schema.names else []
        return [batch.select([*needs.columns, *marks]) for batch in self.batches]


class Memory:
    """Feature batches of one source at a time, by part."""

    def __init__(self, budget: int = BUDGET) -> None:
        keep_freed_memory()
        avoid_large_pages()
        self._budget = budget
        self._lock = threading.Lock()
        self._forget(None, None)

    def __reduce__(self) -> tuple[type[Memory], tuple[int]]:
        """A copy, such as another process is given, begins with nothing."""
        return type(self), (self._budget,)

    def open(self, source: Source) -> None:
        """Turn to a source; what is kept of another one, or of older files, is dropped."""
        state = source.state()
        if state is not None and source.seen not in (None, state):
            raise _changed()
        if self._source is not source or self._state != state or state is None:
            self._forget(source, state)

    def read(
        self, number: int, needs: PassRequirements, check: LabelCheck | None
    ) -> Iterator[Pair]:
        """A part's rows, from memory if they are there; else they are read, and kept if they may.

        Of rows in memory only the labels are read. Encoded rows are given packed if they are kept.
        """
        source, kept = self.parts[number], self._kept.get(number)
        if kept is None or not kept.serves(needs):
            yield from self._keeping(number, needs, pairs_of(source, needs, check))
            return
        lengths = [batch.num_rows for batch in kept.batches]
        labels: Iterable[Labels | None] = (
            repeat(None, len(lengths)) if check is None else _recut(source.labels(check), lengths)
        )
        if kept.form == needs.form:
            yield from zip(kept.given(needs), labels, strict=True)
        else:
            loose = zip(_letting_go(kept.given(needs)), labels, strict=True)
            del kept
            yield from self._keeping(number, needs, loose)

    def holds(self, number: int, needs: PassRequirements) -> bool:
        """Whether a part's features need no reading."""
        kept = self._kept.get(number)
        return kept is not None and kept.serves(needs)

    def holds_all(self, needs: PassRequirements) -> bool:
        """Whether no part's features need reading."""
        return all(self.holds(number, needs) for number in range(len(self.parts)))

    def known(self, needs: PassRequirements) -> Mapping[object, object]:
        """Results for these very rows by their keys, for a pass with such needs.

        Labels are only summed beside what is known of the rows in memory: of rows that are read
        again they might be those of other features.
        """
        return {} if needs.labels and not self.holds_all(needs) else self._results

    def remember(self, results: Mapping[object, object], needs: PassRequirements) -> None:
        """Results by their keys, to be known as long as the rows are in memory."""
        if self.holds_all(needs):
            self._results |= {key: value for key, value in results.items() if key is not None}

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `open`."""
        if self._source is not None and self._source.state() != self._state:
            raise _changed()

    def _keeping(
        self, number: int, needs: PassRequirements, pairs: Iterable[Pair]
    ) -> Iterator[Pair]:
        """The same, shrunk and kept as long as there is room for the whole part."""
        features = needs.features
        if features is None and not needs.keep:
            yield from pairs
            return
        kernels = None if features is None else kernels_for(features.rows)
        shrink = Narrow() if features is None else Encoder(features, kernels).pack
        self._begin(number)
        may, batches = self._state is not None, list[Rows]()
        for rows, labels in pairs:
            may = may and not self._full
            if may:
                rows = shrink(rows)
                batches.append(rows)
                self._spend(number, rows.nbytes)
            elif batches:
                batches = []
                self._give_up(number)
            yield rows, labels
        if batches:
            self._kept[number] = _Part(frozenset(needs.columns), needs.form, batches)

    def _begin(self, number: int) -> None:
        """Make room of what was kept of a part, or gathered by a pass that did not end."""
        with self._lock:
            self._kept.pop(number, None)
            if self._sizes.pop(number, 0):
                self._full = self._spent > self._budget

    def _spend(self, number: int, size: int) -> None:
        """Account for bytes of a part; once past the budget no further part is kept."""
        with self._lock:
            self._sizes[number] = self._sizes.get(number, 0) + size
            self._full |= self._spent > self._budget

    def _give_up(self, number: int) -> None:
        """Forget what was gathered of a part; there is no room for it."""
        with self._lock:
            self._sizes.pop(number, None)

    @property
    def _spent(self) -> int:
        return sum(self._sizes.values())

    def _forget(self, source: Source | None, state: tuple[FileState, ...] | None) -> None:
        self._source, self._state = source, state
        self.parts = () if source is None else source.parts()
        self._sizes: dict[int, int] = {}
        self._full = False
        self._kept: dict[int, _Part] = {}
        self._results: dict[object, object] = {}


def _letting_go(batches: list[Rows]) -> Iterator[Rows]:
    """Each batch in turn, no longer in the list: its room is needed for the next form of it."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _recut(arrays: Iterator[Labels], lengths: Sequence[int]) -> Iterator[Labels]:
    """The same numbers in pieces of these lengths; a refusal if there are more or fewer."""
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
