"""Warning examples of other packages, which are never private. Quick to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from labeldp.mechanisms.description import Document
from labeldp.mechanisms.options import AccountQuestion


@dataclass(frozen=True)
class Demonstration:
    """A warning example: never private, written on explicit demand only, without certificate."""

    options: tuple[str, ...]
    """Which options of mechanisms it has."""
    release: Callable[..., str]
    """(new directory, source, engine, encoding, mechanism, not_private, options) ↦ a warning."""
    account_fields: tuple[str, ...]
    account: Callable[[AccountQuestion], Document]


@cache
def demonstrations() -> dict[str, EntryPoint]:
    """Return the warning examples of other packages, not yet imported."""
    entries = entry_points(group="labeldp.demonstrations")
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
