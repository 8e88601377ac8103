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
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.models import LinearModel
from labeldp.pictures import Curve, Picture

MAX_COEFFICIENTS = 30
"""Shown in a picture."""
_HEADER = ("column", "value", "from privacy", "from sampling", "total", "low", "high")
_NUMBERS = ("value", "privacy_error", "sampling_error", "total_error", "low", "high")
_LATEX = str.maketrans(
    {
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
)


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
        warning = None if model.quality is None else model.quality.usefulness_warning
        notes = [] if warning is None else [warning]
        if model.releases and not has_sampling:
            notes.append(
                "A penalised fit has no standard errors: it is drawn towards zero on purpose."
                if model.multiplier != 0
                else "Errors from sampling are not known, because the residual is not: it was not "
                "published, or with too much noise. Intervals cover what privacy adds."
            )
        return cls(
            {
                "releases": list(model.releases),
                "rows": sum(release["rows"] or 0 for release in model.releases) or None,
                "rule": model.rule,
                "clipped_to": list(model.label_range or ()) if model.options.clip else None,
                "quality": None if model.quality is None else asdict(model.quality),
                "confidence": model.options.confidence,
                "intervals_for": target,
                "coefficients": entries,
                "base_levels": {} if model.features is None else base_levels(model.features),
                "notes": notes,
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
        facts, rows = self._facts(), [_HEADER, *map(_cells, shown)]
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
        notes = [f"{name}: {value}." for name, value in self._facts()] + self._remarks()
        caption = f"{self._title()}. {' '.join(notes)}".translate(_LATEX)
        header, *rows = (
            " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"
            for cells in (_HEADER, *map(_cells, self.document["coefficients"]))
        )
        head = [r"\begin{table}", rf"\caption{{{caption}}}", r"\begin{tabular}{lrrrrrr}"]
        body = [r"\hline", header, r"\hline", *rows, r"\hline"]
        return "\n".join([*head, *body, r"\end{tabular}", r"\end{table}"])

    def _facts(self) -> list[tuple[str, str]]:
        """Return names and values of what is said above the coefficients."""
        document, quality = self.document, self.document["quality"]
        facts = []
        for release in document["releases"]:
            parts = [release["mechanism"] or "aggregates"]
            if release["epsilon"] is not None:
                parts.append(format_budget(release["epsilon"], release["delta"]))
            if release["rows"] is not None:
                parts.append(f"{release['rows']:,} rows")
            facts.append(("release", ", ".join([*parts, f"{release['bags']:,} aggregates"])))
        facts = facts or [("rows", "plain rows")]
        rule, ends = document["rule"], document["clipped_to"]
        choices = ", ".join(
            f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.4g}'}"
            for name, value in rule.items()
            if name != "rule"
        )
        predictions = f"{rule['rule']} ({choices})" if choices else str(rule["rule"])
        if ends:
            predictions += f", clipped to {ends[0]:g} … {ends[1]:g}"
        facts.append(("predictions", predictions))
        if quality is not None:
            gain = f"{quality['gain']:.4g} ± {quality['gain_error']:.2g}"
            facts.append(("gain over the constant", f"{gain} in mean square, estimated"))
            for title, name in (("R²", "r2"), ("residual spread", "residual_std")):
                if quality[name] is not None:
                    value = f"{quality[name]:.4g} ± {quality[f'{name}_error']:.2g}"
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


def base_levels(features: FeatureMap) -> dict[str, list[str]]:
    """Return the levels of each category without a column: the others count from them."""
    levels = {}
    for column, block in zip(features.categorical, features.category_blocks, strict=True):
        pairs = zip(column.labels, features.kept_places[block], strict=True)
        bases = [label for label, place in pairs if place < 0]
        if bases:
            levels[column.name] = bases
    return levels


def _deviations(model: LinearModel) -> float:
    """Return how many deviations the intervals of a model reach."""
    return NormalDist().inv_cdf((1 + model.options.confidence) / 2)


def _significance(entry: dict[str, Any]) -> float:
    error = entry["total_error"] or entry["privacy_error"] or 1.0
    return abs(float(entry["value"])) / float(error)


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
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
    styles = ("bars", "points") if levels else ("band", "line")
    ends = model.label_range if model.options.clip else None
    return Picture(
        name=f"column-{place + 1:02}-{plain}",
        title=f"Predictions as {column} moves, other columns at typical values",
        x_label=column,
        y_label="prediction",
        curves=_curves(model, "prediction", x, values, styles, ends or (-math.inf, math.inf)),
        names=tuple(map(str, effect.values)) if levels else (),
        sideways=levels and len(effect.values) > 6,
    )


def _curves(
    model: LinearModel,
    name: str,
    x: Sequence[float],
    values: Sequence[Any],
    styles: tuple[str, str],
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[Curve, ...]:
    """Return intervals with sampling first, then of privacy alone; each where it is known.

    `values` are y, its total errors and its errors from privacy; all is clipped to `ends`.
    """
    y, total, privacy = values
    reach, level = _deviations(model), f"{100 * model.options.confidence:g} %"

    def curve(label: str, errors: Any, style: str, colour: int) -> Curve:
        distance = reach * np.array(0.0 if errors is None else errors)
        middle, low, high = (
            tuple(np.clip(np.array(y) + shift, *ends).tolist())
            for shift in (0.0, -distance, distance)
        )
        if errors is None:
            low = high = ()
        return Curve(label, tuple(x), middle, low, high, style=style, colour=colour)

    own = name if privacy is None else f"{name}, {level} for what privacy adds"
    curves = [curve(own, privacy, styles[1], 0)]
    if total is not None:
        curves.insert(0, curve(f"{level}, privacy and sampling", total, styles[0], 1))
    return tuple(curves)


def _coefficients_picture(model: LinearModel) -> Picture:
    """Draw the largest coefficients, numbers over the range of their column so that all compare.

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
    scales = [spans.get(entry.name, 1.0) for entry in shown]
    title = ["Coefficients"]
    if len(shown) < len(entries):
        title.append(f"the {len(shown)} largest of {len(entries)}")
    if curves:
        title.append("without those of curves")

    def scaled(name: str) -> list[float] | None:
        numbers = [getattr(entry, name) for entry in shown]
        if None in numbers:
            return None
        return [number * scale for number, scale in zip(numbers, scales, strict=True)]

    values = [scaled(name) for name in ("value", "total_error", "privacy_error")]
    return Picture(
        name="coefficients",
        title=", ".join(title),
        x_label="",
        y_label="change of the label: numbers across their range, levels against the base",
        curves=_curves(model, "coefficient", range(len(shown)), values, ("bars", "points")),
        levels=(("", 0.0),),
        names=tuple(entry.name for entry in shown),
        sideways=True,
    )
