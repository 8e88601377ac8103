"""Which mechanism and which basis, is the plan useful, and what would help: from features alone.

Every function here works on public facts. Mechanisms are compared by what privacy adds to the mean
squared error of a prediction (`Forecast.selection_score`): exactly where that is known in closed
form, by simulation otherwise. One `DesignSummary` is computed for an encoding and shared by all
plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, PlanError
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.bags import BagRows, SimulationInputs
from labeldp.mechanisms.base import Mechanism, MechanismPlan
from labeldp.mechanisms.description import number
from labeldp.mechanisms.design_summary import DesignSummary, summarize_design
from labeldp.mechanisms.forecast import explained_ms
from labeldp.mechanisms.notes import Note
from labeldp.mechanisms.options import (
    AUTO,
    LINEAR,
    USES,
    Encoding,
    make_options,
    names,
    set_options,
)
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanisms
from labeldp.passes.engine import Engine
from labeldp.spark.engine import engine_for

Choices = dict[str, Any]
"""Keywords of `plan`: budget, accountant, encoding and options of the mechanism."""

# ---- utility
#
# Predictions beat the constant one (the mean of all labels) if privacy adds less to the mean square
# of their error than features explain. What features explain is unknown until labels are read. The
# yardstick is what they may explain of favourable labels: spread evenly over their range of width
# Δ, half of the variance Δ²/12 explained, and no more than a stated residual leaves of the Δ²/4
# that labels in the range can vary by. A plan that fails for those is refused.

LEAST_KEPT, ENOUGH_KEPT = 0.1, 0.5
"""Of what features explain: below the first a plan is refused, below the second there is a
warning."""


def explained_mse(plan: MechanismPlan) -> float:
    """Return what features are taken to explain: half of labels spread evenly over their range."""
    low, high = plan.labels.range
    stated = plan.forecast.residual_source == "stated"
    return explained_ms(high - low, plan.forecast.residual_ms if stated else 0.0)


def explained_share_kept(plan: MechanismPlan) -> float:
    """Return the share of that which predictions keep; below 0 the constant one is better."""
    explained = explained_mse(plan)
    return 1 - plan.forecast.added_mse_default_fit / explained if explained else -math.inf


def is_useful(plan: MechanismPlan) -> bool:
    """Return whether predictions may beat the constant one, by the forecast."""
    return explained_share_kept(plan) >= LEAST_KEPT


def utility_message(plan: MechanismPlan) -> str:
    """Say what privacy does to predictions."""
    low, high = plan.labels.range
    error, kept = math.sqrt(plan.forecast.added_mse), max(0.0, explained_share_kept(plan))
    size = (
        f"adds {number(error, 3)} to a prediction (root mean square, "
        f"{error / (high - low):.2g} of the label range)"
        if math.isfinite(error)
        else "adds errors without bound"
    )
    return (
        f"privacy {size} and leaves at most {kept:.0%} of what features may explain: a fit "
        f"{'may not be' if kept else 'is not'} better than the mean of the labels"
    )


# ---- one mechanism, or the best


@dataclass(frozen=True)
class Planned:
    """A mechanism's plan and the design summary that it rests on."""

    plan: MechanismPlan
    design: DesignSummary


def plan_mechanism(
    name: str, use: str, choices: Choices, source: Source, engine: Engine
) -> Planned:
    """Plan with the mechanism of this name, or with "auto" the one that adds least error."""
    if name == AUTO:
        return choose_mechanism(use, choices, source, engine)
    mechanism = mechanism_named(name)
    if use not in mechanism.uses:
        raise InputError(f"{name} serves {' and '.join(mechanism.uses)}; leave `use` out")
    request = make_request(mechanism, **choices)
    mechanism.check_request(request, source)
    design = summarize_design(source, engine=engine, encoding=request.encoding)
    return Planned(mechanism.plan(request, design, source, engine), design)


