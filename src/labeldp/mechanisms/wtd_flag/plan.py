"""Planning wtd-FLAg: how many bags, and the floor that number needs, from features alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labeldp.accounting.accountants import ACCOUNTANTS
from labeldp.accounting.gaussian import largest_mu
from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.mechanisms.design_summary import DesignSummary, most_rows, person_notes, surveyed
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.notes import Note
from labeldp.mechanisms.options import Request
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import REMARKS, Panel, number
from labeldp.mechanisms.residual_floor import FloorParameters, claimed_floor, floor_mode
from labeldp.mechanisms.wtd_flag import WtdFlagOptions
from labeldp.mechanisms.wtd_flag.claim import WtdFlagClaim
from labeldp.mechanisms.wtd_flag.sizing import (
    cap_from_size,
    check_number,
    choose_bags,
    max_bags,
    needed_floor,
)
from labeldp.passes.engine import Engine


def draft(request: Request[WtdFlagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; fix bags and floor."""
    options = request.options
    mode = floor_mode(options, request.accountant)
    found = surveyed(request, source, engine)
    guess = options.residual_ms or options.residual(found.facts.width)
    person = most_rows(found.features, source, engine)
    if person is not None and request.accountant == "paper":
        raise PlanError(
            "the paper's theorem speaks of one label, not of all rows of a person together; use "
            "`accountant='exact'`, or leave `person` out to protect single rows"
        )
    labels = person.rows if person else 1
    budget = request.epsilon, request.delta, request.accountant
    terms = FloorParameters(found.facts, *budget, mode, guess, labels)
    size = options.megabytes(found.facts.rows * (len(found.features.columns) + 1))
    bags = options.bags or choose_bags(terms, size, compact=options.compact)
    check_number(bags)
    floor = claimed_floor(
        needed_floor(terms, bags),
        found.facts.rows,
        options.residual_ms,
        whose=f"{bags} aggregates",
        cure="ask for fewer (`bags`)",
    )
    return Plan(
        WtdFlagClaim(
            request.accountant,
            request.epsilon,
            request.delta,
            bags,
            floor,
            mode,
            terms.measurement,
            found.facts,
            _compact(options, bags, terms.rank),
            person=person,
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
        (*found.notes, *_notes(options, bags, terms.rank, size), *person_notes(person)),
        found.factor,
    )


def _notes(options: WtdFlagOptions, bags: int, rank: int, size: float) -> list[str]:
    """Where our cap on the file, not the data, has set the number of aggregates."""
    asked = options.bags or options.max_megabytes or options.compact
    if asked or bags < cap_from_size(size, rank):
        return []
    words = (
        f"the file is kept to {number(size)} MB, which more aggregates would exceed: allow more "
        "with `max_megabytes`, or publish with `compact=True`, where their number is free"
    )
    return [Note(words, Note.NOISE)]


def least_added(request: Request[WtdFlagOptions], source: Source, engine: Engine) -> float:
    """What infinitely many bags add: noise of one size in every whitened direction (theory §8).

    Fewer bags need less of a floor, but not in proportion, so they add more (theory §6).
    """
    found = surveyed(request, source, engine)
    mu = largest_mu(request.epsilon, request.delta)
    facts = found.facts
    isotropic = found.factor.rank * float(found.leverage.maximum)
    return (facts.width / mu) ** 2 * isotropic / facts.rows


def _compact(options: WtdFlagOptions, bags: int, rank: int) -> bool:
    if options.compact and bags <= rank + 1:
        raise PlanError(
            f"{bags} aggregates of {rank} columns have no compact form of fewer rows; ask for more "
            "(`bags`), or leave `compact` out"
        )
    return options.compact


def inspect(
    found: DesignSummary, residual_ss: float, epsilon: float, delta: float
) -> dict[str, Any]:
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
        f"Most aggregates at ε = {document['epsilon']:g}, δ = {document['delta']:g}, were γ public",
        [
            [name, number(answer["max_bags"]), answer.get("reason", "")]
            for name, answer in document["accountants"].items()
        ],
        ["accountant", "bags", REMARKS],
    )
