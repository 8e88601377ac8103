"""What wtd-FLAg promises: m aggregates of all rows over one residual floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting import ACCOUNTANTS, Facts
from labeldp.mechanisms.floors import FloorClaim, read_floor
from labeldp.mechanisms.forecast import relative_excess
from labeldp.release import read_head


@dataclass(frozen=True)
class WeightedFlagClaim(FloorClaim):
    """`bags` aggregates of a table whose residual sum of squares is at least `floor`."""

    mechanism: ClassVar[str] = "wtd-flag"

    compact: bool = False
    """Published as d+1 rows that carry all that the aggregates do (theory §8)."""

    def delta_at(self, epsilon: float, group: int = 1) -> float:
        method = ACCOUNTANTS[self.accountant]
        return method.delta(self.facts, self.bags, self.floor, epsilon, self.measurement, group)

    def epsilon_for(self, group: int) -> float | None:
        method = ACCOUNTANTS[self.accountant]
        return method.epsilon(
            self.facts, self.bags, self.floor, self.delta, self.measurement, group
        )

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares of the fit with all labels, "
            "plus floor.added_variance",
            **relative_excess(self.facts.features or 0, self.bags),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(ACCOUNTANTS[self.accountant].basis),
            "form": "compact" if self.compact else "rows",
            "bag_size": self.facts.rows,
            "rows": self.facts.rows,
            "rank": self.facts.features,
            "label_range": list(self.facts.label_range),
            "label_width": self.facts.width,
            "max_leverage": self.facts.max_leverage,
            "constant_in_span": self.facts.centred,
            "floor": self.floor_json("the residual sum of squares"),
            "inflation": self.facts.inflation,
            "draw": None,
            "noise": None,
        }


def read_claim(document: dict[str, Any]) -> WeightedFlagClaim:
    """The inverse of `to_json`."""
    floor, mode, measurement = read_floor(document)
    low, high = document["label_range"]
    return WeightedFlagClaim(
        **read_head(document),
        floor=floor,
        mode=mode,
        measurement=measurement,
        facts=Facts(
            rows=int(document["rows"]),
            label_range=(float(low), float(high)),
            features=int(document["rank"]),
            max_leverage=document["max_leverage"],
            centred=bool(document["constant_in_span"]),
            inflation=float(document["inflation"]),
        ),
        compact=document["form"] == "compact",
    )
