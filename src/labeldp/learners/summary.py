"""What a linear fit on releases says, for people: one dictionary, as text, HTML and LaTeX.

`Summary.of(model)` fills the dictionary; the three forms print it and decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from labeldp.features.feature_map import FeatureMap
from labeldp.learners.linear import LinearModel
from labeldp.learners.protocol import Coefficient

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
        """All that is known of a fit; None where it is not."""
        found = model.quality
        return cls(
            {
                "releases": list(model.releases),
                "rows": sum(release["rows"] or 0 for release in model.releases) or None,
                "rule": model.rule,
                "clipped_to": list(model.label_range or ()) if model.options.clip else None,
                "quality": None if found is None else found.to_json(),
                "confidence": model.options.confidence,
                "intervals_for": _target(model.coefficients),
                "coefficients": [
                    _entry(entry, model.options.confidence) for entry in model.coefficients
                ],
                "base_levels": {} if model.features is None else base_levels(model.features),
                "notes": list(notes(model)),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """The values."""
        return self.document

    def text(self, most: int | None = None) -> str:
        """For a terminal; of more than `most` coefficients those that stand out most."""
        entries = self.document["coefficients"]
        shown = entries if most is None or len(entries) <= most else _foremost(entries, most)
        facts = self._facts()
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:<{width}}  {value}" for name, value in facts]
        lines += ["", self._title(), *_aligned([_HEADER, *map(_cells, shown)])]
        if len(shown) < len(entries):
            lines.append(f"… and {len(entries) - len(shown)} more, nearer to their errors")
        return "\n".join([*lines, *(["", *self._remarks()] if self._remarks() else [])])

    __str__ = text

    def to_html(self) -> str:
        """A fragment of two tables."""
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
        """A table environment, which needs no package."""
        rows = [_HEADER, *map(_cells, self.document["coefficients"])]
        body = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
        told = [f"{name}: {value}." for name, value in self._facts()] + self._remarks()
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_latex(self._title())}. {_latex(' '.join(told))}}}",
                r"\begin{tabular}{lrrrrrr}",
                r"\hline",
                body[0],
                r"\hline",
                *body[1:],
                r"\hline",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def _facts(self) -> list[tuple[str, str]]:
        document = self.document
        releases = [_release(release) for release in document["releases"]]
        facts = [("release", told) for told in releases] or [("rows", "plain rows")]
        facts.append(("predictions", _prediction(document["rule"], document["clipped_to"])))
        quality = document["quality"]
        if quality is not None:
            gain = _pair(quality["gain"], quality["gain_error"])
            facts.append(("gain over the constant", f"{gain} in mean square, estimated"))
            if quality["r2"] is not None:
                facts.append(("R², estimated", _pair(quality["r2"], quality["r2_error"])))
                spread = _pair(quality["residual_std"], quality["residual_std_error"])
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
        told = ", ".join(f"{name}={' or '.join(levels)}" for name, levels in bases)
        return [*([f"Levels count from {told}."] if told else []), *self.document["notes"]]


def base_levels(features: FeatureMap) -> dict[str, list[str]]:
    """The levels of each category that have no column of their own: the others count from them."""
    places = features.kept_places
    found = {}
    for column, block in zip(features.categorical, features.category_blocks, strict=True):
        pairs = zip(column.labels, places[block], strict=True)
        left = [label for label, place in pairs if place < 0]
        if left:
            found[column.name] = left
    return found


def notes(model: LinearModel) -> list[str]:
    """What must be said of a fit."""
    doubt = None if model.quality is None else model.quality.doubt
    said = [] if doubt is None else [doubt]
    if model.releases and all(entry.sampling_error is None for entry in model.coefficients):
        said.append(_missing_errors(model))
    return said


def _missing_errors(model: LinearModel) -> str:
    if model.multiplier != 0:
        return "A penalised fit has no standard errors: it is drawn towards zero on purpose."
    return (
        "Errors from sampling are not known, because the residual is not: it was not published, or "
        "with too much noise. Intervals cover what privacy adds."
    )


def _target(coefficients: Sequence[Coefficient]) -> str | None:
    """What intervals are for: they count all errors that are known."""
    if any(entry.total_error is not None for entry in coefficients):
        return "the population"
    known = any(entry.low is not None for entry in coefficients)
    return "the fit with all labels" if known else None


def _entry(entry: Coefficient, confidence: float) -> dict[str, Any]:
    """With its interval for the population, where that is known."""
    told = asdict(entry)
    if entry.total_error is None:
        return told
    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * entry.total_error
    return told | {"low": entry.value - reach, "high": entry.value + reach}


def _foremost(entries: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Those that are largest for their errors, in the order of the columns."""

    def size(entry: dict[str, Any]) -> float:
        error = entry["total_error"] or entry["privacy_error"] or 1.0
        return -abs(float(entry["value"])) / float(error)

    chosen = sorted(range(len(entries)), key=lambda place: size(entries[place]))[:most]
    return [entries[place] for place in sorted(chosen)]


def _release(release: dict[str, Any]) -> str:
    told = [release["mechanism"] or "aggregates"]
    if release["epsilon"] is not None:
        told.append(f"ε = {release['epsilon']:g}, δ = {release['delta']:g}")
    if release["rows"] is not None:
        told.append(f"{release['rows']:,} rows")
    return ", ".join([*told, f"{release['bags']:,} aggregates"])


def _prediction(rule: dict[str, Any], ends: list[float] | None) -> str:
    chosen = ", ".join(
        f"{name.replace('_', ' ')} {_short(v)}" for name, v in rule.items() if name != "rule"
    )
    told = f"{rule['rule']} ({chosen})" if chosen else str(rule["rule"])
    return f"{told}, clipped to {ends[0]:g} … {ends[1]:g}" if ends else told


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _pair(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}"


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    names = ("value", "privacy_error", "sampling_error", "total_error", "low", "high")
    return (entry["name"], *("–" if entry[n] is None else f"{entry[n]:.5g}" for n in names))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names on the left, numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(mark, mark) for mark in text)
