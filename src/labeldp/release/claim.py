"""The claim of a release, and its certificate.

A `Claim` is the part that can be recomputed: public facts, mechanism, accountant and budget,
with every number that follows from them; each mechanism has its own. A certificate is the
claim as JSON together with what a reader must know to judge it; its layout is fixed by
`labeldp.mechanisms.registry`.

No field depends on labels except `floor.measured` (published through the door) and what
follows from it. In particular no digest covers labels: a hash of private data is a
function of private data.
"""

from __future__ import annotations

import math
import platform
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from typing import Any, ClassVar

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import gaussian_mu
from labeldp.accounting.privacy_profile import PrivacyProfile, best_true_positive_rate
from labeldp.errors import PlanError, at_least, to_float, to_int
from labeldp.release.budget import weaknesses
from labeldp.release.certificate import seal
from labeldp.sampling.streams import GENERATOR, KEY_BITS

FORMAT = "labeldp-certificate/1"

DEFINITION = (
    "(epsilon, delta)-label differential privacy: for any two tables that differ in one label, "
    "by at most label_width, and any set S of outputs, "
    "Pr[output in S] <= e^epsilon Pr'[output in S] + delta"
)
PERSON_DEFINITION = DEFINITION.replace(
    "one label, by at most label_width,", "the labels of one person, each by at most label_width,"
)
UNIT = "one row's label; a person with several rows is covered by the group table"
NOT_PROTECTED = (
    "feature values",
    "the number of rows",
    "who is in the table",
    "which rows had a missing label, if such rows were dropped",
)
TRUST_MODEL = "a central curator sees the labels and runs this software honestly"
EXPERIMENT = "drawn from a seed for a test or an experiment: NOT private, whatever epsilon says"
LIBRARIES = ("numpy", "scipy", "pyarrow", "python-flint", "randomgen")
"""On which numbers and files of a release rest."""
GAUSSIANS = "exactly rounded Gaussians on a public grid"
GROUPS = (2, 3, 5)
FALSE_POSITIVE_RATE = 0.001
_CURVE = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Person:
    """Whose labels a guarantee covers together, where that is not one row's."""

    column: str
    """Of the ids, which are not published."""
    rows: int
    """The most that one person has."""

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows)

    @property
    def unit(self) -> str:
        return (
            f"one person's labels, all rows together: at most {self.rows}, of one id in column "
            f"{self.column!r}"
        )


@dataclass(frozen=True)
class AddedError:
    """Root mean square, over all rows, of what privacy adds to a least-squares prediction."""

    added_rms: float | None = None
    """Expected, in label units; None where it hangs on a residual that nobody has measured."""
    added_rms_low: float | None = None
    """In 5 % of releases it is less; where the residual is not known, whatever it is."""
    added_rms_high: float | None = None
    """In 5 % of releases it is more; likewise."""
    added_of_range: float | None = None
    """`added_rms` over the width of the label range."""
    excess_of_residual: float | None = None
    """Its square over the mean square of the measured residual, of no noise: 0.01 says that
    predictions are 1 % worse than those of the fit with all labels."""
    added_basis: str = "not known in closed form"


@dataclass(frozen=True)
class Claim(ABC):
    """What is promised of `bags` aggregates; each mechanism has a claim of its own."""

    mechanism: ClassVar[str]

    accountant: str
    epsilon: float
    delta: float
    bags: int
    person: Person | None = field(default=None, kw_only=True)
    """None: one row's label is what is covered."""

    @property
    def protected(self) -> int:
        """How many rows are covered together: 1, or the most of a person."""
        return 1 if self.person is None else self.person.rows

    @property
    @abstractmethod
    def law(self) -> PrivacyProfile:
        """δ(ε) of the release, whatever else was published included; for a person, if one is."""

    @property
    def drawn(self) -> str:
        """How labels leave by the door."""
        return GAUSSIANS

    def extent(self, design: int, raw: int) -> tuple[int, int]:  # noqa: ARG002
        """Rows and columns of the table that is released, of so many design and raw columns."""
        return self.bags, design + 1

    @abstractmethod
    def utility(self) -> dict[str, Any]:
        """The excess of a least-squares fit over one with all labels (theory §5)."""

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """What privacy adds to a prediction, in label units, as far as it is known."""
        return AddedError()

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:  # noqa: ARG002
        """Of the noise on each published label; None where it is not the same on all."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The fields that define the claim."""

    def head(self, basis: str) -> dict[str, Any]:
        """The fields that every claim begins with."""
        return {
            "mechanism": self.mechanism,
            "accountant": {"name": self.accountant, "basis": basis},
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bags": self.bags,
            **({} if self.person is None else {"person": asdict(self.person)}),
        }

    def delta_at(self, epsilon: float, group: int = 1) -> float:
        """An upper bound of δ(ε) for `group` rows, or persons, at once."""
        profile = self.law.group(to_int("group", group))
        return profile.delta(to_float("epsilon", epsilon)).upper

    def epsilon_for(self, group: int) -> float | None:
        """The ε for `group` rows, or persons, at once at this δ; None if there is none."""
        answer = epsilon_at(self.law.group(to_int("group", group)), self.delta)
        return answer if math.isfinite(answer) else None

    def curve(self) -> list[list[float]]:
        """[ε, δ(ε)] over a range of ε around the budget."""
        return [[e, self.delta_at(e)] for e in (self.epsilon * factor for factor in _CURVE)]

    def groups(self) -> list[dict[str, Any]]:
        """The guarantee for a person with several rows; or for several persons."""

        def who(size: int) -> dict[str, int]:
            if self.person is None:
                return {"rows": size}
            return {"persons": size, "rows": size * self.person.rows}

        return [
            {**who(size), "epsilon": self.epsilon_for(size), "delta": self.delta} for size in GROUPS
        ]

    def weaknesses(self, curve: list[list[float]]) -> list[str]:
        """Why the guarantee protects little, if it does."""
        found = self.attack_risk(curve)["true_positive_rate"]
        rows = int(self.to_json()["rows"])
        return list(weaknesses(self.epsilon, self.delta, rows, curve, found))

    def attack_risk(self, curve: list[list[float]]) -> dict[str, Any]:
        """How well the best attack can tell two labels apart."""
        points = [(epsilon, delta) for epsilon, delta in curve]
        secret = ("one label", "it") if self.person is None else ("one person's labels", "them")
        rate = best_true_positive_rate(points, FALSE_POSITIVE_RATE)
        return {
            "false_positive_rate": FALSE_POSITIVE_RATE,
            "true_positive_rate": rate,
            "in_words": f"an attacker who knows everything but {secret[0]}, and who may be wrong "
            f"in {FALSE_POSITIVE_RATE:.1%} of innocent cases, finds {secret[1]} in at most "
            f"{rate:.2%}",
        }


