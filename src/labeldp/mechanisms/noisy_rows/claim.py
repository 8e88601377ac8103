"""What noisy-rows promises, whatever the labels are (theory §11).

Every label has noise of its own, so one label moves one published number, by at most Δ; see
`noise.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.mechanisms.forecast import chi_square_quantiles
from labeldp.mechanisms.noise_claim import NoiseClaim, read_noise
from labeldp.mechanisms.noisy_rows.noise import RowNoise
from labeldp.mechanisms.protocol import Description, describe_person, number
from labeldp.release.claim import GAUSSIANS, FloorOutcome

BASIS = (
    "independent noise on every row's label, which moves by label_width at most; "
    "nothing is assumed of the labels"
)
PERSON_BASIS = BASIS.replace("which moves", "of as many rows as a person has, each of which moves")

DRAWN = {"laplace": "exactly rounded Laplace noise on a public grid", "gaussian": GAUSSIANS}


@dataclass(frozen=True)
class NoisyRowsClaim(NoiseClaim):
    """`bags` rows, each with its own label and noise."""

    mechanism: ClassVar[str] = "noisy-rows"

    rank: int
    noise: RowNoise
    with_features: bool

    @property
    def law(self) -> PrivacyProfile:
        return self.noise.curve(self.width, self.protected)

    @property
    def is_pure(self) -> bool:
        """Whether the guarantee holds with δ = 0."""
        return self.law.pure_epsilon() <= self.epsilon

    @property
    def drawn(self) -> str:
        return DRAWN[self.noise.name]

    @property
    def excess(self) -> float:
        """The expected sum of squares that noise adds to the predictions of all rows: d·Var."""
        return self.rank * self.noise.std**2

    def excess_quantiles(self) -> tuple[float, ...]:
        """The same in so many of all releases: exact for Gaussian noise, nearly so for Laplace's,
        of which a fit adds up many."""
        return chi_square_quantiles(self.excess, self.rank)

    def extent(self, design: int, raw: int) -> tuple[int, int]:  # noqa: ARG002
        """A number and a label for every row, and raw features if they come along."""
        return self.rows, raw + 2 if self.with_features else 2

    def label_noise_std(self, outcome: FloorOutcome | None) -> float:  # noqa: ARG002
        return self.noise.std

    def to_json(self) -> dict[str, Any]:
        basis = BASIS if self.person is None else PERSON_BASIS
        return {
            **self.noise_json(basis, bag_size=1, rank=self.rank),
            "row_noise": {
                "law": self.noise.name,
                "scale": self.noise.scale,
                "std": self.noise.std,
                "with_features": self.with_features,
            },
        }


def read_claim(document: dict[str, Any]) -> NoisyRowsClaim:
    """The inverse of `to_json`."""
    noise = document["row_noise"]
    return NoisyRowsClaim(
        **read_noise(document),
        rank=int(document["rank"]),
        noise=RowNoise(str(noise["law"]), float(noise["scale"])),
        with_features=bool(noise["with_features"]),
    )


def describe(told: dict[str, Any]) -> Description:
    """What people read of a plan or certificate."""
    claim = read_claim(told)
    title, std = claim.noise.law.title, number(claim.noise.std)
    holds = " (pure: δ = 0)" if claim.is_pure else ""
    noise = ("noise", f"{title}, deviation {std} on every label{holds}")
    columns = "row number, label" + (" and raw features" if claim.with_features else "")
    plan = (noise, ("columns", columns))
    summary = (f"{title} noise on every label",)
    return Description(plan=plan, release=plan, summary=summary) + describe_person(told)
