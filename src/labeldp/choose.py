"""Which mechanism and which basis, and what would help a plan that is of no use.

Every function here works on public facts. Mechanisms are compared by what privacy adds to the mean
squared error of a prediction (`Forecast.selection_score`). One `DesignSummary` is computed for an
encoding and shared by all plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labeldp.data.source import Source
from labeldp.display import number
from labeldp.errors import LabelDPError
from labeldp.mechanisms.base import ENOUGH_KEPT, Mechanism, MechanismPlan
from labeldp.mechanisms.design_summary import summarize_design
from labeldp.mechanisms.options import AUTO, Encoding, make_options, names, set_options
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanisms
from labeldp.passes.engine import Engine

Choices = dict[str, Any]
"""Keywords of `plan`: budget, accountant, encoding and options of the mechanism."""


# ---- one mechanism, or the best


def plan_mechanism(name: str, choices: Choices, source: Source, engine: Engine) -> MechanismPlan:
    """Plan with the mechanism of this name, or with "auto" the one that adds least error."""
    if name == AUTO:
        return choose_mechanism(choices, source, engine)
    mechanism = mechanism_named(name)
    request = make_request(mechanism, **choices)
    mechanism.check_source(source)
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    return mechanism.plan(request, design, source, engine)


def choose_mechanism(choices: Choices, source: Source, engine: Engine) -> MechanismPlan:
    """Return the plan that adds least to a prediction, with a note on what it was chosen from.

    An option that only some mechanisms have narrows the choice to those. Mechanisms without a
    closed form are considered only if no other has all options.
    """
    known = mechanisms()
    fitting = [mechanism for mechanism in known if has_options(mechanism, choices)]
    if not fitting:
        for mechanism in known:
            make_request(mechanism, **choices)  # raises, and says which option is wrong
    considered = [mechanism for mechanism in fitting if mechanism.closed_form] or fitting
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    best: MechanismPlan | None = None
    errors: list[str] = []
    problems: list[LabelDPError] = []
    # wtd-flag knows a lower bound of its error and stands behind others, so that it need not be
    # planned where they are better.
    for mechanism in considered:
        try:
            request = make_request(mechanism, **choices)
            mechanism.check_source(source)
            least = mechanism.least_added_mse(request, design)
            if best is not None and least >= best.forecast.selection_score:
                errors.append(f"{mechanism.name} ≥ {number(math.sqrt(least))}")
                continue
            plan = mechanism.plan(request, design, source, engine)
        except LabelDPError as problem:
            problems.append(problem)
            continue
        score = plan.forecast.selection_score
        errors.append(f"{mechanism.name} {number(math.sqrt(score))}")
        if best is None or score < best.forecast.selection_score:
            best = plan
    if best is None:
        raise problems[0]
    notes = []
    if len(errors) > 1:
        notes.append(
            f"auto chose {best.claim.mechanism}; root mean square that privacy adds to a "
            f"prediction: {', '.join(errors)}"
        )
    if any(each.closed_form and each not in considered for each in known):
        only = ", ".join(each.name for each in considered)
        notes.append(f"auto looked at {only} only: others lack some of the options given")
    return replace(best, notes=(*notes, *best.notes))


def has_options(mechanism: Mechanism, choices: Choices) -> bool:
    """Return whether a mechanism has the accountant, the δ and all options that were given."""
    own = (*names(mechanism.Options), *names(Encoding), "epsilon", "delta", "accountant")
    return (
        choices.get("accountant", "exact") in mechanism.accountants
        and (mechanism.allows_pure or choices.get("delta") != 0)
        and set(set_options(choices)) <= set(own)
    )


# ---- basis="auto"
#
# What curves gain is unknown until labels are read. What they cost is known before: the error that
# privacy adds to a prediction, which grows with the columns and falls with the rows and the budget.
# So bases are tried from the poorest to the richest, as long as that error stays a small part of
# the label range (theory §12). The fit leaves out what the labels do not need of a basis.

BASES = {
    "linear": math.inf,
    "splines:5": 0.05,
    "splines:10": 0.05,
    "splines:10+fourier:50": 0.065,
    "splines:10+fourier:100": 0.065,
    "splines:10+fourier:200": 0.0325,
}
"""From the poorest to the richest, and the most that privacy may add with each, root mean square,
of the label range. Set after a look at houses, diamonds, flights and a synthetic table at ε = 1:
the first waves gain most, and where labels crowd in a part of their range many cost more."""


def choose_basis(plan_basis: Callable[[str], MechanismPlan]) -> tuple[str, MechanismPlan]:
    """Return the richest basis whose error stays small, and its plan with a note on what was tried.

    `plan_basis` makes the plan of a basis. The first basis that costs too much, or is impossible,
    ends the search.
    """
    best: tuple[str, MechanismPlan] | None = None
    tried: list[str] = []
    previous = None
    for basis, most in BASES.items():
        try:
            plan = plan_basis(basis)
        except LabelDPError:
            if best is None:
                raise
            break
        if best is not None and plan.features.basis == previous:
            continue  # no number to bend, or no more values to bend at
        previous = plan.features.basis
        low, high = plan.labels.range
        share = math.sqrt(plan.forecast.added_mse) / (high - low)
        tried.append(f"{basis} {share:.2%}")
        if share > most:
            break
        best = basis, plan
    assert best is not None  # the poorest has no limit
    basis, plan = best
    note = (
        f"basis auto chose {basis}, {len(plan.features.names)} columns; what privacy "
        f"adds to a prediction, of the label range: {', '.join(tried)}"
    )
    return basis, replace(plan, notes=(note, *plan.notes))


# ---- a remedy for a plan that is of no use

_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""ε that are tried; beyond, a guarantee is weak (`release.budget`)."""


def utility_refusal(plan: MechanismPlan, choices: Choices, source: Source, engine: Engine) -> str:
    """Return one line: what is wrong, what would mend it, how to go on without.

    A larger ε is planned, so its forecast is no guess; features are public, so that costs time
    only. It is the least of those tried that keeps enough of what features explain, or the largest.
    """
    design = plan.design
    assert design is not None  # refusals come before a `Plan` is made of it
    remedy = None
    for epsilon in _BUDGETS:
        if epsilon <= choices["epsilon"]:
            continue
        try:
            request = make_request(plan.mechanism, **choices | {"epsilon": epsilon})
            changed = plan.mechanism.plan(request, design, source, engine)
        except LabelDPError:
            continue
        if changed.is_useful:
            added = number(math.sqrt(changed.forecast.added_mse), 3)
            kept = changed.explained_share_kept
            remedy = f"remedies: `epsilon={epsilon:g}` (adds {added}, keeps {kept:.0%})"
            if kept >= ENOUGH_KEPT:
                break
    remedy = remedy or f"no ε up to {_BUDGETS[-1]:g} mends that"
    column = design.leverage.column  # a row has its largest leverage by this one
    return (
        f"{plan.utility_message}; {remedy}; fewer columns (`drop`), of which {column!r} may cost "
        "most; or give `force=True` to go on regardless"
    )