def read_head(document: dict[str, Any]) -> dict[str, Any]:
    """What `Claim.head` wrote, as the first arguments of a claim."""
    return {
        "accountant": document["accountant"]["name"],
        "epsilon": float(document["epsilon"]),
        "delta": float(document["delta"]),
        "bags": int(document["bags"]),
        "person": Person(**document["person"]) if "person" in document else None,
    }


@dataclass(frozen=True)
class FloorOutcome:
    """What the run published about the floor: through the door, or computed from that."""

    measured: float | None = None
    """σ̂, the noisy root of the residual sum of squares."""
    lower_bound: float | None = None
    """What the true root exceeds, but for probability `slack`."""
    added_variance: float = 0.0
    """Variance of the noise added to every aggregate label."""

    @classmethod
    def of(cls, certificate: dict[str, Any]) -> FloorOutcome | None:
        """Read back what `certify` wrote; None where there is no floor."""
        floor = certificate["floor"]
        return (
            None if floor is None else cls(**{each.name: floor[each.name] for each in fields(cls)})
        )


def claimed_fields(claim: Claim, outcome: FloorOutcome | None = None) -> dict[str, Any]:
    """Everything in a certificate that follows from its claim: what `verify` recomputes.

    The error that privacy adds follows from the claim and, where there is a floor, its outcome.
    """
    curve = claim.curve()
    return {
        "format": FORMAT,
        "definition": DEFINITION if claim.person is None else PERSON_DEFINITION,
        "unit": UNIT if claim.person is None else claim.person.unit,
        "not_protected": list(NOT_PROTECTED),
        "trust_model": TRUST_MODEL,
        **claim.to_json(),
        "label_noise_std": claim.label_noise_std(outcome),
        "mu": gaussian_mu(claim.law),
        "curve": curve,
        "groups": claim.groups(),
        "attack_risk": claim.attack_risk(curve),
        "weak": claim.weaknesses(curve),
        "utility": claim.utility() | asdict(claim.added_error(outcome)),
    }


def certify(claim: Claim, outcome: FloorOutcome | None, **run_fields: Any) -> dict[str, Any]:
    """The certificate of a run, sealed with the digest of all its fields.

    `outcome` is None for a mechanism without a floor. No certificate is issued for a claim
    that does not hold.
    """
    claimed = claimed_fields(claim, outcome)
    spent = claim.delta_at(claim.epsilon)
    if not spent <= claim.delta:
        raise PlanError(
            f"{claim.bags} aggregates of this claim have δ = {spent:.3g} at ε = {claim.epsilon:g}, "
            f"more than the plan's {claim.delta:g}; plan again"
        )
    if outcome is not None:
        claimed["floor"] |= asdict(outcome)
    return seal(claimed | run_fields | {"software": software_fields()})


def software_fields() -> dict[str, Any]:
    """What computed the release."""
    return {
        "name": "labeldp",
        "version": version("labeldp"),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def drawn_fields(private: bool) -> dict[str, Any]:
    """How the numbers of a run were drawn: from the operating system, or for an experiment."""
    return {
        "generator": GENERATOR,
        "key_bits": KEY_BITS if private else 0,
        "private": private,
        "warning": None if private else EXPERIMENT,
    }
