"""How many bags, from public facts alone (theory §6).

The forecast error never rises with the number of bags: below the crossing of the needed
floor with the data's own residual it falls like 1/m, above it levels off or keeps
falling. So the number need not know the residual: take the largest the file may hold,
and stop where more are no longer worth the space.
"""

from __future__ import annotations

from labeldp.accounting import Accountant, Facts, FloorMode, Measurement
from labeldp.errors import PlanError
from labeldp.utility import mean_excess

GROWTH = 4
WORTHWHILE = 4e-3
"""Four times the bags must lower the forecast error by this share to be worth the file."""
MOST_BAGS = 10_000_000
_BYTES = 8


def cap_from_size(megabytes: float, columns: int) -> int:
    """The most bags a file of this size can hold."""
    return min(MOST_BAGS, int(megabytes * 1e6 / (_BYTES * (columns + 1))))


def expected_added_variance(
    mode: FloorMode,
    measurement: Measurement | None,
    needed: float,
    residual_ss: float,
    width: float,
) -> float:
    """What the run would add to labels if the residual sum of squares were `residual_ss`."""
    if mode is FloorMode.ADDED:
        return needed
    if mode is not FloorMode.MEASURED_ADDED or measurement is None:
        return 0.0
    shown = measurement.lower_bound(residual_ss**0.5, 0.0, width)
    return max(0.0, needed - shown**2)


def choose_bags(
    accountant: Accountant,
    facts: Facts,
    mode: FloorMode,
    measurement: Measurement | None,
    *,
    epsilon: float,
    delta: float,
    residual_ms: float,
    cap: int,
) -> int:
    """The number of bags at which more stop paying, at most `cap`.

    `residual_ms` is a promise (declared floor), else a guess that affects utility only.
    """
    rank = facts.features or 0
    smallest = rank + 2
    if cap < smallest:
        raise PlanError(
            f"a file of this size holds {cap} bags, but a fit of {rank} columns needs at least "
            f"{smallest}; raise --max-megabytes or drop columns"
        )
    if mode in (FloorMode.DECLARED, FloorMode.MEASURED):
        cap = min(
            cap, _supported(accountant, facts, mode, measurement, epsilon, delta, residual_ms)
        )
    if cap < smallest:
        raise PlanError(
            f"the budget allows {cap} bags under this floor, but a fit of {rank} columns needs at "
            f"least {smallest}; raise ε or δ, use --floor measured+added, or drop columns"
        )

    def error(bags: int) -> float:
        needed = accountant.min_floor(facts, bags, epsilon, delta, measurement)
        total = facts.rows * residual_ms
        if mode in (FloorMode.ADDED, FloorMode.MEASURED_ADDED):
            total += expected_added_variance(mode, measurement, needed, total, facts.width)
        return residual_ms + total / facts.rows * mean_excess(rank, bags)

    bags = min(cap, 8 * (rank + 1))
    current = error(bags)
    while bags < cap:
        more = min(cap, GROWTH * bags)
        following = error(more)
        if current - following < WORTHWHILE * current * (more / bags - 1) / (GROWTH - 1):
            break
        bags, current = more, following
    return bags


def _supported(
    accountant: Accountant,
    facts: Facts,
    mode: FloorMode,
    measurement: Measurement | None,
    epsilon: float,
    delta: float,
    residual_ms: float,
) -> int:
    """The most bags that the floor carries without added noise."""
    floor = facts.rows * residual_ms
    if mode is FloorMode.MEASURED and measurement is not None:
        # the measurement loses its quantile once to the bound and may lose it again to chance
        once = measurement.lower_bound(floor**0.5, 0.0, facts.width)
        floor = measurement.lower_bound(once, 0.0, facts.width) ** 2
        if floor == 0.0:
            return 0
    return accountant.max_bags(facts, floor, epsilon, delta, measurement).bags
