"""The paper's own guarantees, in computable form (theory 2): accountant "paper".

Theorem 1 (wtd-FLAg). With |y_i| ≤ B_Y = Δ/2 and opt ≥ γn, m aggregates are (ε, δ)-label-DP if

    n ≥ (16B_Y²/γ)·max{1, 25 ln²(2/δ)/(c0²ε²)}   and
    m ≤ (εγn/160B_Y²)·min{1, 2c0ε/(5 ln(2/δ))}.

Everything is computed in exact fractions of the decimal numbers given, the logarithm to 50
digits, so that `floor` never gains a bag to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from labeldp.accounting.bounds import NO_GUARANTEE, Answer, Bounds
from labeldp.accounting.decimals import exact, log_ratio
from labeldp.accounting.limits import LEAST_CLAIM, LEAST_THEOREM1_FLOOR
from labeldp.accounting.privacy_profile import NonPrivate, PrivacyProfile, SearchMethod, SearchRange
from labeldp.errors import at_least, ordered, positive

HANSON_WRIGHT = Fraction(145, 1000)  # c0


@dataclass(frozen=True)
class Theorem1(PrivacyProfile):
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
        """The smallest δ, rounded up; None when no δ below 1 is promised."""
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
        """The smallest ε, rounded up; None when rows are too few."""
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

    def delta(self, epsilon: float) -> Bounds:
        found = self.answer(epsilon) if epsilon > 0.0 else Answer(None)
        return NO_GUARANTEE if found.value is None else found.bounds

    def step(self, size: int) -> PrivacyProfile:
        """Single steps pass through tables whose residual norm may be (size−1)Δ smaller."""
        low, high = self.label_range
        promised = self.residual_ms * self.rows if self.floor is None else self.floor
        root = math.sqrt(promised) - (size - 1) * (high - low)
        return replace(self, residual_ms=root**2 / self.rows) if root > 0.0 else NonPrivate()

    def epsilon_search(self, delta: float) -> float:
        return self.epsilon(delta).or_infinite

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bags":
            return self.max_bags(epsilon, delta).value or 0
        if name == "floor":
            low, high = self.label_range
            least = (high - low) ** 2 * LEAST_THEOREM1_FLOOR
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
