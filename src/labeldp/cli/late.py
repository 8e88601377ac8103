"""Modules that come with every import of SciPy, and that no command uses: loaded if one does.

SciPy copies all names of NumPy, and so imports its Fortran generator and its test tools: a tenth
of the time of a small release.
"""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

LATE = ("numpy.f2py", "numpy.testing")


def come_late() -> None:
    """Put a module that loads itself when it is used in place of each that is not loaded yet."""
    for name in LATE:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None or spec.loader is None:
            continue
        spec.loader = LazyLoader(spec.loader)
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
