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
from labeldp.errors import InputError, at_least, in_range, ordered, positive

HANSON_WRIGHT = Fraction(145, 1000)  # c0
MOST_THEOREM2_EPSILON = 10
"""Theorem 2 holds for ε up to this number only."""
MOST_THEOREM3_BAG_SIZE = 10**18
_LEAST_THEOREM1_FLOOR = 1e-6
"""Smallest floor / squared label width for Theorem 1; there is no largest."""
_LEAST_THEOREM3_NOISE, _MOST_THEOREM3_NOISE = 1e-3, 1e9
"""Noise deviation over label width for Theorem 3, which promises nothing with less."""
_ROUNDING = 1e-13
_TURN = 16  # k·e^{−√k/2} falls from here on
_LINEAR = 2.0 + 2.0 * math.sqrt(2.0)


@dataclass(frozen=True)
class Answer:
    """A number, or the reason why there is none (then `value` is 0 bags, or None)."""

    value: float | None
    reason: str = ""


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
    """A theorem of the paper: closed forms of δ and ε, with a reason where it does not apply."""

    @abstractmethod
    def answer(self, epsilon: float) -> Answer:
        """Return the smallest δ at ε > 0, rounded up, or why there is none below 1."""

    @abstractmethod
    def epsilon(self, delta: float) -> Answer:
        """Return the smallest ε at δ, rounded up, or why there is none."""

    def delta(self, epsilon: float) -> Bounds:
        value = self.answer(epsilon).value if epsilon > 0.0 else None
        return NO_GUARANTEE if value is None else Bounds(value, value, value)

    def epsilon_search(self, delta: float) -> float:
        value = self.epsilon(delta).value
        return math.inf if value is None else value


