"""labeldp inspect"""

from __future__ import annotations

from typing import Any

from labeldp.cli.options import Budget, EngineOptions, Json, Table
from labeldp.cli.output import emit_facts, emit_json, emit_table, in_flags, note, show
from labeldp.cli.terminal import say
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.protocol import REMARKS, number
from labeldp.mechanisms.registry import mechanisms

_WARNING = (
    "FOR THE CURATOR ONLY: residual_ms, r_squared and max_bags below are computed from the raw "
    "labels and are NOT private. Do not publish them or choose parameters by them."
)


def inspect(
    table: Table, budget: Budget, encoding: Encoding, reading: EngineOptions, json: Json = False
) -> None:
    """Look at a table with raw labels: for the curator's eyes only."""
    from labeldp.profile.inspection import inspect as look

    runner, source = reading.make(), table.source(reading.engine, encoding.formula)
    found = look(source, engine=runner, **vars(budget), **vars(encoding))
    note(_WARNING)
    if json:
        emit_json({"warning": _WARNING, **found})
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:

    emit_facts(
        "The table",
        [
            ("rows", number(found["rows"])),
            ("raw columns used", len(found["columns"])),
            ("design columns, independent", f"{found['features']}, {found['rank']}"),
            ("residual mean square γ (private)", number(found["residual_ms"], 6)),
            ("R² (private)", number(found["r_squared"])),
            ("largest leverage", number(found["max_leverage"])),
        ],
    )
    emit_table(
        "Columns",
        ["name", REMARKS, "design columns"],
        [[column["name"], column["kind"], column["width"]] for column in found["columns"]],
    )
    emit_table(
        "Rare levels cost privacy (merge them: --min-count)",
        ["level", "rows"],
        [[level["level"], number(level["rows"])] for level in found["costliest_levels"]],
    )
    emit_table(
        "Rows with the largest leverage cost most",
        ["row", "leverage", REMARKS],
        [
            [number(row["row"]), number(row["leverage"]), f"because of {row['column']}"]
            for row in found["costliest_rows"]
        ],
    )
    show(
        piece
        for mechanism in mechanisms()
        if mechanism.inspection is not None and mechanism.allows(found["delta"])
        for piece in mechanism.inspection.show(found)
    )
    for text in found["notes"]:
        say(in_flags(text))
