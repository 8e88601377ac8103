"""Features kept in memory between passes, narrow and within a budget.

A release passes over the features several times. The first pass that reads them all keeps
them as the narrowest integers that hold them, as many parts as fit, and later passes read
the rest only. The first pass that encodes them keeps their codes in their place, which take
less room and need no look-ups. While all rows are kept, so are the sums and leverages
computed from them: to compute them again from the same rows would give the same. Public
features alone are kept, never labels.

What is kept is used only while the files are what they were (size, time, number on disk);
`unchanged` says so, and a pass that pairs kept features with labels asks again at its end.
Should a file be changed within a tick of the clock all the same, labels might be paired with
other rows' features: that spoils the fit, not the promise, which holds for any labels given
the features that were summed, and those are the ones whose leverages are checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import pyarrow as pa

from labeldp._arrow import avoid_large_pages
from labeldp.engines.narrow import Narrow
from labeldp.errors import DataError
from labeldp.features import Encoder, FeatureMap, Packed, Rows
from labeldp.kernels import Kernels, keep_freed_memory
from labeldp.source import Source
from labeldp.source.files import FileState

Result = TypeVar("Result")

BUDGET = 1 << 30
"""Bytes. The 132 million rows of the paper's census, packed, take two thirds of them."""


@dataclass(frozen=True)
class _Kept:
    """A part in memory: some columns as they came, or packed for features with this code."""

    batches: list[Rows]
    columns: frozenset[str]
    code: object

    def serves(self, columns: Iterable[str], code: object = None) -> bool:
        return self.code == code and self.columns.issuperset(columns)


class Memory:
    """Feature batches of one source at a time, by part."""

    def __init__(self, budget: int = BUDGET) -> None:
        keep_freed_memory()
        avoid_large_pages()
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
        kept = self.held(part, columns)
        if kept is not None:
            yield from kept
            return
        yield from self.keeper(part, columns, keep=keep).through(self._read(part, columns))

    def rows(self, part: int, features: FeatureMap, kernels: Kernels) -> Iterator[Rows]:
        """A part for encoders of these features, packed as far as it is kept."""
        kept = self.held_rows(part, features)
        if kept is not None and isinstance(kept[0], Packed):
            yield from kept
            return
        loose = self._read(part, features.columns) if kept is None else _letting_go(kept)
        yield from self.packer(part, features, kernels).through(loose)

    def held(self, part: int, columns: Sequence[str]) -> list[pa.RecordBatch] | None:
        """The columns of a part as they came, if they need not be read."""
        kept = self._kept.get(part)
        if kept is None or not kept.serves(columns):
            return None
        return [batch.select(list(columns)) for batch in kept.batches]

    def held_rows(self, part: int, features: FeatureMap) -> list[Rows] | None:
        """A part for encoders of these features, packed or not, if it need not be read."""
        kept = self._kept.get(part)
        if kept is not None and kept.serves(features.columns, _code(features)):
            return kept.batches
        return self.held(part, features.columns)

    def holds_all(self, features: FeatureMap) -> bool:
        """Whether no part needs reading for encoders of these features."""
        return all(self.held_rows(part, features) is not None for part in range(len(self._parts)))

    def keeper(self, part: int, columns: Sequence[str], *, keep: bool = True) -> Keeper:
        """What keeps a part that is being read as it comes, if it may and can."""
        return Keeper(self, part, Narrow(), columns, None, keep=keep)

    def packer(self, part: int, features: FeatureMap, kernels: Kernels) -> Keeper:
        """What keeps it packed for these features."""
        pack = Encoder(features, kernels).pack
        return Keeper(self, part, pack, features.columns, _code(features))

    def once(self, key: object, features: FeatureMap, compute: Callable[[], Result]) -> Result:
        """What `compute` makes of these features; not computed again for the rows in memory."""
        if key in self._results:
            return cast(Result, self._results[key])
        result = compute()
        if self.holds_all(features):
            self._results[key] = result
        return result

    def check_unchanged(self) -> None:
        """Refuse files that were written to since `parts`."""
        if self._source is not None and self._source.reader.state() != self._state:
            raise DataError("the files changed while they were read; leave them alone, run again")

    def may_keep(self) -> bool:
        """Whether there is room, and a way to see that files changed."""
        return self._state is not None and not self._full

    def spend(self, part: int, size: int) -> None:
        """Account for bytes of a part; once past the budget no further part is kept."""
        with self._lock:
            self._sizes[part] = self._sizes.get(part, 0) + size
            self._full |= self._spent > self._budget

    def begin(self, part: int) -> None:
        """Make room of what was held of a part, or gathered by a pass that did not end."""
        with self._lock:
            self._kept.pop(part, None)
            if self._sizes.pop(part, 0):
                self._full = self._spent > self._budget

    def give_up(self, part: int) -> None:
        """Forget what was gathered of a part; there is no room for it."""
        with self._lock:
            self._sizes.pop(part, None)

    def hold(self, part: int, kept: _Kept) -> None:
        """Hold a part, whose bytes are accounted for."""
        with self._lock:
            self._kept[part] = kept

    @property
    def _spent(self) -> int:
        return sum(self._sizes.values())

    def _read(self, part: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._parts[part].feature_batches(columns)

    def _forget(self, source: Source | None, state: tuple[FileState, ...] | None) -> None:
        self._source, self._state = source, state
        self._parts = () if source is None else source.parts()
        self._sizes: dict[int, int] = {}
        self._full = False
        self._kept: dict[int, _Kept] = {}
        self._results: dict[object, object] = {}


def _code(features: FeatureMap) -> object:
    """All that packed rows depend on."""
    return features.numeric, features.categorical


def _letting_go(batches: list[Rows]) -> Iterator[Rows]:
    """Each batch in turn, no longer in the list: its room is needed for the next form of it."""
    batches.reverse()
    while batches:
        yield batches.pop()


class Keeper:
    """Shrinks and holds the batches of one part until it is complete or the budget is spent."""

    def __init__(
        self,
        memory: Memory,
        part: int,
        shrink: Callable[[pa.RecordBatch], Rows],
        columns: Sequence[str],
        code: object,
        *,
        keep: bool = True,
    ) -> None:
        self._memory, self._part, self._shrink = memory, part, shrink
        self._columns, self._code = frozenset(columns), code
        self._batches: list[Rows] = []
        if keep:
            memory.begin(part)
        self._keep = keep and memory.may_keep()

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """All batches of the part."""
        for batch in batches:
            yield self.add(batch)
        self.finish()

    def add(self, batch: pa.RecordBatch) -> Rows:
        """The same rows, shrunk if they are kept."""
        if not (self._keep and self._memory.may_keep()):
            self._give_up()
            return batch
        shrunk = self._shrink(batch)
        self._batches.append(shrunk)
        self._memory.spend(self._part, shrunk.nbytes)
        return shrunk

    def finish(self) -> None:
        """The part is complete."""
        if self._batches:
            self._memory.hold(self._part, _Kept(self._batches, self._columns, self._code))

    def _give_up(self) -> None:
        if self._batches:
            self._memory.give_up(self._part)
        self._keep, self._batches = False, []
