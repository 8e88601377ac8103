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
    from labeldp.profile.look import look as profile
    from labeldp.profile.page import page

    if html is not None:
        check_target(html)
    answer = profile(data, label=label, **columns.column_keywords(), **text.text_keywords())
    answer["findings"] = [in_flags(finding) for finding in answer["findings"]]
    answer["notes"] = [in_flags(text) for text in answer["notes"]]
    note(_NO_LABEL if label is None else answer["label"]["warning"])
    if html is not None:
        with new_path(html) as partial:
            partial.write_text(page(answer), encoding="utf-8")
    if json:
        emit_json(answer)
    else:
        _show(answer)


def _show(answer: dict[str, Any]) -> None:
    from labeldp.profile.page import cells, command, label_facts, summary

    rows = []
    for name, kind, why, distinct, missing, ends in map(cells, answer["columns"]):
        rows.append([name, kind, distinct, missing, ends or why])
    header = ["column", "kind", "distinct", "missing", REMARKS]
    emit_table(f"{answer['table']}: {summary(answer)}", header, rows)
    for text in (*answer["notes"], *answer["findings"]):
        sentence, *code = text.split("\n")
        say(f"- {sentence}", hanging="  ")
        for line in code:
            print(f"      {line}")
    if answer["label"] is not None:
        print()
        facts, before = [], ""
        for name, value in label_facts(answer["label"]):
            facts.append(("" if name == before else name, value))
            before = name
        emit_facts("Label (for the curator only)", facts)
    print(f"\n{command(answer)}")
