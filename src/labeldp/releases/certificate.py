"""The claim of a release, and the certificate that states it.

A `Claim` is the part that `verify` recomputes: public facts, mechanism, accountant, budget and
every number that follows from them. Each mechanism has a subclass. A certificate is the claim as
JSON, together with what a reader needs to judge it.

No field depends on labels except `floor.measured`, which the rounded sampler published, and what
follows from it. In particular no digest covers labels: a hash of private data is a function of
private data.
"""

from __future__ import annotations

import math
import platform
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import gaussian_mu
from labeldp.accounting.privacy_profile import PrivacyProfile, best_true_positive_rate
from labeldp.errors import InputError, PlanError, at_least, to_float, to_int, to_path
from labeldp.io_util import json_digest, read_bytes
from labeldp.sampling.streams import GENERATOR, KEY_BITS

CERTIFICATE_FORMAT = "labeldp-certificate/1"

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
"""Libraries on which the numbers and files of a release rest."""
GAUSSIANS = "exactly rounded Gaussians on a public grid"
GROUPS = (2, 3, 5)
FALSE_POSITIVE_RATE = 0.001
CURVE = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Values of ε at which a certificate states δ(ε), as multiples of its ε."""

# A guarantee may hold and still protect little; beyond these limits a certificate says so.
MOST_EXPOSED = 0.1  # of δ·rows, the expected number of labels that a failure exposes
WEAK_EPSILON = 10.0  # e^10 is 22,000
MOST_SUCCESS = 0.95  # of the best attack that tells two values apart, from even odds
MOST_FOUND = 0.9  # of labels, by the best attack at `FALSE_POSITIVE_RATE`

ABOUT = (
    "name", "curator", "contact", "purpose", "region", "licence", "date", "why_label_range",
    "why_epsilon",
)  # fmt: skip
"""What the curator may state about a release (`release --about FILE`): title, who is responsible,
contact, purpose, region, licence, date of publication, the public knowledge from which the label
range follows, and the reason for the choice of ε."""
_MOST_LETTERS = 2000


@dataclass(frozen=True)
class Person:
    """The unit of privacy if it is a person with several rows."""

    column: str
    """Column of person ids; the ids are not published."""
    rows: int
    """Largest number of rows of one person."""

    def __post_init__(self) -> None:
        at_least(1, rows=self.rows)

    @property
    def unit(self) -> str:
        """Return the unit of privacy in words."""
        return (
            f"one person's labels, all rows together: at most {self.rows}, of one id in column "
            f"{self.column!r}"
        )


@dataclass(frozen=True)
class AddedError:
    """The error that privacy adds to least-squares predictions, as root mean square over rows."""

    added_rms: float | None = None
    """Its expectation in label units; None if it depends on a residual that was not measured."""
    added_rms_low: float | None = None
    added_rms_high: float | None = None
    """Its 5 % and 95 % quantiles over releases; if the residual is unknown, for any residual."""
    added_of_range: float | None = None
    """`added_rms` divided by the width of the label range."""
    excess_of_residual: float | None = None
    """Its square divided by the mean square of the measured residual: 0.01 means that predictions
    are 1 % worse than those of a fit with all labels."""
    added_basis: str = "not known in closed form"


@dataclass(frozen=True, kw_only=True)
class Claim(ABC):
    """The guarantee of `bags` aggregates, and the public numbers it rests on.

    A mechanism's claim adds fields of its own and says what follows from them: `privacy_profile`
    and `basis`, and with `own_fields` how the certificate states them.
    """

    mechanism: ClassVar[str]

    accountant: str
    epsilon: float
    delta: float
    bags: int
    rows: int
    """Of the table."""
    rank: int
    """Independent design columns."""
    label_range: tuple[float, float]
    intercept: bool
    """Whether the design columns span the constant, so that labels may count from any number."""
    person: Person | None = None
    """None if the unit of privacy is one row's label."""

    @property
    @abstractmethod
    def privacy_profile(self) -> PrivacyProfile:
        """Return δ(ε) of all that is published, for one unit of privacy."""

    @property
    @abstractmethod
    def basis(self) -> str:
        """Return why `privacy_profile` is true, in words."""

    @property
    def superseded(self) -> str:
        """Why a plan of an earlier version is released no more; empty if it is."""
        return ""

    def own_fields(self) -> dict[str, Any]:
        """Return what the certificate says beside the common fields, or in their place."""
        return {}

    @property
    def protected(self) -> int:
        """Return the number of rows in one unit of privacy: 1, or the most of a person."""
        return 1 if self.person is None else self.person.rows

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def largest_label(self) -> float:
        """Largest distance of a label from the constant that it counts from."""
        return self.width / 2 if self.intercept else max(map(abs, self.label_range))

    @property
    def sampler_description(self) -> str:
        """Return how the published labels are sampled, in words."""
        return GAUSSIANS

    def utility(self) -> dict[str, Any]:
        """Return the excess risk of a least-squares fit over one with all labels (theory §5)."""
        unknown = ("excess_mean", "excess_low", "excess_median", "excess_high")
        return {"relative_to": "not forecast from the claim alone", **dict.fromkeys(unknown)}

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """Return the error that privacy adds to predictions, as far as it is known."""
        return AddedError()

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:  # noqa: ARG002
        """Return the std of the noise on a published label; None if labels have different ones."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the certificate that define the claim."""
        return {
            "mechanism": self.mechanism,
            "accountant": {"name": self.accountant, "basis": self.basis},
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bags": self.bags,
            **({} if self.person is None else {"person": asdict(self.person)}),
            "form": "rows",
            "bag_size": self.rows,
            "rows": self.rows,
            "rank": self.rank,
            "label_range": list(self.label_range),
            "label_width": self.width,
            "max_leverage": None,
            "constant_in_span": self.intercept,
            "floor": None,
            "inflation": None,
            "draw": None,
            "noise": None,
            **self.own_fields(),
        }

    def delta_at(self, epsilon: float, group: int = 1) -> float:
        """Return an upper bound of δ(ε) for `group` rows, or persons, at once."""
        profile = self.privacy_profile.group(to_int("group", group))
        return profile.delta(to_float("epsilon", epsilon)).upper

    def epsilon_for(self, group: int) -> float | None:
        """Return ε for `group` rows, or persons, at once at this δ; None if it is infinite."""
        answer = epsilon_at(self.privacy_profile.group(to_int("group", group)), self.delta)
        return answer if math.isfinite(answer) else None

    def curve(self) -> list[list[float]]:
        """Return pairs [ε, δ(ε)] for ε around the budget."""
        return [[e, self.delta_at(e)] for e in (self.epsilon * factor for factor in CURVE)]

    def groups(self) -> list[dict[str, Any]]:
        """Return the guarantee for several rows, or for several persons, at once."""
        return [
            {
                **({} if self.person is None else {"persons": size}),
                "rows": size * self.protected,
                "epsilon": self.epsilon_for(size),
                "delta": self.delta,
            }
            for size in GROUPS
        ]

    def weaknesses(self, curve: list[list[float]]) -> list[str]:
        """Return why the guarantee, although it holds, protects little; empty if it protects."""
        rows, weak = self.rows, list[str]()
        # A mechanism that publishes each label outright with probability δ is (0, δ)-private.
        if self.delta * rows > MOST_EXPOSED:
            weak.append(
                f"δ times rows is {self.delta * rows:.2g}: a mechanism that publishes some labels "
                f"outright could promise as much; take δ below {MOST_EXPOSED / rows:.1g}"
            )
        if self.epsilon > WEAK_EPSILON:
            weak.append(
                f"ε = {self.epsilon:g} is above {WEAK_EPSILON:g}: it bounds next to nothing"
            )
        # Whatever ε and δ are called, the curve bounds what the best attack achieves.
        success, rate = best_guess(curve, 0.5), self.attack_risk(curve)["true_positive_rate"]
        if success > MOST_SUCCESS or rate > MOST_FOUND:
            weak.append(
                f"the best attack is nearly certain: it tells two values of a label apart in up to "
                f"{success:.1%} of cases"
            )
        return weak

    def attack_risk(self, curve: list[list[float]]) -> dict[str, Any]:
        """Return how often the best attack finds a label, at a small rate of false alarms."""
        secret = ("one label", "it") if self.person is None else ("one person's labels", "them")
        rate = best_true_positive_rate(((e, d) for e, d in curve), FALSE_POSITIVE_RATE)
        return {
            "false_positive_rate": FALSE_POSITIVE_RATE,
            "true_positive_rate": rate,
            "in_words": f"an attacker who knows everything but {secret[0]}, and who may be wrong "
            f"in {FALSE_POSITIVE_RATE:.1%} of innocent cases, finds {secret[1]} in at most "
            f"{rate:.2%}",
        }


