"""Planning shaped-flag: the weights that add least noise to a fit, from features alone."""

from __future__ import annotations

import math
from contextlib import ExitStack

import numpy as np
from threadpoolctl import threadpool_limits

from labeldp.errors import DataError
from labeldp.mechanisms.shaped_flag import ShapedFlagOptions
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.mechanisms.shaped_flag.sizing import split
from labeldp.mechanisms.workbench import (
    Engine,
    Factor,
    Forecast,
    Plan,
    Request,
    Shape,
    Sighting,
    Source,
    Survey,
    Weights,
    WeightScan,
    find_shape,
    surveyed,
)


def draft(request: Request[ShapedFlagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; fix weights and noise."""
    options = request.options
    found = surveyed(request, source, engine, saturated=True)
    if not found.factor.rank:
        raise DataError("no feature column is left, so there is nothing to weigh rows by")
    shape = shape_of(found, source, engine)
    aggregates, residual = split(request.epsilon, request.delta, options.residual_share)
    width = found.facts.width
    claim = ShapedFlagClaim(
        request.accountant,
        request.epsilon,
        request.delta,
        bags=found.factor.rank,
        rows=found.facts.rows,
        label_range=found.facts.label_range,
        intercept=found.features.constant is not None,
        length=shape.length,
        noise_std=math.nextafter(width * shape.length / aggregates, math.inf),
        trace=_short(shape.trace),
        directions=_directions(shape, found.factor),
        gap=_short(shape.gap),
        kind=shape.kind,
        passes=shape.passes,
        residual_noise_std=math.nextafter(width / residual, math.inf) if residual else None,
    )
    return Plan(
        claim,
        found.features,
        found.labels,
        found.feature_sums,
        forecast(claim, options.residual(width), options.residual_source),
        (*found.notes, *_notes(shape)),
        found.factor,
        {"weights": shape.weights},
    )


def shape_of(found: Survey, source: Source, engine: Engine) -> Shape:
    """The search for a shape; between its passes a bar without an end says that it works."""
    with ExitStack() as working:

        def look(weights: Weights, keep: int, floor: float) -> Sighting:
            working.close()
            scan = WeightScan(found.features, weights, keep=keep, floor=floor)
            sighting = engine.fold("rows against the shape", source, scan)
            working.enter_context(engine.progress("shape", None))
            return sighting

        return find_shape(found.factor, found.features, look)


def forecast(claim: ShapedFlagClaim, residual_ms: float, source: str = "stated") -> Forecast:
    """What noise adds holds whatever the labels are; a residual only gives it a scale."""
    mean, low, median, high = (
        value / claim.rows for value in (claim.excess, *claim.excess_quantiles())
    )
    return Forecast(
        residual_ms=residual_ms,
        best_mse=residual_ms,
        mean_mse=residual_ms + mean,
        excess_mean=mean / residual_ms,
        excess_low=low / residual_ms,
        excess_median=median / residual_ms,
        excess_high=high / residual_ms,
        added_variance=claim.noise_std**2,
        added_ms=mean,
        added_low=low,
        added_high=high,
        added_exact=True,
        residual_source=source,
    )


def _directions(shape: Shape, factor: Factor) -> float:
    """(tr S)²/tr S²: between 1 and d."""
    with threadpool_limits(1, "blas"):
        root = shape.weights.noise_root(factor)
        trace, squares = np.square(root).sum(), np.square(root @ root.T).sum()
    return _short(float(trace**2 / squares))


def _short(value: float) -> float:
    """Twelve digits: more would follow the machine's rounding."""
    return float(f"{value:.12g}")


def _notes(shape: Shape) -> list[str]:
    gain = f"{shape.gain:.1f} times less noise than the same in every direction"
    return [
        f"noise has a {shape.kind} shape, which adds {gain} and at most "
        f"{shape.gap - 1:.1%} more than the best possible"
    ]
