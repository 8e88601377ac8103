"""What sampled-wtd-FLAg promises: one aggregate of each bag over a floor that all bags reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labeldp.accounting import Bags, Curve, Facts, Sketch, Theorem2, price
from labeldp.mechanisms.bags import Draw
from labeldp.mechanisms.floors import FloorClaim, read_floor
from labeldp.mechanisms.forecast import relative_excess
from labeldp.release import read_head

BASIS = {
    "exact": "exact law of the privacy loss of one aggregate given the largest leverage of a row "
    "in its bag (over the draw: for any leverage); supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss of one aggregate for any features; supremum "
    "over neighbours certified",
    "paper": "Theorem 2 of 'Label Differential Privacy via Aggregation', its proof mended",
}
THEOREM2_BASIS = (
    "ASSUMPTION: the curator asserts from public knowledge that the smallest eigenvalue of "
    "[X|y]'[X|y] is at least rows times min_eigenvalue; the run checked it, and that it went ahead "
    "is one bit about the labels that is not accounted for"
)


@dataclass(frozen=True)
class Promise:
    """What Theorem 2 asks of the whole table, beside the label range."""

    min_eigenvalue: float
    """λ*: the curator asserts σ_min([X|y])² ≥ nλ*."""
    feature_bound: float
    """B_X: the largest norm of an encoded row, public."""


@dataclass(frozen=True)
class SampledFlagClaim(FloorClaim):
    """`facts` are those of a bag: its size as rows, its largest rank and leverage."""

    mechanism: ClassVar[str] = "sampled-wtd-flag"

    rank: int
    draw: Draw
    promise: Promise | None = None
    """Given if and only if the accountant is "paper"."""

    @property
    def law(self) -> Curve:
        if self.promise is not None:
            return self._theorem2(self.promise)
        return self.draw.over(Bags(Sketch(self.known, 1, self.floor, *price(self.measurement))))

    @property
    def expected_floor(self) -> float:
        """kλ*, the residual of a typical bag under Theorem 2's promise: it sets the grid."""
        return self.draw.bag_size * self.promise.min_eigenvalue if self.promise else self.floor

    @property
    def known(self) -> Facts:
        """The facts that the accountant may use: over the draw, only those of every draw."""
        if self.accountant == "exact" and not self.draw.over_draw:
            return self.facts
        return replace(self.facts, max_leverage=None)

    def _theorem2(self, promise: Promise) -> Theorem2:
        return Theorem2(
            self.draw.rows,
            self.facts.label_range,
            promise.min_eigenvalue,
            promise.feature_bound,
            self.rank,
            self.draw.bag_size,
        )

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus "
            "floor.added_variance/bag_size; approximate, since bags differ",
            **relative_excess(self.rank, self.bags),
        }

    def to_json(self) -> dict[str, Any]:
        promise = self.promise
        return {
            **self.head(BASIS[self.accountant]),
            "form": "rows",
            "bag_size": self.draw.bag_size,
            "rows": self.draw.rows,
            "rank": self.rank,
            "label_range": list(self.facts.label_range),
            "label_width": self.facts.width,
            "max_leverage": self.facts.max_leverage,
            "constant_in_span": self.facts.centred,
            "floor": self.floor_json("the smallest residual sum of squares of a bag")
            | ({"basis": THEOREM2_BASIS} if promise else {}),
            "inflation": self.facts.inflation,
            "draw": {
                **self.draw.to_json(),
                "bag_rank": self.facts.features,
                "min_eigenvalue": promise.min_eigenvalue if promise else None,
                "feature_bound": promise.feature_bound if promise else None,
                "theorem2_terms": self._terms(promise) if promise else None,
            },
            "noise": None,
        }

    def _terms(self, promise: Promise) -> list[float]:
        """The four bag sizes that Theorem 2 asks for; the bags must have the largest."""
        return list(map(float, self._theorem2(promise).terms(self.epsilon, self.delta)))


def read_claim(document: dict[str, Any]) -> SampledFlagClaim:
    """The inverse of `to_json`."""
    floor, mode, measurement = read_floor(document)
    low, high = document["label_range"]
    drawn = document["draw"]
    promised = drawn["min_eigenvalue"] is not None
    if promised != (document["accountant"]["name"] == "paper"):
        raise ValueError("Theorem 2 and its promise go together")
    return SampledFlagClaim(
        **read_head(document),
        floor=floor,
        mode=mode,
        measurement=measurement,
        facts=Facts(
            rows=int(document["bag_size"]),
            label_range=(float(low), float(high)),
            features=int(drawn["bag_rank"]),
            max_leverage=document["max_leverage"],
            centred=bool(document["constant_in_span"]),
            inflation=float(document["inflation"]),
        ),
        rank=int(document["rank"]),
        draw=Draw.from_json(document),
        promise=Promise(float(drawn["min_eigenvalue"]), float(drawn["feature_bound"]))
        if promised
        else None,
    )
