"""Feature maps, exact sums, ranks and leverages of the generated tables."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.golden import inside, tables

AS_RECORDED: dict[str, Any] = {"winsor": 0}
"""Numbers came as they are when tables were recorded."""
ENCODINGS: dict[str, dict[str, Any]] = {
    "": {},
    "plain": {"intercept": False, "standardise": False, "indicators": False},
    "merged": {"min_count": 60},
}
WITHOUT_COLUMNS = ("heavy tails", "merged"), ("rare levels", "merged")
"""Recorded without their columns of largest leverage, by an option that is gone."""


def statistics(name: str, encoding: str) -> dict[str, Any]:
    """What is public about a table and, by digests alone, its exact sums."""
    found = inside.statistics(tables.source(name), **(AS_RECORDED | ENCODINGS[encoding]))
    big = {key: tables.digest(found.pop(key)) for key in ("features", "names", "gram", "moments")}
    return big | found


CASES = {
    f"{name} {encoding}".strip(): partial(statistics, name, encoding)
    for name in tables.MADE
    for encoding in ENCODINGS
    if (name, encoding) not in (("tiny", "merged"), *WITHOUT_COLUMNS)
}
