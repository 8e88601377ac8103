"""What a command sets up before NumPy is imported: idle threads, and limits of address space.

Under such a limit (`ulimit -v`, batch systems) OpenBLAS waits for ever for memory that it does not
get, and Arrow reserves a GiB at once. There both are set to need little, and a limit that is too
low for any table is refused.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from labeldp.errors import InputError
from labeldp.threads import address_limit_mb

_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "2",  # Arrow's other threads
    "OPENBLAS_NUM_THREADS": "1",
}
_M_ARENA_MAX = -8  # of mallopt


def least_megabytes() -> int:
    """Return the address space for libraries and a small table, with 10 MB for further cores."""
    return 600 + 10 * max(0, (os.cpu_count() or 1) - 2)


def prepare() -> None:
    """Set all of this up; settings of the user's environment stay."""
    # idle threads of OpenBLAS go to sleep at once; log₂ of clock ticks, default 26
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    limit = address_limit_mb()
    if limit is None:
        return
    if limit < least_megabytes():
        raise InputError(
            f"out of memory: this process may use {limit:,} MB of addresses (ulimit -v) and needs "
            f"{least_megabytes():,} MB; raise the limit"
        )
    for name, value in _FRUGAL.items():
        os.environ.setdefault(name, value)
    with suppress(OSError, AttributeError):  # another C library
        # glibc reserves 64 MiB of addresses for every thread otherwise
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