def best_guess(curve: Iterable[Sequence[float]], prior: float) -> float:
    """Return how often the best guess between two values is right, for this prior of one.

    A test with false alarms f and hits t is right with p·t + (1−p)(1−f), which is largest in a
    corner of what a point of the curve allows: both bounds met, or an answer that
    hardly ever changes.
    """
    bounds = []
    for epsilon, delta in curve:
        met = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))  # f, and 1 − t
        cautious = prior * delta + (1 - prior)  # no false alarm, hits with probability δ
        bold = prior + (1 - prior) * delta
        bounds.append(max(1 - met, cautious, bold))
    return min(bounds)


def read_common_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that all claims have, from a plan or a certificate."""
    low, high = document["label_range"]
    return {
        "accountant": document["accountant"]["name"],
        "epsilon": float(document["epsilon"]),
        "delta": float(document["delta"]),
        "bags": int(document["bags"]),
        "rows": int(document["rows"]),
        "rank": int(document["rank"]),
        "label_range": (float(low), float(high)),
        "intercept": bool(document["constant_in_span"]),
        "person": Person(**document["person"]) if "person" in document else None,
    }


@dataclass(frozen=True)
class FloorOutcome:
    """What the run published about the residual floor."""

    measured: float | None = None
    """σ̂, the noisy root of the residual sum of squares, from the rounded sampler."""
    lower_bound: float | None = None
    """The true root exceeds it, except with probability `slack`."""
    added_variance: float = 0.0
    """Variance of the noise added to every aggregate label."""

    @classmethod
    def of(cls, certificate: dict[str, Any]) -> FloorOutcome | None:
        """Read what `certify` wrote; return None if the mechanism has no floor."""
        floor = certificate["floor"]
        if floor is None:
            return None
        return cls(**{each.name: floor[each.name] for each in fields(cls)})


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the digest of all other fields, added or renewed."""
    body = {name: value for name, value in document.items() if name != "seal"}
    return {**body, "seal": json_digest(body)}


