"""Planning shaped-flag: the weights that add least noise to a fit, from features alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.errors import DataError
from labeldp.mechanisms.forecast import noise_forecast, shrunken_ms
from labeldp.mechanisms.notes import CHOICE, NOISE, Note, spared
from labeldp.mechanisms.shaped_flag import ShapedFlagOptions
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.mechanisms.shaped_flag.lengths import person_length
from labeldp.mechanisms.shaped_flag.noise import choose
from labeldp.mechanisms.workbench import (
    LARGE,
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
    explained_ms,
    find_shape,
    surveyed,
)


def draft(request: Request[ShapedFlagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; fix weights and noise."""
    options = request.options
    found = surveyed(request, source, engine, saturated=True)
    if not found.factor.rank:
        raise DataError("no feature column is left, so there is nothing to weigh rows by")
    if "shape" not in request.known:  # of the features alone: any budget has the same
        request.known["shape"] = shape_of(found, source, engine)
    shape: Shape = request.known["shape"]
    columns, width = found.factor.rank, found.facts.width
    budget = request.epsilon, request.delta, options.residual_share
    noise = choose(options.noise, *budget, columns)
    aggregates, residual = noise.parts(*budget)
    with engine.progress("spread of the noise", None), threadpool_limits(1, "blas"):
        spread = _Spread.of(shape, found.factor)
    length, person = person_length(shape, found.features, source, engine)
    trace = shape.trace * (length / shape.length) ** 2
    claim = ShapedFlagClaim(
        request.accountant,
        request.epsilon,
        0.0 if noise.pure else request.delta,
        bags=columns,
        rows=found.facts.rows,
        label_range=found.facts.label_range,
        intercept=found.features.constant is not None,
        length=length,
        noise_std=noise.deviation(width * length, aggregates, columns),
        trace=_short(trace),
        directions=spread.directions,
        gap=_short(trace / shape.bound),
        kind=shape.kind,
        passes=shape.passes,
        residual_noise_std=None,
        noise_law=noise.name,
        person=person,
    )
    residual_std = noise.residual_deviation(claim.reach, residual)
    claim = replace(claim, residual_noise_std=residual_std)
    forecasts = forecast(claim, options.residual(width), options.residual_source)
    explained = explained_ms(width, options.residual_guess or 0.0)
    with engine.progress("forecast", None), threadpool_limits(1, "blas"):
        shrunk = spread.shrunken(claim, explained)
    return Plan(
        claim,
        found.features,
        found.labels,
        found.feature_sums,
        replace(forecasts, fitted_ms=shrunk),
        (*found.notes, *_notes(shape, claim), *spared(noise.name, noise.pure, request.delta)),
        found.factor,
        {"weights": shape.weights},
    )


def shape_of(found: Survey, source: Source, engine: Engine) -> Shape:
    """The search for a shape; between its passes a bar without an end says that it works."""
    with ExitStack() as working:

        def look(weights: Weights, keep: int, spare: int, floor: float) -> Sighting:
            working.close()
            scan = WeightScan(found.features, weights, keep=keep, spare=spare, floor=floor)
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


@dataclass(frozen=True)
class _Spread:
    """How S = K·Kᵀ divides the noise between directions, in any unit."""

    root: NDArray[np.float64] = field(repr=False)
    """K."""
    whole: NDArray[np.float64] = field(repr=False)
    """S."""

    @classmethod
    def of(cls, shape: Shape, factor: Factor) -> _Spread:
        root = shape.weights.noise_root(factor)
        return cls(root, root @ root.T)

    @property
    def directions(self) -> float:
        """(tr S)²/tr S²: between 1 and d."""
        trace, squares = np.square(self.root).sum(), np.square(self.whole).sum()
        return _short(float(trace**2 / squares))

    def shrunken(self, claim: ShapedFlagClaim, explained: float) -> float:
        """What noise adds to predictions that are shrunk, as the default fit's are.

        The first column is the constant, so in whitened coordinates the first direction is the
        mean's.
        """
        first, size = int(claim.intercept), claim.excess / np.square(self.root).sum()
        root = self.root * np.sqrt(size)
        if len(root) < LARGE:
            slopes = np.square(np.linalg.svd(root[first:], compute_uv=False))
        else:  # a tenth of the work, and digits enough for a forecast
            slopes = size * np.linalg.eigvalsh(self.whole[first:, first:]).clip(0.0)
        mean, width = float(np.square(root[:first]).sum()), claim.width
        return shrunken_ms(slopes.tolist(), mean, rows=claim.rows, width=width, explained=explained)


def _short(value: float) -> float:
    """Twelve digits: more would follow the machine's rounding."""
    return float(f"{value:.12g}")


def _notes(shape: Shape, claim: ShapedFlagClaim) -> list[str]:
    if claim.person is not None:
        words = (
            f"the guarantee is for all rows of a person together, at most {claim.person.rows}, "
            f"which takes {claim.length / shape.length:.3g} times the noise of one for single rows"
        )
        return [Note(words, NOISE)]
    gain = f"{shape.gain:.1f} times less noise than the same in every direction"
    words = (
        f"noise has a {shape.kind} shape, which adds {gain} and at most "
        f"{shape.gap - 1:.1%} more than the best possible"
    )
    return [Note(words, CHOICE)]
