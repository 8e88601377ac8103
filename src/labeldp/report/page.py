"""HTML pages: no script, nothing from elsewhere, readable in black and white.

`view` turns the dict of `document` into texts and places; the template only puts them on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labeldp.display import format_budget
from labeldp.profile import cells, command, summary
from labeldp.report.risk import format_lower_bound, format_upper_bound


def report_page(document: Mapping[str, Any]) -> str:
    """Return the HTML page of a report."""
    return _render("report.html", view(document))


def look_page(answer: Mapping[str, Any]) -> str:
    """Return the HTML page of what `look` found."""
    facts: dict[str, Any] = {
        "answer": answer,
        "summary": summary(answer),
        "columns": [cells(column) for column in answer["columns"]],
        "command": command(answer),
    }
    return _render("look.html", facts)


def _render(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Texts come from anyone's files, so every one is escaped; a name that is missing is an error.
    environment = Environment(
        loader=PackageLoader("labeldp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(values)


def view(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that the template shows, as texts, lists of texts and places of marks."""
    kind = "Plan" if document["release"] is None else f"Release {document['release']}"
    exceeded, beliefs = document["exceeded"], document["beliefs"]
    changes = "; ".join(
        f"from {b['before']:.0%} to between {b['after'][0]:.1%} and {b['after'][1]:.1%}"
        for b in beliefs
    )
    return {
        **document,
        "subtitle": f"{kind}: label differential privacy, "
        + format_budget(document["epsilon"], document["delta"]),
        "not_stated": ", ".join(document["not_stated"]),
        "exceeded": f"; more in at most {_most(exceeded)} of releases" if exceeded else "",
        "belief_chart": {
            "height": 30 * len(beliefs),
            # from the least to the largest belief afterwards; places in percent
            "bars": [
                {
                    "label": f"{belief['before']:.0%}",
                    "y": 14 + 30 * place,
                    "before": f"{100 * belief['before']:.2f}",
                    "low": f"{100 * belief['after'][0]:.2f}",
                    "high": f"{100 * belief['after'][1]:.2f}",
                }
                for place, belief in enumerate(beliefs)
            ],
            "description": f"What an attacker may come to believe. {changes}",
        },
        "risk_tables": [
            _table(
                "Beliefs before and after, and how often the best guess is right",
                ("before", "after, at least", "after, at most", "right guesses without", "with"),
                [
                    (
                        f"{100 * belief['before']:g}%",
                        f"{format_lower_bound(100 * belief['after'][0])}%",
                        _most(belief["after"][1]),
                        _most(belief["without"]),
                        _most(belief["right"]),
                    )
                    for belief in beliefs
                ],
            ),
            _table(
                "The best attack",
                ("false alarms allowed", "found, at most"),
                [(f"{100 * e['false_alarms']:g}%", _most(e["found"])) for e in document["attacks"]],
            ),
            _table(
                document["beyond"],
                ("rows", "ε", "δ"),
                [
                    (
                        f"{group['rows']:,}",
                        "no bound"
                        if group["epsilon"] is None
                        else format_upper_bound(group["epsilon"], 4),
                        f"{group['delta']:.3g}",
                    )
                    for group in document["groups"]
                ],
            ),
        ],
        "curve_table": _table(
            "",
            ("ε", *(f"{epsilon:.3g}" for epsilon, _ in document["curve"])),
            [("δ", *(format_upper_bound(delta, 2) for _, delta in document["curve"]))],
        ),
    }


def _table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[str, Any]:
    return {"caption": caption, "header": header, "rows": [(row[0], row[1:]) for row in rows]}


def _most(value: float) -> str:
    """Return an upper bound of a probability."""
    return f"{format_upper_bound(100 * value)}%"
