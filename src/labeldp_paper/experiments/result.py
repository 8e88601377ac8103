"""What an experiment gives: rows for a file, tables and pictures for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labeldp.pictures import Picture

Row = dict[str, Any]
NOT_PRIVATE = (
    "An experiment, not a private release: seeds are known and errors are measured with raw labels."
)


@dataclass(frozen=True)
class Table:
    """A table as it is shown."""

    caption: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    below: tuple[str, ...] = ()
    """What must be said once about several cells."""

    @classmethod
    def of_rows(cls, caption: str, columns: Mapping[str, str], rows: Sequence[Row]) -> Table:
        """Chosen columns (name in the rows → heading) of the rows."""
        lines = tuple(tuple(shown(row.get(name)) for name in columns) for row in rows)
        return cls(caption, tuple(columns.values()), lines)


@dataclass(frozen=True)
class Result:
    """One experiment: its rows, how they are shown, and what must be said with them."""

    name: str
    title: str
    data: str
    rows: tuple[Row, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    glances: Mapping[str, str] = field(default_factory=dict)
    """What a glance at a picture shows, by its name."""
    notes: tuple[str, ...] = ()
    skipped: str | None = None
    """Why there is nothing."""


def shown(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else _short(value)
    return str(value)


def _short(value: float) -> str:
    return f"{value:,.2f}" if 100 <= abs(value) < 1e6 else f"{value:.4g}"


def spread(mean: float, deviation: float) -> str:
    """A mean and a standard deviation."""
    if abs(mean) >= 1e4:
        return f"{mean:.4g} ± {deviation:.2g}"
    digits = 4 if 0 < deviation < 0.01 else 2
    return f"{mean:,.{digits}f} ± {deviation:,.{digits}f}"
