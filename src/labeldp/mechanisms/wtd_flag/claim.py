"""What wtd-FLAg promises: m aggregates of all rows over one residual floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting import ACCOUNTANTS, Curve, Facts
from labeldp.mechanisms.floors import FloorClaim, read_floor
from labeldp.mechanisms.forecast import relative_excess
from labeldp.release import read_head

BASIS = {
    "exact": "exact law of the privacy loss given the features' largest leverage; "
    "supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss for any features; supremum over neighbours "
    "certified",
    "paper": "Theorem 1 of 'Label Differential Privacy via Aggregation'",
}


@dataclass(frozen=True)
class WeightedFlagClaim(FloorClaim):
    """`bags` aggregates of a table whose residual sum of squares is at least `floor`."""

    mechanism: ClassVar[str] = "wtd-flag"

    compact: bool = False
    """Published as d+1 rows that carry all that the aggregates do (theory §8)."""

    @property
    def law(self) -> Curve:
        return ACCOUNTANTS[self.accountant](self.facts, self.bags, self.floor, self.measurement)

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares of the fit with all labels, "
            "plus floor.added_variance",
            **relative_excess(self.facts.features or 0, self.bags),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(BASIS[self.accountant]),
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
