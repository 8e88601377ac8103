"""Pictures of a linear fit: predictions along each column, and the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from labeldp.errors import InputError
from labeldp.learners.models import Coefficient, Effect, LinearModel
from labeldp.pictures import Curve, Picture

_PRIVACY, _TOTAL = 0, 1
"""Colours, and with them marks and lines."""
MAX_COEFFICIENTS = 30


def pictures(model: LinearModel) -> list[Picture]:
    """Return all pictures of a model, the coefficients first."""
    return [picture(model), *(picture(model, effect.column) for effect in model.effects)]


def picture(model: LinearModel, column: str | None = None) -> Picture:
    """Return the picture of one column, or of the coefficients."""
    if column is None:
        return _coefficients_picture(model)
    for place, effect in enumerate(model.effects):
        if effect.column == column:
            plain = "".join(letter if letter.isalnum() else "-" for letter in column)[:40]
            return _effect_picture(model, effect, f"column-{place + 1:02}-{plain}")
    known = ", ".join(effect.column for effect in model.effects[:8])
    raise InputError(f"the fit has no column {column!r} to show; it has {known or 'none'}")


def _reach(model: LinearModel) -> float:
    """Return how many deviations the intervals of a model reach."""
    return NormalDist().inv_cdf((1 + model.options.confidence) / 2)


def _effect_picture(model: LinearModel, effect: Effect, name: str) -> Picture:
    """Draw the wider interval, with sampling, below that of privacy alone."""
    level, levels = f"{100 * model.options.confidence:g} %", effect.of_levels
    places = tuple(map(float, range(len(effect.values)))) if levels else effect.values

    def clipped(values: Sequence[float]) -> tuple[float, ...]:
        if model.label_range is None or not model.options.clip:
            return tuple(values)
        low, high = model.label_range
        return tuple(min(max(value, low), high) for value in values)

    def curve(label: str, errors: Sequence[float] | None, style: str, colour: int) -> Curve:
        low: tuple[float, ...] = ()
        high: tuple[float, ...] = ()
        if errors is not None:
            pairs = list(zip(effect.predictions, errors, strict=True))
            low = clipped([value - _reach(model) * error for value, error in pairs])
            high = clipped([value + _reach(model) * error for value, error in pairs])
        return Curve(label, places, clipped(effect.predictions), low, high, style, colour)

    curves = []
    if effect.total_errors is not None:
        label, style = f"{level}, privacy and sampling", "bars" if levels else "band"
        curves.append(curve(label, effect.total_errors, style, _TOTAL))
    privacy = "" if effect.privacy_errors is None else f", {level} for what privacy adds"
    style = "points" if levels else "line"
    curves.append(curve(f"prediction{privacy}", effect.privacy_errors, style, _PRIVACY))
    return Picture(
        name=name,
        title=f"Predictions as {effect.column} moves, other columns at typical values",
        x_label=effect.column,
        y_label="prediction",
        curves=tuple(curves),
        names=tuple(map(str, effect.values)) if levels else (),
        sideways=levels and len(effect.values) > 6,
    )


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
    left_out = {"intercept", *curves}
    entries = [entry for entry in model.coefficients if entry.name not in left_out]
    entries.sort(key=lambda entry: -abs(entry.value * spans.get(entry.name, 1.0)))
    shown = entries[:MAX_COEFFICIENTS]
    title = ["Coefficients"]
    if len(shown) < len(entries):
        title.append(f"the {len(shown)} largest of {len(entries)}")
    if curves:
        title.append("without those of curves")
    return Picture(
        name="coefficients",
        title=", ".join(title),
        x_label="",
        y_label="change of the label: numbers across their range, levels against the base",
        curves=_interval_curves(model, shown, [spans.get(entry.name, 1.0) for entry in shown]),
        levels=(("", 0.0),),
        names=tuple(entry.name for entry in shown),
        sideways=True,
    )


def _interval_curves(
    model: LinearModel, shown: Sequence[Coefficient], scales: Sequence[float]
) -> tuple[Curve, ...]:
    """Return intervals with sampling first, then of privacy alone; each where all have it."""
    level = f"{100 * model.options.confidence:g} %"
    places = tuple(map(float, range(len(shown))))
    values = tuple(entry.value * scale for entry, scale in zip(shown, scales, strict=True))
    curves = []
    for label, name, style, colour in (
        (f"{level}, privacy and sampling", "total_error", "bars", _TOTAL),
        (f"coefficient, {level} for what privacy adds", "privacy_error", "points", _PRIVACY),
    ):
        errors = [getattr(entry, name) for entry in shown]
        if None in errors:
            continue
        reach = [_reach(model) * e * abs(scale) for e, scale in zip(errors, scales, strict=True)]
        low = tuple(value - by for value, by in zip(values, reach, strict=True))
        high = tuple(value + by for value, by in zip(values, reach, strict=True))
        curves.append(Curve(label, places, values, low, high, style, colour))
    return tuple(curves) or (Curve("coefficient", places, values),)
