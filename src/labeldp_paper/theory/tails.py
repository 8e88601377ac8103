"""Concentration bounds the paper rests on, each a bound of one named probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labeldp.errors import InputError, at_least, in_range, positive

HANSON_WRIGHT = 0.145
"""c0 of the Gaussian Hanson–Wright inequality."""


@dataclass(frozen=True)
class Tail:
    """An upper bound of a probability, as its natural logarithm."""

    log: float

    @property
    def probability(self) -> float:
        """The bound, at most 1."""
        return math.exp(min(0.0, self.log))

    @property
    def log10(self) -> float:
        """The bound's decimal exponent."""
        return self.log / math.log(10.0)

    @property
    def vacuous(self) -> bool:
        """The bound says nothing."""
        return self.log >= 0.0

    def times(self, log_count: float) -> Tail:
        """The union bound over e^`log_count` such events."""
        return Tail(self.log + log_count)


def union(tails: Sequence[Tail]) -> Tail:
    """The chance of any of these events: the sum, in log space."""
    top = max(tail.log for tail in tails)
    if math.isinf(top):
        return Tail(top)
    return Tail(top + math.log(math.fsum(math.exp(tail.log - top) for tail in tails)))


def normal_tail(threshold: float) -> Tail:
    """Pr[|g| > t] ≤ √(2/π)·e^{−t²/2}/t for g standard normal; 1 where that is larger."""
    positive(threshold=threshold)
    log = 0.5 * math.log(2.0 / math.pi) - math.log(threshold) - 0.5 * threshold**2
    return Tail(min(0.0, log))


def matrix_chernoff_tail(dimension: int, mean_min: float, largest: float, shortfall: float) -> Tail:
    """Pr[λ_min(ΣX_i) ≤ (1−θ)μ_min] ≤ d·(e^{−θ}/(1−θ)^{1−θ})^{μ_min/R}, θ = `shortfall`.

    X_i are drawn without replacement from a set of positive semidefinite matrices of
    `dimension` d with λ_max(X_i) ≤ R = `largest`, and μ_min = `mean_min` = λ_min(E ΣX_i).
    At θ = 1/2 the base is (2/e)^{1/2}.
    """
    at_least(1, dimension=dimension)
    positive(mean_min=mean_min, largest=largest)
    in_range(0.0, 1.0, shortfall=shortfall)
    rate = shortfall + (1.0 - shortfall) * math.log1p(-shortfall)
    return Tail(math.log(dimension) - mean_min / largest * rate)


def hoeffding_tail(count: int, width: float, deviation: float, sides: int = 2) -> Tail:
    """Pr[|X̄ − μ| > t] ≤ 2e^{−2kt²/width²}, X̄ the mean of k = `count` draws without replacement.

    From a population in an interval of that `width`; the factor is `sides`. (The paper's
    statement lacks the 2 and squares the values in place of the width.)
    """
    at_least(1, count=count)
    positive(width=width, deviation=deviation)
    if sides not in (1, 2):
        raise InputError(f"sides must be 1 or 2, not {sides}")
    return Tail(math.log(sides) - 2.0 * count * (deviation / width) ** 2)


def hanson_wright_tail(
    frobenius: float, spectral: float, deviation: float, psi_norm: float
) -> Tail:
    """Pr[|xᵀAx − E xᵀAx| > t] ≤ 2·exp(−c0·min{t²/(K⁴‖A‖_F²), t/(K²‖A‖₂)}).

    x has independent centred entries with ‖x_i‖_ψ2 ≤ K = `psi_norm` (√(8/3) if they are standard
    normal); ‖A‖_F ≤ `frobenius`, ‖A‖₂ ≤ `spectral`. c0 = 0.145 was proved for normal entries
    without K; with K ≥ 1 the bound is weaker still, so it holds for them.
    """
    positive(frobenius=frobenius, spectral=spectral, deviation=deviation, psi_norm=psi_norm)
    square = deviation**2 / (psi_norm**4 * frobenius**2)
    exponent = min(square, deviation / (psi_norm**2 * spectral))
    return Tail(math.log(2.0) - HANSON_WRIGHT * exponent)


def gaussian_squares_tail(sum_of_squares: float, largest: float, deviation: float) -> Tail:
    """Pr[|Σv_i(g_i²−1)| > t] ≤ 2·exp(−c0·min{t²/‖v‖², t/‖v‖_∞}), g_i standard normal, v_i ≥ 0.

    The Gaussian Hanson–Wright inequality with c0 = 0.145; ‖v‖² ≤ `sum_of_squares`,
    ‖v‖_∞ ≤ `largest`. (The paper's later lemmas use 1/2 for c0 and 1 for the 2; with θ = 1/2
    that contradicts Cramér's rate for v = 1.)
    """
    positive(sum_of_squares=sum_of_squares, largest=largest, deviation=deviation)
    exponent = min(deviation**2 / sum_of_squares, deviation / largest)
    return Tail(math.log(2.0) - HANSON_WRIGHT * exponent)
