"""How large bags should be, before any is drawn: a guess that affects utility, never privacy.

m = n/k bags of k rows have an excess of (γ + s²/k)·d/(m−d−1): larger bags need less noise per
row, and there are fewer of them. The best are about as large as carries the floor they need.
"""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.accounting import Facts, FloorMode, Measurement, sampled_wtd_flag
from labeldp.errors import PlanError
from labeldp.mechanisms.forecast import mean_excess
from labeldp.mechanisms.sampled_wtd_flag.claim import measured_price

_STEP = 2**0.5
_TYPICAL = 2.0
"""A bag's largest leverage is guessed at this many times n/k of the table's."""


@dataclass(frozen=True)
class Sizes:
    """What decides the size of bags."""

    facts: Facts
    """Of the whole table."""
    epsilon: float
    delta: float
    uses_features: bool
    mode: FloorMode
    measurement: Measurement | None
    residual_ms: float
    over_draw: bool
    wanted: int | None
    """The number of bags asked for."""
    most_bags: int

    @property
    def rank(self) -> int:
        return self.facts.features or 0

    def bags(self, bag_size: int) -> int:
        """As many as were asked for, or as there are rows for and the file may hold."""
        return self.wanted or min(self.most_bags, self.facts.rows // bag_size)

    def floor(self, bag_size: int) -> float:
        """About what bags of this size will need."""
        share = _TYPICAL * (self.facts.max_leverage or 1.0) * self.facts.rows / bag_size
        known = share < 1.0 and self.uses_features
        facts = Facts(
            bag_size,
            self.facts.label_range,
            self.rank,
            share if known else None,
            self.facts.centred,
            self.facts.inflation,
        )
        bags = self.bags(bag_size)
        chance = 1.0
        if self.over_draw:
            chance = sampled_wtd_flag.membership(self.facts.rows, bags, bag_size)
        price = measured_price(self.measurement)
        return sampled_wtd_flag.min_floor(facts, self.epsilon, self.delta, *price, chance)

    def added(self, needed: float, bag_size: int) -> float:
        """The variance a run would add to bags whose residual mean square is the guess."""
        if self.mode is FloorMode.ADDED:
            return needed
        shown = self.shown(bag_size)
        return max(0.0, needed - shown) if self.mode.adds else 0.0

    def shown(self, bag_size: int) -> float:
        """The residual sum of squares that a bag can be shown to have, if the guess is right."""
        residual = self.residual_ms * bag_size
        if self.measurement is None:
            return residual
        return self.measurement.lower_bound(residual**0.5, 0.0, self.facts.width) ** 2

    def error(self, bag_size: int) -> float:
        """The forecast mean squared error; infinite where bags are too few or not private."""
        needed = self.floor(bag_size)
        if not self.mode.adds and self.shown(bag_size) < needed:
            return float("inf")
        noise = self.residual_ms + self.added(needed, bag_size) / bag_size
        return self.residual_ms + noise * mean_excess(self.rank, self.bags(bag_size))


def choose_bag_size(sizes: Sizes) -> int:
    """The size with the smallest forecast error."""
    rows, rank = sizes.facts.rows, sizes.rank
    candidates, size = [], float(2 * (rank + 1))
    while rows // int(size) >= (sizes.wanted or rank + 2):
        candidates.append(int(size))
        size *= _STEP
    best = min(candidates, key=sizes.error, default=None)
    if best is None or sizes.error(best) == float("inf"):
        raise PlanError(
            f"no size of bags gives a private fit of {rank} columns on {rows:,} rows at this "
            "budget; raise ε or δ, use --floor measured+added, or use --mechanism wtd-flag"
        )
    return best
