"""What each mechanism would give for a table at a budget, from features and public facts alone.

The forecast of wtd-FLAg is exact. For bags it is simulated: synthetic labels of the guessed
residual scale on the real features, aggregated with weights and noise as the plan has them, and
fitted. A linear part of the labels changes nothing, so it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import LabelDPError, PlanError
from labeldp.mechanisms.bags import BagRows, SimulationInputs
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import LINEAR, Mechanism
from labeldp.mechanisms.registry import draft, make_request, mechanisms
from labeldp.passes.engine import Engine, engine_for

TRIALS = 10
_BLOCK_ROWS = 32_768
_SEED = 20_240


@dataclass(frozen=True)
class MechanismForecast:
    """One mechanism's offer, or why it has none."""

    mechanism: str
    plan: Plan | None
    mean_mse: float | None
    method: str | None
    """How the error was forecast: "closed form" or "simulated"."""
    reason: str | None = None

    @classmethod
    def constant(cls, reference: Plan) -> MechanismForecast:
        """The yardstick: the mean of labels of which features explain what they may."""
        error = reference.forecast.residual_ms + reference.explained_ms
        return cls("constant", None, error, "yardstick")

    def to_json(self) -> dict[str, Any]:
        """The offer in numbers."""
        claim = self.plan.claim.to_json() if self.plan else {}
        noise = claim.get("noise") or {}
        return {
            "mechanism": self.mechanism,
            "bags": claim.get("bags"),
            "bag_size": claim.get("bag_size"),
            "noise_std": noise.get("std"),
            "mean_mse": self.mean_mse,
            "excess": self.plan.forecast.excess_mean if self.plan else None,
            "added_ms": self.plan.forecast.added_ms if self.plan else None,
            "method": self.method,
            "reason": self.reason,
        }


def compare(
    source: Source, engine: Engine | None = None, *, use: str = LINEAR, **asked: Any
) -> list[MechanismForecast]:
    """Every mechanism's offer, and the constant predictor's; the best first.

    `asked` are keywords of `plan`; a mechanism without one of these choices has no offer.
    """
    engine = engine or engine_for(source)
    serving = [mechanism for mechanism in mechanisms() if use in mechanism.serves]
    known: dict[Any, Any] = {}
    offers = [offer(mechanism, asked, source, engine, known) for mechanism in serving]
    made = best_of(offers)
    offers.append(MechanismForecast.constant(made))
    return sorted(offers, key=lambda o: np.inf if o.mean_mse is None else o.mean_mse)


def best_of(offers: list[MechanismForecast]) -> Plan:
    """The plan of least error; without any, the first mechanism says why."""
    plans = [(each.mean_mse, each.plan) for each in offers if each.plan is not None]
    if not plans:
        raise PlanError(f"no mechanism has an offer: {offers[0].reason}")
    return min(plans, key=lambda pair: pair[0] or 0.0)[1]


def offer(
    mechanism: Mechanism,
    asked: dict[str, Any],
    source: Source,
    engine: Engine,
    known: dict[Any, Any],
) -> MechanismForecast:
    """What a mechanism would give; its error is simulated where it has no closed form.

    `known` is what offers for one table share.
    """
    name = mechanism.name
    try:
        request = replace(make_request(mechanism, **asked), known=known)
        made = draft(mechanism, request, source, engine)
    except LabelDPError as problem:
        return MechanismForecast(name, None, None, None, str(problem))
    stream = np.random.default_rng(_SEED)
    rehearsal = mechanism.rehearse(made, source, stream) if mechanism.rehearse else None
    if rehearsal is None:
        return MechanismForecast(name, made, made.forecast.mean_mse, "closed form")
    error = simulated_mse(made, rehearsal, source, engine, stream)
    excess = error / made.forecast.residual_ms - 1.0
    forecast = replace(
        made.forecast,
        mean_mse=error,
        excess_mean=excess,
        added_ms=error - made.forecast.residual_ms,
        fitted_ms=error - made.forecast.residual_ms,
        weighed_ms=error - made.forecast.residual_ms,
    )
    return MechanismForecast(name, replace(made, forecast=forecast), error, "simulated")


def simulated_mse(
    made: Plan,
    rehearsal: SimulationInputs,
    source: Source,
    engine: Engine,
    stream: np.random.Generator,
) -> float:
    """The mean squared error of a fit over `TRIALS` sets of synthetic labels."""
    design, gram = _aggregated(made, rehearsal, source, engine)
    scale = np.sqrt(rehearsal.variances) if rehearsal.weigh else np.ones(len(design))
    spread = np.sqrt(np.square(rehearsal.weights).sum(axis=1) * made.forecast.residual_ms)
    total = 0.0
    for _ in range(TRIALS):
        # Σ w·y of independent synthetic labels y ~ N(0, γ), and the noise
        labels = spread * stream.standard_normal(len(design))
        labels += np.sqrt(rehearsal.variances) * stream.standard_normal(len(design))
        slope = np.linalg.lstsq(design / scale[:, None], labels / scale, rcond=None)[0]
        total += float(slope @ gram @ slope)
    return made.forecast.residual_ms + total / TRIALS


def _aggregated(
    made: Plan, rehearsal: SimulationInputs, source: Source, engine: Engine
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Σ w·x of every bag, and the mean of xxᵀ over the rows in bags."""
    features, size = made.features, rehearsal.draw.bag_size
    scales = features.kept_scales
    rows = BagRows(features, rehearsal.draw).read(source, engine)
    parts, gram = [], np.zeros((len(scales), len(scales)))
    for bags, block in rows.blocks(max(1, _BLOCK_ROWS // size)):
        dense = features.integers(block) * scales
        gram += dense.T @ dense
        shaped = dense.reshape(-1, size, len(scales))
        parts.append(np.einsum("bk,bkd->bd", rehearsal.weights[bags], shaped))
    return np.concatenate(parts), gram / rehearsal.draw.members.size
