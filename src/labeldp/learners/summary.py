"""A linear fit for people: one dictionary, as text, HTML and LaTeX.

`Summary.of(model)` fills the dictionary; the three forms print it and decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from statistics import NormalDist
from typing import Any

from labeldp.features.feature_map import FeatureMap
from labeldp.learners.models import Coefficient, LinearModel

_HEADER = ("column", "value", "from privacy", "from sampling", "total", "low", "high")
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "±": r"$\pm$",
    "²": r"$^2$",
    "–": "--",
    "…": r"\dots{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


@dataclass(frozen=True)
class Summary:
    """A fit, as plain values."""

    document: dict[str, Any]

    @classmethod
    def of(cls, model: LinearModel) -> Summary:
        """Return all that is known of a fit; None stands where something is not known."""
        confidence = model.options.confidence
        target = None
        if any(entry.total_error is not None for entry in model.coefficients):
            target = "the population"
        elif any(entry.low is not None for entry in model.coefficients):
            target = "the fit with all labels"
        return cls(
            {
                "releases": list(model.releases),
                "rows": sum(release["rows"] or 0 for release in model.releases) or None,
                "rule": model.rule,
                "clipped_to": list(model.label_range or ()) if model.options.clip else None,
                "quality": None if model.quality is None else asdict(model.quality),
                "confidence": confidence,
                "intervals_for": target,
                "coefficients": [_entry(entry, confidence) for entry in model.coefficients],
                "base_levels": {} if model.features is None else base_levels(model.features),
                "notes": _notes(model),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the values."""
        return self.document

    def text(self, most: int | None = None) -> str:
        """Return text for a terminal; of more than `most` coefficients the most significant."""
        entries = self.document["coefficients"]
        shown = entries if most is None or len(entries) <= most else _foremost(entries, most)
        facts = self._facts()
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:<{width}}  {value}" for name, value in facts]
        lines += ["", self._title(), *_aligned([_HEADER, *map(_cells, shown)])]
        if len(shown) < len(entries):
            lines.append(f"… and {len(entries) - len(shown)} more, nearer to their errors")
        remarks = self._remarks()
        return "\n".join([*lines, "", *remarks] if remarks else lines)

    __str__ = text

    def to_html(self) -> str:
        """Return a fragment of two tables."""
        facts = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self._facts()
        )
        head = "".join(f"<th>{escape(name)}</th>" for name in _HEADER)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(entry)) + "</tr>"
            for entry in self.document["coefficients"]
        )
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return (
            f"<table>{facts}</table><table><caption>{escape(self._title())}</caption>"
            f"<tr>{head}</tr>{rows}</table>{remarks}"
        )

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """Return a table environment, which needs no package."""
        rows = [_HEADER, *map(_cells, self.document["coefficients"])]
        body = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
        notes = [f"{name}: {value}." for name, value in self._facts()] + self._remarks()
        lines = [
            r"\begin{table}",
            rf"\caption{{{_latex(self._title())}. {_latex(' '.join(notes))}}}",
            r"\begin{tabular}{lrrrrrr}",
            r"\hline",
            body[0],
            r"\hline",
            *body[1:],
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines)

    def _facts(self) -> list[tuple[str, str]]:
        """Return names and values of what is said above the coefficients."""
        document, quality = self.document, self.document["quality"]
        facts = [("release", _release_line(each)) for each in document["releases"]]
        facts = facts or [("rows", "plain rows")]
        facts.append(("predictions", _rule_line(document["rule"], document["clipped_to"])))
        if quality is not None:
            gain = _with_error(quality["gain"], quality["gain_error"])
            facts.append(("gain over the constant", f"{gain} in mean square, estimated"))
            if quality["r2"] is not None:
                facts.append(("R², estimated", _with_error(quality["r2"], quality["r2_error"])))
                spread = _with_error(quality["residual_std"], quality["residual_std_error"])
                facts.append(("residual spread, estimated", spread))
        return facts

    def _title(self) -> str:
        target = self.document["intervals_for"]
        title = "Coefficients per original unit, standard errors"
        if target is None:
            return f"{title}; no intervals"
        return f"{title} and {self.document['confidence']:.0%} intervals for {target}"

    def _remarks(self) -> list[str]:
        bases = self.document["base_levels"].items()
        levels = ", ".join(f"{name}={' or '.join(levels)}" for name, levels in bases)
        return [*([f"Levels count from {levels}."] if levels else []), *self.document["notes"]]


def base_levels(features: FeatureMap) -> dict[str, list[str]]:
    """Return the levels of each category without a column: the others count from them."""
    levels = {}
    for column, block in zip(features.categorical, features.category_blocks, strict=True):
        pairs = zip(column.labels, features.kept_places[block], strict=True)
        bases = [label for label, place in pairs if place < 0]
        if bases:
            levels[column.name] = bases
    return levels


def _notes(model: LinearModel) -> list[str]:
    """Return what must be said of a fit."""
    warning = None if model.quality is None else model.quality.usefulness_warning
    notes = [] if warning is None else [warning]
    if model.releases and all(entry.sampling_error is None for entry in model.coefficients):
        if model.multiplier != 0:
            notes.append(
                "A penalised fit has no standard errors: it is drawn towards zero on purpose."
            )
        else:
            notes.append(
                "Errors from sampling are not known, because the residual is not: it was not "
                "published, or with too much noise. Intervals cover what privacy adds."
            )
    return notes


def _entry(entry: Coefficient, confidence: float) -> dict[str, Any]:
    """Return a coefficient with its interval for the population, where that is known."""
    values = asdict(entry)
    if entry.total_error is not None:
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * entry.total_error
        values |= {"low": entry.value - reach, "high": entry.value + reach}
    return values


def _foremost(entries: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return those that are largest for their errors, in the order of the columns."""

    def size(place: int) -> float:
        entry = entries[place]
        error = entry["total_error"] or entry["privacy_error"] or 1.0
        return -abs(float(entry["value"])) / float(error)

    return [entries[place] for place in sorted(sorted(range(len(entries)), key=size)[:most])]


def _release_line(release: dict[str, Any]) -> str:
    parts = [release["mechanism"] or "aggregates"]
    if release["epsilon"] is not None:
        parts.append(f"ε = {release['epsilon']:g}, δ = {release['delta']:g}")
    if release["rows"] is not None:
        parts.append(f"{release['rows']:,} rows")
    return ", ".join([*parts, f"{release['bags']:,} aggregates"])


def _rule_line(rule: dict[str, Any], ends: list[float] | None) -> str:
    choices = ", ".join(
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.4g}'}"
        for name, value in rule.items()
        if name != "rule"
    )
    line = f"{rule['rule']} ({choices})" if choices else str(rule["rule"])
    return f"{line}, clipped to {ends[0]:g} … {ends[1]:g}" if ends else line


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}"


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    names = ("value", "privacy_error", "sampling_error", "total_error", "low", "high")
    return (entry["name"], *("–" if entry[n] is None else f"{entry[n]:.5g}" for n in names))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with names on the left and numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *numbers in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(mark, mark) for mark in text)
