"""How many bags, and the floor they need, from public facts alone (theory §6).

As bags are added the forecast error first falls like 1/m; once the needed floor exceeds the
data's own residual it falls more slowly or levels off. So the number need not know the
residual: take the largest the file may hold, and stop where more are no longer worth it.
"""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.accounting import Accountant, Facts, FloorMode, Measurement
from labeldp.errors import PlanError
from labeldp.mechanisms.forecast import mean_excess

GROWTH = 4
WORTHWHILE = 4e-3
"""Four times the bags must lower the forecast error by this share to be worth the file."""
MOST_BAGS = 10_000_000
_BYTES = 8


def cap_from_size(megabytes: float, columns: int) -> int:
    """The most bags a file of this size can hold."""
    return min(MOST_BAGS, int(megabytes * 1e6 / (_BYTES * (columns + 1))))


def check_number(bags: int) -> None:
    """Refuse more aggregates than anyone could use."""
    if bags > MOST_BAGS:
        raise PlanError(f"{bags:,} bags are too many; ask for {MOST_BAGS:,} at most")


@dataclass(frozen=True)
class Terms:
    """What prices a number of bags: facts, budget, accountant, and where the floor comes from."""

    facts: Facts
    epsilon: float
    delta: float
    accountant: Accountant
    mode: FloorMode
    measurement: Measurement | None

    @property
    def rank(self) -> int:
        return self.facts.features or 0

    def needed_floor(self, bags: int) -> float:
        """The residual sum of squares, data's own and added, that this many bags need."""
        return self.accountant.min_floor(
            self.facts, bags, self.epsilon, self.delta, self.measurement
        )

    def expected_noise(self, needed: float, residual_ms: float) -> float:
        """The variance a run would add if the residual mean square were `residual_ms`."""
        if self.mode is FloorMode.ADDED:
            return needed
        if self.mode is not FloorMode.MEASURED_ADDED or self.measurement is None:
            return 0.0
        root = (residual_ms * self.facts.rows) ** 0.5
        shown = self.measurement.lower_bound(root, 0.0, self.facts.width)
        return max(0.0, needed - shown**2)

    def expected_error(self, bags: int, residual_ms: float) -> float:
        """The mean squared error of a fit if the residual mean square were `residual_ms`."""
        noise = self.expected_noise(self.needed_floor(bags), residual_ms) / self.facts.rows
        return residual_ms + (residual_ms + noise) * mean_excess(self.rank, bags)

    def most_bags(self, residual_ms: float) -> int:
        """The most bags that a residual mean square carries without added noise."""
        floor = self.facts.rows * residual_ms
        if self.measurement is not None:
            # measuring loses a quantile to the bound and may lose it once more to chance
            once = self.measurement.lower_bound(floor**0.5, 0.0, self.facts.width)
            floor = self.measurement.lower_bound(once, 0.0, self.facts.width) ** 2
        if floor == 0.0:
            return 0
        answer = self.accountant.max_bags(
            self.facts, floor, self.epsilon, self.delta, self.measurement
        )
        return answer.bags


def choose_bags(terms: Terms, residual_ms: float, cap: int) -> int:
    """The number of bags at which more stop paying, at most `cap`.

    `residual_ms` is a promise if the floor is declared, else a guess that affects utility only.
    """
    smallest = terms.rank + 2
    if cap < smallest:
        raise PlanError(
            f"a file of this size holds {cap} bags, but a fit of {terms.rank} columns needs at "
            f"least {smallest}; raise --max-megabytes or drop columns"
        )
    if not terms.mode.adds:
        cap = min(cap, terms.most_bags(residual_ms))
    if cap < smallest:
        raise PlanError(
            f"the budget allows {cap} bags under this floor, but a fit of {terms.rank} columns "
            f"needs at least {smallest}; raise ε or δ, use --floor measured+added, or drop columns"
        )
    bags = min(cap, 8 * (terms.rank + 1))
    current = terms.expected_error(bags, residual_ms)
    while bags < cap:
        more = min(cap, GROWTH * bags)
        following = terms.expected_error(more, residual_ms)
        if current - following < WORTHWHILE * current * (more / bags - 1) / (GROWTH - 1):
            break
        bags, current = more, following
    return bags
