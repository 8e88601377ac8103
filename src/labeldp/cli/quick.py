"""What makes a command on a small table quick: a third of its time went where nothing was done.

SciPy copies all names of NumPy, and so imports its Fortran generator and its test tools, which no
command uses: they are loaded if one does. And OpenBLAS, as NumPy and SciPy each bring it, has
threads that turn in circles for a fiftieth of a second after every piece of work, and before the
first: here they go to sleep at once.
"""

from __future__ import annotations

import os
import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

LATE = ("numpy.f2py", "numpy.testing")
_PATIENCE = "OPENBLAS_THREAD_TIMEOUT", "10"
"""The logarithm of clock ticks that an idle thread waits; OpenBLAS has 26."""


def start_quickly() -> None:
    """Before NumPy is imported; what the user's environment says of OpenBLAS stays."""
    os.environ.setdefault(*_PATIENCE)
    for name in LATE:
        _come_late(name)


def _come_late(name: str) -> None:
    """Put a module that loads itself when it is used in place of one that is not loaded yet."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
