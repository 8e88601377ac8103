"""labeldp look"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from labeldp.cli.derived import told
from labeldp.cli.options import ColumnOptions, Data, Json, TextOptions
from labeldp.cli.output import emit_facts, emit_json, emit_table, in_flags, note
from labeldp.cli.terminal import say
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.protocol import REMARKS

_NO_LABEL = (
    "no label column was named, so every column is taken for a public feature: name it (--label), "
    "or keep to yourself what is shown of it"
)


def look(
    data: Data,
    columns: ColumnOptions,
    text: TextOptions,
    label: Annotated[
        str | None,
        told("The private column; what is shown of it is for the curator only."),
    ] = None,
    html: Annotated[Path | None, told("Write one HTML page here.")] = None,
    json: Json = False,
) -> None:
    """What a table holds and what that costs; ends with the options for a release."""
    from labeldp.doctor.page import page
    from labeldp.doctor.table import look as doctor

    if html is not None:
        check_target(html)
    found = doctor(data, label=label, **columns.column_keywords(), **text.text_keywords())
    found["findings"] = [in_flags(finding) for finding in found["findings"]]
    found["notes"] = [in_flags(text) for text in found["notes"]]
    note(_NO_LABEL if label is None else found["label"]["warning"])
    if html is not None:
        with new_path(html) as partial:
            partial.write_text(page(found), encoding="utf-8")
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from labeldp.doctor.page import cells, command, label_facts, summary

    emit_table(
        f"{found['table']}: {summary(found)}",
        ["column", "kind", "distinct", "missing", REMARKS],
        [_line(*cells(facts)) for facts in found["columns"]],
    )
    for text in (*found["notes"], *found["findings"]):
        say(f"- {text}", hanging="  ")
    if found["label"] is not None:
        print()
        emit_facts("Label (for the curator only)", label_facts(found["label"]))
    print(f"\n{command(found)}")


def _line(
    name: str, kind: str, why: str, distinct: str, missing: str, blanks: str, ends: str
) -> list[str]:
    told = "; ".join(filter(None, [ends or why, blanks and f"blanks: {blanks}"]))
    return [name, kind, distinct, missing, told]
