"""Planning noisy-rows: the noise follows from the budget and the label range alone."""

from __future__ import annotations

import math
from dataclasses import replace

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.design_summary import most_rows, person_notes, surveyed
from labeldp.mechanisms.forecast import explained_ms, shrunken_ms
from labeldp.mechanisms.noisy_rows import NoisyRowsOptions
from labeldp.mechanisms.noisy_rows.claim import NoisyRowsClaim
from labeldp.mechanisms.noisy_rows.noise import RowNoise, least_noise
from labeldp.mechanisms.notes import spared
from labeldp.mechanisms.options import Request
from labeldp.mechanisms.plans import Plan
from labeldp.passes.engine import Engine
from labeldp.release.files import ROW

_MOST_STEPS = 2.0**50
"""Labels count fewer steps of their grids than this, so that doubles hold them exactly."""


def draft(request: Request[NoisyRowsOptions], source: Source, engine: Engine) -> Plan:
    """Read the features, for the forecast and for learners; fix the noise."""
    options = request.options
    check_numbered(source)
    found = surveyed(request, source, engine, saturated=True)
    if not found.factor.rank:
        raise DataError("no feature column is left, so there is nothing to learn from")
    if options.with_features:
        _check_names(found.features)
    person = most_rows(found.features, source, engine)
    together = person.rows if person else 1
    noise = least_noise(found.facts.width, together, request.epsilon, request.delta)
    claim = NoisyRowsClaim(
        request.accountant,
        request.epsilon,
        0.0 if noise.law.pure else request.delta,
        bags=found.facts.rows,
        rows=found.facts.rows,
        rank=found.factor.rank,
        label_range=found.labels.range,
        intercept=found.features.constant is not None,
        noise=noise,
        with_features=options.with_features,
        person=person,
    )
    _check_size(found.labels, claim.noise)
    forecast = claim.forecast(options.residual(claim.width), options.residual_source)
    return Plan(
        claim,
        found.features,
        found.labels,
        found.feature_sums,
        replace(forecast, fitted_ms=_shrunken(claim, options.residual_guess or 0.0)),
        (
            *found.notes,
            *spared(noise.law.title, noise.law.pure, request.delta),
            *person_notes(person),
        ),
        found.factor,
    )


def _shrunken(claim: NoisyRowsClaim, stated_ms: float) -> float:
    """What noise adds to shrunken predictions: it has one variance in all directions."""
    noise, first = claim.noise.std**2, int(claim.intercept)
    return shrunken_ms(
        [noise] * (claim.rank - first),
        noise * first,
        rows=claim.rows,
        width=claim.width,
        explained=explained_ms(claim.width, stated_ms),
    )


def check_numbered(source: Source) -> None:
    """Labels stand beside the numbers of their rows, which a source must have."""
    if not source.numbered:
        raise InputError(
            "noisy-rows names rows by number, and rows on Spark have none; read the table without "
            "Spark, or use a mechanism of aggregates (`mechanism='shaped-flag'`)"
        )


def _check_names(features: FeatureMap) -> None:
    if ROW in features.columns:
        raise InputError(
            f"a feature column is called {ROW!r}, like the row's number; rename it, or leave "
            "`with_features` out"
        )


def _check_size(labels: LabelGrid, noise: RowNoise) -> None:
    finest = min(noise.grid, labels.exponent)
    low, high = labels.range
    if max(-low, high) >= math.ldexp(_MOST_STEPS, finest):
        raise InputError(
            f"`label_range` {low:g} {high:g} is too far from 0 for its width; subtract a public "
            "number from all labels"
        )
