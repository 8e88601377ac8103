"""What shaped-flag promises: so much noise, whatever the labels are (theory §9).

One label that changes by at most Δ moves the d aggregates by at most Δ·‖C x_i‖ ≤ Δ·L, so noise
N(0, s²) on each is a Gaussian mechanism with μ = ΔL/s, and radial noise of scale b has pure
ε = ΔL/b. The root of the residual sum of squares moves by at most Δ: with noise of its own it is
another part, and μ² add, or ε (theory §6.2, §13; `noise.py`). All
labels of a person with k rows move the aggregates by at most Δ·Σ‖C x_i‖ ≤ Δ·L_person, which takes
the place of ΔL, and the root by Δ√k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.errors import at_least, positive
from labeldp.mechanisms.forecast import QUANTILES
from labeldp.mechanisms.noise_claim import NoiseClaim, read_noise
from labeldp.mechanisms.protocol import Description, describe_person, number
from labeldp.mechanisms.shaped_flag import GAUSSIAN, RADIAL
from labeldp.mechanisms.shaped_flag.noise import NOISES, SumNoise
from labeldp.release.claim import GAUSSIANS, FloorOutcome

_BASIS = (
    "{noise} with public weights; their largest {norm} is certified, "
    "and nothing is assumed of the labels"
)
_DRAWN = {GAUSSIAN: GAUSSIANS, RADIAL: "exactly rounded radial noise on a public grid"}
_UP = 1 + 2.0**-50


@dataclass(frozen=True)
class ShapedFlagClaim(NoiseClaim):
    """`bags` aggregates with public weights of length at most `length` in every row."""

    mechanism: ClassVar[str] = "shaped-flag"

    length: float
    """L; L_person if all rows of a person are covered together."""
    noise_std: float
    """s, of each aggregate label, in units of the label."""
    trace: float
    """tr S, scaled to L = 1."""
    directions: float
    """(tr S)²/tr S²."""
    gap: float
    """To the best possible: of what was made least, the trace or what a ridge leaves of it."""
    kind: str
    passes: int
    residual_noise_std: float | None
    """s₀; None: the residual is not published."""
    noise_law: str = GAUSSIAN
    ridge: float = 0.0
    """Of the whitening that the shape was sought in; 0: none."""

    def __post_init__(self) -> None:
        """A deviation of 0 is no noise, which nothing here prices."""
        positive(length=self.length, noise_std=self.noise_std)
        at_least(0, ridge=self.ridge)
        if self.residual_noise_std is not None:
            positive(residual_noise_std=self.residual_noise_std)

    @property
    def reach(self) -> float:
        """By which the root of the residual moves at most: Δ, or Δ√k for the k rows of a person."""
        return self.width * math.sqrt(self.protected)

    @property
    def noise(self) -> SumNoise:
        return NOISES[self.noise_law]

    @property
    def scale(self) -> float:
        """Of the noise on the aggregates: s, or b where it is radial."""
        return self.noise_std / self.noise.spread(self.bags)

    @property
    def residual_scale(self) -> float | None:
        """The same of the residual's root."""
        if self.residual_noise_std is None:
            return None
        return self.residual_noise_std / self.noise.residual_spread

    @property
    def costs(self) -> tuple[float, float]:
        """μ of the aggregates and of the residual, or ε, rounded up."""
        residual = self.reach / self.residual_scale if self.residual_scale else 0.0
        return self.width * self.length / self.scale * _UP, residual * _UP

    @property
    def spent(self) -> float:
        """Both together."""
        return self.noise.together(*self.costs)

    @property
    def law(self) -> PrivacyProfile:
        return self.noise.curve(*self.costs, self.bags)

    @property
    def drawn(self) -> str:
        return _DRAWN[self.noise_law]

    @property
    def basis(self) -> str:
        rows = "norm over all rows"
        persons = "sum of norms over the rows of a person"
        norm = rows if self.person is None else persons
        return _BASIS.format(noise=self.noise.basis, norm=norm)

    @property
    def excess(self) -> float:
        """The expected sum of squares that noise adds to the predictions of all rows."""
        return (self.noise_std / self.length) ** 2 * self.trace

    def excess_quantiles(self) -> tuple[float, ...]:
        """The same in so many of all releases."""
        shape = self.directions, self.bags
        return tuple(self.excess * self.noise.quantile(*shape, q) for q in QUANTILES)

    def label_noise_std(self, outcome: FloorOutcome | None) -> float:  # noqa: ARG002
        return self.noise_std

    def to_json(self) -> dict[str, Any]:
        return {
            **self.noise_json(self.basis, bag_size=self.rows, rank=self.bags),
            "shape": {
                "length": self.length,
                "noise_std": self.noise_std,
                "trace": self.trace,
                "directions": self.directions,
                "gap": self.gap,
                "kind": self.kind,
                "passes": self.passes,
                "residual_noise_std": self.residual_noise_std,
                "noise_law": self.noise_law,
                **({"ridge": self.ridge} if self.ridge else {}),
            },
        }


def read_claim(document: dict[str, Any]) -> ShapedFlagClaim:
    """The inverse of `to_json`."""
    return ShapedFlagClaim(**read_noise(document), **document["shape"])


def describe(told: dict[str, Any]) -> Description:
    """What people read of a plan or certificate."""
    shape, claim = told["shape"], read_claim(told)
    apart = (
        f"{shape['gap'] - 1:.1%} from the best possible at most"
        if claim.person is None
        else f"for persons {number(shape['gap'], 3)} times the least for single rows"
    )
    ridge = f" with a ridge of {claim.ridge:g}" if claim.ridge else ""
    kind = f"{shape['kind']}{ridge}, {apart}"
    noise = f"deviation {number(shape['noise_std'])} on each aggregate label"
    plan = (
        ("noise", f"{claim.noise_law}, {noise}"),
        ("shape of the noise", f"{kind}, after {shape['passes']} passes"),
    )
    summary = (f"{shape['kind']} shape{ridge}, {claim.noise_law} noise on aggregates",)
    return Description(plan=plan, release=plan, summary=summary) + describe_person(told)
