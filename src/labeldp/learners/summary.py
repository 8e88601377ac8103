"""A linear fit for people: one dictionary as text, HTML and LaTeX, and pictures.

`Summary.of(model)` fills the dictionary; the three forms print it and decide nothing.
`picture` shows predictions along a column, or the coefficients.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from statistics import NormalDist
from typing import Any

import numpy as np

from labeldp.display import format_budget
from labeldp.errors import InputError
from labeldp.learners.models import LinearModel
from labeldp.pictures import Curve, Picture

MAX_COEFFICIENTS = 30
"""Shown in a picture."""
_HEADER = ("column", "value", "from privacy", "from sampling", "total", "low", "high")
_NUMBERS = ("value", "privacy_error", "sampling_error", "total_error", "low", "high")
_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "±": r"$\pm$",
    "²": r"$^2$",
    "–": "--",
    "…": r"\dots{}",
}
_LATEX = str.maketrans(_LATEX_SIGNS | {mark: f"\\{mark}" for mark in "&%$#_{}"})


@dataclass(frozen=True)
class Summary:
    """A fit, as plain values."""

    document: dict[str, Any]

    @classmethod
    def of(cls, model: LinearModel) -> Summary:
        """Return all that is known of a fit; None stands where something is not known.

        Intervals are for the population where errors from sampling are known.
        """
        entries, target = [asdict(entry) for entry in model.coefficients], None
        has_sampling = any(entry["total_error"] is not None for entry in entries)
        if has_sampling:
            target = "the population"
        elif any(entry["low"] is not None for entry in entries):
            target = "the fit with all labels"
        for entry in entries:
            if entry["total_error"] is not None:
                reach = _deviations(model) * entry["total_error"]
                entry |= {"low": entry["value"] - reach, "high": entry["value"] + reach}
        quality, features = model.quality, model.features
        notes = [] if quality is None else [quality.usefulness_warning]
        if model.releases and not has_sampling:
            notes.append(
                "A penalised fit has no standard errors: it is drawn towards zero on purpose."
                if model.multiplier != 0
                else "Errors from sampling are not known, because the residual is not: it was not "
                "published, or with too much noise. Intervals cover what privacy adds."
            )
        bases: dict[str, list[str]] = {}  # levels without a column: the others count from them
        if features is not None:
            blocks = zip(features.categorical, features.category_blocks, strict=True)
            for column, block in blocks:
                for label, place in zip(column.labels, features.kept_places[block], strict=True):
                    if place < 0:
                        bases.setdefault(column.name, []).append(label)
        return cls(
            {
                "releases": list(model.releases),
                "rows": sum(release["rows"] or 0 for release in model.releases) or None,
                "rule": model.rule,
                "clipped_to": list(model.label_range or ()) if model.options.clip else None,
                "quality": None if quality is None else asdict(quality),
                "confidence": model.options.confidence,
                "intervals_for": target,
                "coefficients": entries,
                "base_levels": bases,
                "notes": [note for note in notes if note is not None],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the values."""
        return self.document

    def text(self, most: int | None = None) -> str:
        """Return text for a terminal; of more than `most` coefficients the most significant."""
        entries = shown = self.document["coefficients"]
        if most is not None and len(entries) > most:
            largest = sorted(entries, key=_significance)[-most:]
            shown = [entry for entry in entries if entry in largest]
        facts, rows = self._facts(), [_HEADER, *map(_table_cells, shown)]
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:<{width}}  {value}" for name, value in facts]
        lines += ["", self._title()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *numbers in rows:
            cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        if len(shown) < len(entries):
            lines.append(f"… and {len(entries) - len(shown)} more, nearer to their errors")
        remarks = self._remarks()
        return "\n".join([*lines, "", *remarks] if remarks else lines)

    __str__ = text

    def to_html(self) -> str:
        """Return a fragment of two tables."""

        def rows(tag: str, entries: Sequence[Sequence[str]]) -> str:
            lines = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for row in entries)
            return "".join(f"<tr>{line}</tr>" for line in lines)

        facts = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self._facts()
        )
        body = rows("td", [_table_cells(entry) for entry in self.document["coefficients"]])
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return (
            f"<table>{facts}</table><table><caption>{escape(self._title())}</caption>"
            f"{rows('th', [_HEADER])}{body}</table>{remarks}"
        )

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """Return a table environment, which needs no package."""
        notes = [f"{name}: {value}." for name, value in self._facts()] + self._remarks()
        caption = f"{self._title()}. {' '.join(notes)}".translate(_LATEX)
        header, *rows = (
            " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"
            for cells in (_HEADER, *map(_table_cells, self.document["coefficients"]))
        )
        head = [r"\begin{table}", rf"\caption{{{caption}}}", r"\begin{tabular}{lrrrrrr}"]
        body = [r"\hline", header, r"\hline", *rows, r"\hline"]
        return "\n".join([*head, *body, r"\end{tabular}", r"\end{table}"])

    def _facts(self) -> list[tuple[str, str]]:
        """Return names and values of what is said above the coefficients."""
        document, facts = self.document, []
        for release in document["releases"]:
            parts = [release["mechanism"] or "aggregates"]
            if release["epsilon"] is not None:
                parts.append(format_budget(release["epsilon"], release["delta"]))
            if release["rows"] is not None:
                parts.append(f"{release['rows']:,} rows")
            facts.append(("release", ", ".join([*parts, f"{release['bags']:,} aggregates"])))
        facts = facts or [("rows", "plain rows")]
        rule, ends, quality = (document[name] for name in ("rule", "clipped_to", "quality"))
        choices = ", ".join(
            f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.4g}'}"
            for name, value in rule.items()
            if name != "rule"
        )
        predictions = f"{rule['rule']} ({choices})" if choices else str(rule["rule"])
        if ends:
            predictions += f", clipped to {ends[0]:g} … {ends[1]:g}"
        facts.append(("predictions", predictions))
        titles = {"gain": "gain over the constant", "r2": "R²", "residual_std": "residual spread"}
        for name, title in titles.items():
            if quality is not None and quality[name] is not None:
                value = f"{quality[name]:.4g} ± {quality[f'{name}_error']:.2g}"
                if name == "gain":
                    facts.append((title, f"{value} in mean square, estimated"))
                else:
                    facts.append((f"{title}, estimated", value))
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


