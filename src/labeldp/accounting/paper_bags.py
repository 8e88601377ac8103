"""The paper's guarantees for bags, in computable form (theory §2): accountant "paper".

Theorem 2 (sampled-wtd-FLAg). With |y_i| ≤ B_Y = Δ/2, ‖x_i‖ ≤ B_X, σ_min([X|y])² ≥ nλ* and
q = (n−1)/(nλ* − B_Y² − B_X²) > 0, bags of k rows are (ε, δ)-label-DP for ε ≤ 10 if k is at least

    2,   1 + 2q(B_Y²+B_X²)·ln((2d+2)/δ)/(1−ln 2),   640B_Y²q/ε,   1600B_Y²q·ln²(4/δ)/(c0²ε²).

Two places of the paper are mended. Its statement prints −B_Y²+B_X² in one denominator; the
proof subtracts both. And its matrix Chernoff bound at half the mean is (2/e)^{μ/2R}, of which
the proof keeps (2/e)^{μ/R}: the second term is printed without the 2 it has here.

Theorem 3 (sampled-noisy-wtd-LAg) is stated with O() and Ω(). The steps of its proof give, for
unit noise and κ = 4B_Y/(√ρ·k^{1/4}) ≤ 1/2,

    δ = δ1 + m·e^{−ρk(2 ln 2 − 1)/8} + m·e^{−ρ²k/2} + mk√(2/π)·e^{−√k/2},
    ε = κ² + (2+2√2)κ√ln(2/δ1) + 2κ ln(2/δ1).

The proof has e^{−ρk/16} for the chance that the squares of ρk/2 weights sum to less than half
their mean; e^{−rθ²/2} is above Cramér's rate and fails for large r, so Chernoff's bound
(½e^{½})^{r/2} at r = ρk/2 stands here. Noise of deviation s counts as B_Y/s.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from labeldp.accounting.decimals import exact, log_ratio
from labeldp.accounting.paper import HANSON_WRIGHT, Answer
from labeldp.accounting.smallest import smallest_integer
from labeldp.errors import InputError, at_least, in_range, ordered, positive

MOST_EPSILON = 10  # beyond it Theorem 2 says nothing
_MOST_BAG_SIZE = 10**18
_ROUNDING = 1e-13
_TURN = 16  # k·e^{−√k/2} falls from here on
_LINEAR = 2.0 + 2.0 * math.sqrt(2.0)


def theorem2_min_bag_size(
    rows: int,
    label_range: tuple[float, float],
    min_eigenvalue: float,
    feature_bound: float,
    features: int,
    epsilon: float,
    delta: float,
) -> Answer:
    """The smallest bag Theorem 2 allows; None with the reason when it allows none."""
    positive(epsilon=epsilon)
    ratios = _Ratios.of(rows, label_range, min_eigenvalue, feature_bound, features)
    if isinstance(ratios, str):
        return Answer(None, ratios)
    if epsilon > MOST_EPSILON:
        return Answer(None, f"Theorem 2 needs epsilon at most {MOST_EPSILON}, not {epsilon:g}")
    bag_size = math.ceil(max(ratios.terms(epsilon, delta)))
    if bag_size > rows:
        short = f"Theorem 2 needs bags of {bag_size:,} rows here and the table has {rows:,}"
        return Answer(None, short)
    return Answer(bag_size)


def theorem2_terms(
    rows: int,
    label_range: tuple[float, float],
    min_eigenvalue: float,
    feature_bound: float,
    features: int,
    epsilon: float,
    delta: float,
) -> list[float]:
    """The four bag sizes of which Theorem 2 asks the largest; none if it does not apply."""
    ratios = _Ratios.of(rows, label_range, min_eigenvalue, feature_bound, features)
    return [] if isinstance(ratios, str) else list(map(float, ratios.terms(epsilon, delta)))


def theorem2_epsilon(
    rows: int,
    label_range: tuple[float, float],
    min_eigenvalue: float,
    feature_bound: float,
    features: int,
    bag_size: int,
    delta: float,
) -> Answer:
    """The smallest ε Theorem 2 gives bags of `bag_size` rows, rounded up."""
    ratios = _Ratios.of(rows, label_range, min_eigenvalue, feature_bound, features)
    if isinstance(ratios, str):
        return Answer(None, ratios)
    least = math.ceil(max(Fraction(2), ratios.spectral(delta)))
    if bag_size < least:
        return Answer(None, _too_small(bag_size, f"at least {least:,} at any epsilon"))
    share = float(ratios.labels) / bag_size
    log = float(log_ratio(4, delta))
    epsilon = max(640.0 * share, 40.0 * math.sqrt(share) * log / float(HANSON_WRIGHT))
    if epsilon * (1.0 + _ROUNDING) > MOST_EPSILON:
        return Answer(None, _too_small(bag_size, f"more for any epsilon up to {MOST_EPSILON}"))
    return Answer(epsilon * (1.0 + _ROUNDING))


def theorem2_delta(
    rows: int,
    label_range: tuple[float, float],
    min_eigenvalue: float,
    feature_bound: float,
    features: int,
    bag_size: int,
    epsilon: float,
) -> Answer:
    """The smallest δ Theorem 2 gives bags of `bag_size` rows, rounded up."""
    positive(epsilon=epsilon)
    ratios = _Ratios.of(rows, label_range, min_eigenvalue, feature_bound, features)
    if isinstance(ratios, str):
        return Answer(None, ratios)
    if epsilon > MOST_EPSILON:
        return Answer(None, f"Theorem 2 needs epsilon at most {MOST_EPSILON}, not {epsilon:g}")
    least = math.ceil(max(Fraction(2), 640 * ratios.labels / exact(epsilon)))
    if bag_size < least:
        return Answer(None, _too_small(bag_size, f"at least {least:,} at epsilon {epsilon:g}"))
    share = float(ratios.labels) / bag_size
    by_labels = math.log(4.0) - float(HANSON_WRIGHT) * epsilon / (40.0 * math.sqrt(share))
    by_rows = math.log(2.0 * features + 2.0) - (bag_size - 1) / float(ratios.unit)
    delta = math.exp(max(by_labels, by_rows) * (1.0 - _ROUNDING)) * (1.0 + _ROUNDING)
    if delta >= 1.0:
        return Answer(None, _too_small(bag_size, "more for any delta below 1"))
    return Answer(max(delta, 1e-300))


def theorem3_delta(
    label_range: tuple[float, float],
    noisy_fraction: float,
    bag_size: int,
    epsilon: float,
    bags: int = 1,
    noise_std: float = 1.0,
) -> Answer:
    """The δ of Theorem 3 with the constants of its proof, rounded up."""
    positive(epsilon=epsilon)
    kappa = _kappa(label_range, noisy_fraction, bag_size, noise_std)
    if kappa > 0.5:
        return Answer(None, _shift_reason(kappa, bag_size))
    root = math.sqrt(_LINEAR**2 + 8.0 * max(0.0, epsilon / kappa - kappa))
    first = 2.0 * math.exp(-(((root - _LINEAR) / 4.0) ** 2) * (1.0 - _ROUNDING))
    delta = (first + _rare(noisy_fraction, bag_size, bags)) * (1.0 + _ROUNDING)
    if delta >= 1.0:
        return Answer(None, f"{_nothing(bag_size, bags)} 1")
    return Answer(max(delta, 1e-300))


def theorem3_epsilon(
    label_range: tuple[float, float],
    noisy_fraction: float,
    bag_size: int,
    delta: float,
    bags: int = 1,
    noise_std: float = 1.0,
) -> Answer:
    """The ε of Theorem 3 with the constants of its proof, rounded up."""
    in_range(0.0, 1.0, delta=delta)
    kappa = _kappa(label_range, noisy_fraction, bag_size, noise_std)
    if kappa > 0.5:
        return Answer(None, _shift_reason(kappa, bag_size))
    first = delta - _rare(noisy_fraction, bag_size, bags) * (1.0 + _ROUNDING)
    if first <= 0.0:
        return Answer(None, f"{_nothing(bag_size, bags)} {delta:g}")
    log = math.log(2.0 / first) + _ROUNDING
    epsilon = kappa * (kappa + _LINEAR * math.sqrt(log) + 2.0 * log)
    return Answer(epsilon * (1.0 + _ROUNDING))


def theorem3_min_bag_size(
    label_range: tuple[float, float],
    noisy_fraction: float,
    epsilon: float,
    delta: float,
    bags: int = 1,
    noise_std: float = 1.0,
) -> Answer:
    """The smallest bag, of 16 rows or more, that Theorem 3 allows with its proof's constants."""
    in_range(0.0, 1.0, delta=delta)

    def passes(bag_size: int) -> bool:
        value = theorem3_delta(label_range, noisy_fraction, bag_size, epsilon, bags, noise_std)
        return value.value is not None and value.value <= delta

    found = smallest_integer(passes, _TURN, 4 * _TURN, _MOST_BAG_SIZE)
    if found is None:
        return Answer(None, f"Theorem 3 needs bags of more than {_MOST_BAG_SIZE:.0e} rows here")
    return Answer(found)


