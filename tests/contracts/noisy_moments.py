"""noisy-moments: Xᵀy with Gaussian noise, beside XᵀX, which is public.

One label moves Xᵀy by Δ·‖x_i‖ at most, so this is the Gaussian mechanism with μ = Δ·B/s, where B
bounds the norms of the encoded rows: it follows from the feature map alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.errors import positive
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.mechanisms.base import Mechanism, MechanismPlan
from labeldp.mechanisms.checks import check_labels
from labeldp.mechanisms.design_summary import feature_bound
from labeldp.mechanisms.forecast import forecast
from labeldp.release.certificate import Claim, read_common_fields
from labeldp.release.label_model import SumLabels
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise

NAME = "noisy-moments"
SECTION: dict[str, Any] = {
    "type": "object",
    "properties": {"noise_std": {"type": "number"}, "feature_bound": {"type": "number"}},
    "required": ["noise_std", "feature_bound"],
}


@dataclass(frozen=True, kw_only=True)
class MomentsOptions:
    moment_std: float | None = None

    def __post_init__(self) -> None:
        if self.moment_std is not None:
            positive(moment_std=self.moment_std)


@dataclass(frozen=True, kw_only=True)
class MomentsClaim(Claim):
    """What is promised, and all that it follows from."""

    mechanism: ClassVar[str] = NAME
    basis = "Gaussian mechanism on X'y; feature_bound bounds the norm of every encoded row"

    feature_bound: float
    noise_std: float

    @property
    def privacy_profile(self) -> GaussianProfile:
        return GaussianProfile(self.width * self.feature_bound / self.noise_std)

    def own_fields(self) -> dict[str, Any]:
        return {"moments": {"noise_std": self.noise_std, "feature_bound": self.feature_bound}}


def label_stds(claim: MomentsClaim, scales: np.ndarray) -> np.ndarray:
    """Return the noise on each aggregate: weights are the columns' integers, without scales."""
    return claim.noise_std / scales * (1 + 2.0**-50)


class NoisyMoments(Mechanism):
    name = NAME
    Options = MomentsOptions
    sections: ClassVar = {"moments": SECTION}

    def plan(self, request: Any, design: Any, source: Any, engine: Any) -> MechanismPlan:  # noqa: ARG002
        features, facts, rank = design.features, design.facts, design.factor.rank
        bound = feature_bound(features)
        needed = facts.width * bound / largest_mu(request.epsilon, request.delta) * (1 + 1e-9)
        std = request.options.moment_std or needed
        claim = MomentsClaim(
            **design.claim_fields(request), bags=rank, feature_bound=bound, noise_std=std
        )
        roughly = forecast(
            rows=facts.rows,
            rank=rank,
            bags=2 * rank + 2,
            residual_ms=(facts.width / 10) ** 2,
            added_variance=std**2,
        )
        return self.make_plan(design, claim, roughly)

    def run(self, plan: MechanismPlan, source: Any, engine: Any, randomness: Any) -> PendingRelease:
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
        schema = aggregate_schema(features, source.label)
        design = whole[np.ix_(kept, kept)].astype(np.float64) * features.kept_scales
        batch = aggregate_batch(schema, design, np.ldexp(cells, labels.exponent))
        return plan.pending_release(source, randomness, grid=grid, schema=schema, batches=[batch])

    def claim_from_json(self, document: dict[str, Any]) -> MomentsClaim:
        return MomentsClaim(
            **read_common_fields(document),
            **document["moments"],
        )

    def check(self, release: Any) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        if claim.feature_bound < feature_bound(features):
            yield "certificate: the features may have longer rows than moments.feature_bound"
        stds = label_stds(claim, features.kept_scales)
        yield from check_labels(release, claim, rounded_noise.grid_for(float(stds.min())))

    def label_model(self, release: Any) -> SumLabels:
        claim, scales = self.claim_from_json(release.certificate), release.features.kept_scales
        return SumLabels(label_stds(claim, scales), weights=np.diag(1 / scales))


MECHANISM = NoisyMoments()
