"""What a budget buys from shaped-flag, from public quantities alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labeldp.mechanisms.account import document, need
from labeldp.mechanisms.protocol import Panel, number
from labeldp.mechanisms.shaped_flag import AUTO, GAUSSIAN, RADIAL, RESIDUAL_SHARE
from labeldp.mechanisms.shaped_flag.noise import NOISES, SumNoise, choose

if TYPE_CHECKING:
    from labeldp.mechanisms.design_summary import DesignSummary
    from labeldp.mechanisms.shaped_flag import ShapedFlagQuestion

Found = dict[str, Any]
_OWN = ("features", "max_leverage")


def answer(mechanism: str, asked: ShapedFlagQuestion) -> Found:
    """μ or ε, the noise, and between which bounds the error that privacy adds must lie."""
    low, high = asked.label_range
    share = RESIDUAL_SHARE if asked.residual_share is None else asked.residual_share
    law, columns = _law(mechanism, asked, share), asked.features
    aggregates, residual = law.parts(*asked.budget, share)
    noise = law.deviation(high - low, aggregates, columns or 0)
    found: Found = {
        "residual_share": share,
        "noise_law": law.name,
        "mu": aggregates if law.name == GAUSSIAN else None,
        "aggregate_epsilon": aggregates if law.name == RADIAL else None,
        "noise_std": noise,
        "residual_noise_std": law.residual_deviation(high - low, residual),
    }
    if columns is not None:
        found |= _errors(noise, asked.rows, columns, asked.max_leverage)
    return document(mechanism, asked, _OWN, found)


def _law(mechanism: str, asked: ShapedFlagQuestion, share: float) -> SumNoise:
    """The law of the noise; how large radial noise is depends on the number of columns."""
    wanted = asked.noise or AUTO
    if asked.features is None and wanted != RADIAL and asked.delta > 0:
        return NOISES[GAUSSIAN]
    return choose(wanted, *asked.budget, share, need(mechanism, asked, "features"))


def _errors(noise: float, rows: int, columns: int, max_leverage: float | None) -> Found:
    """Root mean squares: d²/n ≤ tr S ≤ d·h_max, the latter with the same noise everywhere."""
    isotropic = None if max_leverage is None else noise * math.sqrt(columns * max_leverage / rows)
    return {"least_error": noise * columns / rows, "isotropic_error": isotropic}


def show(told: Found) -> Iterator[Panel]:
    """The same for people."""
    budget = f"ε = {told['epsilon']:g}, δ = {told['delta']:g}"
    law = NOISES[told["noise_law"]]
    spent = told["mu"] or told["aggregate_epsilon"]
    facts = [
        ("law of the noise", law.name),
        (f"{law.symbol} of the aggregates", number(spent)),
        ("noise on weights of length 1", number(told["noise_std"])),
        ("noise on the residual's root", number(told["residual_noise_std"])),
    ]
    yield Panel(f"What {budget} buys", [*facts, *_error_facts(told)])


def _error_facts(told: Found) -> list[tuple[str, str]]:
    if "least_error" not in told:
        return []
    facts = [("error added to a prediction, at least", number(told["least_error"]))]
    if told["isotropic_error"] is not None:
        facts.append(("the same without a shape", number(told["isotropic_error"])))
    return facts


def inspect(found: DesignSummary, residual_ss: float, epsilon: float, delta: float) -> Found:  # noqa: ARG001
    """Between which bounds the error lies that privacy would add."""
    columns, facts = found.factor.rank, found.facts
    law = choose(AUTO, epsilon, delta, RESIDUAL_SHARE, columns)
    aggregates, _ = law.parts(epsilon, delta, RESIDUAL_SHARE)
    noise = law.deviation(facts.width, aggregates, columns)
    return {"shape": _errors(noise, facts.rows, columns, found.leverage.maximum)}


def show_inspection(told: Found) -> Iterator[Panel]:
    """The same for people."""
    budget = f"ε = {told['epsilon']:g}, δ = {told['delta']:g}"
    yield Panel(f"Shaped noise at {budget}, in units of the label", _error_facts(told["shape"]))
