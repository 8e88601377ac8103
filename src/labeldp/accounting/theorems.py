"""The paper's Theorems 1–3 in computable form (theory §2): accountant "paper".

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

Theorems 1 and 2 are evaluated in exact fractions of the decimal numbers given, logarithms to 50
digits, so that rounding never gains a bag. The theorems stay in this package because certificates
may rest on them and `verify` must recompute them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction

from labeldp.accounting.privacy_profile import (
    LEAST_CLAIM,
    NO_GUARANTEE,
    Bounds,
    NonPrivate,
    PrivacyProfile,
    SearchMethod,
    SearchRange,
)
from labeldp.errors import InputError, PlanError, at_least, in_range, ordered, positive

HANSON_WRIGHT = Fraction(145, 1000)  # c0
_C0 = float(HANSON_WRIGHT)
MOST_THEOREM2_EPSILON = 10
"""Theorem 2 holds for ε up to this number only."""
MOST_THEOREM3_BAG_SIZE = 10**18
_MOST_EPSILON = 1e9  # the theorems' ε may be absurd, but it is shown beside the exact one
_LEAST_THEOREM1_FLOOR = 1e-6
"""Smallest floor / squared label width for Theorem 1; there is no largest."""
_LEAST_THEOREM3_NOISE, _MOST_THEOREM3_NOISE = 1e-3, 1e9
"""Noise deviation over label width for Theorem 3, which promises nothing with less."""
_ROUNDING = 1e-13
_LEAST_RATIO = Fraction(16)  # γn/B_Y² for Theorem 1
_TURN = 16  # k·e^{−√k/2} falls from here on
_LINEAR = 2.0 + 2.0 * math.sqrt(2.0)


def exact(value: float) -> Fraction:
    """Return the decimal number as written: 64.22 is 6422/100."""
    return Fraction(repr(float(value)))


def log_ratio(numerator: int, delta: float) -> Fraction:
    """Return ln(numerator/δ), rounded up at the 50th digit."""
    in_range(0.0, 1.0, delta=delta)
    with localcontext() as context:
        context.prec = 50
        return Fraction((numerator / Decimal(repr(float(delta)))).ln().next_plus())


class Theorem(PrivacyProfile):
    """A theorem of the paper, solved for δ."""

    label_range: tuple[float, float]

    @abstractmethod
    def least_delta(self, epsilon: float) -> float:
        """Return the smallest δ at ε > 0, rounded up; 1 or more where the theorem is silent."""

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def label_ss(self) -> Fraction:
        """B_Y² = Δ²/4."""
        low, high = map(exact, self.label_range)
        return (high - low) ** 2 / 4

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        value = self.least_delta(epsilon) if epsilon > 0.0 else 1.0
        if value >= 1.0:
            return NO_GUARANTEE
        value = max(value, LEAST_CLAIM)
        return Bounds(value, value, value)

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, _MOST_EPSILON, 0.0, method=SearchMethod.SHARP)

    def left_of(self, promise: float, size: int) -> float:
        """Return what is left of a promised square when all but one of `size` labels have changed.

        Its root (a residual norm, a singular value) moves by at most Δ with every label.
        """
        # 1e-15 is more than the rounding of both where they nearly cancel
        moved = (size - 1) * self.width * (1.0 + 1e-15)
        return max(0.0, math.sqrt(promise) - moved) ** 2


@dataclass(frozen=True)
class Theorem1(Theorem):
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
        ordered(*self.label_range, name="label_range")
        at_least(1, bags=self.bags)

    @property
    def ratio(self) -> Fraction:
        """γn/B_Y², the only number of the data that enters the theorem."""
        return exact(self.residual_ms) * self.rows / self.label_ss

    def least_delta(self, epsilon: float) -> float:
        ratio = self.ratio
        if ratio < max(_LEAST_RATIO, 160 * self.bags / exact(epsilon)):
            return 1.0
        by_rows = epsilon * math.sqrt(ratio) / 20.0
        log = _C0 * min(by_rows, epsilon**2 * float(ratio) / (400.0 * self.bags))
        return 2.0 * math.exp(-log * (1.0 - 1e-14)) * (1.0 + 1e-14)

    def max_bags(self, epsilon: float, delta: float) -> int:
        """Return the most bags the theorem allows; refuse if it has too few rows for any.

        Enough rows always allow a bag: then m ≥ ln(2/δ)/c0 > 4, or m ≥ ε/10 with ε > 12.
        """
        positive(epsilon=epsilon)
        log, eps, ratio = log_ratio(2, delta), exact(epsilon), self.ratio
        wanted = max(_LEAST_RATIO, 400 * (log / (HANSON_WRIGHT * eps)) ** 2)
        if ratio < wanted:
            needed = math.ceil(wanted * self.rows / ratio)
            raise PlanError(f"Theorem 1 needs {needed:,} rows here and has {self.rows:,}")
        factor = min(Fraction(1), 2 * HANSON_WRIGHT * eps / (5 * log))
        return math.floor(eps * ratio / 160 * factor)

    def step(self, size: int) -> PrivacyProfile:
        left = self.left_of(self.residual_ms * self.rows, size)
        return replace(self, residual_ms=left / self.rows) if left > 0.0 else NonPrivate()

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bags":
            try:
                return self.max_bags(epsilon, delta)
            except PlanError:
                return 0
        if name == "floor":
            least = self.width**2 * _LEAST_THEOREM1_FLOOR
            return SearchRange(least, math.inf, least, method=SearchMethod.STEPS)
        return super().parameter_search(name, epsilon, delta)

    def with_parameter(self, name: str, value: float) -> PrivacyProfile:
        if name == "floor":
            return replace(self, residual_ms=value / self.rows)
        return super().with_parameter(name, value)


@dataclass(frozen=True)
class Theorem2(Theorem):
    """Bags of `bag_size` of `rows` rows, over the draw, under the promise σ_min([X|y])² ≥ nλ*.

    min_eigenvalue: λ*. feature_bound: B_X, the largest norm of a row. features: d.
    """

    rows: int
    label_range: tuple[float, float]
    min_eigenvalue: float
    feature_bound: float
    features: int
    bag_size: int = 2

    def __post_init__(self) -> None:
        at_least(2, rows=self.rows)
        at_least(1, features=self.features)
        positive(min_eigenvalue=self.min_eigenvalue, feature_bound=self.feature_bound)
        ordered(*self.label_range, name="label_range")

    def units(self) -> tuple[Fraction, Fraction]:
        """Return qB_Y² and 2q(B_Y²+B_X²)/(1−ln 2), rounded up; refuse a q that is not positive."""
        both = self.label_ss + exact(self.feature_bound) ** 2
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
        return q * self.label_ss, 2 * q * both / rate

    def terms(self, epsilon: float, delta: float) -> list[Fraction]:
        """Return the four bag sizes of which the theorem asks the largest."""
        positive(epsilon=epsilon)
        if epsilon > MOST_THEOREM2_EPSILON:
            most = MOST_THEOREM2_EPSILON
            raise PlanError(f"Theorem 2 needs epsilon at most {most}, not {epsilon:g}")
        (label_unit, row_unit), eps = self.units(), exact(epsilon)
        return [
            Fraction(2),
            1 + row_unit * log_ratio(2 * self.features + 2, delta),
            640 * label_unit / eps,
            1600 * label_unit * (log_ratio(4, delta) / (HANSON_WRIGHT * eps)) ** 2,
        ]

    def least_delta(self, epsilon: float) -> float:
        try:
            two, _, third, _ = self.terms(epsilon, 0.5)  # these two do not depend on δ
            label_unit, row_unit = self.units()
        except PlanError:
            return 1.0
        if self.bag_size < max(two, third):
            return 1.0
        share = float(label_unit) / self.bag_size
        by_labels = math.log(4.0) - _C0 * epsilon / (40.0 * math.sqrt(share))
        by_rows = math.log(2.0 * self.features + 2.0) - (self.bag_size - 1) / float(row_unit)
        return math.exp(max(by_labels, by_rows) * (1.0 - _ROUNDING)) * (1.0 + _ROUNDING)

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, MOST_THEOREM2_EPSILON, 0.0, method=SearchMethod.SHARP)

    def min_bag_size(self, epsilon: float, delta: float) -> int:
        """Return the smallest bag that the theorem allows; refuse if the table has no such bag."""
        size = math.ceil(max(self.terms(epsilon, delta)))
        if size > self.rows:
            raise PlanError(
                f"Theorem 2 needs bags of {size:,} rows here and the table has {self.rows:,}"
            )
        return size

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bag_size":
            return self.min_bag_size(epsilon, delta)
        return super().parameter_search(name, epsilon, delta)

    def step(self, size: int) -> PrivacyProfile:
        left = self.left_of(self.rows * self.min_eigenvalue, size)
        return replace(self, min_eigenvalue=left / self.rows) if left > 0.0 else NonPrivate()


@dataclass(frozen=True)
class Theorem3(Theorem):
    """`bags` bags of `bag_size` rows, noise of deviation `noise_std` on a part of their labels."""

    label_range: tuple[float, float]
    noisy_fraction: float
    bag_size: int = 1
    bags: int = 1
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        ordered(*self.label_range, name="label_range")
        positive(noisy_fraction=self.noisy_fraction, noise_std=self.noise_std)
        at_least(1, bag_size=self.bag_size, bags=self.bags)
        if self.noisy_fraction > 1.0:
            raise InputError(f"`noisy_fraction` must be at most 1, not {self.noisy_fraction}")

    @property
    def kappa(self) -> float:
        """4B_Y/(s√ρ·k^{1/4}), rounded up; the theorem asks for at most ½."""
        root = math.sqrt(self.noisy_fraction) * math.sqrt(math.sqrt(self.bag_size))
        return 2.0 * self.width / (self.noise_std * root) * (1.0 + _ROUNDING)

    @property
    def rare(self) -> float:
        """The chance that some bag has too few noisy rows, too little noise or a large weight."""
        k, fraction = float(self.bag_size), self.noisy_fraction
        little = math.exp(-fraction * k * (2.0 * math.log(2.0) - 1.0) / 8.0)
        few = math.exp(-0.5 * fraction**2 * k)
        large = k * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * math.sqrt(k))
        return self.bags * (little + few + large) * (1.0 + _ROUNDING)

    def least_delta(self, epsilon: float) -> float:
        kappa = self.kappa
        if kappa > 0.5:
            return 1.0
        root = math.sqrt(_LINEAR**2 + 8.0 * max(0.0, epsilon / kappa - kappa))
        first = 2.0 * math.exp(-(((root - _LINEAR) / 4.0) ** 2) * (1.0 - _ROUNDING))
        return (first + self.rare) * (1.0 + _ROUNDING)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        """Bags have 16 rows or more: below, δ need not fall with them."""
        if name == "bag_size":
            return SearchRange(_TURN, MOST_THEOREM3_BAG_SIZE, 4 * _TURN, integer=True)
        if name == "noise_std":
            low, high = self.width * _LEAST_THEOREM3_NOISE, self.width * _MOST_THEOREM3_NOISE
            return SearchRange(low, high, low, method=SearchMethod.STEPS)
        return super().parameter_search(name, epsilon, delta)