class _Ratios:
    """What the promises of Theorem 2 come to: qB_Y², and 2q(B_Y²+B_X²)/(1−ln 2), rounded up."""

    def __init__(self, labels: Fraction, both: Fraction, columns: int) -> None:
        with localcontext() as context:
            context.prec = 50
            rate = Fraction((1 - Decimal(2).ln().next_plus()).next_minus())
        self.labels, self.unit, self.columns = labels, 2 * both / rate, columns

    @classmethod
    def of(
        cls,
        rows: int,
        label_range: tuple[float, float],
        min_eigenvalue: float,
        feature_bound: float,
        features: int,
    ) -> _Ratios | str:
        """The ratios, or why the theorem does not apply."""
        at_least(2, rows=rows)
        at_least(1, features=features)
        positive(min_eigenvalue=min_eigenvalue, feature_bound=feature_bound)
        ordered(*label_range, name="label_range")
        low, high = map(exact, label_range)
        label_ss = (high - low) ** 2 / 4
        both = label_ss + exact(feature_bound) ** 2
        left = rows * exact(min_eigenvalue) - both
        if left <= 0:
            return (
                f"Theorem 2 needs rows times the smallest eigenvalue, "
                f"{float(rows * exact(min_eigenvalue)):.4g}, above B_Y² + B_X² = {float(both):.4g}"
            )
        q = (rows - 1) / left
        return cls(q * label_ss, q * both, features + 1)

    def terms(self, epsilon: float, delta: float) -> list[Fraction]:
        """What a bag's size must reach."""
        eps, log = exact(epsilon), log_ratio(4, delta)
        return [
            Fraction(2),
            self.spectral(delta),
            640 * self.labels / eps,
            1600 * self.labels * (log / (HANSON_WRIGHT * eps)) ** 2,
        ]

    def spectral(self, delta: float) -> Fraction:
        """1 + 2q(B_Y²+B_X²)·ln((2d+2)/δ)/(1−ln 2)."""
        return 1 + self.unit * log_ratio(2 * self.columns, delta)


