"""What the noise of sampled-noisy-wtd-LAg is worth in a grid: ε of every ρ and bag size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile, realised_mu
from labeldp.errors import PlanError
from labeldp_paper.experiments.bag_grid import TARGETS, Grid
from labeldp_paper.experiments.bag_law import MOST_EPSILON, judged, no_privacy
from labeldp_paper.experiments.printed import NOISY_FRACTIONS
from labeldp_paper.experiments.result import Row
from labeldp_paper.experiments.squares import PRINTED

_SCALED = 2.0
"""Width of the scaled labels, [−1, 1]."""


def kinds(grid: Grid, size: int) -> Row:
    """Every ρ and form at this bag size: the noise, in label units, and the ε a priori."""
    low, high = grid.label_range
    found = []
    for fraction in NOISY_FRACTIONS:
        found.append(
            {
                "form": PRINTED,
                "noisy_fraction": fraction,
                "noise_std": 1.0 if fraction else 0.0,
                "epsilon_a_priori": _a_priori(grid, size, fraction),
            }
        )
        for target in TARGETS:
            std = _least_noise(grid, size, fraction, target) if fraction else None
            found.append(
                {
                    "form": f"ε = {target:g}",
                    "noisy_fraction": fraction,
                    "noise_std": None if std is None else std * (high - low) / _SCALED,
                    "scaled_noise_std": std,
                    "epsilon_a_priori": None if std is None else target,
                }
            )
    return {"kinds": found}


def _a_priori(grid: Grid, size: int, fraction: float) -> float | None:
    if fraction == 0.0:
        return None
    law = RandomWeightsProfile(size, grid.label_range, fraction, 1.0)
    epsilon = epsilon_at(law, grid.delta)
    return epsilon if np.isfinite(epsilon) else None


def _least_noise(grid: Grid, size: int, fraction: float, target: float) -> float | None:
    """In units of labels scaled to [−1, 1]; None if no noise is enough."""
    scaled = (-_SCALED / 2, _SCALED / 2)
    law = RandomWeightsProfile(size, scaled, fraction, 1.0)
    try:
        return calibrate(law, "noise_std", target, grid.delta)
    except PlanError:
        return None


def realised(grid: Grid, bags: int, size: int, kind: Row) -> Row:
    """ε of the first seed's weights and noisy rows; the claim of the targets is a priori."""
    if kind["noisy_fraction"] == 0.0:
        return {**no_privacy("no noise, and the weights are published"), "epsilon_realised": None}
    weights, random = grid.weights(grid.run.seed, bags, size)
    noisy = random.random((bags, size)) < kind["noisy_fraction"]
    low, high = grid.label_range
    mu = realised_mu(weights, noisy, high - low, kind["noise_std"])
    found, epsilon = _of_weights(mu, grid.delta)
    if kind["form"] != PRINTED:
        found = {"epsilon": kind["epsilon_a_priori"], "reason": ""}
    return {**found, "epsilon_realised": epsilon}


def _of_weights(mu: npt.NDArray[np.float64], delta: float) -> tuple[Row, float | None]:
    empty = int(np.isinf(mu).sum())
    if empty:
        return no_privacy(f"bags without a noisy row: {empty:,}"), None
    law = GaussianProfile(float(mu.max()))
    if law.delta(MOST_EPSILON).upper > delta:
        return judged(None), None
    epsilon = epsilon_at(law, delta)
    return judged(epsilon), epsilon
