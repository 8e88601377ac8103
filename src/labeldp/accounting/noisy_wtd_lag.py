"""What sampled-noisy-wtd-LAg costs: a weighted sum of labels from each of m disjoint bags.

Bags, weights and the set of noisy rows are published and do not depend on the labels. Given
them, the aggregate label of a bag is Gaussian with variance s²·Σw² over its noisy rows, and
changing the label of row i shifts its mean by at most |w_i|Δ: a Gaussian mechanism (theory §4)

    μ_i = |w_i|Δ / (s√(Σ w² over the bag's noisy rows)).

Two ways to claim δ(ε):

realised   from the weights drawn: `realised_mu`, the largest μ_i of every bag. Weights know
           nothing of the labels, so a bag above `target_mu` may be redrawn until it passes.
a priori   before any draw: `delta` and its inverses, the mean of δ(ε; μ_i) over weights and
           bags, for the worse of a row that carries noise and one that does not.

Over the draw of the bags both are multiplied by `chance` = mk/n (`sampled_wtd_flag.membership`),
the chance that the row is in a bag at all. `Facts.rows` decides the law of the number of
noisy rows in a bag. Known: ⌊ρn⌋ noisy rows, bags without replacement, hypergeometric. None:
every row is noisy by its own coin of probability ρ, binomial; also the limit of many rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from labeldp.accounting import gaussian, random_mu, search
from labeldp.accounting.bounds import NO_GUARANTEE, Bounds
from labeldp.accounting.decimals import exact
from labeldp.accounting.sampled_wtd_flag import affordable_bags, affordable_delta, scaled
from labeldp.accounting.smallest import smallest_integer
from labeldp.errors import InputError, PlanError, at_least, in_range, ordered, positive

Reals = npt.NDArray[np.float64]

MOST_BAG_SIZE = 10**9
_MOST_EPSILON = 1e5
_ROUNDING = 1e-12  # relative, of a sum of 1e9 squares and a root


@dataclass(frozen=True)
class Facts:
    """What is public: bags of `bag_size` rows, labels in `label_range`, noise N(0, noise_std²).

    noisy_fraction: ρ, the part of the rows whose labels carry noise.
    rows: n, or None for the limit of many rows.
    """

    bag_size: int
    label_range: tuple[float, float]
    noisy_fraction: float
    noise_std: float = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        at_least(1, bag_size=self.bag_size)
        ordered(*self.label_range, name="label_range")
        positive(noise_std=self.noise_std, noisy_fraction=self.noisy_fraction)
        if self.noisy_fraction > 1.0:
            raise InputError(f"noisy_fraction must be at most 1, not {self.noisy_fraction}")
        if self.bag_size > min(self.rows or MOST_BAG_SIZE, MOST_BAG_SIZE):
            raise InputError(
                f"bag_size {self.bag_size:,} is above the {self.rows or MOST_BAG_SIZE:,} rows "
                "there may be; ask for smaller bags"
            )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def noisy_rows(self) -> int | None:
        """⌊ρn⌋, None if n is unknown."""
        return None if self.rows is None else math.floor(exact(self.noisy_fraction) * self.rows)


def realised_mu(
    weights: npt.ArrayLike, noisy: npt.ArrayLike, width: float, noise_std: float
) -> Reals:
    """The largest μ_i of every bag, rounded up; inf for a bag without noise.

    `weights` and the mask `noisy` have one row per bag and one column per row in it.
    """
    positive(width=width, noise_std=noise_std)
    w, mask = np.atleast_2d(np.asarray(weights, float)), np.atleast_2d(np.asarray(noisy))
    if w.shape != mask.shape or mask.dtype != np.bool_:
        raise InputError(
            f"noisy must be a mask of the shape of weights, {w.shape}, "
            f"not {mask.dtype} of {mask.shape}"
        )
    if not np.isfinite(w).all():
        raise InputError("weights must be finite numbers; draw them again")
    noise = np.sqrt(np.square(w).sum(axis=1, where=mask))
    largest = np.abs(w).max(axis=1, initial=0.0)
    mu = np.full(len(w), np.inf)
    np.divide(largest, noise, out=mu, where=noise > 0.0)
    return np.asarray(mu * (width / noise_std) * (1.0 + _ROUNDING))


def realised_delta(mu: npt.ArrayLike, epsilon: float, chance: float = 1.0) -> float:
    """δ(ε) of bags with these μ: one label is in one bag, so that of the largest."""
    largest = float(np.max(np.asarray(mu, float)))
    if not largest < math.inf:
        return scaled(NO_GUARANTEE, chance).upper
    value = gaussian.upper(epsilon, largest)
    return scaled(Bounds(value, value, value), chance).upper


def realised_epsilon(mu: npt.ArrayLike, delta: float, chance: float = 1.0) -> float:
    """The smallest ε at this δ; inf if a bag has no noise."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)
    if given >= 1.0:
        return 0.0
    largest = float(np.max(np.asarray(mu, float)))
    return gaussian.epsilon(given, largest) if largest < math.inf else math.inf


