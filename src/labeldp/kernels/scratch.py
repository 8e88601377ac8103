"""Arrays used again from batch to batch.

A fresh array of some hundred KiB comes from the operating system and goes back to it, and
its first use costs a page fault every 4 KiB: several times the work of most kernels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


def keep_freed_memory() -> None:
    """Let the C library keep arrays of some MiB for the next use instead of giving them back.

    glibc raises its limit for that to the size of the largest array it has given back (up to
    32 MiB), so one array that is never touched will do. Elsewhere this does nothing.
    """
    np.empty(31 << 20, dtype=np.uint8)


class Scratch:
    """Uninitialised arrays by name; the next one of a name overwrites the last. For one thread."""

    def __init__(self) -> None:
        self._held: dict[object, NDArray[np.uint8]] = {}

    def __call__(self, name: object, shape: tuple[int, ...], kind: type[Any]) -> NDArray[Any]:
        size = prod(shape) * np.dtype(kind).itemsize
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size, dtype=np.uint8)
        room: NDArray[Any] = held[:size].view(kind).reshape(shape)
        return room
