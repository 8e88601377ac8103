"""The privacy parts of the theorems: the least ε, δ and bag size, or the most bags, they allow.

Theorem 1 (wtd-FLAg). With |y_i| ≤ B_Y = Δ/2 and opt ≥ γn, m aggregates are (ε, δ)-label-DP if

    n ≥ (16B_Y²/γ)·max{1, 25 ln²(2/δ)/(c0²ε²)}   and
    m ≤ (εγn/160B_Y²)·min{1, 2c0ε/(5 ln(2/δ))}.

Theorem 2 (sampled-wtd-FLAg). With |y_i| ≤ B_Y = Δ/2, ‖x_i‖ ≤ B_X, σ_min([X|y])² ≥ nλ* and
q = (n−1)/(nλ* − B_Y² − B_X²) > 0, bags of k rows are (ε, δ)-label-DP for ε ≤ 10 if k is at least

    2,   1 + 2q(B_Y²+B_X²)·ln((2d+2)/δ)/(1−ln 2),   640B_Y²q/ε,   1600B_Y²q·ln²(4/δ)/(c0²ε²).

Two slips of the paper are corrected here. Its statement prints −B_Y²+B_X² in one denominator; the
proof subtracts both. And its matrix Chernoff bound at half the mean is (2/e)^{μ/2R}, where the
proof writes (2/e)^{μ/R}: the second term is printed without the factor 2 that it has here.

Theorem 3 (sampled-noisy-wtd-LAg) is stated with O() and Ω(). The steps of its proof give, for
unit noise and κ = 4B_Y/(√ρ·k^{1/4}) ≤ 1/2,

    δ = δ1 + m·e^{−ρk(2 ln 2 − 1)/8} + m·e^{−ρ²k/2} + mk√(2/π)·e^{−√k/2},
    ε = κ² + (2+2√2)κ√ln(2/δ1) + 2κ ln(2/δ1).

The proof has e^{−ρk/16} for the probability that the squares of ρk/2 weights sum to less than half
their mean; e^{−rθ²/2} is above Cramér's rate and fails for large r, so Chernoff's bound
(½e^{½})^{r/2} at r = ρk/2 is used here. Noise of deviation s counts as B_Y/s.

Theorem 1's and 2's bags are counted in exact fractions of the decimal numbers given, logarithms to
50 digits, so that rounding never gains a bag or a row. ε and δ are rounded up; where a theorem says
nothing, ε is inf and δ is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from labeldp.accounting.privacy_profile import LEAST_CLAIM
from labeldp.errors import InputError, PlanError, at_least, in_range, positive, to_range
from labeldp_paper.theory.tails import HANSON_WRIGHT

_MOST_EPSILON = 10
"""Theorem 2 holds for ε up to this number only."""
_LEAST_BAG_SIZE, _MOST_BAG_SIZE = 16, 10**18
"""Among which Theorem 3's bag is searched; k·e^{−√k/2}, and so δ, falls from the least on."""
_LINEAR = 2.0 + 2.0 * math.sqrt(2.0)
_UP, _DOWN = 1.0 + 1e-13, 1.0 - 1e-13
"""More than the rounding of the few operations of a formula, and nothing to a reader."""


def exact(value: float) -> Fraction:
    """Return the decimal number as written: 64.22 is 6422/100."""
    return Fraction(repr(float(value)))


def log_ratio(numerator: int, delta: float) -> Fraction:
    """Return ln(numerator/δ), rounded up at the 50th digit."""
    in_range(0.0, 1.0, delta=delta)
    with localcontext() as context:
        context.prec = 50
        return Fraction((numerator / Decimal(repr(float(delta)))).ln().next_plus())


