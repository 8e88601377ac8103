"""What sampled-wtd-FLAg costs: one aggregate from each of m disjoint bags of k rows (theory §4).

The bags are drawn without looking at the labels and are published. Given them, one label
touches one bag, and that bag is wtd-FLAg with a single aggregate, k rows, that bag's leverages
and residual: the accountant is `wtd_flag` with bags = 1 and these facts,

    rows           k, the size of a bag (not of the table)
    features       the largest rank of a bag's features
    max_leverage   the largest leverage of a row within its bag, over all bags drawn

and a floor that every bag's residual sum of squares reaches. As the bags are published, δ over
the draw as well is the mean of δ given the bags: `chance` = mk/n times it, the chance that the
row is in a bag at all. A chance of 1 is the answer given the bags.

`delta`, `epsilon`, `min_floor`, `max_bags` and `min_bag_size` are inverse to each other and err
on the private side: whatever they return has been checked with the certified `Bounds.upper`.
`measurement` and `slack` price a floor that was measured (theory §6): the smallest bag residual
moves by at most Δ too.
"""

from __future__ import annotations

import math
from fractions import Fraction

from labeldp.accounting import search, wtd_flag
from labeldp.accounting.bounds import Bounds
from labeldp.accounting.family import SketchFamily
from labeldp.accounting.smallest import smallest_integer
from labeldp.accounting.wtd_flag import Facts
from labeldp.errors import InputError, PlanError, at_least, in_range, positive

MOST_BAG_SIZE = 10**12
_MOST_EPSILON = 1e6


def membership(rows: int, bags: int, bag_size: int) -> float:
    """mk/n, rounded up: the chance that a given row is in some bag."""
    at_least(1, rows=rows, bags=bags, bag_size=bag_size)
    if bags * bag_size > rows:
        raise InputError(
            f"{bags:,} disjoint bags of {bag_size:,} rows need {bags * bag_size:,} rows and the "
            f"table has {rows:,}; ask for fewer or smaller bags"
        )
    chance = Fraction(bags * bag_size, rows)
    return 1.0 if chance == 1 else math.nextafter(float(chance), 1.0)


def spans_labels(bag_size: int, features: int) -> str:
    """Why bags of so few rows have no privacy whatever, or nothing if they may have some.

    With k ≤ d independent features the labels lie in the column space: an aggregate of
    features tells the aggregate label of D for certain, and that of D' differs.
    """
    if bag_size > features:
        return ""
    return (
        f"bags of {bag_size:,} rows with {features:,} independent features determine their labels: "
        f"no ε, no δ below 1; bags need more than {features:,} rows, or added noise as their floor"
    )


def delta(
    facts: Facts,
    floor: float,
    epsilon: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    group: int = 1,
    chance: float = 1.0,
) -> Bounds:
    """δ(ε) when every bag's residual sum of squares is at least `floor`.

    `group` labels changing at once may lie in one bag or in several. Bags are independent, so
    p1 + p2 + … labels in several bags cost at most δ(p1; ε1) + δ(p2; ε2) + … with
    ε1 + ε2 + … = ε, here in proportion to p; and one of them is in a bag with at most
    `group` times the chance. (Several bags can cost more than one: at small ε they do.)
    """
    _check_chance(chance)
    if group == 1:
        given = wtd_flag.delta(facts, 1, floor, epsilon, measurement, slack)
    else:
        given = _spread(facts, floor, epsilon, measurement, group).plus(slack)
    return scaled(given, min(1.0, group * chance))


def epsilon(
    facts: Facts,
    floor: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    group: int = 1,
    chance: float = 1.0,
) -> float:
    """The smallest ε whose certified δ is at most `delta`; inf if there is none."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, min(1.0, group * chance))
    if given >= 1.0:
        return 0.0
    if group == 1:
        return wtd_flag.epsilon(facts, 1, floor, given, measurement, slack)

    def passes(e: float) -> bool:
        return _spread(facts, floor, e, measurement, group).plus(slack).upper <= given

    def gap(e: float) -> float:
        near = _spread(facts, floor, e, measurement, group, certified=False).plus(slack)
        return math.log(max(1e-300, near.upper) / given)

    if gap(_MOST_EPSILON) > 0.0:
        return math.inf
    guess = search.root(gap, 0.0, _MOST_EPSILON, 1.0)
    return search.smallest_real(passes, guess, _MOST_EPSILON)


def min_floor(
    facts: Facts,
    epsilon: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
    chance: float = 1.0,
) -> float:
    """The smallest floor on every bag's residual sum of squares that is (ε, δ)-label-DP."""
    in_range(0.0, 1.0, delta=delta)
    given = affordable_delta(delta, chance)
    if given >= 1.0:
        return 0.0
    return wtd_flag.min_floor(facts, 1, epsilon, given, measurement, slack)


def max_bags(
    facts: Facts,
    rows: int,
    floor: float,
    epsilon: float,
    delta: float,
    measurement: float = 0.0,
    slack: float = 0.0,
) -> int:
    """The most disjoint bags of `facts.rows` of `rows` rows within (ε, δ) over the draw.

    All that fit if one bag is private given the draw; else as few as make (mk/n)·δ small.
    """
    in_range(0.0, 1.0, delta=delta)
    at_least(1, rows=rows)
    given = wtd_flag.delta(facts, 1, floor, epsilon, measurement, slack).upper
    return affordable_bags(rows, facts.rows, given, delta)


