"""What `look` found, for people: rows of tables, the command to copy, and one HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Table {{ answer.table }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left; }
pre { background: #f4f4f4; padding: .8rem; white-space: pre-wrap; }
li { white-space: pre-wrap; }
.private { border: 2px solid #b00; padding: 0 1rem; }
</style></head><body>
<h1>Table {{ answer.table }}</h1><p>{{ summary }}</p>
<h2>What to know</h2>
<ul>{% for text in answer.findings or ["nothing unusual"] %}<li>{{ text }}</li>{% endfor %}</ul>
<h2>Columns</h2>
<table><thead><tr>{% for name in header %}<th>{{ name }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table>
<h2>How it was read</h2>
<ul>{% for text in answer.notes or ["as it stands"] %}<li>{{ text }}</li>{% endfor %}</ul>
{% if answer.label %}<div class="private"><h2>Label</h2>
<p><strong>{{ answer.label.warning }}</strong></p>
<ul>{% for name, value in label_facts %}<li>{{ name }}: {{ value }}</li>{% endfor %}</ul></div>
{% endif %}
<h2>Options for a release</h2><pre>{{ command }}</pre>
</body></html>
"""
_HEADER = ("column", "kind", "why", "distinct", "missing", "range")


def look_page(answer: Mapping[str, Any]) -> str:
    """Return the page for what `look` returned."""
    from jinja2 import Environment, StrictUndefined

    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return template.render(
        answer=answer,
        summary=summary(answer),
        header=_HEADER,
        rows=[cells(facts) for facts in answer["columns"]],
        label_facts=label_facts(answer["label"]) if answer["label"] else [],
        command=command(answer),
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
    """Return a column's facts: name, kind, why, distinct and missing values, range."""
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
    if "design_columns" in label:
        facts.append(("design columns, rank", f"{label['design_columns']}, {label['rank']}"))
        for row in label["costly_rows"]:
            told = f"row {row['row']:,}: {row['leverage']:.2g}, because of {row['column']}"
            facts.append(("largest leverages", told))
        for level in label["rare_levels"]:
            facts.append(("rarest levels", f"{level['level']}: {level['rows']:,} rows"))
    return facts