def choose_mechanism(use: str, choices: Choices, source: Source, engine: Engine) -> Planned:
    """Return the plan that adds least to a prediction, with a note on what it was chosen from.

    An option that only some mechanisms have narrows the choice to those. Mechanisms without a
    closed form are considered only if no other has all options; they are simulated.
    """
    fitting = candidates(use, choices)
    closed = [mechanism for mechanism in fitting if mechanism.closed_form]
    encoding = make_request(fitting[0], **choices).encoding
    design = summarize_design(source, engine=engine, encoding=encoding)
    if closed:
        best, errors = _least_error(closed, choices, design, source, engine)
    else:
        offers = [forecast_mechanism(m, choices, design, source, engine) for m in fitting]
        best = best_plan(offers).plan
        errors = [
            f"{each.mechanism} {_root(each.plan.forecast.selection_score)}"
            for each in offers
            if each.plan
        ]
    notes = _narrowing_notes(closed or fitting, use, choices)
    if len(errors) > 1:
        notes.append(
            f"auto chose {best.claim.mechanism}; root mean square that privacy adds to a "
            f"prediction: {', '.join(errors)}"
        )
    notes = [Note(text, Note.CHOICE) for text in notes]
    return Planned(replace(best, notes=(*best.notes, *notes)), design)


def candidates(use: str, choices: Choices) -> list[Mechanism]:
    """Return the mechanisms that serve a use and have all options that were given."""
    if use not in USES:
        raise InputError(f"`use` must be {' or '.join(USES)}, not {use!r}")
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.uses]
    fitting = [mechanism for mechanism in serving if has_options(mechanism, choices)]
    if fitting:
        return fitting
    for mechanism in serving:
        make_request(mechanism, **choices)  # raises, and says which option is wrong
    raise InputError(f"no mechanism serves {use}; leave `use` out")


def has_options(mechanism: Mechanism, choices: Choices) -> bool:
    """Return whether a mechanism has the accountant, the δ and all options that were given."""
    if choices.get("accountant", "exact") not in mechanism.accountants:
        return False
    if choices.get("delta", 1.0) == 0 and not mechanism.allows_pure:
        return False
    own = (*names(mechanism.Options), *names(Encoding), "epsilon", "delta", "accountant")
    return set(set_options(choices)) <= set(own)


def _least_error(
    closed: list[Mechanism],
    choices: Choices,
    design: DesignSummary,
    source: Source,
    engine: Engine,
) -> tuple[MechanismPlan, list[str]]:
    """Return the plan of least forecast error, and the errors of all in words.

    Mechanisms with a lower bound of their error come last; one that cannot win is not planned.
    """
    best: MechanismPlan | None = None
    errors, problems = [], []
    for mechanism in sorted(closed, key=lambda each: each.has_error_bound):
        request = make_request(mechanism, **choices)
        try:
            mechanism.check_request(request, source)
            if best is not None and mechanism.has_error_bound:
                least = mechanism.least_added_mse(request, design)
                if least >= best.forecast.selection_score:
                    errors.append(f"{mechanism.name} ≥ {_root(least)}")
                    continue
            plan = mechanism.plan(request, design, source, engine)
        except LabelDPError as problem:
            problems.append(problem)
            continue
        errors.append(f"{mechanism.name} {_root(plan.forecast.selection_score)}")
        if best is None or plan.forecast.selection_score < best.forecast.selection_score:
            best = plan
    if best is None:
        raise problems[0]
    return best, errors


def _narrowing_notes(left: list[Mechanism], use: str, choices: Choices) -> list[str]:
    """Say which options narrowed the choice, and to what."""
    others = [m for m in mechanisms() if use in m.uses and m.closed_form and m not in left]
    flags = [
        f"`{name}`"
        for name, value in set_options(choices).items()
        if not all(has_options(m, {name: value}) for m in others)
    ]
    if not flags:
        return []
    return [f"{', '.join(flags)}: for {', '.join(m.name for m in left)}, so auto looked no further"]


def _root(mean_square: float) -> str:
    return number(math.sqrt(mean_square))


# ---- all of them compared

TRIALS = 10
_BLOCK_ROWS = 32_768
_SEED = 20_240


@dataclass(frozen=True)
class MechanismForecast:
    """What one mechanism would give, or why it has no plan."""

    mechanism: str
    planned: Planned | None
    mean_mse: float | None
    method: str | None
    """How the error was forecast: "closed form" or "simulated"."""
    reason: str | None = None

    @property
    def plan(self) -> MechanismPlan | None:
        return self.planned.plan if self.planned else None

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        claim = self.plan.claim.to_json() if self.plan else {}
        noise = claim.get("noise") or {}
        return {
            "mechanism": self.mechanism,
            "bags": claim.get("bags"),
            "bag_size": claim.get("bag_size"),
            "noise_std": noise.get("std"),
            "mean_mse": self.mean_mse,
            "excess": self.plan.forecast.excess_mean if self.plan else None,
            "added_ms": self.plan.forecast.added_mse if self.plan else None,
            "method": self.method,
            "reason": self.reason,
        }


