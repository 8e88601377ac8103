"""Planning shaped-flag: the weights that add least noise to a fit, from features alone."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from labeldp.errors import DataError
from labeldp.mechanisms.forecast import noise_forecast
from labeldp.mechanisms.shaped_flag import ShapedFlagOptions
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.mechanisms.shaped_flag.lengths import person_length
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
    length, person = person_length(shape, found.features, source, engine)
    trace = shape.trace * (length / shape.length) ** 2
    claim = ShapedFlagClaim(
        request.accountant,
        request.epsilon,
        request.delta,
        bags=found.factor.rank,
        rows=found.facts.rows,
        label_range=found.facts.label_range,
        intercept=found.features.constant is not None,
        length=length,
        noise_std=math.nextafter(width * length / aggregates, math.inf),
        trace=_short(trace),
        directions=_directions(shape, found.factor),
        gap=_short(trace / shape.bound),
        kind=shape.kind,
        passes=shape.passes,
        residual_noise_std=None,
        person=person,
    )
    if residual:
        noise = math.nextafter(claim.reach / residual, math.inf)
        claim = replace(claim, residual_noise_std=noise)
    return Plan(
        claim,
        found.features,
        found.labels,
        found.feature_sums,
        forecast(claim, options.residual(width), options.residual_source),
        (*found.notes, *_notes(shape, claim)),
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
    return noise_forecast(
        rows=claim.rows,
        excess=claim.excess,
        quantiles=claim.excess_quantiles(),
        residual_ms=residual_ms,
        added_variance=claim.noise_std**2,
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


def _notes(shape: Shape, claim: ShapedFlagClaim) -> list[str]:
    if claim.person is not None:
        return [
            f"the guarantee is for all rows of a person together, at most {claim.person.rows}, "
            f"which takes {claim.length / shape.length:.3g} times the noise of one for single rows"
        ]
    gain = f"{shape.gain:.1f} times less noise than the same in every direction"
    return [
        f"noise has a {shape.kind} shape, which adds {gain} and at most "
        f"{shape.gap - 1:.1%} more than the best possible"
    ]
