"""noisy-moments: Xᵀy with Gaussian noise, beside XᵀX, which is public.

Aggregate j weighs row i by its design column x_ij: Σ x_ij·(x_i, y_i), with noise N(0, s²) on the
label. One label moves Xᵀy by Δ·‖x_i‖ at most, so this is the Gaussian mechanism with μ = Δ·B/s,
where B bounds the norms of the encoded rows: it follows from the feature map alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.data.source import Source
from labeldp.errors import positive
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.mechanisms.account import document, need
from labeldp.mechanisms.checks import check_grid, check_label_exponent, check_numbers
from labeldp.mechanisms.design_summary import DesignSummary, feature_bound, summarize_design
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.options import Question, Request, option
from labeldp.mechanisms.plans import Plan
from labeldp.mechanisms.protocol import Account, Description, Inspection, Mechanism, Panel, number
from labeldp.passes.engine import Engine
from labeldp.release.claim import Claim, read_head
from labeldp.release.files import Release
from labeldp.release.label_model import SumLabels
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

NAME = "noisy-moments"
BASIS = "exact law of the Gaussian mechanism on X'y; B bounds the norm of every encoded row"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be asked of a plan."""

    moment_std: float | None = option(
        None, "Noise on X'y; default: what the budget needs.", check=positive
    )


@dataclass(frozen=True)
class MomentsClaim(Claim):
    """What is promised, and all that it follows from."""

    mechanism: ClassVar[str] = NAME

    rows: int
    label_range: tuple[float, float]
    intercept: bool
    feature_bound: float
    noise_std: float

    @property
    def law(self) -> PrivacyProfile:
        low, high = self.label_range
        return GaussianProfile((high - low) * self.feature_bound / self.noise_std)

    def utility(self) -> dict[str, Any]:
        unknown = ("excess_mean", "excess_low", "excess_median", "excess_high")
        return {"relative_to": "not forecast from the claim alone", **dict.fromkeys(unknown)}

    def to_json(self) -> dict[str, Any]:
        low, high = self.label_range
        return {
            **self.head(BASIS),
            "form": "rows",
            "bag_size": self.rows,
            "rows": self.rows,
            "rank": self.bags,
            "label_range": [low, high],
            "label_width": high - low,
            "max_leverage": None,
            "constant_in_span": self.intercept,
            "floor": None,
            "inflation": None,
            "draw": None,
            "noise": None,
            "moments": {"noise_std": self.noise_std, "feature_bound": self.feature_bound},
        }


SECTION = {
    "type": "object",
    "description": "Noise on X'y, in label units times the design's.",
    "properties": {"noise_std": {"type": "number"}, "feature_bound": {"type": "number"}},
    "required": ["noise_std", "feature_bound"],
    "additionalProperties": False,
}


def read_claim(certificate: dict[str, Any]) -> MomentsClaim:
    """The inverse of `to_json`."""
    low, high = certificate["label_range"]
    return MomentsClaim(
        **read_head(certificate),
        rows=int(certificate["rows"]),
        label_range=(float(low), float(high)),
        intercept=bool(certificate["constant_in_span"]),
        feature_bound=float(certificate["moments"]["feature_bound"]),
        noise_std=float(certificate["moments"]["noise_std"]),
    )


def needed_std(width: float, bound: float, epsilon: float, delta: float) -> float:
    """The least noise that keeps the budget, a hair more against rounding."""
    return width * bound / largest_mu(epsilon, delta) * (1 + 1e-9)


def draft(request: Request[Options], source: Source, engine: Engine) -> Plan:
    """Features and public facts decide; no label is read."""
    found = summarize_design(source, engine=engine, encoding=request.encoding)
    features, rank, width = found.features, found.factor.rank, found.facts.width
    bound = feature_bound(features)
    std = request.options.moment_std
    if std is None:
        std = needed_std(width, bound, request.epsilon, request.delta)
    claim = MomentsClaim(
        request.accountant,
        request.epsilon,
        request.delta,
        bags=rank,
        rows=found.facts.rows,
        label_range=found.labels.range,
        intercept=features.intercept,
        feature_bound=bound,
        noise_std=std,
    )
    guess = (width / 10) ** 2
    roughly = forecast(
        rows=claim.rows, rank=rank, bags=2 * rank + 2, residual_ms=guess, added_variance=std**2
    )
    return Plan(claim, features, found.labels, found.feature_sums, roughly, found.notes)


