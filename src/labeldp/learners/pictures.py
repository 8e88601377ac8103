"""Pictures of a linear fit: predictions along each column, and the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from labeldp.common.pictures import Curve, Picture
from labeldp.errors import InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.effects import Effect
from labeldp.learners.linear import LinearModel
from labeldp.learners.protocol import Coefficient

_PRIVACY, _TOTAL = 0, 1
"""Colours, and with them marks and lines."""
MOST_COEFFICIENTS = 30


def pictures(model: LinearModel) -> list[Picture]:
    """All of them, the coefficients first."""
    return [picture(model), *(picture(model, effect.column) for effect in model.effects)]


def picture(model: LinearModel, column: str | None = None) -> Picture:
    """Of one column, or of the coefficients."""
    if column is None:
        return _coefficients(model)
    for place, effect in enumerate(model.effects):
        if effect.column == column:
            return _effect(model, effect, f"column-{place + 1:02}-{_plain(column)}")
    known = ", ".join(effect.column for effect in model.effects[:8])
    raise InputError(f"the fit has no column {column!r} to show; it has {known or 'none'}")


def _plain(name: str) -> str:
    """As part of a file's name."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)[:40]


def _effect(model: LinearModel, effect: Effect, name: str) -> Picture:
    places = tuple(map(float, range(len(effect.values)))) if effect.of_levels else effect.values
    middle = _clipped(model, effect.predictions)
    curves = [
        Curve(label, places, middle, *_band(model, effect, errors), style, colour)
        for label, errors, style, colour in _bands(model, effect)
    ]
    return Picture(
        name=name,
        title=f"Predictions as {effect.column} moves, other columns at typical values",
        x_label=effect.column,
        y_label="prediction",
        curves=tuple(curves),
        names=tuple(map(str, effect.values)) if effect.of_levels else (),
        sideways=effect.of_levels and len(effect.values) > 6,
    )


def _bands(
    model: LinearModel, effect: Effect
) -> list[tuple[str, Sequence[float] | None, str, int]]:
    """What to draw: with sampling first, which is wider, then privacy alone."""
    level, levels = f"{100 * model.options.confidence:g} %", effect.of_levels
    drawn: list[tuple[str, Sequence[float] | None, str, int]] = []
    if effect.total_errors is not None:
        style = "bars" if levels else "band"
        drawn.append((f"{level}, privacy and sampling", effect.total_errors, style, _TOTAL))
    known = effect.privacy_errors is not None
    label = f"prediction, {level} for what privacy adds" if known else "prediction"
    drawn.append((label, effect.privacy_errors, "points" if levels else "line", _PRIVACY))
    return drawn


def _band(
    model: LinearModel, effect: Effect, errors: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if errors is None:
        return (), ()
    reach = NormalDist().inv_cdf((1 + model.options.confidence) / 2)
    pairs = list(zip(effect.predictions, errors, strict=True))
    low, high = ([at + sign * reach * by for at, by in pairs] for sign in (-1, 1))
    return _clipped(model, low), _clipped(model, high)


def _clipped(model: LinearModel, values: Sequence[float]) -> tuple[float, ...]:
    """As predictions are."""
    if model.label_range is None or not model.options.clip:
        return tuple(values)
    low, high = model.label_range
    return tuple(min(max(value, low), high) for value in values)


def _coefficients(model: LinearModel) -> Picture:
    """Those that stand out most, numbers over the range of their column so that all compare.

    One of a hinge or a wave says nothing by itself: curves have pictures of their own.
    """
    spans = {} if model.features is None else _spans(model.features)
    apart = {"intercept", *_curves(model.features)}
    entries = [entry for entry in model.coefficients if entry.name not in apart]
    shown = sorted(entries, key=lambda each: -abs(each.value * spans.get(each.name, 1.0)))
    shown = shown[:MOST_COEFFICIENTS]
    most = f"the {len(shown)} largest of {len(entries)}" if len(shown) < len(entries) else ""
    without = "without those of curves" if len(apart) > 1 else ""
    scales = [spans.get(entry.name, 1.0) for entry in shown]
    return Picture(
        name="coefficients",
        title=", ".join(filter(None, ["Coefficients", most, without])),
        x_label="",
        y_label="change of the label: numbers across their range, levels against the base",
        curves=tuple(_intervals(shown, scales, f"{100 * model.options.confidence:g} %", model)),
        levels=(("", 0.0),),
        names=tuple(entry.name for entry in shown),
        sideways=True,
    )


def _intervals(
    shown: list[Coefficient], scales: list[float], level: str, model: LinearModel
) -> list[Curve]:
    """With sampling first, which is wider, then privacy alone; each where all have it."""
    places = tuple(map(float, range(len(shown))))
    values = tuple(entry.value * by for entry, by in zip(shown, scales, strict=True))
    reach = NormalDist().inv_cdf((1 + model.options.confidence) / 2)
    curves = []
    for label, name, style, colour in (
        (f"{level}, privacy and sampling", "total_error", "bars", _TOTAL),
        (f"coefficient, {level} for what privacy adds", "privacy_error", "points", _PRIVACY),
    ):
        errors = [getattr(entry, name) for entry in shown]
        if None not in errors:
            by = [reach * error * abs(scale) for error, scale in zip(errors, scales, strict=True)]
            pairs = list(zip(values, by, strict=True))
            low, high = (tuple(v + sign * b for v, b in pairs) for sign in (-1, 1))
            curves.append(Curve(label, places, values, low, high, style, colour))
    return curves or [Curve("coefficient", places, values)]


def _curves(features: FeatureMap | None) -> list[str]:
    """Columns that bend or multiply others."""
    if features is None:
        return []
    return [name for name, by in zip(features.names, features.degrees, strict=True) if by]


def _spans(features: FeatureMap) -> dict[str, float]:
    """By the name of a coefficient: how far its column reaches, in what enters the design."""
    return {
        column.design_names[0]: column.grid.entering(column.high) - column.grid.entering(column.low)
        for column in features.numeric
    }
