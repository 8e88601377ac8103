"""How many bags, and the floor they need, from public facts alone (theory §6).

As bags are added the forecast error first falls like 1/m; once the needed floor exceeds the
data's own residual it falls more slowly or levels off. So the number need not know the
residual: take the largest the file may hold, and stop where more are no longer worth it. A compact
release has d+1 rows whatever their number (theory §8), so there the largest is taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from labeldp.accounting.accountants import ACCOUNTANTS
from labeldp.accounting.bounds import Answer
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.limits import MOST_PUBLISHED_BAGS
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.sketch import DatasetBounds
from labeldp.accounting.theorems import Theorem1
from labeldp.errors import PlanError
from labeldp.mechanisms.forecast import mean_excess
from labeldp.mechanisms.options import fitting_aggregates

if TYPE_CHECKING:  # an account reads no data
    from labeldp.mechanisms.residual_floor import FloorParameters

GROWTH = 4
WORTHWHILE = 4e-3
"""Four times the bags must lower the forecast error by this share to be worth the file."""


def cap_from_size(megabytes: float, columns: int) -> int:
    """The most bags a file of this size can hold."""
    return min(MOST_PUBLISHED_BAGS, fitting_aggregates(megabytes, columns))


def check_number(bags: int) -> None:
    """Refuse more aggregates than anyone could use."""
    if bags > MOST_PUBLISHED_BAGS:
        raise PlanError(
            f"{bags:,} aggregates are too many; ask for {MOST_PUBLISHED_BAGS:,} at most (`bags`)"
        )


def needed_floor(terms: FloorParameters, bags: int, *, certified: bool = True) -> float:
    """The residual sum of squares, data's own and added, that this many bags need."""
    law = _law(terms, bags, 1.0)
    return calibrate(law, "floor", terms.epsilon, terms.delta, certified=certified)


def _law(terms: FloorParameters, bags: int, floor: float) -> PrivacyProfile:
    """The accountant's, for as many labels at once as a person may have."""
    law = ACCOUNTANTS[terms.accountant](terms.facts, bags, floor, terms.measurement)
    return law if terms.labels == 1 else law.group(terms.labels)


def max_bags(
    accountant: str, facts: DatasetBounds, floor: float, epsilon: float, delta: float
) -> Answer:
    """The most bags that a floor carries, and why there are none if there are none."""
    if accountant == "paper":
        promise = Theorem1(facts.rows, facts.label_range, floor / facts.rows)
        return promise.max_bags(epsilon, delta)
    law = ACCOUNTANTS[accountant](facts, 1, floor, None)
    bags = calibrate(law, "bags", epsilon, delta)
    return Answer(bags, "" if bags else _too_little(facts, floor, epsilon, delta))


def _too_little(facts: DatasetBounds, floor: float, epsilon: float, delta: float) -> str:
    return (
        f"one label can move the residual norm by {facts.width:g}, and the floor on that norm is "
        f"{math.sqrt(floor):g}: not even one bag has ε = {epsilon:g}, δ = {delta:g}"
    )


def _carried(terms: FloorParameters) -> int:
    """The most bags that the residual guessed carries without added noise."""
    floor = terms.facts.rows * terms.residual_ms
    if terms.measurement is not None:
        # measuring loses a quantile to the bound and may lose it once more to chance
        once = terms.measurement.lower_bound(floor**0.5, 0.0, terms.facts.width)
        floor = terms.measurement.lower_bound(once, 0.0, terms.facts.width) ** 2
    if floor == 0.0:
        return 0
    return int(calibrate(_law(terms, 1, floor), "bags", terms.epsilon, terms.delta))


def _expected_error(terms: FloorParameters, bags: int) -> float:
    """The mean squared error of a fit if the residual mean square is as guessed."""
    needed = needed_floor(terms, bags, certified=False)  # the floor chosen is certified
    noise = terms.added(needed, terms.facts.rows) / terms.facts.rows
    return terms.residual_ms + (terms.residual_ms + noise) * mean_excess(terms.rank, bags)


def choose_bags(terms: FloorParameters, megabytes: float, *, compact: bool = False) -> int:
    """The number of bags at which more stop paying, or the file would exceed its size."""
    smallest = terms.rank + 2
    cap = MOST_PUBLISHED_BAGS if compact else cap_from_size(megabytes, terms.rank)
    if cap < smallest:
        raise PlanError(
            f"a file of this size holds {cap} aggregates, but a fit of {terms.rank} columns needs "
            f"at least {smallest}; raise `max_megabytes` or drop columns"
        )
    if not terms.mode.adds:
        cap = min(cap, _carried(terms))
    if cap < smallest:
        raise PlanError(
            f"the budget allows {cap} aggregates under this floor, but a fit of {terms.rank} "
            f"columns needs at least {smallest}; raise ε or δ, use `floor='measured+added'`, or "
            "drop columns"
        )
    if compact:
        return cap
    bags = min(cap, 8 * (terms.rank + 1))
    current = _expected_error(terms, bags)
    while bags < cap:
        more = min(cap, GROWTH * bags)
        following = _expected_error(terms, more)
        if current - following < WORTHWHILE * current * (more / bags - 1) / (GROWTH - 1):
            break
        bags, current = more, following
    return bags