def deviations(claim: MomentsClaim, scales: np.ndarray) -> np.ndarray:
    """Of the noise on each aggregate label: weights are the columns' integers, without scales."""
    return claim.noise_std / scales * (1 + 2.0**-50)


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over labels, whose sums leave by the door."""
    claim, features, labels = plan.claim, plan.features, plan.labels
    assert isinstance(claim, MomentsClaim)
    plan.bind(
        source,
        claim.bags == len(features.names),
        claim.intercept == features.intercept,
        claim.feature_bound >= feature_bound(features),
    )
    randomness.spend()
    tallies = GramAccumulator(features), LabelCrossProducts(features, labels)
    gram, moments = engine.run_pass("label sums", source, *tallies)
    plan.check_sums(gram.digest())
    kept, whole = list(features.kept_columns), gram.exact(range(gram.width))
    sums = moments.cross[kept] + labels.centre * whole[0][kept]  # labels count from the centre
    std = deviations(claim, features.kept_scales)
    grid = rounded_noise.grid_for(float(std.min()))

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        from flint import arb, fmpz

        return arb(fmpz(int(sums[row]))), arb(float(codes_std[row]))

    codes_std = np.ldexp(std, -labels.exponent)
    mean = sums.astype(np.float64)
    cells = rounded_noise.sample_rounded(
        mean,
        2.0**-52 * np.abs(mean),
        (codes_std, codes_std),
        grid - labels.exponent,
        randomness,
        exact,
    )
    schema = aggregate_schema(features, source.label or "label")
    design = whole[np.ix_(kept, kept)].astype(np.float64) * features.kept_scales
    batch = aggregate_batch(schema, design, np.ldexp(cells, labels.exponent))
    certify = plan.certifier(None, source, grid, randomness)
    return PendingRelease(features, schema, (one for one in [batch]), certify)


def check(release: Release) -> Iterator[str]:
    """What anyone can see in the published files."""
    claim, features = read_claim(release.certificate), release.features
    if claim.intercept is not features.intercept:
        yield "features.json and the certificate differ on whether there is an intercept"
    if claim.feature_bound < feature_bound(features):
        yield "certificate: the features may have longer rows than moments.feature_bound"
    exponent = release.certificate["numerics"]["label_exponent"]
    yield from check_label_exponent(claim.label_range, features.intercept, exponent)
    unsound = list(check_numbers(release))
    grid = rounded_noise.grid_for(float(deviations(claim, features.kept_scales).min()))
    yield from unsound or check_grid(release, grid)


def meaning(release: Release) -> SumLabels:
    """What learners must know: sums of all rows, weighed by the columns, and the noise on them."""
    claim, scales = read_claim(release.certificate), release.features.kept_scales
    return SumLabels(deviations(claim, scales), weights=np.diag(1 / scales))


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """What whoever holds the table can see."""
    gram = engine.run_pass("feature sums", source, GramAccumulator(release.features))
    if gram.digest() != release.certificate["digests"]["feature_sums"]:
        yield "the table's features are not those of the release"


def describe(told: dict[str, Any]) -> Description:
    """What people read."""
    noise = ("noise", f"deviation {number(told['moments']['noise_std'])} on X'y")
    return Description(plan=(noise,), release=(noise,), summary=("noise on X'y",))


@dataclass(frozen=True, kw_only=True)
class MomentsQuestion(Question):
    """What `labeldp account` must know beside rows, label range and budget."""

    feature_bound: float | None = option(None, "Largest norm of a row of features.", check=positive)
    moment_std: float | None = option(None, "Noise on X'y: report its ε and δ, not the least.")


def account(mechanism: str, asked: MomentsQuestion) -> dict[str, Any]:
    """The least noise, or what a given one costs."""
    low, high = asked.label_range
    bound = need(mechanism, asked, "feature_bound")
    if asked.moment_std is None:
        least = needed_std(high - low, bound, *asked.budget)
        return document(mechanism, asked, ["feature_bound"], {"moment_std": least})
    curve = GaussianProfile((high - low) * bound / asked.moment_std)
    epsilon = epsilon_at(curve, asked.delta)
    spent = {
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": curve.delta(asked.epsilon).upper,
    }
    return document(mechanism, asked, ["feature_bound", "moment_std"], {"spent": spent})


def show_account(answer: dict[str, Any]) -> Iterator[Panel]:
    """The same for people."""
    facts = [("deviation of the noise", number(answer["moment_std"]))]
    facts += [(name, number(value)) for name, value in answer.get("spent", {}).items()]
    yield Panel("Noise on X'y", facts)


def inspect(
    found: DesignSummary,
    residual_ss: float,  # noqa: ARG001
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """What `labeldp inspect` says."""
    std = needed_std(found.facts.width, feature_bound(found.features), epsilon, delta)
    return {"moments": {"noise_std": std}}


def show_inspection(found: dict[str, Any]) -> Iterator[Panel]:
    """The same for people."""
    yield Panel("Moments at that budget", [("noise on X'y", number(found["moments"]["noise_std"]))])


MECHANISM = Mechanism(
    name=NAME,
    title="X'y with Gaussian noise, beside X'X",
    options=Options,
    draft=draft,
    run=run,
    read_claim=read_claim,
    check=check,
    check_features=check_features,
    describe=describe,
    sections={"moments": SECTION},
    meaning=meaning,
    account=Account(MomentsQuestion, account, show_account),
    inspection=Inspection(inspect, show_inspection),
)