def target_mu(epsilon: float, delta: float, chance: float = 1.0) -> float:
    """The largest μ that is (ε, δ)-DP: bags above it are redrawn. inf if any is."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)
    return gaussian.mu(epsilon, given) if given < 1.0 else math.inf


def delta(facts: Facts, epsilon: float, chance: float = 1.0) -> Bounds:
    """δ(ε) before any draw, for the worse kind of row."""
    at_least(0.0, epsilon=epsilon)
    return scaled(max(_kinds(facts, epsilon), key=lambda bounds: bounds.upper), chance)


def epsilon(facts: Facts, delta: float, chance: float = 1.0) -> float:
    """The smallest ε whose certified δ is at most `delta`; inf if there is none."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)
    if given >= 1.0:
        return 0.0

    def gap(e: float) -> float:
        return math.log(max(1e-300, _upper(facts, e)) / given)

    if gap(0.0) <= 0.0:
        return 0.0
    high = 1.0
    while gap(high) > 0.0:
        high *= 2.0
        if high > _MOST_EPSILON:
            return math.inf
    guess = search.root(gap, 0.0 if high == 1.0 else 0.5 * high, high, high)
    return search.smallest_real(lambda e: _upper(facts, e) <= given, guess, _MOST_EPSILON)


def min_bag_size(
    label_range: tuple[float, float],
    noisy_fraction: float,
    epsilon: float,
    delta: float,
    noise_std: float = 1.0,
    rows: int | None = None,
) -> int:
    """The smallest k that is (ε, δ)-label-DP given that the row is in a bag.

    More rows hold more noisy rows, and δ falls with their number: every larger k passes.
    """
    in_range(0.0, 1.0, delta=delta)
    facts = Facts(1, label_range, noisy_fraction, noise_std, rows)

    def passes(bag_size: int) -> bool:
        return _upper(replace(facts, bag_size=bag_size), epsilon) <= delta

    cap = min(rows or MOST_BAG_SIZE, MOST_BAG_SIZE)
    first = min(cap, 2 + round(16.0 / noisy_fraction))
    found = smallest_integer(passes, 1, first, cap)
    if found is None:
        raise PlanError(
            f"no bag of up to {cap:,} rows has epsilon {epsilon}, delta {delta}; "
            "add more noise or make more rows noisy"
        )
    return found


def min_noise_std(facts: Facts, epsilon: float, delta: float, chance: float = 1.0) -> float:
    """The smallest noise deviation s that is (ε, δ)-label-DP; the one in `facts` is not used."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)

    def upper(log_ratio: float) -> float:  # of s to Δ
        return _upper(replace(facts, noise_std=facts.width * math.exp(log_ratio)), epsilon)

    if given >= 1.0:
        return 0.0
    if upper(_MOST_LOG) > given:
        raise PlanError(
            f"with probability {upper(_MOST_LOG):.3g} a bag of {facts.bag_size:,} rows holds no "
            "noisy row, whatever the noise; make bags larger or more rows noisy"
        )
    guess = search.root(lambda s: math.log(upper(s) / given), -_MOST_LOG, _MOST_LOG, 1.0)
    return search.smallest_real(
        lambda s: _upper(replace(facts, noise_std=s), epsilon) <= given,
        facts.width * math.exp(guess),
        facts.width * math.exp(_MOST_LOG),
    )


def min_noisy_fraction(facts: Facts, epsilon: float, delta: float, chance: float = 1.0) -> float:
    """The smallest ρ that is (ε, δ)-label-DP; the one in `facts` is not used."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)

    def passes(fraction: float) -> bool:
        return _upper(replace(facts, noisy_fraction=fraction), epsilon) <= given

    if not passes(1.0):
        raise PlanError(
            f"bags of {facts.bag_size:,} rows are not private at epsilon {epsilon}, delta {delta} "
            "even if every row is noisy; make bags larger or add more noise"
        )
    if facts.rows is not None:
        rows = facts.rows
        count = smallest_integer(lambda r: passes(_fraction(r, rows)), 1, 2, rows)
        return _fraction(count or rows, rows)
    if not passes(1.0 - 1e-12):
        return 1.0
    low, high = 1e-300, 1.0  # bisection on a log scale to 1e-9
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def max_bags(facts: Facts, epsilon: float, delta: float) -> int:
    """The most disjoint bags of `facts.rows` rows that are (ε, δ)-label-DP over the draw."""
    in_range(0.0, 1.0, delta=delta)
    if facts.rows is None:
        raise InputError("max_bags needs facts.rows: the chance mk/n depends on it")
    return affordable_bags(facts.rows, facts.bag_size, _upper(facts, epsilon), delta)


_MOST_LOG = 30.0  # of the ratio of s to Δ


def _upper(facts: Facts, epsilon: float) -> float:
    return max(bounds.upper for bounds in _kinds(facts, epsilon))


def _kinds(facts: Facts, epsilon: float) -> list[Bounds]:
    """δ of a row without noise and of one with, those that exist.

    If the other rows are noisy by their own coins, a row without noise is never the better
    off: the others are the same and its own noise is missing.
    """
    scale, others = facts.width / facts.noise_std, facts.bag_size - 1
    if facts.rows is None:
        counts = random_mu.binomial(others, facts.noisy_fraction)
        return [random_mu.mean_delta(scale, epsilon, counts, facts.noisy_fraction == 1.0)]
    noisy, population, found = facts.noisy_rows or 0, facts.rows - 1, []
    if noisy < facts.rows:
        counts = random_mu.hypergeometric(others, noisy, population)
        found.append(random_mu.mean_delta(scale, epsilon, counts, False))
    if noisy > 0:
        counts = random_mu.hypergeometric(others, noisy - 1, population)
        found.append(random_mu.mean_delta(scale, epsilon, counts, True))
    return found


def _fraction(count: int, rows: int) -> float:
    """A number ρ with ⌊ρ·rows⌋ = count."""
    fraction = count / rows
    while math.floor(exact(fraction) * rows) < count:
        fraction = math.nextafter(fraction, 2.0)
    return min(1.0, fraction)