def _deviations(model: LinearModel) -> float:
    """Return how many deviations the intervals of a model reach."""
    return NormalDist().inv_cdf((1 + model.options.confidence) / 2)


def _significance(entry: dict[str, Any]) -> float:
    error = entry["total_error"] or entry["privacy_error"] or 1.0
    return abs(float(entry["value"])) / float(error)


def _table_cells(entry: dict[str, Any]) -> tuple[str, ...]:
    numbers = (entry[name] for name in _NUMBERS)
    return (entry["name"], *("–" if number is None else f"{number:.5g}" for number in numbers))


# --- pictures ---


def pictures(model: LinearModel) -> list[Picture]:
    """Return all pictures of a model, the coefficients first."""
    return [picture(model), *(picture(model, effect.column) for effect in model.effects)]


def picture(model: LinearModel, column: str | None = None) -> Picture:
    """Return the picture of predictions along one column, or of the coefficients."""
    if column is None:
        return _coefficients_picture(model)
    columns = [effect.column for effect in model.effects]
    if column not in columns:
        known = ", ".join(columns[:8])
        raise InputError(f"the fit has no column {column!r} to show; it has {known or 'none'}")
    place = columns.index(column)
    effect, plain = model.effects[place], re.sub(r"[\W_]", "-", column)[:40]
    levels = isinstance(effect.values[0], str)
    x = range(len(effect.values)) if levels else effect.values
    values = effect.predictions, effect.total_errors, effect.privacy_errors
    ends = model.label_range if model.options.clip else None
    return Picture(
        name=f"column-{place + 1:02}-{plain}",
        title=f"Predictions as {column} moves, other columns at typical values",
        x_label=column,
        y_label="prediction",
        curves=_curves(model, "prediction", x, *values, bars=levels, ends=ends),
        names=tuple(map(str, effect.values)) if levels else (),
        sideways=levels and len(effect.values) > 6,
    )


def _coefficients_picture(model: LinearModel) -> Picture:
    """Return the largest coefficients, numbers over the range of their column so that all compare.

    One of a hinge or a wave says nothing by itself: curves have pictures of their own.
    """
    features, spans, curves = model.features, dict[str, float](), set[str]()
    if features is not None:
        for column in features.numeric:  # how far it reaches, in what enters the design
            low, high = column.entering_range
            spans[column.design_columns[0].name] = high - low
        degrees = zip(features.names, features.degrees, strict=True)
        curves = {name for name, degree in degrees if degree}
    entries = [each for each in model.coefficients if each.name not in {"intercept", *curves}]
    entries.sort(key=lambda entry: -abs(entry.value * spans.get(entry.name, 1.0)))
    shown = entries[:MAX_COEFFICIENTS]
    title = ["Coefficients"]
    if len(shown) < len(entries):
        title.append(f"the {len(shown)} largest of {len(entries)}")
    if curves:
        title.append("without those of curves")
    values = []
    for name in ("value", "total_error", "privacy_error"):
        numbers = [(getattr(each, name), spans.get(each.name, 1.0)) for each in shown]
        known = [number * span for number, span in numbers if number is not None]
        values.append(known if len(known) == len(shown) else None)
    return Picture(
        name="coefficients",
        title=", ".join(title),
        x_label="",
        y_label="change of the label: numbers across their range, levels against the base",
        curves=_curves(model, "coefficient", range(len(shown)), *values, bars=True),
        levels=(("", 0.0),),
        names=tuple(entry.name for entry in shown),
        sideways=True,
    )


def _curves(
    model: LinearModel,
    name: str,
    x: Sequence[float],
    y: Any,
    total_errors: Any,
    privacy_errors: Any,
    *,
    bars: bool,
    ends: tuple[float, float] | None = None,
) -> tuple[Curve, ...]:
    """Return intervals with sampling first, then of privacy alone; each where it is known.

    All is clipped to `ends`.
    """
    level, reach = f"{100 * model.options.confidence:g} %", _deviations(model)
    own = name if privacy_errors is None else f"{name}, {level} for what privacy adds"
    layers = [(own, privacy_errors, "points" if bars else "line", 0)]
    if total_errors is not None:
        style = "bars" if bars else "band"
        layers.insert(0, (f"{level}, privacy and sampling", total_errors, style, 1))
    curves = []
    for label, errors, style, colour in layers:
        distance = reach * np.array(0.0 if errors is None else errors)
        middle, low, high = (
            tuple(np.clip(np.array(y) + shift, *(ends or (-math.inf, math.inf))).tolist())
            for shift in (0.0, -distance, distance)
        )
        if errors is None:
            low = high = ()
        curves.append(Curve(label, tuple(x), middle, low, high, style=style, colour=colour))
    return tuple(curves)
