"""A linear fit for people: one dictionary, also as text.

`Summary.of(model)` fills the dictionary; the text prints it and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from labeldp.display import format_budget, html_table
from labeldp.errors import InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.coefficients import Coefficients, normal_deviations
from labeldp.learners.models import LinearModel
from labeldp.pictures import Curve, Picture

_HEADER = ("column", "value", "from privacy", "from sampling", "total", "low", "high")
_NUMBERS = ("value", "privacy_error", "sampling_error", "total_error", "low", "high")


@dataclass(frozen=True, repr=False)
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
        if has_sampling:
            ends = Coefficients.of(model).conf_int().tolist()
            for entry, (low, high) in zip(entries, ends, strict=True):
                entry |= {"low": low, "high": high}
        quality = model.quality
        notes = [] if quality is None else [quality.usefulness_warning, quality.r2_warning]
        if model.releases and not has_sampling:
            notes.append(
                "A penalised fit has no standard errors: it is drawn towards zero on purpose."
                if model.multiplier != 0
                else "Errors from sampling are not known: the spread of the residuals was not "
                "published, or is hidden by its noise. Intervals cover what privacy adds."
            )
        if model.rule.get("family") == "poisson" and "dispersion" not in model.rule:
            notes.append(
                "Errors from sampling are those of Poisson's counts, whose variance is their mean: "
                "the residual that would show more was not published, or with too much noise."
            )
        return cls(
            {
                "releases": list(model.releases),
                "rows": sum(release["rows"] or 0 for release in model.releases) or None,
                "rule": model.rule,
                "clipped_to": list(model.label_range or ()) if model.clips else None,
                "quality": None if quality is None else asdict(quality),
                "confidence": model.options.confidence,
                "intervals_for": target,
                "coefficients": entries,
                "base_levels": {} if model.features is None else _base_levels(model.features),
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
        lines = [*_aligned(self._facts(), str.ljust), "", self._title()]
        lines += _aligned([_HEADER, *map(_table_cells, shown)], str.rjust)
        if len(shown) < len(entries):
            lines.append(f"… and {len(entries) - len(shown)} more, nearer to their errors")
        bases = self.document["base_levels"].items()
        levels = ", ".join(f"{name}={' or '.join(levels)}" for name, levels in bases)
        remarks = [f"Levels count from {levels}."] if levels else []
        remarks += self.document["notes"]
        return "\n".join([*lines, "", *remarks] if remarks else lines)

    __str__ = __repr__ = text

    def _repr_html_(self) -> str:
        """Return the same as two tables for notebooks."""
        rows = map(_table_cells, self.document["coefficients"])
        notes = [("note", text) for text in self.document["notes"]]
        return html_table("Fit", [*self._facts(), *notes]) + html_table(
            self._title(), rows, _HEADER
        )

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
        unit = "mean square"
        if "family" in rule:  # too small where effects are strong
            unit = "approximate deviance"
        titles = {
            "gain": f"gain over the constant, in {unit}",
            "r2": "R²",
            "residual_std": "residual standard deviation",
        }
        for name, title in titles.items():
            if quality is not None and quality[name] is not None:
                value = f"{quality[name]:.4g} ± {quality[f'{name}_error']:.2g}"
                facts.append((f"{title}, estimated", value))
        return facts

    def _title(self) -> str:
        target = self.document["intervals_for"]
        title = "Coefficients per original unit, standard errors"
        if target is None:
            return f"{title}; no intervals"
        return f"{title} and {self.document['confidence']:.0%} intervals for {target}"


def effect_picture(model: LinearModel, column: str) -> Picture:
    """Return the picture of predictions along one column, with bands for both kinds of error."""
    columns = [effect.column for effect in model.effects]
    if column not in columns:
        known = ", ".join(columns[:8])
        raise InputError(f"the fit has no column {column!r} to show; it has {known or 'none'}")
    place = columns.index(column)
    effect, level = model.effects[place], f"{model.options.confidence:.0%}"
    levels = isinstance(effect.values[0], str)
    layers = [("prediction, " + f"{level} for what privacy adds", effect.privacy_errors)]
    if effect.total_errors is not None:  # the wider band lies below
        layers.insert(0, (f"{level}, privacy and sampling", effect.total_errors))
    deviations = normal_deviations("level", model.options.confidence)
    curves: list[Curve] = []
    for name, errors in layers:
        reach = deviations * np.array(errors or [0.0] * len(effect.values))
        y, low, high = (
            tuple(model.response(np.array(effect.predictions) + shift).tolist())
            for shift in (0.0, -reach, reach)
        )
        outer = len(layers) == 2 and not curves
        style = ("bars" if levels else "band") if outer else ("points" if levels else "line")
        x = tuple(range(len(y))) if levels else tuple(effect.values)
        curves.append(Curve(name, x, y, low, high, style=style, colour=int(outer)))
    return Picture(
        name=f"column-{place + 1:02}",
        title=f"Predictions as {column} moves, other columns at typical values",
        x_label=column,
        y_label="prediction",
        curves=tuple(curves),
        names=tuple(map(str, effect.values)) if levels else (),
    )


def _base_levels(features: FeatureMap) -> dict[str, list[str]]:
    """Return the levels without a column: the others of their category count from them."""
    bases: dict[str, list[str]] = {}
    for column, block in zip(features.categorical, features.category_blocks, strict=True):
        for label, place in zip(column.labels, features.kept_places[block], strict=True):
            if place < 0:
                bases.setdefault(column.name, []).append(label)
    return bases


def _aligned(rows: Sequence[Sequence[str]], justify: Any) -> Iterator[str]:
    """Yield lines with columns of one width, all but the first justified."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [justify(cell, width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _significance(entry: dict[str, Any]) -> float:
    error = entry["total_error"] or entry["privacy_error"] or 1.0
    return abs(float(entry["value"])) / float(error)


def _table_cells(entry: dict[str, Any]) -> tuple[str, ...]:
    numbers = (entry[name] for name in _NUMBERS)
    return (entry["name"], *("–" if number is None else f"{number:.5g}" for number in numbers))
