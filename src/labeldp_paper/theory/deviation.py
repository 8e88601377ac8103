"""Two spherical Gaussians that differ little: the lemma that the privacy proofs rest on."""

from __future__ import annotations

import math

from labeldp.errors import at_least, in_range, positive

_MOST = 0.5


def gaussian_deviation(dimension: int, std: float, other_std: float, distance: float) -> float:
    """The least κ of the lemma "Gaussian-deviation" for N_d(μ₁, σ₁²I) and N_d(μ₂, σ₂²I).

    max(σ₁²/σ₂², σ₂²/σ₁²) ≤ 1 + κ/√d and ‖μ₁ − μ₂‖/min(σ₁, σ₂) ≤ κ; inf above ½, where the lemma
    says nothing.
    """
    at_least(1, dimension=dimension)
    positive(std=std, other_std=other_std)
    at_least(0.0, distance=distance)
    small, large = sorted((std, other_std))
    kappa = max(math.sqrt(dimension) * ((large / small) ** 2 - 1), distance / small)
    return kappa if kappa <= _MOST else math.inf


def gaussian_deviation_epsilon(kappa: float, delta: float) -> float:
    """Pr[X₁ ∈ S] ≤ e^ε Pr[X₂ ∈ S] + δ from ε = κ² + (2 + 2√2)κ√ln(2/δ) + 2κ ln(2/δ) on.

    (The paper prints X₁ on both sides.)
    """
    in_range(0.0, 1.0, delta=delta)
    if kappa > _MOST:  # inf too: where there is no κ there is no ε
        return math.inf
    at_least(0.0, kappa=kappa)
    log = math.log(2.0 / delta)
    return kappa**2 + (2 + 2 * math.sqrt(2)) * kappa * math.sqrt(log) + 2 * kappa * log