@dataclass(frozen=True)
class Theorem1(Theorem):
    """`bags` aggregates of `rows` rows under the promise opt ≥ `residual_ms`·rows.

    floor: the sum of squares that was promised, where `residual_ms` follows from one.
    """

    rows: int
    label_range: tuple[float, float]
    residual_ms: float
    bags: int = 1
    floor: float | None = None

    def __post_init__(self) -> None:
        positive(rows=self.rows, residual_ms=self.residual_ms)
        ordered(*self.label_range, name="label_range")
        at_least(1, bags=self.bags)

    @property
    def ratio(self) -> Fraction:
        """γn/B_Y², the only number of the data that enters the theorem."""
        low, high = map(exact, self.label_range)
        return 4 * exact(self.residual_ms) * self.rows / (high - low) ** 2

    def answer(self, epsilon: float) -> Answer:
        positive(epsilon=epsilon)
        short = self._short_of_rows(160 * self.bags / exact(epsilon))
        if short:
            return Answer(None, short)
        ratio, c0 = float(self.ratio), float(HANSON_WRIGHT)
        log = c0 * min(epsilon * math.sqrt(ratio) / 20.0, epsilon**2 * ratio / (400.0 * self.bags))
        delta = 2.0 * math.exp(-log * (1.0 - 1e-14)) * (1.0 + 1e-14)
        if delta >= 1.0:
            return Answer(None, f"Theorem 1 promises no delta below 1 for {self.bags} bags")
        return Answer(max(delta, LEAST_CLAIM))

    def epsilon(self, delta: float) -> Answer:
        short = self._short_of_rows()
        if short:
            return Answer(None, short)
        log, ratio, c0 = float(log_ratio(2, delta)), float(self.ratio), float(HANSON_WRIGHT)
        by_rows = 20.0 * log / (c0 * math.sqrt(ratio))
        by_bags = max(160.0 * self.bags / ratio, math.sqrt(400.0 * self.bags * log / (c0 * ratio)))
        return Answer(max(by_rows, by_bags) * (1.0 + 1e-14))

    def max_bags(self, epsilon: float, delta: float) -> Answer:
        """The most bags the theorem allows; 0 with the reason when it has too few rows.

        Enough rows always allow a bag: then m ≥ ln(2/δ)/c0 > 4, or m ≥ ε/10 with ε > 12.
        """
        positive(epsilon=epsilon)
        log, eps = log_ratio(2, delta), exact(epsilon)
        short = self._short_of_rows(400 * (log / (HANSON_WRIGHT * eps)) ** 2)
        if short:
            return Answer(0, short)
        factor = min(Fraction(1), 2 * HANSON_WRIGHT * eps / (5 * log))
        return Answer(math.floor(eps * self.ratio / 160 * factor))

    def step(self, size: int) -> PrivacyProfile:
        """Single steps pass through tables whose residual norm may be (size−1)Δ smaller."""
        low, high = self.label_range
        promised = self.residual_ms * self.rows if self.floor is None else self.floor
        root = math.sqrt(promised) - (size - 1) * (high - low)
        return replace(self, residual_ms=root**2 / self.rows) if root > 0.0 else NonPrivate()

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bags":
            return self.max_bags(epsilon, delta).value or 0
        if name == "floor":
            low, high = self.label_range
            least = (high - low) ** 2 * _LEAST_THEOREM1_FLOOR
            return SearchRange(least, math.inf, least, method=SearchMethod.STEPS)
        return super().parameter_search(name, epsilon, delta)

    def with_parameter(self, name: str, value: float) -> PrivacyProfile:
        if name == "floor":
            return replace(self, residual_ms=value / self.rows, floor=value)
        return super().with_parameter(name, value)

    def _short_of_rows(self, *wanted: Fraction) -> str:
        """How many rows are missing for γn/B_Y² to reach what is wanted, and 16 in any case."""
        ratio, most = self.ratio, max([Fraction(16), *wanted])
        if ratio >= most:
            return ""
        needed = math.ceil(most * self.rows / ratio)
        return f"Theorem 1 needs {needed:,} rows here and has {self.rows:,}"


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

    @property
    def label_ss(self) -> Fraction:
        """B_Y²."""
        low, high = map(exact, self.label_range)
        return (high - low) ** 2 / 4

    @property
    def row_ss(self) -> Fraction:
        """B_Y² + B_X²."""
        return self.label_ss + exact(self.feature_bound) ** 2

    @property
    def reason(self) -> str:
        """Why the theorem does not apply, or nothing."""
        whole, both = self.rows * exact(self.min_eigenvalue), self.row_ss
        if whole > both:
            return ""
        return (
            f"Theorem 2 needs rows times the smallest eigenvalue, {float(whole):.4g}, "
            f"above B_Y² + B_X² = {float(both):.4g}"
        )

    @property
    def q(self) -> Fraction:
        """(n−1)/(nλ* − B_Y² − B_X²), where the theorem applies."""
        return (self.rows - 1) / (self.rows * exact(self.min_eigenvalue) - self.row_ss)

    @property
    def unit(self) -> Fraction:
        """2q(B_Y²+B_X²)/(1−ln 2), rounded up."""
        with localcontext() as context:
            context.prec = 50
            rate = Fraction((1 - Decimal(2).ln().next_plus()).next_minus())
        return 2 * self.q * self.row_ss / rate

    def terms(self, epsilon: float, delta: float) -> list[Fraction]:
        """The four bag sizes of which the theorem asks the largest; none if it does not apply."""
        if self.reason:
            return []
        eps, log, labels = exact(epsilon), log_ratio(4, delta), self.q * self.label_ss
        last = 1600 * labels * (log / (HANSON_WRIGHT * eps)) ** 2
        return [Fraction(2), self._spectral(delta), 640 * labels / eps, last]

    def _spectral(self, delta: float) -> Fraction:
        """1 + 2q(B_Y²+B_X²)·ln((2d+2)/δ)/(1−ln 2)."""
        return 1 + self.unit * log_ratio(2 * self.features + 2, delta)

    def answer(self, epsilon: float) -> Answer:
        if refused := self._refusal(epsilon):
            return Answer(None, refused)
        labels = self.q * self.label_ss
        least = math.ceil(max(Fraction(2), 640 * labels / exact(epsilon)))
        if self.bag_size < least:
            return self._too_small(f"at least {least:,} at epsilon {epsilon:g}")
        share = float(labels) / self.bag_size
        by_labels = math.log(4.0) - float(HANSON_WRIGHT) * epsilon / (40.0 * math.sqrt(share))
        by_rows = math.log(2.0 * self.features + 2.0) - (self.bag_size - 1) / float(self.unit)
        delta = math.exp(max(by_labels, by_rows) * (1.0 - _ROUNDING)) * (1.0 + _ROUNDING)
        if delta >= 1.0:
            return self._too_small("more for any delta below 1")
        return Answer(max(delta, LEAST_CLAIM))

    def epsilon(self, delta: float) -> Answer:
        # An ε ≤ 10 that the last term allows, the third allows too: 640B_Y²q/k ≤ 4c0²ε/ln²(4/δ).
        if self.reason:
            return Answer(None, self.reason)
        least = math.ceil(max(Fraction(2), self._spectral(delta)))
        if self.bag_size < least:
            return self._too_small(f"at least {least:,} at any epsilon")
        share = float(self.q * self.label_ss) / self.bag_size
        log = float(log_ratio(4, delta))
        epsilon = 40.0 * math.sqrt(share) * log / float(HANSON_WRIGHT) * (1.0 + _ROUNDING)
        if epsilon > MOST_THEOREM2_EPSILON:
            return self._too_small(f"more for any epsilon up to {MOST_THEOREM2_EPSILON}")
        return Answer(epsilon)

    def min_bag_size(self, epsilon: float, delta: float) -> Answer:
        """The smallest bag the theorem allows; None with the reason when it allows none."""
        if refused := self._refusal(epsilon):
            return Answer(None, refused)
        size = math.ceil(max(self.terms(epsilon, delta)))
        if size > self.rows:
            short = f"Theorem 2 needs bags of {size:,} rows here and the table has {self.rows:,}"
            return Answer(None, short)
        return Answer(size)

    def step(self, size: int) -> PrivacyProfile:
        """Each of `size` single steps may shrink σ_min([X|y]) by Δ."""
        low, high = self.label_range
        root = math.sqrt(self.rows * self.min_eigenvalue) - (size - 1) * (high - low)
        return replace(self, min_eigenvalue=root**2 / self.rows) if root > 0.0 else NonPrivate()

    def _refusal(self, epsilon: float) -> str:
        positive(epsilon=epsilon)
        if self.reason or epsilon <= MOST_THEOREM2_EPSILON:
            return self.reason
        return f"Theorem 2 needs epsilon at most {MOST_THEOREM2_EPSILON}, not {epsilon:g}"

    def _too_small(self, wanted: str) -> Answer:
        return Answer(None, f"bags have {self.bag_size:,} rows and Theorem 2 needs {wanted}")


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
    def width(self) -> float:
        return self.label_range[1] - self.label_range[0]

    @property
    def kappa(self) -> float:
        """4B_Y/(s√ρ·k^{1/4}), rounded up."""
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

    @property
    def reason(self) -> str:
        """Why the theorem does not apply, or nothing."""
        if self.kappa <= 0.5:
            return ""
        wanted = math.ceil(self.bag_size * (2.0 * self.kappa) ** 4)
        return (
            f"bags have {self.bag_size:,} rows and Theorem 3 needs at least {wanted:,} "
            "for its kappa ≤ 1/2"
        )

    def answer(self, epsilon: float) -> Answer:
        positive(epsilon=epsilon)
        if self.reason:
            return Answer(None, self.reason)
        kappa = self.kappa
        root = math.sqrt(_LINEAR**2 + 8.0 * max(0.0, epsilon / kappa - kappa))
        first = 2.0 * math.exp(-(((root - _LINEAR) / 4.0) ** 2) * (1.0 - _ROUNDING))
        delta = (first + self.rare) * (1.0 + _ROUNDING)
        return self._nothing_below("1") if delta >= 1.0 else Answer(max(delta, LEAST_CLAIM))

    def epsilon(self, delta: float) -> Answer:
        in_range(0.0, 1.0, delta=delta)
        if self.reason:
            return Answer(None, self.reason)
        first = delta - self.rare * (1.0 + _ROUNDING)
        if first <= 0.0:
            return self._nothing_below(f"{delta:g}")
        log, kappa = math.log(2.0 / first) + _ROUNDING, self.kappa
        epsilon = kappa * (kappa + _LINEAR * math.sqrt(log) + 2.0 * log)
        return Answer(epsilon * (1.0 + _ROUNDING))

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        """Bags have 16 rows or more: below, δ need not fall with them."""
        if name == "bag_size":
            most = MOST_THEOREM3_BAG_SIZE
            hopeless = f"Theorem 3 needs bags of more than {most:.0e} rows here"
            return SearchRange(_TURN, most, 4 * _TURN, integer=True, error_message=hopeless)
        if name == "noise_std":
            low, high = self.width * _LEAST_THEOREM3_NOISE, self.width * _MOST_THEOREM3_NOISE
            hopeless = "Theorem 3 promises these bags nothing, whatever the noise"
            return SearchRange(low, high, low, method=SearchMethod.STEPS, error_message=hopeless)
        return super().parameter_search(name, epsilon, delta)

    def _nothing_below(self, delta: str) -> Answer:
        promised = f"Theorem 3 promises {self.bags:,} bags of {self.bag_size:,} rows"
        return Answer(None, f"{promised} no delta below {delta}")
