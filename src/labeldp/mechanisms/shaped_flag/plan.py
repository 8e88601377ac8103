"""Planning shaped-flag: the weights that add least noise to a fit, from features alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.exact.row_norms import RowNorms, RowNormScan, Weights
from labeldp.mechanisms.design_summary import DesignSummary, surveyed
from labeldp.mechanisms.noise_shape import (
    FULL_COLUMNS,
    NoiseCovariance,
    optimize_noise_shape,
)
from labeldp.mechanisms.notes import Note, spared
from labeldp.mechanisms.options import Request
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.shaped_flag import ShapedFlagOptions
from labeldp.mechanisms.shaped_flag.sizing import Sized, sized
from labeldp.passes.engine import Engine

Asked = Request[ShapedFlagOptions]
RIDGES = (0.1, 1.0)
"""Tried where shrinkage drops much of the noise."""
_DROPS = 0.75
"""Of the noise, what shrinkage leaves there at most."""
_PAYS = 0.95
"""Of the expected error of a fit, what a ridge leaves of it at most where it is used."""


def draft(request: Asked, source: Source, engine: Engine) -> Plan:
    """Read the features; fix weights and noise."""
    options = request.options
    found = surveyed(request, source, engine, saturated=True)
    if not found.factor.rank:
        raise DataError("no feature column is left, so there is nothing to weigh rows by")
    made, plain = _best(request, found, source, engine)
    claim, width = made.claim, found.facts.width
    forecasts = claim.forecast(options.residual(width), options.residual_source)
    with engine.progress("forecast", None):
        forecasts = replace(forecasts, fitted_ms=made.fitted_ms)
    if made is not plain:
        saved = made.expected_ms / plain.expected_ms
        forecasts = replace(forecasts, weighed_ms=plain.added_ms * saved)
    notes = *_notes(made, plain), *spared(claim.noise_law, claim.noise.pure, request.delta)
    return Plan(
        claim,
        found.features,
        found.labels,
        found.feature_sums,
        forecasts,
        (*found.notes, *notes),
        found.factor,
        {"weights": made.shape.weights},
    )


def _best(
    request: Asked, found: DesignSummary, source: Source, engine: Engine
) -> tuple[Sized, Sized]:
    """The shape to use, and the one without a ridge."""
    asked = request.options.shape_ridge

    def made(ridge: float) -> Sized:
        key = "shape", ridge
        if key not in request.known:  # of the features alone: any budget has the same
            request.known[key] = shape_of(found, source, engine, ridge)
        return sized(request, found, request.known[key], source, engine)

    if asked and found.factor.rank > FULL_COLUMNS:
        raise InputError(f"`shape_ridge` takes {FULL_COLUMNS:,} design columns at most")
    plain = made(0.0)
    if asked is not None:
        return (made(asked) if asked else plain), plain
    if found.factor.rank > FULL_COLUMNS or plain.fitted_ms > _DROPS * plain.added_ms:
        return plain, plain
    best = min(map(made, RIDGES), key=lambda each: each.expected_ms)
    return (best if best.expected_ms <= _PAYS * plain.expected_ms else plain), plain


def shape_of(
    found: DesignSummary, source: Source, engine: Engine, ridge: float = 0.0
) -> NoiseCovariance:
    """The search for a shape; between its passes a bar without an end says that it works."""
    with ExitStack() as working:

        def look(weights: Weights, keep: int, spare: int, floor: float) -> RowNorms:
            working.close()
            scan = RowNormScan(found.features, weights, keep=keep, spare=spare, floor=floor)
            sighting = engine.run_pass("rows against the shape", source, scan)
            working.enter_context(engine.progress("shape", None))
            return sighting

        return optimize_noise_shape(found.factor, found.features, look, ridge)


def _notes(made: Sized, plain: Sized) -> list[str]:
    return [*([_ridge_note(made, plain)] if made.shape.ridge else []), _shape_note(made)]


def _ridge_note(made: Sized, plain: Sized) -> Note:
    less = 1 - made.expected_ms / plain.expected_ms
    words = (
        f"few rows for the columns: the shape has a ridge of {made.shape.ridge:g}, with which "
        f"shrunken predictions are expected to have {less:.0%} less squared error by noise, and "
        f"those of least squares {made.added_ms / plain.added_ms:.2g} times as much; for "
        "coefficients and their intervals take `shape_ridge=0`"
    )
    return Note(words, Note.CHOICE)


def _shape_note(made: Sized) -> Note:
    shape, claim = made.shape, made.claim
    if claim.person is not None:
        words = (
            f"the guarantee is for all rows of a person together, at most {claim.person.rows}, "
            f"which takes {claim.length / shape.length:.3g} times the noise of one for single rows"
        )
        return Note(words, Note.NOISE)
    gain = f"{shape.gain:.1f} times less noise than the same in every direction"
    aim = " for such predictions" if shape.ridge else ""
    words = (
        f"noise has a {shape.kind} shape, which adds {gain} and at most "
        f"{shape.gap - 1:.1%} more than the best possible{aim}"
    )
    return Note(words, Note.CHOICE)
