"""noisy-moments: Xᵀy with Gaussian noise, beside XᵀX, which is public.

One label moves Xᵀy by Δ·‖x_i‖ at most, so this is the Gaussian mechanism with μ = Δ·B/s, where B
bounds the norms of the encoded rows: it follows from the feature map alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.errors import positive, to_float
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.base import Mechanism, MechanismPlan, SumLabels
from labeldp.mechanisms.checks import check_labels
from labeldp.mechanisms.design_summary import feature_bound
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.options import OptionGroup, checked, option
from labeldp.releases.certificate import Claim, read_common_fields
from labeldp.releases.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise

NAME = "noisy-moments"
NUMBER = {"type": "number"}
SECTION = {"type": "object", "properties": {"noise_std": NUMBER, "feature_bound": NUMBER}}


@dataclass(frozen=True, kw_only=True)
class MomentsOptions(OptionGroup):
    moment_std: float | None = option(checked(to_float, positive))


@dataclass(frozen=True, kw_only=True)
class MomentsClaim(Claim):
    """What is promised, and all that it follows from: fields beside those of every claim."""

    mechanism: ClassVar[str] = NAME
    basis = "Gaussian mechanism on X'y; feature_bound bounds the norm of every encoded row"

    feature_bound: float
    noise_std: float

    @property
    def privacy_profile(self) -> GaussianProfile:
        return GaussianProfile(self.width * self.feature_bound / self.noise_std)

    def own_fields(self) -> dict[str, Any]:
        return {"moments": {"noise_std": self.noise_std, "feature_bound": self.feature_bound}}

    def stds(self, features: FeatureMap) -> np.ndarray:
        """Return the noise on each aggregate: weights are the columns' integers, without scales."""
        return self.noise_std / features.kept_scales * (1 + 2.0**-50)


class NoisyMoments(Mechanism):
    name = NAME
    Options = MomentsOptions
    sections: ClassVar = {"moments": SECTION}

    def plan(self, request: Any, design: Any, source: Any, engine: Any) -> MechanismPlan:  # noqa: ARG002
        fields, bound = design.claim_fields(request), feature_bound(design.features)
        rows, rank, width = fields["rows"], fields["rank"], design.facts.width
        needed = width * bound / largest_mu(request.epsilon, request.delta) * (1 + 1e-9)
        std = request.options.moment_std or needed
        claim = MomentsClaim(**fields, bags=rank, feature_bound=bound, noise_std=std)
        noise = {"residual_ms": (width / 10) ** 2, "added_variance": std**2}
        roughly = forecast(rows=rows, rank=rank, bags=2 * rank + 2, **noise)
        return self.make_plan(design, claim, roughly)

    def run(self, plan: MechanismPlan, source: Any, engine: Any, randomness: Any) -> PendingRelease:
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, MomentsClaim)
        plan.check_source(
            source,
            claim.bags == len(features.names),
            claim.feature_bound >= feature_bound(features),
        )
        randomness.spend()
        accumulators = GramAccumulator(features), LabelCrossProducts(features, labels)
        gram, moments = engine.run_pass("label sums", source, *accumulators)
        plan.check_feature_sums(gram.digest())
        kept, whole = list(features.kept_columns), gram.exact(range(gram.width))
        sums = moments.cross[kept] + labels.centre * whole[0][kept]  # labels count from the centre
        stds = claim.stds(features)
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
        return MomentsClaim(**read_common_fields(document), **document["moments"])

    def check(self, release: Any) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        if claim.feature_bound < feature_bound(features):
            yield "certificate: the features may have longer rows than moments.feature_bound"
        grid = rounded_noise.grid_for(float(claim.stds(features).min()))
        yield from check_labels(release, claim, grid)

    def label_model(self, release: Any) -> SumLabels:
        claim, features = self.claim_from_json(release.certificate), release.features
        return SumLabels(claim.stds(features), weights=np.diag(1 / features.kept_scales))


MECHANISM = NoisyMoments()
