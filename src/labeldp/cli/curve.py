"""plan --curve: the forecast against ε, before a label is read"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labeldp.cli.output import emit_table
from labeldp.mechanisms.protocol import number
from labeldp.pictures import Curve, Picture

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine
    from labeldp.planning.verbs import Point


def along_epsilon(
    source: Source, made: Plan, engine: Engine, chosen: dict[str, Any]
) -> list[Point]:
    """The forecast of the same mechanism at other ε, everything else as it was asked for."""
    from labeldp.planning.verbs import forecast_curve

    asked = {name: value for name, value in chosen.items() if name not in ("anyway", "use")}
    return forecast_curve(source, mechanism=made.claim.mechanism, engine=engine, **asked)


def show_curve(points: Sequence[Point]) -> None:
    """As a table."""
    emit_table(
        "Forecast against ε: what privacy adds to a prediction, root mean square",
        ["ε", "mechanism", "error", "5 %", "95 %", "of the range", "kept"],
        [
            [
                f"{point.epsilon:g}",
                point.mechanism or "–",
                *(number(value) for value in (point.error, point.low, point.high)),
                None if point.of_range is None else f"{point.of_range:.2%}",
                point.reason or (None if point.kept is None else f"{max(0.0, point.kept):.0%}"),
            ]
            for point in points
        ],
    )


def curve_picture(points: Sequence[Point], epsilon: float) -> Picture:
    """Error against ε, with its quantiles over releases."""
    drawn = [point for point in points if point.error is not None]
    x = tuple(point.epsilon for point in drawn)
    middle, low, high = (
        tuple(getattr(point, name) or math.nan for point in drawn)
        for name in ("error", "low", "high")
    )
    asked = next((point.error for point in drawn if point.epsilon == epsilon), None)
    return Picture(
        name="forecast",
        title="Forecast from features alone: no label was read",
        x_label="ε",
        y_label="error that privacy adds to a prediction (label units)",
        curves=(Curve("root mean square, 5–95 % of releases", x, middle, low, high, "line"),),
        levels=() if asked is None else ((f"at ε = {epsilon:g}", asked),),
        log_x=True,
        log_y=True,
    )
