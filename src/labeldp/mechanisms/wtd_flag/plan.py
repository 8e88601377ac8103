"""Planning wtd-FLAg: how many bags, and the floor that number needs, from features alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labeldp.accounting import ACCOUNTANTS
from labeldp.errors import PlanError
from labeldp.mechanisms.workbench import (
    REMARKS,
    Engine,
    Panel,
    Plan,
    Request,
    Source,
    Survey,
    Terms,
    claimed_floor,
    floor_mode,
    forecast,
    number,
    survey,
)
from labeldp.mechanisms.wtd_flag import WeightedFlagOptions
from labeldp.mechanisms.wtd_flag.claim import WeightedFlagClaim
from labeldp.mechanisms.wtd_flag.sizing import (
    cap_from_size,
    check_number,
    choose_bags,
    max_bags,
    needed_floor,
)


def draft(request: Request[WeightedFlagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; fix bags and floor."""
    options = request.options
    mode = floor_mode(options, request.accountant)
    found = survey(source, engine=engine, encoding=request.encoding)
    guess = options.residual_ms or options.residual(found.facts.width)
    terms = Terms(found.facts, request.epsilon, request.delta, request.accountant, mode, guess)
    bags = options.bags
    if bags is None:
        bags = choose_bags(terms, cap_from_size(options.max_megabytes, terms.rank))
    check_number(bags)
    floor = claimed_floor(
        needed_floor(terms, bags),
        found.facts.rows,
        options.residual_ms,
        whose=f"{bags} bags",
        cure="ask for fewer bags",
    )
    return Plan(
        WeightedFlagClaim(
            request.accountant,
            request.epsilon,
            request.delta,
            bags,
            floor,
            mode,
            terms.measurement,
            found.facts,
            _compact(options, bags, terms.rank),
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
            residual_source="stated" if options.residual_ms else options.residual_source,
        ),
        found.notes,
        found.factor,
    )


def _compact(options: WeightedFlagOptions, bags: int, rank: int) -> bool:
    if options.compact and bags <= rank + 1:
        raise PlanError(
            f"{bags} aggregates of {rank} columns have no compact form of fewer rows; ask for more "
            "bags, or leave `compact` out"
        )
    return options.compact


def inspect(found: Survey, residual_ss: float, epsilon: float, delta: float) -> dict[str, Any]:
    """The most bags that each accountant allows, were the residual public."""

    def most(accountant: str) -> dict[str, Any]:
        if residual_ss == 0.0:
            return {"max_bags": 0, "reason": "the labels lie in the span of the features"}
        answer = max_bags(accountant, found.facts, residual_ss, epsilon, delta)
        reason = {"reason": answer.reason} if answer.reason else {}
        return {"max_bags": answer.value, **reason}

    return {"accountants": {name: most(name) for name in ACCOUNTANTS}}


def show_inspection(document: dict[str, Any]) -> Iterator[Panel]:
    """The same for people."""
    yield Panel(
        f"Most bags at ε = {document['epsilon']:g}, δ = {document['delta']:g}, were γ public",
        [
            [name, number(answer["max_bags"]), answer.get("reason", "")]
            for name, answer in document["accountants"].items()
        ],
        ["accountant", "bags", REMARKS],
    )
