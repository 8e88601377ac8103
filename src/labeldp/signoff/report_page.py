"""The report as one HTML file to read, print and sign: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from labeldp.signoff.charts import belief_chart, curve_chart
from labeldp.signoff.risk import at_least, at_most

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --ink: #1b1b1b; --paper: #fff; --soft: #595959; --rule: #c9c9c9; --mark: #0b57a4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --paper: #16181b; --soft: #b4b4b4; --rule: #4a4d52; --mark: #8ec5ff; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem auto; max-width: 46rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; }
h2 { font-size: 1.1rem; margin: 1.4rem 0 .3rem; }
p.lead { font-size: 1.05rem; }
.soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; margin: .3rem 0; }
table.numbers { margin-top: .8rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .2rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .2rem .5rem .2rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; }
tbody th { font-weight: 400; color: var(--soft); width: 34%; }
table.numbers td, table.numbers thead th { text-align: right; font-variant-numeric: tabular-nums; }
table.numbers tbody th { color: inherit; width: auto; }
table.numbers thead th:first-child { text-align: left; }
.weak { border: 2px solid currentColor; padding: .4rem .8rem; }
table.wide { font-size: .85em; }
svg { width: 100%; max-width: 36rem; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .rule { stroke: var(--rule); stroke-width: 1; }
svg .line { stroke: var(--mark); stroke-width: 2; fill: none; }
svg .span { stroke: var(--mark); stroke-width: 6; }
svg .mark { stroke: var(--ink); stroke-width: 2; fill: var(--paper); }
.sign { display: flex; gap: 2rem; margin-top: 2.4rem; }
.sign span { flex: 1; border-top: 1px solid var(--ink); padding-top: .2rem; }
@page { margin: 12mm; }
@media print {
  :root { --ink: #000; --paper: #fff; --soft: #333; --rule: #999; --mark: #000; }
  body { font-size: 9.5px; line-height: 1.3; margin: 0; max-width: none; padding: 0; }
  h1 { font-size: 1.2rem; } h2 { font-size: .85rem; margin: .45rem 0 .1rem; }
  p.lead { font-size: 1.1em; }
  p, ul { margin: .2rem 0; } th, td { padding: .05rem .4rem .05rem 0; }
  h2, table, svg, .weak, .sign { break-inside: avoid; }
  h2, h2 + p, svg { break-after: avoid; }
  table.numbers { margin-top: .3rem; }
  svg { max-width: 19rem; } .sign { margin-top: 1.6rem; }
}
</style></head><body><main>
<h1>$title</h1>
<p class="soft">$subtitle</p>
$weak
<h2>The promise</h2>
<p class="lead">$promise</p>
<p>Covered: $unit.</p>
<h2>Who and why</h2>$about$not_stated
<h2>What was published</h2>$published
<h2>How much risk</h2>
<p>Someone who knows everything but $whose, and two cases that are possible, holds one of them
likely to some degree. The release can move that belief only so far$exceeded.</p>
$belief_chart$beliefs$attacks$groups
<h2>The privacy curve</h2>
<p>Every point of it holds: at this ε, but for a probability of at most this δ.</p>
$curve_chart$curve
<h2>What privacy costs</h2>$error
<h2>What is not protected</h2><ul>$not_protected</ul>
<h2>What else was spent</h2><p>$ledger.</p>
<h2>How to check</h2><ul>$checked</ul>
<p class="soft">Digest: <code>$seal</code></p>
<div class="sign"><span>name</span><span>signature</span><span>date</span></div>
</main></body></html>
""")


def page(told: Mapping[str, Any]) -> str:
    """The page for a report."""
    beliefs, curve = told["beliefs"], told["curve"]
    spans = [(each["before"], *each["after"]) for each in beliefs]
    return _PAGE.substitute(
        title=escape(told["title"]),
        subtitle=escape(_subtitle(told)),
        weak=_weak(told["weak"]),
        promise=escape(told["promise"]),
        unit=escape(told["unit"]),
        about=_facts(told["about"]) if told["about"] else "",
        not_stated=_not_stated(told["not_stated"]),
        published=_facts(told["published"]),
        whose=escape(told["whose"]),
        exceeded=_exceeded(told["exceeded"]),
        belief_chart=belief_chart(spans),
        beliefs=_numbers(
            "Beliefs before and after, and how often the best guess is right",
            ("before", "after, at least", "after, at most", "right guesses without", "with"),
            [
                (
                    _share(e["before"]),
                    f"{at_least(100 * e['after'][0])}%",
                    *map(_most, (e["after"][1], e["without"], e["right"])),
                )
                for e in beliefs
            ],
        ),
        attacks=_numbers(
            "The best attack",
            ("false alarms allowed", "found, at most"),
            [(_share(e["false_alarms"]), _most(e["found"])) for e in told["attacks"]],
        ),
        groups=_numbers(
            told["beyond"],
            ("rows", "ε", "δ"),
            [(f"{e['rows']:,}", _bound(e["epsilon"]), f"{e['delta']:.3g}") for e in told["groups"]],
        ),
        curve_chart=curve_chart(curve, (told["epsilon"], told["delta"])),
        curve=_numbers(
            "", ("ε", *(f"{e:.3g}" for e, _ in curve)), [("δ", *(at_most(d, 2) for _, d in curve))]
        ),
        error=_facts(told["error"]),
        not_protected=_items(told["not_protected"]),
        ledger=escape(told["ledger"]),
        checked=_items(told["checked"]),
        seal=escape(told["seal"]),
    )


def _subtitle(told: Mapping[str, Any]) -> str:
    what = "Plan" if told["release"] is None else f"Release {told['release']}"
    return f"{what}: label differential privacy, ε = {told['epsilon']:g}, δ = {told['delta']:g}"


def _weak(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    return f'<div class="weak"><strong>Valid, but weak</strong><ul>{_items(reasons)}</ul></div>'


def _not_stated(names: Sequence[str]) -> str:
    return f"<p>Not stated: {escape(', '.join(names))}.</p>" if names else ""


def _exceeded(share: float) -> str:
    return "" if share == 0 else f"; more in at most {_most(share)} of releases"


def _share(value: float) -> str:
    """A probability that is stated."""
    return f"{100 * value:g}%"


def _most(value: float) -> str:
    """An upper bound of one."""
    return f"{at_most(100 * value)}%"


def _bound(epsilon: float | None) -> str:
    return "no bound" if epsilon is None else at_most(epsilon, 4)


def _facts(pairs: Iterable[tuple[str, str]]) -> str:
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
        for name, text in pairs
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _numbers(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        f"{''.join(f'<td>{escape(each)}</td>' for each in rest)}</tr>"
        for first, *rest in rows
    )
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="numbers">{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)
