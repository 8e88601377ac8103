"""What a command sets up before NumPy is imported: threads, memory, late modules.

Two modules that SciPy imports and no command uses are loaded only on use (they cost a third of a
small command's time), and idle threads of OpenBLAS go to sleep at once. Under a limit of address
space (`ulimit -v`, batch systems) OpenBLAS waits for ever for memory that it does not get, and
Arrow reserves a GiB at once; there both are set to need little, and a limit that is too low for
any table is refused.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from importlib.util import LazyLoader, find_spec, module_from_spec

from labeldp.errors import InputError
from labeldp.threads import address_limit_mb

LATE_MODULES = ("numpy.f2py", "numpy.testing")
OUT_OF_MEMORY = "out of memory; allow more (ulimit -v), free some, or read with fewer `threads`"
_LEAST_MEGABYTES = 600
_MEGABYTES_PER_CORE = 10
"""Address space for libraries and a small table on two cores, and for every further core."""
_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "2",  # Arrow's other threads
    "OPENBLAS_NUM_THREADS": "1",
}
_M_ARENA_MAX = -8  # of mallopt


def prepare() -> None:
    """Set all of this up; settings of the user's environment stay."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")  # log₂ of clock ticks; default 26
    limit = address_limit_mb()
    if limit is not None:
        if limit < least_megabytes():
            raise InputError(
                f"out of memory: this process may use {limit:,} MB of addresses (ulimit -v) and "
                f"needs {least_megabytes():,} MB; raise the limit"
            )
        for name, value in _FRUGAL.items():
            os.environ.setdefault(name, value)
        with suppress(OSError, AttributeError):  # another C library
            # glibc reserves 64 MiB of addresses for every thread otherwise
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    for name in LATE_MODULES:
        _load_late(name)


def least_megabytes() -> int:
    """Return the address space without which no table is read."""
    return _LEAST_MEGABYTES + _MEGABYTES_PER_CORE * max(0, (os.cpu_count() or 1) - 2)


def is_out_of_memory(problem: BaseException) -> bool:
    """Tell whether an error comes from a lack of memory; libraries say so in many ways."""
    text = str(problem)
    if isinstance(problem, ImportError):
        return "failed to map" in text or "cannot allocate" in text.lower()
    if isinstance(problem, RuntimeError):
        return "can't start new thread" in text
    return isinstance(problem, MemoryError)


def _load_late(name: str) -> None:
    """Put a module that loads itself on first use into `sys.modules`."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
