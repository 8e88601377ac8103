"""Which mechanism and which basis, and what would help a plan that is of no use.

Every function here works on public facts. Mechanisms are compared by what privacy adds to the mean
squared error of a prediction (`Forecast.selection_score`). One `DesignSummary` is computed for an
encoding and shared by all plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError
from labeldp.features.categories import CategoricalColumn
from labeldp.features.columns import NumericColumn
from labeldp.mechanisms.base import ENOUGH_KEPT, Mechanism, MechanismPlan
from labeldp.mechanisms.description import Note, number
from labeldp.mechanisms.design_summary import DesignSummary, summarize_design
from labeldp.mechanisms.noisy_rows import least_noise
from labeldp.mechanisms.options import AUTO, LINEAR, Encoding, make_options, names, set_options
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanisms
from labeldp.passes.engine import Engine
from labeldp.spark.engine import engine_for

Choices = dict[str, Any]
"""Keywords of `plan`: budget, accountant, encoding and options of the mechanism."""


# ---- one mechanism, or the best


def plan_mechanism(
    name: str, use: str, choices: Choices, source: Source, engine: Engine
) -> MechanismPlan:
    """Plan with the mechanism of this name, or with "auto" the one that adds least error."""
    if name == AUTO:
        return choose_mechanism(use, choices, source, engine)
    mechanism = mechanism_named(name)
    if use not in mechanism.uses:
        raise InputError(f"{name} serves {' and '.join(mechanism.uses)}; leave `use` out")
    request = make_request(mechanism, **choices)
    mechanism.check_request(request, source)
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    return mechanism.plan(request, design, source, engine)


def choose_mechanism(use: str, choices: Choices, source: Source, engine: Engine) -> MechanismPlan:
    """Return the plan that adds least to a prediction, with a note on what it was chosen from.

    An option that only some mechanisms have narrows the choice to those. Mechanisms without a
    closed form are considered only if no other has all options.
    """
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.uses]
    fitting = [mechanism for mechanism in serving if has_options(mechanism, choices)]
    if not fitting:
        for mechanism in serving:
            make_request(mechanism, **choices)  # raises, and says which option is wrong
    closed = [mechanism for mechanism in fitting if mechanism.closed_form]
    considered = closed or fitting
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    forecasts = forecast_mechanisms(considered, choices, design, source, engine, prune=True)
    best = best_plan(forecasts)
    notes = []
    left_out = [each for each in serving if each.closed_form and each not in considered]
    narrowing = [
        f"`{name}`"
        for name, value in set_options(choices).items()
        if not all(has_options(each, {name: value}) for each in left_out)
    ]
    if narrowing:
        only = ", ".join(each.name for each in considered)
        notes.append(f"{', '.join(narrowing)}: for {only}, so auto looked no further")
    errors = [
        f"{each.mechanism} {number(math.sqrt(each.plan.forecast.selection_score))}"
        if each.plan is not None
        else f"{each.mechanism} ≥ {number(math.sqrt(each.least_added_mse or 0.0))}"
        for each in forecasts
        if each.plan is not None or each.least_added_mse is not None
    ]
    if len(errors) > 1:
        notes.append(
            f"auto chose {best.claim.mechanism}; root mean square that privacy adds to a "
            f"prediction: {', '.join(errors)}"
        )
    notes = [Note(text, Note.CHOICE) for text in notes]
    return replace(best, notes=(*best.notes, *notes))


def has_options(mechanism: Mechanism, choices: Choices) -> bool:
    """Return whether a mechanism has the accountant, the δ and all options that were given."""
    own = (*names(mechanism.Options), *names(Encoding), "epsilon", "delta", "accountant")
    return (
        choices.get("accountant", "exact") in mechanism.accountants
        and (mechanism.allows_pure or choices.get("delta") != 0)
        and set(set_options(choices)) <= set(own)
    )


# ---- comparison


@dataclass(frozen=True)
class MechanismForecast:
    """What one mechanism would give, or why it has no plan."""

    mechanism: str
    plan: MechanismPlan | None = None
    mean_mse: float | None = None
    method: str | None = None
    """Whether the forecast is exact: "closed form", or "approximate" where bags must be alike."""
    problem: LabelDPError | None = None
    least_added_mse: float | None = None
    """A lower bound, where a mechanism was not planned because it cannot be the best."""

    @property
    def order(self) -> float:
        """Mechanisms are compared by this error; what has no plan comes last."""
        if self.plan is not None:
            return self.plan.forecast.residual_ms + self.plan.forecast.selection_score
        return math.inf if self.mean_mse is None else self.mean_mse

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        plan = self.plan
        claim = plan.claim.to_json() if plan else {}
        return {
            "mechanism": self.mechanism,
            "bags": claim.get("bags"),
            "bag_size": claim.get("bag_size"),
            "noise_std": (claim.get("noise") or {}).get("std"),
            "mean_mse": self.mean_mse,
            "excess": plan.forecast.excess_mean if plan else None,
            "added_ms": plan.forecast.added_mse if plan else None,
            "method": self.method,
            "reason": None if self.problem is None else str(self.problem),
        }


def compare(
    source: Source, engine: Engine | None = None, *, use: str = LINEAR, **choices: Any
) -> list[MechanismForecast]:
    """Return every mechanism's forecast and the constant predictor's, the best first.

    `choices` are keywords of `plan`; a mechanism without one of these options has no plan.
    """
    engine = engine or engine_for(source)
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.uses]
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    forecasts = forecast_mechanisms(serving, choices, design, source, engine)
    best = best_plan(forecasts)
    # the yardstick: the mean of labels of which features explain what they may
    error = best.forecast.residual_ms + best.explained_mse
    constant = MechanismForecast("constant", mean_mse=error, method="yardstick")
    return sorted([*forecasts, constant], key=lambda each: each.order)


def best_plan(forecasts: list[MechanismForecast]) -> MechanismPlan:
    """Return the plan of least error; without any, raise why the first mechanism has none."""
    best = min(forecasts, key=lambda each: math.inf if each.plan is None else each.order)
    if best.plan is None:
        assert best.problem is not None
        raise best.problem
    return best.plan


def forecast_mechanisms(
    considered: Sequence[Mechanism],
    choices: Choices,
    design: DesignSummary,
    source: Source,
    engine: Engine,
    *,
    prune: bool = False,
) -> list[MechanismForecast]:
    """Return what each mechanism would give; with `prune` those that cannot win are not planned."""
    best = math.inf
    forecasts = []
    # Mechanisms with a lower bound of their error come last, so that they need not be planned.
    for mechanism in sorted(considered, key=lambda each: each.has_error_bound):
        name = mechanism.name
        try:
            request = make_request(mechanism, **choices)
            mechanism.check_request(request, source)
            least = mechanism.least_added_mse(request, design) if prune else 0.0
            if least >= best:
                forecasts.append(MechanismForecast(name, least_added_mse=least))
                continue
            plan = mechanism.plan(request, design, source, engine)
        except LabelDPError as problem:
            forecasts.append(MechanismForecast(name, problem=problem))
            continue
        best = min(best, plan.forecast.selection_score)
        method = "closed form" if mechanism.closed_form else "approximate"
        forecasts.append(MechanismForecast(name, plan, plan.forecast.mean_mse, method))
    return forecasts


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
_ROWS_FOR_NOISE = 60
"""Rows of a leaf for every time that noise has the variance of labels (docs/which-model.md)."""
_LEAVES = 1000
"""From so many such leaves on trees won on the tables measured; at 600 they still lost."""


def choose_basis(
    plan_basis: Callable[[str], MechanismPlan],
) -> tuple[str, MechanismPlan, tuple[dict[str, Any], ...]]:
    """Return the richest basis whose error stays small, its plan, and what was tried.

    `plan_basis` makes the plan of a basis. The first basis that costs too much, or is impossible,
    ends the search.
    """
    tried: list[dict[str, Any]] = []
    previous = None
    best: tuple[str, MechanismPlan]
    for basis, most in BASES.items():
        try:
            plan = plan_basis(basis)
        except LabelDPError:
            if not tried:
                raise
            break
        if plan.features.basis == previous:
            continue  # no number to bend, or no more values to bend at
        previous = plan.features.basis
        low, high = plan.labels.range
        error = math.sqrt(plan.forecast.added_mse)
        share = error / (high - low)
        tried.append(
            {
                "basis": basis,
                "columns": len(plan.features.names),
                "added_rms": error,
                "added_of_range": share,
                "kept": plan.explained_share_kept,
                "allowed": share <= most,
            }
        )
        if share > most:
            break
        best = basis, plan
    basis, plan = best
    shares = ", ".join(f"{each['basis']} {each['added_of_range']:.2%}" for each in tried)
    notes = [
        f"basis auto chose {basis}, {len(plan.features.names)} columns; what privacy "
        f"adds to a prediction, of the label range: {shares}"
    ]
    # Say so if trees on noisy rows may do better (theory §11, §12).
    claim = plan.claim
    noise = least_noise(1.0, claim.protected, claim.epsilon, claim.delta).std
    leaf = _ROWS_FOR_NOISE * 12 * noise**2
    leaves = plan.features.rows / leaf
    if leaves >= _LEAVES:
        notes.append(
            "trees on noisy rows (`use='any-model'`) may predict better at this budget: the rows "
            f"fill some {leaves:,.0f} leaves of {leaf:,.0f} rows, in which noise averages out"
        )
    plan = replace(plan, notes=(*plan.notes, *(Note(each, Note.CHOICE) for each in notes)))
    return basis, plan, tuple(tried)


# ---- suggestions
#
# Each suggestion is planned, so its forecast is no guess. Features are public, so trying costs time
# only: a larger ε, as many aggregates as the mechanism would take, the costliest column left out.

NO_FIX = "no ε up to 10 and no single column mends that: the table is too small for its columns"
_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""ε that are tried; beyond, a guarantee is weak (`release.budget`)."""
_MOST_COLUMNS, _MOST_VALUES = 200, 50_000_000
"""Of a table that is encoded again without a column."""


