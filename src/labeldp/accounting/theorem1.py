"""The paper's Theorem 1 (theory §2): the accountant "paper" of wtd-flag.

With |y_i| ≤ B_Y = Δ/2 and opt ≥ γn, m aggregates of wtd-FLAg are (ε, δ)-label-DP if

    n ≥ (16B_Y²/γ)·max{1, 25 ln²(2/δ)/(c0²ε²)}   and
    m ≤ (εγn/160B_Y²)·min{1, 2c0ε/(5 ln(2/δ))}.

The theorem stays in this package because certificates may rest on it and `verify` must recompute
them. Theorems 2 and 3 are in `labeldp_paper.theory.privacy`.
"""

from __future__ import annotations

import math
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
from labeldp.errors import PlanError, at_least, in_range, positive, to_range

_C0 = Fraction(145, 1000)  # of the Hanson–Wright inequality
_LEAST_RATIO = Fraction(16)
_MOST_EPSILON = 1e9  # the theorem's ε may be absurd, but it is shown beside the exact one
_LEAST_FLOOR = 1e-6  # of the search, over the squared label width; there is no largest


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
class Theorem1(PrivacyProfile):
    """`bags` aggregates of `rows` rows under the promise opt ≥ `residual_ms`·rows.

    With ℓ = ln(2/δ) and the ratio R = γn/B_Y² its conditions are R ≥ 16, ℓ ≤ c0·ε√R/20,
    m ≤ εR/160 and ℓ ≤ c0·ε²R/(400m), each of which is solved for what is asked. R is an exact
    fraction of the decimal numbers given, and ln(2/δ) has 50 digits where bags are counted, so that
    rounding never gains a bag.
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

    def delta(self, epsilon: float, *, certified: bool = True) -> Bounds:  # noqa: ARG002
        ratio = self.ratio
        if epsilon <= 0.0 or ratio < max(_LEAST_RATIO, 160 * self.bags / exact(epsilon)):
            return NO_GUARANTEE
        by_rows = epsilon * math.sqrt(ratio) / 20.0
        log = float(_C0) * min(by_rows, epsilon**2 * float(ratio) / (400.0 * self.bags))
        # 1e-14 is more than the rounding of these few operations
        value = max(LEAST_CLAIM, 2.0 * math.exp(-log * (1.0 - 1e-14)) * (1.0 + 1e-14))
        return Bounds(value, value, value) if value < 1.0 else NO_GUARANTEE

    def max_bags(self, epsilon: float, delta: float) -> int:
        """Return the most bags the theorem allows; refuse if it has too few rows for any.

        Enough rows always allow a bag: then m ≥ ln(2/δ)/c0 > 4, or m ≥ ε/10 with ε > 12.
        """
        positive(epsilon=epsilon)
        log, eps, ratio = log_ratio(2, delta), exact(epsilon), self.ratio
        wanted = max(_LEAST_RATIO, 400 * (log / (_C0 * eps)) ** 2)
        if ratio < wanted:
            needed = math.ceil(wanted * self.rows / ratio)
            raise PlanError(f"Theorem 1 needs {needed:,} rows here and has {self.rows:,}")
        return math.floor(eps * ratio / 160 * min(Fraction(1), 2 * _C0 * eps / (5 * log)))

    def step(self, size: int) -> PrivacyProfile:
        """With every other label that has changed, the residual norm may be smaller by Δ."""
        low, high = self.label_range
        # 1e-15 is more than the rounding of both where they nearly cancel
        moved = (size - 1) * (high - low) * (1.0 + 1e-15)
        left = max(0.0, math.sqrt(self.residual_ms * self.rows) - moved) ** 2
        return replace(self, residual_ms=left / self.rows) if left > 0.0 else NonPrivate()

    def epsilon_search(self, delta: float) -> SearchRange:  # noqa: ARG002
        return SearchRange(0.0, _MOST_EPSILON, 0.0, method=SearchMethod.SHARP)

    def parameter_search(self, name: str, epsilon: float, delta: float) -> SearchRange | float:
        if name == "bags":
            try:
                return self.max_bags(epsilon, delta)
            except PlanError:
                return 0
        if name == "floor":
            low, high = self.label_range
            least = (high - low) ** 2 * _LEAST_FLOOR
            return SearchRange(least, math.inf, least, method=SearchMethod.STEPS)
        return super().parameter_search(name, epsilon, delta)

    def with_parameter(self, name: str, value: float) -> PrivacyProfile:
        if name == "floor":
            return replace(self, residual_ms=value / self.rows)
        return super().with_parameter(name, value)
