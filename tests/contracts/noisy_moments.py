"""noisy-moments: Xᵀy with Gaussian noise, beside XᵀX, which is public.

Aggregate j weighs row i by its design column x_ij: Σ x_ij·(x_i, y_i), with noise N(0, s²) on the
label. One label moves Xᵀy by Δ·‖x_i‖ at most, so this is the Gaussian mechanism with μ = Δ·B/s,
where B bounds the norms of the encoded rows: it follows from the feature map alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.data.source import Source
from labeldp.errors import positive
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.mechanisms.base import Mechanism, MechanismPlan
from labeldp.mechanisms.checks import check_grid, check_label_exponent, check_numbers, other_table
from labeldp.mechanisms.description import Description, number
from labeldp.mechanisms.design_summary import DesignSummary, feature_bound
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.options import AccountQuestion, PlanRequest, option
from labeldp.passes.engine import Engine
from labeldp.release.certificate import Claim, read_common_fields
from labeldp.release.files import Release
from labeldp.release.label_model import SumLabels
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

NAME = "noisy-moments"


@dataclass(frozen=True, kw_only=True)
class MomentsOptions:
    moment_std: float | None = option(
        None, "Noise on X'y (default: what the budget needs).", check=positive
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
    def privacy_profile(self) -> GaussianProfile:
        low, high = self.label_range
        return GaussianProfile((high - low) * self.feature_bound / self.noise_std)

    def utility(self) -> dict[str, Any]:
        unknown = ("excess_mean", "excess_low", "excess_median", "excess_high")
        return {"relative_to": "not forecast from the claim alone", **dict.fromkeys(unknown)}

    def to_json(self) -> dict[str, Any]:
        low, high = self.label_range
        absent = ("max_leverage", "floor", "inflation", "draw", "noise")
        return {
            **self.common_fields(
                "Gaussian mechanism on X'y; B bounds the norm of every encoded row"
            ),
            "form": "rows",
            "bag_size": self.rows,
            "rows": self.rows,
            "rank": self.bags,
            "label_range": [low, high],
            "label_width": high - low,
            "constant_in_span": self.intercept,
            **dict.fromkeys(absent),
            "moments": {"noise_std": self.noise_std, "feature_bound": self.feature_bound},
        }


def needed_std(width: float, bound: float, epsilon: float, delta: float) -> float:
    """Return the least noise that keeps the budget, a hair more against rounding."""
    return width * bound / largest_mu(epsilon, delta) * (1 + 1e-9)


def label_stds(claim: MomentsClaim, scales: np.ndarray) -> np.ndarray:
    """Return the noise on each aggregate: weights are the columns' integers, without scales."""
    return claim.noise_std / scales * (1 + 2.0**-50)


class NoisyMoments(Mechanism):
    name = NAME
    title = "X'y with Gaussian noise, beside X'X"
    Options = MomentsOptions
    account_fields = ("feature_bound",)
    sections: ClassVar = {
        "moments": {
            "type": "object",
            "description": "Noise on X'y, in label units times the design's.",
            "properties": {"noise_std": {"type": "number"}, "feature_bound": {"type": "number"}},
            "required": ["noise_std", "feature_bound"],
            "additionalProperties": False,
        }
    }

    def plan(
        self,
        request: PlanRequest[MomentsOptions],
        design: DesignSummary,
        source: Source,
        engine: Engine,  # noqa: ARG002
    ) -> MechanismPlan:
        self.check_request(request, source)
        features, facts, rank = design.features, design.facts, design.factor.rank
        bound = feature_bound(features)
        std = request.options.moment_std
        if std is None:
            std = needed_std(facts.width, bound, request.epsilon, request.delta)
        claim = MomentsClaim(
            request.accountant,
            request.epsilon,
            request.delta,
            bags=rank,
            rows=facts.rows,
            label_range=design.labels.range,
            intercept=features.intercept,
            feature_bound=bound,
            noise_std=std,
        )
        roughly = forecast(
            rows=facts.rows,
            rank=rank,
            bags=2 * rank + 2,
            residual_ms=(facts.width / 10) ** 2,
            added_variance=std**2,
        )
        sums = design.feature_sums
        return MechanismPlan(self, claim, features, design.labels, sums, roughly, design.notes)

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, MomentsClaim)
        plan.check_source(
            source,
            claim.bags == len(features.names),
            claim.intercept == features.intercept,
            claim.feature_bound >= feature_bound(features),
        )
        randomness.spend()
        accumulators = GramAccumulator(features), LabelCrossProducts(features, labels)
        gram, moments = engine.run_pass("label sums", source, *accumulators)
        plan.check_feature_sums(gram.digest())
        kept, whole = list(features.kept_columns), gram.exact(range(gram.width))
        sums = moments.cross[kept] + labels.centre * whole[0][kept]  # labels count from the centre
        stds = label_stds(claim, features.kept_scales)
        code_stds = np.ldexp(stds, -labels.exponent)
        grid = rounded_noise.grid_for(float(stds.min()))

        def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
            from flint import arb, fmpz

            return arb(fmpz(int(sums[row]))), arb(float(code_stds[row]))

        mean = sums.astype(np.float64)
        error, step = 2.0**-52 * np.abs(mean), grid - labels.exponent
        cells = rounded_noise.sample_rounded(
            mean, error, (code_stds, code_stds), step, randomness, exact
        )
        schema = aggregate_schema(features, source.label or "label")
        design = whole[np.ix_(kept, kept)].astype(np.float64) * features.kept_scales
        batch = aggregate_batch(schema, design, np.ldexp(cells, labels.exponent))
        return plan.pending_release(source, randomness, grid=grid, schema=schema, batches=[batch])

    def claim_from_json(self, document: dict[str, Any]) -> MomentsClaim:
        low, high = document["label_range"]
        return MomentsClaim(
            **read_common_fields(document),
            rows=int(document["rows"]),
            label_range=(float(low), float(high)),
            intercept=bool(document["constant_in_span"]),
            feature_bound=float(document["moments"]["feature_bound"]),
            noise_std=float(document["moments"]["noise_std"]),
        )

    def check(self, release: Release) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        if claim.intercept is not features.intercept:
            yield "features.json and the certificate differ on whether there is an intercept"
        if claim.feature_bound < feature_bound(features):
            yield "certificate: the features may have longer rows than moments.feature_bound"
        exponent = release.certificate["numerics"]["label_exponent"]
        yield from check_label_exponent(claim.label_range, features.intercept, exponent)
        unsound = list(check_numbers(release))
        stds = label_stds(claim, features.kept_scales)
        yield from unsound or check_grid(release, rounded_noise.grid_for(float(stds.min())))

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        gram = engine.run_pass("feature sums", source, GramAccumulator(release.features))
        if (problem := other_table(release, gram)) is not None:
            yield problem

    def label_model(self, release: Release) -> SumLabels:
        claim, scales = self.claim_from_json(release.certificate), release.features.kept_scales
        return SumLabels(label_stds(claim, scales), weights=np.diag(1 / scales))

    def describe(self, document: dict[str, Any]) -> Description:
        noise = ("noise", f"deviation {number(document['moments']['noise_std'])} on X'y")
        return Description(plan=(noise,), release=(noise,), summary=("noise on X'y",))

    def account(self, question: AccountQuestion) -> dict[str, Any]:
        bound = question.needed("feature_bound")
        return {"moment_std": needed_std(question.width, bound, *question.budget)}


MECHANISM = NoisyMoments()