def compare(
    source: Source, engine: Engine | None = None, *, use: str = LINEAR, **choices: Any
) -> list[MechanismForecast]:
    """Return every mechanism's forecast and the constant predictor's, the best first.

    `choices` are keywords of `plan`; a mechanism without one of these options has no plan.
    """
    engine = engine or engine_for(source)
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.uses]
    encoding = {name: value for name, value in choices.items() if name in names(Encoding)}
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, encoding))
    offers = [forecast_mechanism(m, choices, design, source, engine) for m in serving]
    best = best_plan(offers).plan
    # the yardstick: the mean of labels of which features explain what they may
    error = best.forecast.residual_ms + explained_mse(best)
    offers.append(MechanismForecast("constant", None, error, "yardstick"))
    return sorted(offers, key=lambda o: math.inf if o.mean_mse is None else o.mean_mse)


def best_plan(offers: list[MechanismForecast]) -> Planned:
    """Return the plan of least error; without any, say why the first mechanism has none."""
    plans = [(each.mean_mse, each.planned) for each in offers if each.planned is not None]
    if not plans:
        raise PlanError(f"no mechanism has an offer: {offers[0].reason}")
    return min(plans, key=lambda pair: pair[0] or 0.0)[1]


def forecast_mechanism(
    mechanism: Mechanism,
    choices: Choices,
    design: DesignSummary,
    source: Source,
    engine: Engine,
) -> MechanismForecast:
    """Return what a mechanism would give; its error is simulated if there is no closed form."""
    name = mechanism.name
    try:
        request = make_request(mechanism, **choices)
        mechanism.check_request(request, source)
        plan = mechanism.plan(request, design, source, engine)
    except LabelDPError as problem:
        return MechanismForecast(name, None, None, None, str(problem))
    stream = np.random.default_rng(_SEED)
    simulation = mechanism.simulate(plan, source, stream)
    if simulation is None:
        return MechanismForecast(name, Planned(plan, design), plan.forecast.mean_mse, "closed form")
    error = simulated_mse(plan, simulation, source, engine, stream)
    added = error - plan.forecast.residual_ms
    forecast = replace(
        plan.forecast,
        mean_mse=error,
        excess_mean=error / plan.forecast.residual_ms - 1.0,
        added_mse=added,
        added_mse_default_fit=added,
        selection_score=added,
    )
    simulated = Planned(replace(plan, forecast=forecast), design)
    return MechanismForecast(name, simulated, error, "simulated")


def simulated_mse(
    plan: MechanismPlan,
    simulation: SimulationInputs,
    source: Source,
    engine: Engine,
    stream: np.random.Generator,
) -> float:
    """Return the mean squared error of a fit over `TRIALS` sets of synthetic labels.

    The labels are noise of the guessed residual scale on the real features. A linear part of the
    labels would change nothing, so it is left out.
    """
    design, gram = _aggregated_features(plan, simulation, source, engine)
    residual_ms = plan.forecast.residual_ms
    scale = np.sqrt(simulation.variances) if simulation.weigh else np.ones(len(design))
    spread = np.sqrt(np.square(simulation.weights).sum(axis=1) * residual_ms)
    total = 0.0
    for _ in range(TRIALS):
        # Σ w·y of independent synthetic labels y ~ N(0, γ), and the noise
        labels = spread * stream.standard_normal(len(design))
        labels += np.sqrt(simulation.variances) * stream.standard_normal(len(design))
        slope = np.linalg.lstsq(design / scale[:, None], labels / scale, rcond=None)[0]
        total += float(slope @ gram @ slope)
    return residual_ms + total / TRIALS


