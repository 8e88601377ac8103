"""How large bags should be, before any is drawn: a guess that affects utility, never privacy.

m = n/k bags of k rows have an excess of (γ + s²/k)·d/(m−d−1): larger bags need less noise per
row, and there are fewer of them. The best are about as large as carries the floor they need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.residual_floor import measurement_cost
from labeldp.accounting.sketch import SketchProfile
from labeldp.accounting.subsampling import SubsampledBagsProfile
from labeldp.errors import PlanError
from labeldp.mechanisms.forecast import bag_sizes, mean_excess
from labeldp.mechanisms.residual_floor import FloorParameters

_STEP = 2**0.5
_TYPICAL = 2.0
"""A bag's largest leverage is guessed at this many times n/k of the table's."""


@dataclass(frozen=True)
class BagSizes:
    """What decides the size of bags."""

    terms: FloorParameters
    over_draw: bool
    wanted: int | None
    """The number of bags asked for."""
    most_bags: int

    def bags(self, bag_size: int) -> int:
        """As many as were asked for, or as there are rows for and the file may hold."""
        return self.wanted or min(self.most_bags, self.terms.facts.rows // bag_size)

    def floor(self, bag_size: int) -> float:
        """About what bags of this size will need."""
        terms, table = self.terms, self.terms.facts
        share = _TYPICAL * (table.max_leverage or 1.0) * table.rows / bag_size
        known = share < 1.0 and terms.accountant == "exact" and not self.over_draw
        facts = replace(table, rows=bag_size, max_leverage=share if known else None)
        mu, slack = measurement_cost(terms.measurement)
        law: PrivacyProfile = SketchProfile(facts, mu=mu, slack=slack)
        if self.over_draw:
            law = SubsampledBagsProfile(law, table.rows, bag_size, self.bags(bag_size))
        return calibrate(law, "floor", terms.epsilon, terms.delta, certified=False)

    def error(self, bag_size: int) -> float:
        """The forecast mean squared error; infinite where bags are too few or not private."""
        terms, needed = self.terms, self.floor(bag_size)
        if not terms.mode.adds and terms.shown(bag_size) < needed:
            return float("inf")
        noise = terms.residual_ms + terms.added(needed, bag_size) / bag_size
        return terms.residual_ms + noise * mean_excess(terms.rank, self.bags(bag_size))


def choose_bag_size(sizes: BagSizes) -> int:
    """The size with the smallest forecast error."""
    rows, rank = sizes.terms.facts.rows, sizes.terms.rank
    candidates = bag_sizes(2 * (rank + 1), _STEP, rows // (sizes.wanted or rank + 2))
    best = min(candidates, key=sizes.error, default=None)
    if best is None or sizes.error(best) == float("inf"):
        raise PlanError(
            f"no size of bags gives a private fit of {rank} columns on {rows:,} rows at this "
            "budget; raise ε or δ, use `floor='measured+added'`, or use `mechanism='wtd-flag'`"
        )
    return best
