"""The benchmarks are programs, not a package: their folder is on the path while they are tested."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def program() -> Iterator[Callable[[str], Any]]:
    """Imports a benchmark by name (`pass` is no name that an import statement takes)."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    names = {path.stem for path in FOLDER.glob("*.py")}
    for name in names & (set(sys.modules) - before):
        del sys.modules[name]
