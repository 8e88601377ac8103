"""What `look` found, for people: rows of tables, the command to copy, and one HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from html import escape
from string import Template
from typing import Any

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f4f4f4; padding: .8rem; white-space: pre-wrap; }
li { white-space: pre-wrap; }
.private { border: 2px solid #b00; padding: 0 1rem; }
</style></head><body>
<h1>$title</h1><p>$summary</p>
<h2>What to know</h2><ul>$findings</ul>
<h2>Columns</h2><table><thead><tr>$header</tr></thead><tbody>$columns</tbody></table>
<h2>How it was read</h2><ul>$notes</ul>
$label
<h2>Options for a release</h2><pre>$command</pre>
</body></html>
""")
_LABEL = Template("""<div class="private"><h2>Label</h2><p><strong>$warning</strong></p>
<ul>$facts</ul></div>""")
HEADER = ("column", "kind", "why", "distinct", "missing", "range")


def page(answer: Mapping[str, Any]) -> str:
    """Return the page for what `look` returned."""
    label = ""
    if answer["label"] is not None:
        facts = [f"{name}: {value}" for name, value in label_facts(answer["label"])]
        warning = escape(answer["label"]["warning"])
        label = _LABEL.substitute(warning=warning, facts=_items(facts))
    rows = (zip(HEADER, cells(facts), strict=True) for facts in answer["columns"])
    return _PAGE.substitute(
        title=escape(f"Table {answer['table']}"),
        summary=escape(summary(answer)),
        findings=_items(answer["findings"] or ["nothing unusual"]),
        header="".join(f"<th>{name}</th>" for name in HEADER),
        columns="".join(f"<tr>{''.join(_cell(*each) for each in row)}</tr>" for row in rows),
        notes=_items(answer["notes"] or ["as it stands"]),
        label=label,
        command=escape(command(answer)),
    )


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
    """Return a column's facts in the order of `HEADER`."""
    ends = f"{facts['low']:g} to {facts['high']:g}" if "low" in facts else ""
    counts = (f"{facts['distinct']:,}", f"{facts['missing']:,}")
    return (facts["name"], facts["kind"], facts["why"], *counts, ends)


def label_facts(label: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was seen of the label and what costs privacy, for the curator."""
    about, explained = label["about"], label["r_squared"]
    facts = [
        ("missing labels", f"{label['missing']:,}"),
        ("98 % lie within about", "–" if about is None else f"{about[0]:g} to {about[1]:g}"),
        ("R² of a quick fit", "–" if explained is None else f"{explained:.3f}"),
    ]
    if "design_columns" not in label:
        return facts
    facts.append(("design columns, rank", f"{label['design_columns']}, {label['rank']}"))
    for row in label["costly_rows"]:
        told = f"row {row['row']:,}: {row['leverage']:.2g}, because of {row['column']}"
        facts.append(("largest leverages", told))
    for level in label["rare_levels"]:
        facts.append(("rarest levels", f"{level['level']}: {level['rows']:,} rows"))
    return facts


def _cell(name: str, text: str) -> str:
    return f'<td class="{"n" if name in ("distinct", "missing") else ""}">{escape(text)}</td>'


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)
