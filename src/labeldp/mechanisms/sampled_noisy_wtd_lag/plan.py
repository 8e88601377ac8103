"""Planning sampled-noisy-wtd-LAg: draw bags, weights and noisy rows, and say what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.subsampling import SubsampledBagsProfile
from labeldp.accounting.theorems import Theorem3
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.data.source import Source
from labeldp.errors import InputError, PlanError
from labeldp.mechanisms.bags import BagRows, Draw, check_stable_rows, fresh_draw
from labeldp.mechanisms.design_summary import DesignSummary, surveyed
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.options import Request, fitting
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import Panel, number
from labeldp.mechanisms.sampled_noisy_wtd_lag import SampledNoisyWtdLagOptions, sizing
from labeldp.mechanisms.sampled_noisy_wtd_lag.claim import SampledNoisyWtdLagClaim
from labeldp.mechanisms.sampled_noisy_wtd_lag.weights import (
    BagWeights,
    chosen_rows,
    coins,
    draw_weights,
    noisy_share,
)
from labeldp.passes.engine import Engine

_BYTES = 21
"""Of one row in bags.parquet."""
_HAIR = 1e-9
_DRAWS = 10
_INSPECTED = (2, 16, 128)

DrawnBags = tuple[Draw, BagWeights, float | None]


def draft(request: Request[SampledNoisyWtdLagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; draw bags, weights and noisy rows."""
    check_stable_rows(source)
    fraction = _fraction(request, source)
    found = surveyed(request, source, engine)
    size, bags, std = _shape(request, found, fraction)
    draw, weights, target = _drawn(request, source, found, (size, bags, std), fraction)
    claim = SampledNoisyWtdLagClaim(
        request.accountant,
        request.epsilon,
        request.delta,
        bags,
        found.factor.rank,
        found.labels.range,
        found.features.intercept,
        draw,
        std,
        None if request.options.noisy_column is not None else fraction,
        request.options.noisy_column,
        None if target is None else _claimed_mu(draw, weights, found.facts.width, std, target),
    )
    spent = claim.delta_at(claim.epsilon)
    if spent > claim.delta:
        raise PlanError(
            f"{bags:,} bags of {size:,} rows with noise of deviation {std:g} have δ = {spent:.3g} "
            f"at ε = {claim.epsilon:g}; make bags larger, more rows noisy, or the noise stronger"
        )
    guess = request.options.residual(found.facts.width)
    return Plan(
        claim,
        found.features,
        found.labels,
        BagRows(found.features, draw).read(source, engine).digest(),
        forecast(
            rows=size,
            rank=found.factor.rank,
            bags=bags,
            residual_ms=guess,
            added_variance=float(weights.noisy.mean()) * std**2 * size,
            residual_source=request.options.residual_source,
        ),
        found.notes,
    )


def _drawn(
    request: Request[SampledNoisyWtdLagOptions],
    source: Source,
    found: DesignSummary,
    shape: tuple[int, int, float],
    fraction: float,
) -> DrawnBags:
    """Bags, noisy rows, weights, and the μ they keep below.

    A draw in which some bag has too few noisy rows is thrown away. No label takes part, and rows
    stay equally likely to be in a bag: they are noisy by coins of their own, or no guarantee over
    the draw is claimed.
    """
    size, bags, std = shape

    def once() -> DrawnBags:
        draw = fresh_draw(request.options, found.facts.rows, bags, size, request.delta)
        if request.options.noisy_column is not None:
            noisy = chosen_rows(draw, source, request.options.noisy_column)
        else:
            noisy = coins(draw, fraction)
        target = None
        if request.accountant == "exact":
            law = draw.over(GaussianProfile(1.0))
            target = calibrate(law, "mu", request.epsilon, request.delta)
        return draw, draw_weights(draw, noisy, found.facts.width, std, target), target

    if request.options.bag_seed is None:
        for _ in range(_DRAWS - 1):
            with suppress(PlanError):
                return once()
    return once()


def _claimed_mu(
    draw: Draw, weights: BagWeights, width: float, noise_std: float, target: float
) -> float:
    """The μ of these very bags, or over the draw the one that every draw keeps.

    A hair above the largest, so that whoever repeats the draw and rounds differently accepts the
    same weights.
    """
    if draw.over_draw:
        return target
    return min(target, weights.largest_mu(width, noise_std) * (1 + _HAIR))


