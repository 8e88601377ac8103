"""What a budget buys from noisy-rows, from public quantities alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labeldp.mechanisms.account import document
from labeldp.mechanisms.noisy_rows.noise import LAWS, least_noise, needed
from labeldp.mechanisms.protocol import Panel, number

if TYPE_CHECKING:
    from labeldp.mechanisms.design_summary import DesignSummary
    from labeldp.mechanisms.noisy_rows import NoisyRowsQuestion

Found = dict[str, Any]


def answer(mechanism: str, asked: NoisyRowsQuestion) -> Found:
    """The noise on every label, that of the other law, and what both make of a linear fit."""
    low, high = asked.label_range
    together = asked.person_rows or 1
    found = _noise(high - low, together, *asked.budget)
    if asked.features is not None:
        found |= _error(found["noise_std"], asked.rows, asked.features)
    return document(mechanism, asked, ("features", "person_rows"), found)


def _noise(width: float, together: int, epsilon: float, delta: float) -> Found:
    best = least_noise(width, together, epsilon, delta)
    offers = {name: needed(name, width, together, epsilon, delta) for name in LAWS}
    return {
        "law": best.name,
        "scale": best.scale,
        "noise_std": best.std,
        **{f"{name}_std": noise and noise.std for name, noise in offers.items()},
    }


def _error(std: float, rows: int, columns: int) -> Found:
    """Root mean square that a least-squares fit has more in a prediction: √(d·Var/n)."""
    return {"added_error": std * math.sqrt(columns / rows)}


def show(told: Found) -> Iterator[Panel]:
    """The same for people."""
    budget = f"ε = {told['epsilon']:g}, δ = {told['delta']:g}"
    yield Panel(f"What {budget} buys", _facts(told))


def _facts(told: Found) -> list[tuple[str, str]]:
    facts = [("noise on every label", f"{LAWS[told['law']].title}'s")]
    for name, law in LAWS.items():
        facts.append((f"deviation of {law.title} noise", number(told[f"{name}_std"])))
    if "added_error" in told:
        facts.append(("error added to a linear prediction", number(told["added_error"])))
    return facts


def inspect(found: DesignSummary, residual_ss: float, epsilon: float, delta: float) -> Found:  # noqa: ARG001
    """The noise, and what a linear fit would suffer from it."""
    noise = _noise(found.facts.width, 1, epsilon, delta)
    error = _error(noise["noise_std"], found.facts.rows, found.factor.rank)
    return {"row_noise": noise | error}


def show_inspection(told: Found) -> Iterator[Panel]:
    """The same for people."""
    budget = f"ε = {told['epsilon']:g}, δ = {told['delta']:g}"
    yield Panel(f"Noise on every row at {budget}, in units of the label", _facts(told["row_noise"]))
