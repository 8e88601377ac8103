"""Planning sampled-wtd-FLAg: draw the bags, find their leverages, fix the floor they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.residual_floor import FloorMode
from labeldp.accounting.sketch import BagOfSizeProfile, spans_labels
from labeldp.accounting.theorems import Theorem2
from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, PlanError
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.bags import BagRows, check_stable_rows, fresh_draw
from labeldp.mechanisms.design_summary import DesignSummary, feature_bound, surveyed
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.options import Request, fitting_aggregates
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import Panel, number
from labeldp.mechanisms.residual_floor import FloorParameters, claimed_floor, floor_mode
from labeldp.mechanisms.sampled_wtd_flag import SampledWtdFlagOptions
from labeldp.mechanisms.sampled_wtd_flag.bagwise import bag_facts
from labeldp.mechanisms.sampled_wtd_flag.claim import Promise, SampledWtdFlagClaim
from labeldp.mechanisms.sampled_wtd_flag.sizing import BagSizes, choose_bag_size
from labeldp.passes.engine import Engine


def draft(request: Request[SampledWtdFlagOptions], source: Source, engine: Engine) -> Plan:
    """Read the features; draw bags; fix the floor."""
    check_stable_rows(source)
    mode = _mode(request)
    found = surveyed(request, source, engine)
    promise = _promise(request, found.features)
    options = request.options
    residual_ms = options.residual_ms or options.residual(found.facts.width)
    terms = FloorParameters(
        found.facts, request.epsilon, request.delta, request.accountant, mode, residual_ms
    )
    sizes = BagSizes(
        terms,
        options.over_draw,
        options.bags,
        fitting_aggregates(options.megabytes(), found.factor.rank),
    )
    bag_size = options.bag_size or _default_size(request, sizes, promise)
    bags = max(1, sizes.bags(bag_size))
    if options.over_draw and not mode.adds:
        _check_every_draw(bag_size, found.factor.rank)
    draw = fresh_draw(options, found.facts.rows, bags, bag_size, request.delta)
    rows = BagRows(found.features, draw).read(source, engine)
    facts = bag_facts(rows, found.features, found.labels, draw, adds=mode.adds, engine=engine)
    claim = SampledWtdFlagClaim(
        request.accountant,
        request.epsilon,
        request.delta,
        bags,
        0.0,
        mode,
        terms.measurement,
        facts,
        found.factor.rank,
        draw,
        promise,
    )
    floor = _floor(claim, request)
    return Plan(
        replace(claim, floor=floor),
        found.features,
        found.labels,
        rows.digest(),
        forecast(
            rows=bag_size,
            rank=found.factor.rank,
            bags=bags,
            residual_ms=residual_ms,
            added_variance=terms.added(floor, bag_size),
            residual_source="stated" if options.residual_ms else options.residual_source,
        ),
        found.notes,
    )


def _check_every_draw(bag_size: int, rank: int) -> None:
    """Refuse bags that might determine their labels, whichever are drawn (theory §14).

    Were a draw refused for the rows that it has, whoever tries until one passes would meet some
    rows more often than the claim says.
    """
    if hopeless := spans_labels(bag_size, rank):
        raise PlanError(hopeless)


def _mode(request: Request[SampledWtdFlagOptions]) -> FloorMode:
    if request.accountant != "paper":
        if request.options.min_eigenvalue is not None:
            raise InputError(
                "`min_eigenvalue` is Theorem 2's promise: use it with the accountant "
                "paper, or leave it out"
            )
        return floor_mode(request.options, request.accountant)
    if request.options.floor not in (None, "declared") or request.options.residual_ms is not None:
        raise InputError(
            "Theorem 2 has no floor but the smallest eigenvalue of the whole table; give "
            "`min_eigenvalue` alone, without `floor` or `residual_ms`"
        )
    if request.options.min_eigenvalue is None or not request.options.over_draw:
        raise InputError(
            "Theorem 2 rests on a promise about the table and on the draw of the bags; "
            "give `min_eigenvalue` and `over_draw`"
        )
    return FloorMode.DECLARED


def _promise(request: Request[SampledWtdFlagOptions], features: FeatureMap) -> Promise | None:
    if request.options.min_eigenvalue is None:
        return None
    return Promise(request.options.min_eigenvalue, feature_bound(features))


def _default_size(
    request: Request[SampledWtdFlagOptions], sizes: BagSizes, promise: Promise | None
) -> int:
    if promise is None:
        return choose_bag_size(sizes)
    facts = sizes.terms.facts
    promised = promise.min_eigenvalue, promise.feature_bound
    theorem = Theorem2(facts.rows, facts.label_range, *promised, sizes.terms.rank)
    answer = theorem.min_bag_size(request.epsilon, request.delta)
    if answer.value is None:
        raise PlanError(f"{answer.reason}; use the accountant exact")
    return int(answer.value)


def _floor(claim: SampledWtdFlagClaim, request: Request[SampledWtdFlagOptions]) -> float:
    """What every bag must reach: what the budget needs, or the whole of what was promised."""
    if claim.promise is not None:
        spent = claim.delta_at(claim.epsilon)
        if spent > claim.delta:
            raise PlanError(
                f"Theorem 2 gives bags of {claim.draw.bag_size:,} rows δ = {spent:.3g} at "
                f"ε = {claim.epsilon:g}; ask for larger bags or use the accountant exact"
            )
        return claim.expected_floor
    law = replace(claim, floor=1.0).law
    needed = calibrate(law, "floor", claim.epsilon, claim.delta)
    size = claim.draw.bag_size
    whose = f"bags of {size:,} rows"
    promised = request.options.residual_ms
    return claimed_floor(needed, size, promised, whose=whose, cure="ask for larger bags")


def inspect(
    found: DesignSummary, residual_ss: float, epsilon: float, delta: float
) -> dict[str, Any]:
    """The smallest bag without noise, for bags like the whole table."""
    facts = found.facts
    smallest: dict[str, Any]
    try:
        law = BagOfSizeProfile(facts.label_range, residual_ss / facts.rows)
        least = calibrate(law, "bag_size", epsilon, delta)
        smallest = {"min_bag_size": least}
        if least > facts.rows:
            smallest["reason"] = f"more than the {facts.rows:,} rows of the table; add noise"
    except LabelDPError as problem:
        smallest = {"min_bag_size": None, "reason": str(problem)}
    return {"bags": {SampledWtdFlagClaim.mechanism: smallest}}


def show_inspection(document: dict[str, Any]) -> Iterator[Panel]:
    """The same for people."""
    found = document["bags"][SampledWtdFlagClaim.mechanism]
    least = found.get("reason") or f"{number(found['min_bag_size'])} rows"
    line = (f"{SampledWtdFlagClaim.mechanism}, smallest bag without noise", least)
    yield Panel("Bags at that budget", [line])
