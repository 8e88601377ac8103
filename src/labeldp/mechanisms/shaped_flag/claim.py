"""What shaped-flag promises: a Gaussian mechanism, whatever the labels are (theory §9).

One label that changes by at most Δ moves the d aggregates by at most Δ·‖C x_i‖ ≤ Δ·L, so noise
N(0, s²) on each is a Gaussian mechanism with μ = ΔL/s. The root of the residual sum of squares
moves by at most Δ: with noise s₀ it is another, μ₀ = Δ/s₀, and μ² add (theory §6.2, §13). All
labels of a person with k rows move the aggregates by at most Δ·Σ‖C x_i‖ ≤ Δ·L_person, which takes
the place of ΔL, and the root by Δ√k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting import Curve, Gaussian
from labeldp.mechanisms import Description, describe_person, number
from labeldp.mechanisms.forecast import chi_square_quantiles, noise_error, noise_utility
from labeldp.release import AddedError, Claim, FloorOutcome, read_head

BASIS = (
    "Gaussian mechanism with public weights; their largest norm over all rows is certified, "
    "and nothing is assumed of the labels"
)
PERSON_BASIS = BASIS.replace("norm over all rows", "sum of norms over the rows of a person")
_UP = 1 + 2.0**-50


@dataclass(frozen=True)
class ShapedFlagClaim(Claim):
    """`bags` aggregates with public weights of length at most `length` in every row."""

    mechanism: ClassVar[str] = "shaped-flag"

    rows: int
    label_range: tuple[float, float]
    intercept: bool
    length: float
    """L; L_person if all rows of a person are covered together."""
    noise_std: float
    """s, in units of the label."""
    trace: float
    """tr S, scaled to L = 1."""
    directions: float
    """(tr S)²/tr S²."""
    gap: float
    kind: str
    passes: int
    residual_noise_std: float | None
    """s₀; None: the residual is not published."""

    @property
    def width(self) -> float:
        low, high = self.label_range
        return high - low

    @property
    def reach(self) -> float:
        """By which the root of the residual moves at most: Δ, or Δ√k for the k rows of a person."""
        return self.width * math.sqrt(1 if self.person is None else self.person.rows)

    @property
    def mu(self) -> float:
        """Of the aggregates and the residual together, rounded up."""
        aggregates = self.width * self.length / self.noise_std
        residual = self.reach / self.residual_noise_std if self.residual_noise_std else 0.0
        return math.hypot(aggregates, residual) * _UP

    @property
    def law(self) -> Curve:
        return Gaussian(self.mu)

    @property
    def excess(self) -> float:
        """The expected sum of squares that noise adds to the predictions of all rows."""
        return (self.noise_std / self.length) ** 2 * self.trace

    def excess_quantiles(self) -> tuple[float, ...]:
        """The same in so many of all releases: one χ² in place of many."""
        return chi_square_quantiles(self.excess, self.directions)

    def utility(self) -> dict[str, Any]:
        return noise_utility(self.rows, self.width, self.excess, self.excess_quantiles())

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """In label units; it holds whatever the labels are."""
        return noise_error(self.rows, self.width, self.excess, self.excess_quantiles())

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(BASIS if self.person is None else PERSON_BASIS),
            "form": "rows",
            "bag_size": self.rows,
            "rows": self.rows,
            "rank": self.bags,
            "label_range": list(self.label_range),
            "label_width": self.width,
            "max_leverage": None,
            "constant_in_span": self.intercept,
            "floor": None,
            "inflation": None,
            "draw": None,
            "noise": None,
            "shape": {
                "length": self.length,
                "noise_std": self.noise_std,
                "trace": self.trace,
                "directions": self.directions,
                "gap": self.gap,
                "kind": self.kind,
                "passes": self.passes,
                "residual_noise_std": self.residual_noise_std,
            },
        }


def read_claim(document: dict[str, Any]) -> ShapedFlagClaim:
    """The inverse of `to_json`."""
    low, high = document["label_range"]
    return ShapedFlagClaim(
        **read_head(document),
        rows=int(document["rows"]),
        label_range=(float(low), float(high)),
        intercept=bool(document["constant_in_span"]),
        **document["shape"],
    )


def describe(told: dict[str, Any]) -> Description:
    """What people read of a plan or certificate."""
    shape, claim = told["shape"], read_claim(told)
    low, _, high = (math.sqrt(value / claim.rows) for value in claim.excess_quantiles())
    error = math.sqrt(claim.excess / claim.rows)
    of_range = f"{error / claim.width:.2%} of the label range"
    kind = f"{shape['kind']}, {shape['gap'] - 1:.1%} from the best possible at most"
    noise = ("noise", f"deviation {number(shape['noise_std'])} on each aggregate label")
    plan = (
        noise,
        ("shape of the noise", f"{kind}, after {shape['passes']} passes"),
        (
            "error that privacy adds",
            f"{number(error)} in a prediction, root mean square ({of_range})",
        ),
        ("", f"{number(low)} to {number(high)} in 90 % of releases, whatever the labels"),
    )
    summary = (f"{shape['kind']} shape, noise on aggregates",)
    return Description(plan=plan, release=plan, summary=summary) + describe_person(told)