def _aggregated_features(
    plan: MechanismPlan, simulation: SimulationInputs, source: Source, engine: Engine
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ w·x of every bag, and the mean of xxᵀ over the rows in bags."""
    features, size = plan.features, simulation.draw.bag_size
    scales = features.kept_scales
    rows = BagRows(features, simulation.draw).read(source, engine)
    parts, gram = [], np.zeros((len(scales), len(scales)))
    for bags, block in rows.blocks(max(1, _BLOCK_ROWS // size)):
        dense = features.integers(block) * scales
        gram += dense.T @ dense
        shaped = dense.reshape(-1, size, len(scales))
        parts.append(np.einsum("bk,bkd->bd", simulation.weights[bags], shaped))
    return np.concatenate(parts), gram / simulation.draw.members.size


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


@dataclass(frozen=True)
class BasisForecast:
    """What a basis would cost."""

    basis: str
    planned: Planned

    @property
    def share(self) -> float:
        """The error that privacy adds, of the label range."""
        low, high = self.planned.plan.labels.range
        return math.sqrt(self.planned.plan.forecast.added_mse) / (high - low)

    @property
    def allowed(self) -> bool:
        return self.share <= BASES[self.basis]

    def to_json(self) -> dict[str, Any]:
        plan = self.planned.plan
        return {
            "basis": self.basis,
            "columns": len(plan.features.names),
            "added_rms": math.sqrt(plan.forecast.added_mse),
            "added_of_range": self.share,
            "kept": explained_share_kept(plan),
            "allowed": self.allowed,
        }


@dataclass(frozen=True)
class BasisChoice:
    """The basis that was chosen, its plan, and what was tried."""

    basis: str
    planned: Planned
    tried: tuple[dict[str, Any], ...]


def choose_basis(plan_basis: Callable[[str], Planned]) -> BasisChoice:
    """Return the richest basis whose error stays small; `plan_basis` makes the plan of a basis.

    The first basis that costs too much, or is impossible, ends the search.
    """
    poorest, *others = BASES
    tried = [BasisForecast(poorest, plan_basis(poorest))]
    for basis in others:
        try:
            more = BasisForecast(basis, plan_basis(basis))
        except LabelDPError:
            break
        if more.planned.plan.features.basis == tried[-1].planned.plan.features.basis:
            continue  # no number to bend, or no more values to bend at
        tried.append(more)
        if not more.allowed:
            break
    best = [each for each in tried if each.allowed][-1]
    plan = best.planned.plan
    shares = ", ".join(f"{each.basis} {each.share:.2%}" for each in tried)
    words = (
        f"basis auto chose {best.basis}, {len(plan.features.names)} columns; what privacy "
        f"adds to a prediction, of the label range: {shares}"
    )
    notes = [Note(each, Note.CHOICE) for each in (words, *_tree_notes(plan))]
    plan = replace(plan, notes=(*plan.notes, *notes))
    table = tuple(each.to_json() for each in tried)
    return BasisChoice(best.basis, Planned(plan, best.planned.design), table)


def _tree_notes(plan: MechanismPlan) -> list[str]:
    """Say so if trees on noisy rows may do better (theory §11, §12)."""
    claim = plan.claim
    offers = [m.row_noise_std(claim.protected, claim.epsilon, claim.delta) for m in mechanisms()]
    noise = min((std for std in offers if std is not None), default=math.inf)
    leaf = _ROWS_FOR_NOISE * 12 * noise**2
    leaves = plan.features.rows / leaf
    if leaves < _LEAVES:
        return []
    return [
        f"trees on noisy rows (`use='any-model'`) may predict better at this budget: the rows feed "
        f"some {leaves:,.0f} leaves of {leaf:,.0f} rows, in which noise averages out, if labels "
        "are spread over their range; fewer if they crowd in a part of it"
    ]


# ---- suggestions
#
# Each suggestion is planned, so its forecast is no guess. Features are public, so trying costs time
# only: a larger ε, the costliest column left out, rare levels merged, rows of high leverage tamed.
# Where a plan takes long, only ε is tried.

NO_FIX = "no ε up to 10 and no single column mends that: the table is too small for its columns"
MOST_SUGGESTIONS = 3
_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""ε that are tried; beyond, a guarantee is weak (`release.budget`)."""
_WINSOR = 0.005
"""More than is clipped by default; less than costs a fit much (theory §9)."""
_MOST_COLUMNS, _MOST_VALUES = 200, 50_000_000
"""Of a table that is planned again and again."""


@dataclass(frozen=True)
class Suggestion:
    """A changed option, and what would then be planned."""

    words: str
    plan: MechanismPlan


def utility_refusal(plan: MechanismPlan, suggestions: Sequence[Suggestion]) -> str:
    """Return one line: what is wrong, what would mend it, how to go on without."""
    fixes = "; ".join(
        f"{each.words} (adds {number(math.sqrt(each.plan.forecast.added_mse), 3)}, "
        f"keeps {max(0, explained_share_kept(each.plan)):.0%})"
        for each in suggestions
    )
    return (
        f"{utility_message(plan)}; {f'cures: {fixes}' if fixes else NO_FIX}; "
        "or give `force=True` to go on regardless"
    )


def suggest_fixes(
    planned: Planned, choices: Choices, source: Source, engine: Engine
) -> list[Suggestion]:
    """Return changes that make the plan useful, the best first, at most three."""
    replanner = _Replanner(planned.plan, planned.design, choices, source, engine)
    fixes = [
        each
        for each in (*replanner.budgets(), *replanner.numbers(), *replanner.encodings())
        # one that leaves less than half of the columns has little to explain
        if is_useful(each.plan)
        and 2 * len(each.plan.features.names) > len(planned.plan.features.names)
    ]
    return sorted(fixes, key=lambda each: -explained_share_kept(each.plan))[:MOST_SUGGESTIONS]


@dataclass(frozen=True)
class _Replanner:
    """Plans the same mechanism with other options."""

    plan: MechanismPlan
    design: DesignSummary
    choices: Choices
    source: Source
    engine: Engine

    def _again(
        self,
        words: str,
        source: Source | None = None,
        *,
        same_encoding: bool = False,
        **changed: Any,
    ) -> Iterator[Suggestion]:
        """Yield the plan with changed options; nothing if there is no such plan."""
        mechanism, source = self.plan.mechanism, source or self.source
        try:
            request = make_request(mechanism, **self.choices | changed)
            design = self.design
            if not same_encoding:
                encoding = request.encoding
                design = summarize_design(source, engine=self.engine, encoding=encoding)
            yield Suggestion(words, mechanism.plan(request, design, source, self.engine))
        except LabelDPError:
            return

    def budgets(self) -> Iterator[Suggestion]:
        """Yield the least ε of those tried that keeps enough; else the largest."""
        last: list[Suggestion] = []
        for epsilon in _BUDGETS:
            if epsilon <= self.choices["epsilon"]:
                continue
            words = f"`epsilon={epsilon:g}`"
            last = list(self._again(words, same_encoding=True, epsilon=epsilon))
            if last and explained_share_kept(last[0].plan) >= ENOUGH_KEPT:
                break
        yield from last

    def numbers(self) -> Iterator[Suggestion]:
        """Yield as many aggregates as the mechanism would take."""
        for name in ("bags", "bag_size"):
            if self.choices.get(name) is not None:
                yield from self._again(f"without `{name}`", same_encoding=True, **{name: None})

    def encodings(self) -> Iterator[Suggestion]:
        """Yield plans with other design columns, where trying them is quick."""
        features = self.plan.features
        values = features.rows * len(features.columns)
        if features.width > _MOST_COLUMNS or values > _MOST_VALUES:
            return
        encoding = make_request(self.plan.mechanism, **self.choices).encoding
        leverage = self.design.leverage
        column = _raw_column(self.design.features, leverage.costliest[0].column)
        others = tuple(each for each in self.source.columns if each.name != column)
        if column is not None and others:
            yield from self._again(f"`drop='{column}'`", replace(self.source, columns=others))
        usual = 4 / math.sqrt(features.rows)
        if encoding.max_leverage is None and leverage.maximum > usual:
            limit = float(f"{usual:.1g}")
            yield from self._again(f"`max_leverage={limit:g}`", max_leverage=limit)
        if encoding.winsor == Encoding.winsor and features.numeric:
            yield from self._again(f"`winsor={_WINSOR:g}`", winsor=_WINSOR)
        if any(column.size > 2 for column in features.categorical):
            count = 4 * (encoding.min_count or math.isqrt(features.rows))
            yield from self._again(f"`min_count={count}`", min_count=count)


def _raw_column(features: FeatureMap, name: str) -> str | None:
    """Return the column of the table behind a design column; None for the constant."""
    behind = {each.name: each.design_columns for each in features.numeric}
    behind |= {each.name: each.design_columns for each in features.categorical}
    for raw, designed in behind.items():
        if name == raw or any(name == column.name for column in designed):
            return raw
    return None
