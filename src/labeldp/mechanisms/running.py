"""What holds of every run of a plan: that it fits memory, and how the certificate tells of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from labeldp._random import Randomness
from labeldp.errors import PlanError
from labeldp.release import drawn_fields
from labeldp.source import Source
from labeldp.statistics import LabelGrid

MOST_NUMBERS = 500_000_000
"""A release drawn in memory: four gigabytes of it."""


def check_memory(rows: int, columns: int) -> None:
    """Refuse to draw in memory what does not fit an ordinary machine's."""
    if rows * columns > MOST_NUMBERS:
        raise PlanError(
            f"{rows:,} rows of {columns} columns are too many to hold in memory; write them "
            "to a directory as they are drawn (plan.release_to, labeldp release)"
        )


def now() -> str:
    """To the second, for the certificate."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_fields(
    drawn: str, source: Source, labels: LabelGrid, grid: int, randomness: Randomness
) -> dict[str, Any]:
    """How numbers were rounded, drawn and read: all of it public, fixed before labels are read."""
    return {
        "numerics": {
            "aggregate_labels": drawn,
            "grid_exponent": grid,
            "label_exponent": labels.exponent,
            "feature_sums": "exact integers",
            "residual": "rigorous enclosure",
        },
        "randomness": drawn_fields(randomness.private),
        "labels": {
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
        },
        "ledger": None,
        "about": None,
        "released_at": None,
    }