@dataclass(frozen=True)
class Theorem1:
    """`bags` aggregates of `rows` rows under the promise opt ≥ `residual_ms`·rows.

    With ℓ = ln(2/δ) and the ratio R = γn/B_Y² its conditions are R ≥ 16, ℓ ≤ c0·ε√R/20,
    m ≤ εR/160 and ℓ ≤ c0·ε²R/(400m), each of which is solved for what is asked.
    """

    rows: int
    label_range: tuple[float, float]
    residual_ms: float
    bags: int = 1

    def __post_init__(self) -> None:
        positive(rows=self.rows, residual_ms=self.residual_ms)
        to_range("label_range", self.label_range)
        at_least(1, bags=self.bags)

    @property
    def ratio(self) -> Fraction:
        """γn/B_Y², the only number of the data that enters the theorem."""
        low, high = map(exact, self.label_range)
        return exact(self.residual_ms) * self.rows / ((high - low) / 2) ** 2

    def least_delta(self, epsilon: float) -> float:
        """Return the δ at which one of the conditions on ℓ is an equality."""
        ratio = self.ratio
        if epsilon <= 0.0 or ratio < 16 or ratio * exact(epsilon) < 160 * self.bags:
            return 1.0
        by_rows = epsilon * math.sqrt(ratio) / 20.0
        log = HANSON_WRIGHT * min(by_rows, epsilon**2 * float(ratio) / (400.0 * self.bags))
        return min(1.0, max(LEAST_CLAIM, 2.0 * math.exp(-log * _DOWN) * _UP))

    def least_epsilon(self, delta: float) -> float:
        """Return the ε at which one of the conditions but R ≥ 16 is an equality."""
        ratio, log = float(self.ratio), float(log_ratio(2, delta)) / HANSON_WRIGHT
        if self.ratio < 16:
            return math.inf
        by_rows, by_bags = 20.0 * log / math.sqrt(ratio), math.sqrt(400.0 * self.bags * log / ratio)
        return max(by_rows, by_bags, 160.0 * self.bags / ratio) * _UP

    def max_bags(self, epsilon: float, delta: float) -> int:
        """Return the most bags the theorem allows; refuse if it has too few rows for any.

        Enough rows always allow a bag: then m ≥ ln(2/δ)/c0 > 4, or m ≥ ε/10 with ε > 12.
        """
        positive(epsilon=epsilon)
        log, eps, ratio = log_ratio(2, delta), exact(epsilon), self.ratio
        wanted = max(Fraction(16), 400 * (log / (exact(HANSON_WRIGHT) * eps)) ** 2)
        if ratio < wanted:
            needed = math.ceil(wanted * self.rows / ratio)
            raise PlanError(f"Theorem 1 needs {needed:,} rows here and has {self.rows:,}")
        share = 2 * exact(HANSON_WRIGHT) * eps / (5 * log)
        return math.floor(eps * ratio / 160 * min(Fraction(1), share))


@dataclass(frozen=True)
class Theorem2:
    """Bags of `rows` rows, over the draw, under the promise σ_min([X|y])² ≥ nλ*.

    min_eigenvalue: λ*. feature_bound: B_X, the largest norm of a row. features: d.
    """

    rows: int
    label_range: tuple[float, float]
    min_eigenvalue: float
    feature_bound: float
    features: int

    def __post_init__(self) -> None:
        at_least(2, rows=self.rows)
        at_least(1, features=self.features)
        positive(min_eigenvalue=self.min_eigenvalue, feature_bound=self.feature_bound)
        to_range("label_range", self.label_range)

    def units(self) -> tuple[Fraction, Fraction]:
        """Return qB_Y² and 2q(B_Y²+B_X²)/(1−ln 2), rounded up; refuse a q that is not positive."""
        low, high = map(exact, self.label_range)
        label_ss = ((high - low) / 2) ** 2
        both = label_ss + exact(self.feature_bound) ** 2
        whole = self.rows * exact(self.min_eigenvalue)
        if whole <= both:
            raise PlanError(
                f"Theorem 2 needs rows times the smallest eigenvalue, {float(whole):.4g}, "
                f"above B_Y² + B_X² = {float(both):.4g}"
            )
        q = (self.rows - 1) / (whole - both)
        with localcontext() as context:
            context.prec = 50
            rate = Fraction((1 - Decimal(2).ln().next_plus()).next_minus())
        return q * label_ss, 2 * q * both / rate

    def terms(self, epsilon: float, delta: float) -> list[Fraction]:
        """Return the four bag sizes of which the theorem asks the largest."""
        positive(epsilon=epsilon)
        if epsilon > _MOST_EPSILON:
            raise PlanError(f"Theorem 2 needs epsilon at most {_MOST_EPSILON}, not {epsilon:g}")
        (label_unit, row_unit), eps = self.units(), exact(epsilon)
        return [
            Fraction(2),
            1 + row_unit * log_ratio(2 * self.features + 2, delta),
            640 * label_unit / eps,
            1600 * label_unit * (log_ratio(4, delta) / (exact(HANSON_WRIGHT) * eps)) ** 2,
        ]

    def min_bag_size(self, epsilon: float, delta: float) -> int:
        """Return the smallest bag that the theorem allows; refuse if the table has no such bag."""
        size = math.ceil(max(self.terms(epsilon, delta)))
        if size > self.rows:
            raise PlanError(
                f"Theorem 2 needs bags of {size:,} rows here and the table has {self.rows:,}"
            )
        return size

    def least_delta(self, bag_size: int, epsilon: float) -> float:
        """Return the δ at which the second or the fourth term, whichever is larger, is k."""
        try:
            two, _, third, _ = self.terms(epsilon, 0.5)  # these two do not depend on δ
        except PlanError:
            return 1.0
        if bag_size < max(two, third):
            return 1.0
        label_unit, row_unit = self.units()
        root = 40.0 * math.sqrt(float(label_unit) / bag_size)
        by_labels = math.log(4.0) - HANSON_WRIGHT * epsilon / root
        by_rows = math.log(2.0 * self.features + 2.0) - (bag_size - 1) / float(row_unit)
        delta = math.exp(max(by_labels, by_rows) * _DOWN) * _UP
        return min(1.0, max(LEAST_CLAIM, delta))

    def least_epsilon(self, bag_size: int, delta: float) -> float:
        """Return the ε at which the third or the fourth term, whichever is larger, is k."""
        try:
            two, second, _, _ = self.terms(1.0, delta)  # these two do not depend on ε
        except PlanError:
            return math.inf
        if bag_size < max(two, second):
            return math.inf
        share = float(self.units()[0]) / bag_size
        by_delta = 40.0 * math.sqrt(share) * float(log_ratio(4, delta)) / HANSON_WRIGHT
        epsilon = max(640.0 * share, by_delta) * _UP**4
        return epsilon if epsilon <= _MOST_EPSILON else math.inf


