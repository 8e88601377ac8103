"""Batches that Arrow reads ahead, in a thread of its own, from a file that Python reads.

If the interpreter ends while that thread is inside Python, the process ends by SIGABRT. So whoever
has done with the batches, by an error or in the middle too, shuts the tap and waits until Arrow has
let go of it; those that were just left wait when the interpreter ends, before it does.
"""

from __future__ import annotations

import atexit
import io
import time
from collections.abc import Callable, Iterator
from traceback import clear_frames
from types import TracebackType
from typing import Any
from weakref import WeakSet, ref

import pyarrow as pa
from pyarrow.csv import CSVStreamingReader

_PATIENCE, _GLANCE = 10.0, 1e-3
"""Seconds to wait, and between two looks."""

_OPEN: WeakSet[Stream] = WeakSet()


class Tap(io.RawIOBase):
    """A file for Arrow, which ends as soon as it is shut."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self.shut = file, False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As the file's, until it is shut."""
        return b"" if self.shut else bytes(self._file.read(size))

    def close(self) -> None:
        self._file.close()
        super().close()


class Stream:
    """The batches of a file, once."""

    def __init__(self, file: Any, parsed: Callable[[Any], CSVStreamingReader]) -> None:
        """file: a path, or what Python reads;  parsed: makes a reader of it."""
        self._tap = Tap(file) if hasattr(file, "read") else None
        given = file if self._tap is None else pa.PythonFile(self._tap, mode="r")
        _OPEN.add(self)
        self._reader: CSVStreamingReader | None = None
        try:
            self._reader = parsed(given)
        except BaseException as error:
            del given
            clear_frames(error.__traceback__)  # what has failed still holds the file
            self.close()
            raise

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            yield batch

    def close(self) -> None:
        """Read no more, and wait for what is being read."""
        self._reader = None
        if self._tap is None:
            return
        self._tap.shut = True
        held, self._tap = ref(self._tap), None
        until = time.monotonic() + _PATIENCE
        while held() is not None and time.monotonic() < until:
            time.sleep(_GLANCE)


@atexit.register
def _close_all() -> None:
    for stream in list(_OPEN):
        stream.close()
