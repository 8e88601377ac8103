"""Planning wtd-FLAg: how many bags, and the floor that number needs, from features alone."""

from __future__ import annotations

from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.mechanisms.floors import Terms, floor_mode
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.protocol import Draft, Request
from labeldp.mechanisms.survey import survey
from labeldp.mechanisms.wtd_flag.claim import WeightedFlagClaim
from labeldp.mechanisms.wtd_flag.sizing import (
    cap_from_size,
    check_number,
    choose_bags,
    needed_floor,
)
from labeldp.source import Source


def draft(request: Request, source: Source, engine: Engine) -> Draft:
    """Read the features; fix bags and floor."""
    request.allow(WeightedFlagClaim.mechanism, "floor", "residual_ms", "compact")
    mode = floor_mode(
        request.floor,
        declared=request.residual_ms is not None,
        accountant=request.accountant,
    )
    found = survey(source, engine=engine, encoding=request.encoding)
    guess = request.residual(found.facts.width)
    terms = Terms(found.facts, request.epsilon, request.delta, request.accountant, mode, guess)
    bags = request.bags
    if bags is None:
        bags = choose_bags(terms, cap_from_size(request.max_megabytes, terms.rank))
    check_number(bags)
    floor = _floor(terms, bags, request.residual_ms)
    return Draft(
        WeightedFlagClaim(
            request.accountant,
            request.epsilon,
            request.delta,
            bags,
            floor,
            mode,
            terms.measurement,
            found.facts,
            _compact(request, bags, terms.rank),
        ),
        found.features,
        found.labels,
        found.feature_sums,
        forecast(
            rows=found.facts.rows,
            rank=terms.rank,
            bags=bags,
            residual_ms=guess,
            added_variance=terms.added(floor, found.facts.rows),
        ),
        found.notes,
        found.factor,
    )


def _compact(request: Request, bags: int, rank: int) -> bool:
    if request.compact and bags <= rank + 1:
        raise PlanError(
            f"{bags} aggregates of {rank} columns have no compact form of fewer rows; ask for more "
            "bags, or leave --compact out"
        )
    return request.compact


def _floor(terms: Terms, bags: int, residual_ms: float | None) -> float:
    """The floor the claim rests on: what the bags need, or the whole of what was promised."""
    needed = needed_floor(terms, bags)
    if residual_ms is None:
        return needed
    promised = residual_ms * terms.facts.rows
    if not needed <= promised:
        raise PlanError(
            f"{bags} bags need a residual mean square of {needed / terms.facts.rows:.6g}, more "
            f"than the declared {residual_ms:.6g}; ask for fewer bags or use --floor measured+added"
        )
    return promised
