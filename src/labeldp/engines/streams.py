"""Parts of a table read by several threads, without idle ones and without a backlog.

A thread takes an open part that nobody is reading, or opens the next one, or, when all are
open, waits for one to come free. So many row groups are decoded side by side, and a single
huge one (or a CSV file, or a frame) is decoded by one thread at a time while the others count
what was read. Every thread holds one batch, whatever the layout of the files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import DataError

Batch = TypeVar("Batch")

_PART = 40
"""Bits for the row within a part."""


def place(number: int) -> tuple[int, int]:
    """The part, and the row within it, that a number of `Streams` stands for."""
    return number >> _PART, number & ((1 << _PART) - 1)


class Streams(Generic[Batch], Iterable[tuple[int, Batch]]):
    """Batches of several parts, each given once to whichever thread asks.

    With each batch comes the number of its first row: the part, and the row within it, in one
    integer that sorts by both. `row` turns it into the row of the table, once all are read.
    """

    def __init__(
        self,
        parts: Sequence[Callable[[], Iterable[Batch]]],
        length: Callable[[Batch], int],
        advance: Callable[[int], None],
    ) -> None:
        self._parts, self._length, self._advance = parts, length, advance
        self._changed = threading.Condition()
        self._free: list[tuple[int, Iterator[Batch]]] = []
        self._opened = self._busy = 0
        self._failed = False
        self._rows = [0] * len(parts)

    @property
    def rows(self) -> int:
        """Rows given so far."""
        return sum(self._rows)

    def row(self, number: int) -> int:
        """The row of the table that a number stands for."""
        part, row = place(number)
        return sum(self._rows[:part]) + row

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        while (stream := self._take()) is not None:
            part, batches = stream
            try:
                batch = next(batches, None)
            except BaseException:
                self._give_back(None, failed=True)
                raise
            if batch is None:
                self._give_back(None)
                continue
            first, size = self._rows[part], self._length(batch)
            self._rows[part] += size
            self._give_back(stream)
            yield (part << _PART) + first, batch
            self._advance(size)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let the threads end soon if the block is left by an error or an interrupt."""
        try:
            yield
        except BaseException:
            with self._changed:
                self._failed = True
                self._changed.notify_all()
            raise

    def _take(self) -> tuple[int, Iterator[Batch]] | None:
        with self._changed:
            while not self._failed:
                if self._free:
                    self._busy += 1
                    return self._free.pop()
                if self._opened < len(self._parts):
                    part = self._opened
                    self._opened += 1
                    self._busy += 1
                    return part, iter(self._parts[part]())
                if not self._busy:
                    return None
                self._changed.wait()
            return None

    def _give_back(self, stream: tuple[int, Iterator[Batch]] | None, failed: bool = False) -> None:
        with self._changed:
            self._busy -= 1
            self._failed |= failed
            if stream is not None:
                self._free.append(stream)
            self._changed.notify_all()


def recut(
    arrays: Iterator[NDArray[np.float64]], lengths: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    """The same numbers in pieces of these lengths; a refusal if there are more or fewer."""
    rest: NDArray[np.float64] = np.empty(0)
    for length in lengths:
        while len(rest) < length:
            fresh = next(arrays, None)
            if fresh is None:
                raise _uneven()
            rest = np.concatenate([rest, fresh]) if len(rest) else fresh
        yield rest[:length]
        rest = rest[length:]
    if len(rest) or next(arrays, None) is not None:
        raise _uneven()


def _uneven() -> DataError:
    return DataError("the files changed while they were read; leave them alone, run again")