def utility_refusal(plan: MechanismPlan, choices: Choices, source: Source, engine: Engine) -> str:
    """Return one line: what is wrong, what would mend it, how to go on without."""
    fixes = "; ".join(
        f"{words} (adds {number(math.sqrt(changed.forecast.added_mse), 3)}, "
        f"keeps {max(0, changed.explained_share_kept):.0%})"
        for words, changed in suggest_fixes(plan, choices, source, engine).items()
    )
    return (
        f"{plan.utility_message}; {f'remedies: {fixes}' if fixes else NO_FIX}; "
        "or give `force=True` to go on regardless"
    )


def suggest_fixes(
    plan: MechanismPlan, choices: Choices, source: Source, engine: Engine
) -> dict[str, MechanismPlan]:
    """Return changed options that make the plan useful, with the plans they lead to, best first."""
    mechanism, columns = plan.mechanism, len(plan.features.names)
    encoding = make_options(Encoding, choices)
    full_design = plan.design or summarize_design(source, engine=engine, encoding=encoding)

    def replan(design: DesignSummary, source: Source, **changed: Any) -> MechanismPlan | None:
        try:
            request = make_request(mechanism, **choices | changed)
            return mechanism.plan(request, design, source, engine)
        except LabelDPError:
            return None

    plans: dict[str, MechanismPlan | None] = {}
    for epsilon in _BUDGETS:
        if epsilon <= choices["epsilon"]:
            continue
        changed = replan(full_design, source, epsilon=epsilon)
        plans = {f"`epsilon={epsilon:g}`": changed}
        if changed is not None and changed.explained_share_kept >= ENOUGH_KEPT:
            break  # the least ε of those tried that keeps enough; else the largest
    for name in ("bags", "bag_size"):
        if choices.get(name) is not None:
            plans[f"without `{name}`"] = replan(full_design, source, **{name: None})
    # the column of the table that gives a row most leverage, where replanning is quick
    features, costliest = full_design.features, full_design.leverage.costliest[0].column
    raw: list[NumericColumn | CategoricalColumn] = [*features.numeric, *features.categorical]
    behind = [
        each.name
        for each in raw
        if costliest in (each.name, *(column.name for column in each.design_columns))
    ]  # none: the constant, or a derived column
    others = tuple(each for each in source.columns if each.name not in behind[:1])
    quick = plan.features.width <= _MOST_COLUMNS
    if behind and others and quick and features.rows * len(features.columns) <= _MOST_VALUES:
        fewer = replace(source, columns=others)
        with suppress(LabelDPError):
            design = summarize_design(fewer, engine=engine, encoding=encoding)
            plans[f"`drop='{behind[0]}'`"] = replan(design, fewer)
    fixes = {
        words: changed
        for words, changed in plans.items()
        # one that leaves less than half of the columns has little to explain
        if changed is not None and changed.is_useful and 2 * len(changed.features.names) > columns
    }
    return dict(sorted(fixes.items(), key=lambda each: -each[1].explained_share_kept))