def _fraction(request: Request[SampledNoisyWtdLagOptions], source: Source) -> float:
    """ρ; where a column says which rows are noisy it is their share, for sizing alone."""
    if request.options.noisy_column is None:
        fraction = 1.0 if request.options.noisy_fraction is None else request.options.noisy_fraction
        if not 0.0 < fraction <= 1.0:
            raise InputError(f"`noisy_fraction` must be above 0 and at most 1, not {fraction:g}")
        return fraction
    if request.options.noisy_fraction is not None:
        raise InputError("`noisy_fraction` and `noisy_column` say the same thing; give one")
    if request.accountant != "exact":
        raise InputError(
            "an a priori claim averages over noisy rows drawn at random; with `noisy_column` use "
            "the accountant exact"
        )
    if request.options.over_draw:
        raise InputError(
            "with `noisy_column` the guarantee is given the bags; leave `over_draw` out"
        )
    return noisy_share(source, request.options.noisy_column)


def _shape(
    request: Request[SampledNoisyWtdLagOptions], found: DesignSummary, fraction: float
) -> tuple[int, int, float]:
    """Bag size, number of bags, noise: what was asked, and the best of what was left open."""
    rows, rank = found.facts.rows, found.factor.rank

    def bags_of(size: int) -> int:
        most = min(rows, fitting(request.options.megabytes(), _BYTES)) // size
        return request.options.bags or max(1, most)

    needed = _needed_noise(request, found, fraction, bags_of)

    def safe(size: int) -> float:
        empty = sizing.may_be_empty(size, bags_of(size), fraction)
        return math.inf if empty else needed(size)

    size = request.options.bag_size
    if size is None and request.options.noise_std is not None:
        size = sizing.size_for_noise(
            rows // (request.options.bags or 1), request.options.noise_std, safe
        )
    elif size is None:
        guess = request.options.residual(found.facts.width)
        size = sizing.best_size(rows, rank, guess, fraction, safe, bags_of, request.options.bags)
    std = request.options.noise_std or needed(size)
    if std == math.inf:
        raise PlanError(
            f"no noise makes {bags_of(size):,} bags of {size:,} rows private at this budget; make "
            "bags larger or more rows noisy"
        )
    return size, bags_of(size), std


def _needed_noise(
    request: Request[SampledNoisyWtdLagOptions],
    found: DesignSummary,
    fraction: float,
    bags_of: Callable[[int], int],
) -> Callable[[int], float]:
    """size ↦ the noise deviation that the accountant needs."""
    rows, labels, width = found.facts.rows, found.labels.range, found.facts.width
    budget = (request.epsilon, request.delta)

    def over(law: PrivacyProfile, size: int) -> PrivacyProfile:
        over_draw = request.options.over_draw
        return SubsampledBagsProfile(law, rows, size, bags_of(size)) if over_draw else law

    def needed(size: int) -> float:
        if request.accountant == "exact":
            target = calibrate(over(GaussianProfile(1.0), size), "mu", *budget)
            return sizing.realised_std(size, fraction, width, target)
        if request.accountant == "paper":
            return sizing.least_std(Theorem3(labels, fraction, size, bags_of(size)), *budget)
        return sizing.least_std(over(RandomWeightsProfile(size, labels, fraction), size), *budget)

    return needed


def inspect(
    found: DesignSummary,
    residual_ss: float,  # noqa: ARG001
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """The noise that bags of some sizes need."""
    target = largest_mu(epsilon, delta)
    noise = {
        str(size): sizing.realised_std(size, 1.0, found.facts.width, target) for size in _INSPECTED
    }
    return {"bags": {SampledNoisyWtdLagClaim.mechanism: {"noise_std": noise}}}


def show_inspection(document: dict[str, Any]) -> Iterator[Panel]:
    """The same for people."""
    name = SampledNoisyWtdLagClaim.mechanism
    lines = [
        (f"{name}, noise in bags of {size}", f"deviation {number(std)}")
        for size, std in document["bags"][name]["noise_std"].items()
    ]
    yield Panel("Bags at that budget", lines)