def claimed_fields(
    claim: Claim, outcome: FloorOutcome | None = None, stated: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return all fields of a certificate that follow from its claim: what `verify` recomputes.

    The error that privacy adds also depends on the outcome of the floor, if there is one. `stated`
    is a certificate of a former accountant, which may promise less than the claim's law.
    """
    curve, groups = claim.curve(), claim.groups()
    if stated is not None:
        for point, (_, delta) in zip(curve, stated["curve"], strict=True):
            point[1] = max(point[1], delta)
        for group, other in zip(groups, stated["groups"], strict=True):
            both = [
                math.inf if each["epsilon"] is None else each["epsilon"] for each in (group, other)
            ]
            group["epsilon"] = max(both) if math.isfinite(max(both)) else None
    return {
        "format": CERTIFICATE_FORMAT,
        "definition": DEFINITION if claim.person is None else PERSON_DEFINITION,
        "unit": UNIT if claim.person is None else claim.person.unit,
        "not_protected": list(NOT_PROTECTED),
        "trust_model": TRUST_MODEL,
        **claim.to_json(),
        "label_noise_std": claim.label_noise_std(outcome),
        "mu": gaussian_mu(claim.privacy_profile),
        "curve": curve,
        "groups": groups,
        "attack_risk": claim.attack_risk(curve),
        "weak": claim.weaknesses(curve),
        "utility": claim.utility() | asdict(claim.added_error(outcome)),
    }


def certify(
    claim: Claim, outcome: FloorOutcome | None, run_fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the sealed certificate of a run; refuse a claim that does not hold.

    `outcome` is None for a mechanism without a floor.
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
    software = {
        "name": "labeldp",
        "version": version("labeldp"),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    return seal({**claimed, **run_fields, "software": software})


def randomness_fields(private: bool) -> dict[str, Any]:
    """Return how random numbers were generated: keyed by the operating system, or by a seed."""
    return {
        "generator": GENERATOR,
        "key_bits": KEY_BITS if private else 0,
        "private": private,
        "warning": None if private else EXPERIMENT,
    }


def read_about(about: Mapping[str, Any] | str | Path | None) -> dict[str, str | list[str] | None]:
    """Return the curator's statements as the certificate has them, and which are missing.

    They come from a TOML file or a mapping; unknown fields and anything but short text are refused.
    """
    if isinstance(about, Mapping):
        document = about
    else:
        path = to_path("about", about)
        content = read_bytes(path)
        try:
            document = tomllib.loads(content.decode())
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{path} cannot be read as TOML: {problem}") from None
    texts: dict[str, str | None] = dict.fromkeys(ABOUT)
    for name, value in document.items():
        if name not in ABOUT:
            raise InputError(f"`about` has no field {name!r}; choose {', '.join(ABOUT)}")
        text = value.isoformat() if isinstance(value, date) else value
        if not isinstance(text, str) or len(text) > _MOST_LETTERS:
            raise InputError(f"`about`: {name} must be a text of {_MOST_LETTERS:,} letters at most")
        if any(not (letter.isprintable() or letter == "\n") for letter in text):
            raise InputError(f"`about`: {name} has signs that cannot be printed; leave them out")
        texts[name] = text.strip() or None
    return {**texts, "missing": [name for name, text in texts.items() if text is None]}
