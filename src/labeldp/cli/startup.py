"""What a command sets up before NumPy is imported: idle threads, and a limit of address space."""

from __future__ import annotations

import os

from labeldp.errors import InputError

_MEGABYTES, _MEGABYTES_PER_CORE = 3000, 100
"""Address space that libraries and a small table need."""


def prepare() -> None:
    """Set threads up, and refuse a limit of address space under which libraries would hang.

    OpenBLAS waits for ever for memory that it does not get (`ulimit -v`, batch systems).
    """
    # idle threads of OpenBLAS go to sleep at once; log₂ of clock ticks, default 26
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    try:
        import resource
    except ImportError:  # not on this system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = (_MEGABYTES + _MEGABYTES_PER_CORE * (os.cpu_count() or 1)) * 10**6
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise InputError(
            f"out of memory: this process may use {limit // 10**6:,} MB of addresses (ulimit -v) "
            f"and needs {needed // 10**6:,} MB; raise the limit"
        )
