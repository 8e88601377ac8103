"""What `look` found as one HTML page: no scripts, nothing from elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
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
HEADER = ("column", "kind", "why", "distinct", "missing", "blanks", "range")


def page(found: Mapping[str, Any]) -> str:
    """The page for what `look` returned."""
    return _PAGE.substitute(
        title=escape(f"Table {found['table']}"),
        summary=escape(summary(found)),
        findings=_items(found["findings"] or ["nothing unusual"]),
        header="".join(f"<th>{name}</th>" for name in HEADER),
        columns="".join(map(_row, found["columns"])),
        notes=_items(found["notes"] or ["as it stands"]),
        label=_label(found["label"]),
        command=escape(command(found)),
    )


def summary(found: Mapping[str, Any]) -> str:
    """One line about the table."""
    read = (
        "" if found["rows_read"] == found["rows"] else f" (the first {found['rows_read']:,} read)"
    )
    return f"{found['rows']:,} rows{read}, {len(found['columns'])} features"


def command(found: Mapping[str, Any]) -> str:
    """The command to copy; what only the curator can choose stands in capitals."""
    words = ["labeldp", "release", found["table"], *found["options"]]
    return " ".join([shlex.join(words), *found["needed"]])


def cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """A column's facts in the order of `HEADER`."""
    blanks = ", ".join(f"{word or '(empty)'} ×{n:,}" for word, n in facts["blanks"].items())
    ends = f"{facts['low']:g} to {facts['high']:g}" if "low" in facts else ""
    counts = (f"{facts['distinct']:,}", f"{facts['missing']:,}")
    return (facts["name"], facts["kind"], facts["why"], *counts, blanks, ends)


def label_facts(label: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was seen of the label, for the curator."""
    about = label["about"]
    return [
        ("missing labels", f"{label['missing']:,}"),
        ("98 % lie within about", "–" if about is None else f"{about[0]:g} to {about[1]:g}"),
        ("R² of a quick fit", "–" if label["r_squared"] is None else f"{label['r_squared']:.3f}"),
    ]


def _row(facts: Mapping[str, Any]) -> str:
    shown = zip(HEADER, cells(facts), strict=True)
    return f"<tr>{''.join(_cell(name, text) for name, text in shown)}</tr>"


def _cell(name: str, text: str) -> str:
    return f'<td class="{"n" if name in ("distinct", "missing") else ""}">{escape(text)}</td>'


def _label(label: Mapping[str, Any] | None) -> str:
    if label is None:
        return ""
    facts = [f"{name}: {value}" for name, value in label_facts(label)]
    return _LABEL.substitute(warning=escape(label["warning"]), facts=_items(facts))


def _items(texts: Iterable[str] | Sequence[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)
