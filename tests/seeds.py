"""Public seeds of bags for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count


def seeds_from(name: str) -> Callable[[], str]:
    """In place of `fresh_seed`: other seeds at every call, the same for the same name."""
    numbers = count()
    return lambda: hashlib.sha256(f"{name} {next(numbers)}".encode()).hexdigest()
