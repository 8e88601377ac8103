"""How often every hostile condition was tried, for the table of docs/robustness.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

Tried = Callable[[str, int], None]
"""tried(condition, times)"""

COUNTS: Counter[str] = Counter()


def tried(condition: str, times: int) -> None:
    """Count trials that ended as they must."""
    COUNTS[condition] += times


def table() -> list[str]:
    """A line for every condition."""
    return [f"{condition}: {times:,}" for condition, times in COUNTS.items()]