def affordable_bags(rows: int, bag_size: int, given: float, delta: float) -> int:
    """The most bags m with (mk/n)·given ≤ `delta`, and mk ≤ n."""
    fitting = rows // bag_size
    if given <= delta:
        return fitting
    return search.largest_integer(
        lambda bags: _up(given * membership(rows, bags, bag_size)) <= delta,
        math.floor(Fraction(delta) * rows / (bag_size * Fraction(given))),
        fitting,
    )


def min_bag_size(
    label_range: tuple[float, float],
    residual_ms: float,
    epsilon: float,
    delta: float,
    features: int | None = None,
    leverage_factor: float | None = None,
    centred: bool = True,
    inflation: float = 0.0,
    measurement: float = 0.0,
    slack: float = 0.0,
) -> int:
    """The smallest k at which a bag of residual sum of squares ≥ `residual_ms`·k is private.

    Given the bags. With `leverage_factor` no row has more than that many times the average
    leverage d/k of its bag. Every larger k is private as well: τ = Δ/√(γk) and h = c/k fall
    with k. So does the largest cosine, the maximum over h ≤ c/k of
    min{(B/√γ)·cos θ cos(θ−φ), cos θ} with h = sin²θ, cos φ = 1/√k (`residual_cosine`): a larger
    k leaves fewer h to choose from and a larger φ, and θ ≤ φ/2 where the maximum is. And δ
    grows with all three (theory §3c).
    """
    positive(residual_ms=residual_ms)
    in_range(0.0, 1.0, delta=delta)
    if leverage_factor is not None:
        if features is None:
            raise InputError("leverage_factor is a multiple of features/bag_size: give features")
        at_least(1.0, leverage_factor=leverage_factor)

    def family(bag_size: int) -> SketchFamily:
        leverage = None
        if features is not None and leverage_factor is not None:
            leverage = min(1.0, leverage_factor * features / bag_size)
        facts = Facts(bag_size, label_range, features, leverage, centred, inflation)
        return facts.family(1, residual_ms * bag_size * (1.0 - 1e-15))

    def quick(bag_size: int) -> bool:  # never refuses a bag that passes
        return family(bag_size).guess(epsilon, measurement).plus(slack).upper <= delta

    def passes(bag_size: int) -> bool:
        return family(bag_size).delta(epsilon, measurement).plus(slack).upper <= delta

    lowest = (features or 0) + 1
    first = round(4.0 * (label_range[1] - label_range[0]) ** 2 / residual_ms) + 1
    found = smallest_integer(quick, lowest, first, MOST_BAG_SIZE)
    if found is not None:
        found = smallest_integer(passes, found, found + 1, MOST_BAG_SIZE)
    if found is None:
        raise PlanError(
            f"no bag size makes a bag private at epsilon {epsilon}, delta {delta}; "
            "a measured floor alone may spend them"
        )
    return found


def _spread(
    facts: Facts,
    floor: float,
    epsilon: float,
    measurement: float,
    group: int,
    *,
    certified: bool = True,
) -> Bounds:
    """δ of `group` labels in the costliest partition into bags; `lower` has all in one bag.

    A partition's cost is a sum over its parts, so the costliest is found part by part. Without
    the certificate of each part's supremum it is a fast guess.
    """
    at_least(1, group=group)
    largest = min(group, facts.rows)

    def part(size: int) -> Bounds:
        share = epsilon * size / group
        if certified:
            return wtd_flag.delta(facts, 1, floor, share, measurement, 0.0, size)
        return facts.family(1, floor, size).guess(share, math.sqrt(size) * measurement)

    parts = [part(size) for size in range(1, largest + 1)]
    dearest = [0.0]
    for labels in range(1, group + 1):
        sizes = range(1, min(labels, largest) + 1)
        dearest.append(max(_up(parts[p - 1].upper + dearest[labels - p]) for p in sizes))
    upper = min(1.0, dearest[group])
    together = parts[-1] if largest == group else Bounds(0.0, 0.0, 1.0)
    return Bounds(together.lower, upper, upper)


def scaled(bounds: Bounds, chance: float) -> Bounds:
    """δ over the draw from δ given the draw."""
    _check_chance(chance)
    if chance == 1.0:
        return bounds
    return Bounds(bounds.lower * chance, bounds.estimate * chance, _up(bounds.upper * chance))


def affordable_delta(delta: float, chance: float) -> float:
    """The largest δ a bag may have given the draw: its product with `chance` passes."""
    _check_chance(chance)
    if chance <= delta:
        return 1.0
    if chance == 1.0:
        return delta
    given = delta / chance
    while _up(given * chance) > delta:
        given = math.nextafter(given, 0.0)
    return given


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _check_chance(chance: float) -> None:
    if not 0.0 < chance <= 1.0:
        raise InputError(f"chance must lie above 0 and not above 1, not {chance}")
