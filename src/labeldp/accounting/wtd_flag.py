"""What wtd-FLAg costs, and what a budget buys: the exact accountant (theory 3).

`delta`, `epsilon`, `max_bags` and `min_floor` are inverse to each other and err on the
private side: whatever they return has been checked with the certified `Bounds.upper`.

`measurement` and `slack` price a floor that was measured (theory 6.2): the total is the
sketch composed with a Gaussian of parameter μ0, plus δ0. Added noise that depends on the
measured floor needs no adaptive composition: unless the measurement fails (δ0), the noise
is at least max(0, F − σ²), and adding more is post-processing of adding just that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labeldp.accounting import gaussian, search
from labeldp.accounting.bounds import Bounds
from labeldp.accounting.family import SketchFamily, residual_cosine
from labeldp.errors import InputError, PlanError, at_least, in_range, ordered, positive

MOST_BAGS = 10**12
_MOST_EPSILON = 1e6
_EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True)
class Facts:
    """What is public about a data set.

    features: rank of the feature columns, None if unknown.
    max_leverage: the largest h_i, None if the accountant must assume the worst.
    centred: the column space holds the constant vector, so labels may be shifted freely.
    inflation: room left for the sampler's rounding, as a fraction of u and v.
    """

    rows: int
    label_range: tuple[float, float]
    features: int | None = None
    max_leverage: float | None = None
    centred: bool = True
    inflation: float = 0.0

    def __post_init__(self) -> None:
        positive(rows=self.rows)
        ordered(*self.label_range, name="label_range")
        at_least(0.0, inflation=self.inflation)
        if self.max_leverage is not None:
            at_least(0.0, max_leverage=self.max_leverage)
            if (self.features or 0) > self.max_leverage * self.rows * (1.0 + 1e-9):
                raise InputError(
                    f"max_leverage {self.max_leverage} is below features/rows, the average "
                    "leverage; recompute it from the features"
                )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def radius(self) -> float:
        """B of theory 3e: how far a label lies from a point the features can shift away."""
        return 0.5 * self.width if self.centred else max(map(abs, self.label_range))

    def family(self, bags: float, floor: float, group: int = 1) -> SketchFamily:
        """Every neighbour these facts allow once σ² ≥ `floor`, `group` labels changing at once.

        A change of k labels is t·e with e a unit vector on k rows and |t| ≤ √k·Δ. Theory 3b
        holds for any unit vector, with h = eᵀHe ≤ k·h_max and |rᵀe| ≤ √k·max|r_i|.
        """
        positive(bags=bags, floor=floor)
        at_least(1, group=group)
        root = math.sqrt(group)
        tau = root * self.width / math.sqrt(floor) * (1.0 + 1e-15)
        if self.max_leverage is None or group * self.max_leverage >= 1.0:
            return SketchFamily(bags, tau, inflation=self.inflation)
        cosine = root * residual_cosine(self.rows, self.radius, self.max_leverage, floor)
        leverage = group * self.max_leverage
        return SketchFamily(bags, tau, leverage, min(1.0, cosine), self.inflation)


def delta(
    facts: Facts,
    bags: int,
    floor: float,
    epsilon: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    group: int = 1,
) -> Bounds:
    """δ(ε) of `bags` aggregates when the residual sum of squares is at least `floor`.

    `group` labels change at once: σ then moves by up to √group·Δ, and so does what the
    measurement sees.
    """
    seen = math.sqrt(group) * measurement
    return facts.family(bags, floor, group).delta(epsilon, seen).plus(slack)


def epsilon(
    facts: Facts,
    bags: int,
    floor: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    group: int = 1,
) -> float:
    """The smallest ε whose certified δ is at most `delta`; inf if there is none."""
    in_range(0.0, 1.0, delta=delta)
    family = facts.family(bags, floor, group)
    measurement *= math.sqrt(group)
    if family.guess(_MOST_EPSILON, measurement).plus(slack).upper > delta:
        return math.inf
    guess = search.root(
        lambda e: _gap(family.guess(e, measurement).plus(slack), delta),
        0.0,
        _MOST_EPSILON,
        float(group),
    )
    return search.smallest_real(
        lambda e: family.delta(e, measurement).plus(slack).upper <= delta, guess, _MOST_EPSILON
    )


def max_bags(
    facts: Facts,
    floor: float,
    epsilon: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
) -> int:
    """The most aggregates that are (ε, δ)-label-DP, at most `MOST_BAGS`; 0 if none is."""
    in_range(0.0, 1.0, delta=delta)

    def quick(bags: float) -> float:
        family = facts.family(bags, floor)
        return _gap(family.guess(epsilon, measurement).plus(slack), delta)

    def passes(bags: int) -> bool:
        family = facts.family(bags, floor)
        return family.delta(epsilon, measurement).plus(slack).upper <= delta

    if quick(1) > 0.0:
        return 0
    most = math.log(MOST_BAGS)
    likely = min(max(0.0, math.log(floor) - 2.0 * math.log(facts.width) - 3.0), most)
    log_bags = search.root(lambda s: -quick(math.exp(s)), 0.0, most, likely)
    guess = search.largest_integer(lambda n: quick(n) <= 0.0, round(math.exp(log_bags)), MOST_BAGS)
    return search.largest_integer(passes, guess, guess)


def min_floor(
    facts: Facts,
    bags: int,
    epsilon: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
) -> float:
    """The smallest σ_lb² under which `bags` aggregates are (ε, δ)-label-DP."""
    in_range(0.0, 1.0, delta=delta)
    if gaussian.upper(epsilon, measurement) + slack >= delta:
        raise PlanError(
            f"measuring the floor alone spends delta {delta} at epsilon {epsilon}; "
            "measure it with more noise or a smaller slack"
        )

    def quick(log_floor: float) -> float:
        family = facts.family(bags, math.exp(log_floor))
        return _gap(family.guess(epsilon, measurement).plus(slack), delta)

    def passes(floor: float) -> bool:
        family = facts.family(bags, floor)
        return family.delta(epsilon, measurement).plus(slack).upper <= delta

    scale = 2.0 * math.log(facts.width)
    likely = scale + math.log(bags) + 3.0
    guess = math.exp(search.root(quick, scale - 60.0, scale + 120.0, likely))
    floor = search.smallest_real(passes, guess, math.exp(scale + 120.0))
    if math.isinf(floor):
        raise PlanError(f"no residual floor makes {bags} bags private; ask for fewer bags")
    return floor


def curve(
    facts: Facts,
    bags: int,
    floor: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    epsilons: Sequence[float] = _EPSILONS,
) -> list[tuple[float, float]]:
    """(ε, certified δ) over a grid of ε."""
    family = facts.family(bags, floor)
    return [(e, family.delta(e, measurement).plus(slack).upper) for e in epsilons]


def best_true_positive_rate(
    curve: Iterable[tuple[float, float]], false_positive_rate: float = 0.001
) -> float:
    """The most any attack can detect at a false-positive rate, by every point of the curve.

    (ε, δ) both ways bounds it by e^ε·fpr + δ and by 1 − e^{−ε}(1 − δ − fpr).
    """
    in_range(0.0, 1.0, false_positive_rate=false_positive_rate)
    fpr = false_positive_rate
    return min(
        min(math.exp(min(e, 700.0)) * fpr + d, 1.0 - math.exp(-e) * max(0.0, 1.0 - d - fpr))
        for e, d in curve
    )


def group(curve: Iterable[tuple[float, float]], size: int, delta: float) -> float:
    """The smallest ε for someone with `size` rows at the given δ; inf if the curve has none.

    k steps of an (ε, δ) guarantee give (kε, δ(1 + e^ε + … + e^{(k−1)ε})). With a declared
    floor the promise must hold at every step; an added floor holds always.
    """
    at_least(1, size=size)
    in_range(0.0, 1.0, delta=delta)
    return min((size * e for e, d in curve if group_delta(e, d, size) <= delta), default=math.inf)


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """δ of `size` steps of an (ε, δ) guarantee: δ(1 + e^ε + … + e^{(size−1)ε})."""
    if epsilon == 0.0:
        return size * delta
    if size * epsilon > 700.0:
        return math.inf if delta > 0.0 else 0.0
    return delta * math.expm1(size * epsilon) / math.expm1(epsilon) * (1.0 + 1e-12)


def _gap(bounds: Bounds, target: float) -> float:
    """log δ − log target, negative or zero where the target is met."""
    if bounds.upper <= target:
        return min(0.0, math.log(max(bounds.upper, 1e-300) / target))
    return max(5e-324, math.log(bounds.upper / target))
