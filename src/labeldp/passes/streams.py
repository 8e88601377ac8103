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

Batch = TypeVar("Batch")


class Streams(Generic[Batch], Iterable[tuple[int, int, Batch]]):
    """Batches of several parts, each given once to whichever thread asks.

    With each batch come the part and the number of the batch's first row within it.
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
        self.rows = [0] * len(parts)
        """Given so far, of every part."""

    def __iter__(self) -> Iterator[tuple[int, int, Batch]]:
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
            first, size = self.rows[part], self._length(batch)
            self.rows[part] += size
            self._give_back(stream)
            yield part, first, batch
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