def _kappa(
    label_range: tuple[float, float], noisy_fraction: float, bag_size: int, noise_std: float
) -> float:
    """4B_Y/(s√ρ·k^{1/4}), rounded up."""
    ordered(*label_range, name="label_range")
    positive(noisy_fraction=noisy_fraction, noise_std=noise_std)
    at_least(1, bag_size=bag_size)
    if noisy_fraction > 1.0:
        raise InputError(f"noisy_fraction must be at most 1, not {noisy_fraction}")
    width = label_range[1] - label_range[0]
    root = math.sqrt(noisy_fraction) * math.sqrt(math.sqrt(bag_size))
    return 2.0 * width / (noise_std * root) * (1.0 + _ROUNDING)


def _rare(noisy_fraction: float, bag_size: int, bags: int) -> float:
    """The chance that some bag has too few noisy rows, too little noise or too large a weight."""
    at_least(1, bags=bags)
    k = float(bag_size)
    little = math.exp(-noisy_fraction * k * (2.0 * math.log(2.0) - 1.0) / 8.0)
    few = math.exp(-0.5 * noisy_fraction**2 * k)
    large = k * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * math.sqrt(k))
    return bags * (little + few + large) * (1.0 + _ROUNDING)


def _too_small(bag_size: int, wanted: str) -> str:
    return f"bags have {bag_size:,} rows and Theorem 2 needs {wanted}"


def _shift_reason(kappa: float, bag_size: int) -> str:
    wanted = math.ceil(bag_size * (2.0 * kappa) ** 4)
    return (
        f"bags have {bag_size:,} rows and Theorem 3 needs at least {wanted:,} for its kappa ≤ 1/2"
    )


def _nothing(bag_size: int, bags: int) -> str:
    return f"Theorem 3 promises {bags:,} bags of {bag_size:,} rows no delta below"