@dataclass(frozen=True)
class Theorem3:
    """`bags` bags, noise of deviation `noise_std` on a part of their rows' labels."""

    label_range: tuple[float, float]
    noisy_fraction: float
    bags: int = 1
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        to_range("label_range", self.label_range)
        positive(noisy_fraction=self.noisy_fraction, noise_std=self.noise_std)
        at_least(1, bags=self.bags)
        if self.noisy_fraction > 1.0:
            raise InputError(f"`noisy_fraction` must be at most 1, not {self.noisy_fraction}")

    def kappa(self, bag_size: int) -> float:
        """Return 4B_Y/(s√ρ·k^{1/4}); the theorem asks for at most ½."""
        low, high = self.label_range
        root = math.sqrt(self.noisy_fraction) * math.sqrt(math.sqrt(bag_size))
        return 2.0 * (high - low) / (self.noise_std * root) * _UP

    def rare(self, bag_size: int) -> float:
        """Return the chance of too few noisy rows, too little noise or a large weight in a bag."""
        k, fraction = float(bag_size), self.noisy_fraction
        little = math.exp(-fraction * k * (2.0 * math.log(2.0) - 1.0) / 8.0)
        few = math.exp(-0.5 * fraction**2 * k)
        large = k * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * math.sqrt(k))
        return self.bags * (little + few + large) * _UP

    def least_delta(self, bag_size: int, epsilon: float) -> float:
        """Return δ1 + `rare`, with the δ1 of which ε is made up."""
        at_least(1, bag_size=bag_size)
        positive(epsilon=epsilon)
        kappa = self.kappa(bag_size)
        if kappa > 0.5:
            return 1.0
        root = math.sqrt(_LINEAR**2 + 8.0 * max(0.0, epsilon / kappa - kappa))
        first = 2.0 * math.exp(-(((root - _LINEAR) / 4.0) ** 2) * _DOWN)
        return min(1.0, max(LEAST_CLAIM, (first + self.rare(bag_size)) * _UP))

    def least_epsilon(self, bag_size: int, delta: float) -> float:
        """Return the ε of what `rare` leaves of δ."""
        at_least(1, bag_size=bag_size)
        in_range(0.0, 1.0, delta=delta)
        kappa, first = self.kappa(bag_size), delta / _UP**2 - self.rare(bag_size)
        if kappa > 0.5 or first <= 0.0:
            return math.inf
        log = math.log(2.0 / first) * _UP**2
        return kappa * (kappa + _LINEAR * math.sqrt(log) + 2.0 * log) * _UP

    def min_bag_size(self, epsilon: float, delta: float) -> int:
        """Return the smallest bag of 16 rows or more: below, δ need not fall with them."""
        in_range(0.0, 1.0, delta=delta)
        fails, size = _LEAST_BAG_SIZE - 1, _MOST_BAG_SIZE
        if self.least_delta(size, epsilon) > delta:
            raise PlanError(f"Theorem 3 has no bag of {size:,} rows or fewer at this budget")
        while size - fails > 1:
            middle = (fails + size) // 2
            if self.least_delta(middle, epsilon) > delta:
                fails = middle
            else:
                size = middle
        return size
