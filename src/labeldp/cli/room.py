"""Memory that a process may use: said before the work, and at its end if it was too little.

Under a limit of address space (`ulimit -v`, batch systems) OpenBLAS waits for ever for room that
it does not get, and Arrow's usual allocator reserves a GiB at once. So where there is a limit, both
are told to be modest, and one too low for any table is refused before they are loaded.
"""

from __future__ import annotations

import os
import sys

from labeldp.threads import addresses

_LEAST = 600
_THREAD = 10
"""MB of address space for libraries and a small table on two cores, and for every further core."""
_MODEST = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "2",  # Arrow's other threads
    "OPENBLAS_NUM_THREADS": "1",
}
_LIGHT = {"--help", "--version"}
_ARENAS = -8  # M_ARENA_MAX of mallopt

OUT_OF_MEMORY = "out of memory; allow more (ulimit -v), free some, or read with fewer `threads`"


def too_little() -> str | None:
    """Be modest where address space is limited; why that is not enough, if so."""
    limit = addresses()
    if limit is None or _LIGHT & set(sys.argv[1:]) or len(sys.argv) < 2:
        return None
    need = least()
    if limit < need:
        return (
            f"out of memory: this process may use {limit:,} MB of addresses (ulimit -v) and needs "
            f"{need:,} MB; raise the limit"
        )
    for name, value in _MODEST.items():
        os.environ.setdefault(name, value)
    _share_one_arena()
    return None


def least() -> int:
    """MB of addresses without which no table is read."""
    return _LEAST + _THREAD * max(0, (os.cpu_count() or 1) - 2)


def is_lack_of_room(problem: BaseException) -> bool:
    """Whether an error comes from a lack of memory, in whatever words a library says so."""
    if isinstance(problem, MemoryError):
        return True
    said = str(problem)
    unmapped = isinstance(problem, ImportError) and (
        "failed to map" in said or "cannot allocate" in said.lower()
    )
    return unmapped or (isinstance(problem, RuntimeError) and "can't start new thread" in said)


def _share_one_arena() -> None:
    """glibc reserves 64 MiB of addresses for every thread otherwise."""
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(_ARENAS, 1)
    except (OSError, AttributeError):  # another C library
        return
