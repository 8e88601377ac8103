"""What `look` found, for people: rows of tables and the command to copy. Quick to import."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any


def summary(answer: Mapping[str, Any]) -> str:
    """Return one line about the table."""
    read, rows = answer["rows_read"], answer["rows"]
    part = "" if read == rows else f" (the first {read:,} read)"
    return f"{rows:,} rows{part}, {len(answer['columns'])} features"


def command(answer: Mapping[str, Any]) -> str:
    """Return the command to copy; what only the curator can choose stands in capitals.

    Copies of the label are found only once it is named, so until then that is the next step.
    """
    if answer["label"] is None:
        return f"{shlex.join(['labeldp', 'look', answer['table']])} --label COLUMN"
    words = ["labeldp", "release", answer["table"], *answer["options"]]
    return " ".join([shlex.join(words), *answer["needed"]])


def cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a column's facts: name, kind, why, distinct and missing values, range."""
    ends = f"{facts['low']:g} to {facts['high']:g}" if "low" in facts else ""
    counts = (f"{facts['distinct']:,}", f"{facts['missing']:,}")
    return (facts["name"], facts["kind"], facts["why"], *counts, ends)


def label_facts(label: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was seen of the label and what costs privacy, for the curator."""
    explained = label["r_squared"]
    facts = [
        ("missing labels", f"{label['missing']:,}"),
        ("R² of a quick fit", "–" if explained is None else f"{explained:.3f}"),
    ]
    if "design_columns" in label:
        facts.append(("design columns, rank", f"{label['design_columns']}, {label['rank']}"))
        for row in label["costly_rows"]:
            told = f"row {row['row']:,}: {row['leverage']:.2g}, because of {row['column']}"
            facts.append(("largest leverages", told))
        for level in label["rare_levels"]:
            facts.append(("rarest levels", f"{level['level']}: {level['rows']:,} rows"))
    return facts
