"""wtd-FLAg: m sums of all rows with secret Gaussian weights (Algorithm 1 of the paper).

The release is Wᵀ[X | y] with W an n×m matrix of independent standard normals that nobody sees. W is
never drawn: the m rows of the release are independent N(0, [X|y]ᵀ[X|y]), so they are sampled from
the Gram matrix (theory §3a). Given its aggregated features Z_j, an aggregated label is
N(Z_j·β̂, σ²), with β̂ the least-squares fit of all labels and σ² its residual sum of squares.

Privacy: a changed label changes σ and β̂, and thus the law of the aggregates; the exact law of the
privacy loss is known (theory §3b). It is largest for the neighbour that the public leverage still
allows when σ² is as small as the floor (§3e). That supremum, composed with the measurement of
the floor, is the guarantee (`accounting.sketch`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.sketch import SketchProfile, measurement_cost
from labeldp.data.source import Source
from labeldp.display import Document, Facts, describe_floor
from labeldp.errors import PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts
from labeldp.exact.person_norms import PersonScan
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms import residual_floor as floors
from labeldp.mechanisms.base import (
    OTHER_FEATURES,
    MechanismPlan,
    read_schema,
)
from labeldp.mechanisms.checks import check_design, other_table
from labeldp.mechanisms.design_summary import DesignSummary, most_rows
from labeldp.mechanisms.forecast import fit_excess, mean_excess
from labeldp.mechanisms.options import AccountQuestion, FloorOptions, PlanRequest, aggregates_in
from labeldp.passes.engine import Engine
from labeldp.releases.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling.streams import Randomness
from labeldp.threads import map_in_order, thread_count

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]
Request = PlanRequest[FloorOptions]

MOST_PUBLISHED_BAGS = 10**7
"""Largest number of aggregates in a release."""

# ---- claim

PAPER = "paper"
"""The accountant of earlier releases that state what Theorem 1 of the paper gives (theory §2).

They are priced by the law for any features, which needs no theorem. It never gives more, so such
certificates hold: R = γn/B_Y² ≥ 16 makes τ = 2/√R ≤ 1/2, hence α ≤ 6τ and β ≤ min(2τ, 3/4) in both
directions (theory §3b). With z = min(√R/24, εR/(288m)), for which αz ≤ 1/2, and the theorem's
m ≤ εR/160, Chernoff's bound is

    log δ ≤ (m/2)(zα²/2 + z²α² + 1.2zβ² + z²β²/2) − zε ≤ (m/R)(45.6z + 76z²) − zε ≤ −0.45zε,

below the theorem's ln 2 − 0.145·min(ε√R/20, ε²R/(400m)). k labels at once have R/k in place of R,
and k steps of the theorem ask for √R ≥ 2k + 2 ≥ 4√k and m ≤ εR/(160k), and have ε/k in place of ε.
"""
_BASIS = {
    "exact": "exact law of the privacy loss given the features' largest leverage; "
    "supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss for any features; supremum over neighbours "
    "certified",
    PAPER: "Theorem 1 of 'Label Differential Privacy via Aggregation'",
}
_PERSON_BASIS = "; for as many labels at once as a person has rows, wherever these stand"


@dataclass(frozen=True, kw_only=True)
class WtdFlagClaim(floors.FloorClaim):
    """`bags` aggregates of a table whose residual sum of squares is at least `floor`."""

    mechanism: ClassVar[str] = "wtd-flag"

    compact: bool = False
    """An old release of d+1 rows, the triangle of a QR of all aggregates; drawn no more."""

    @property
    def privacy_profile(self) -> PrivacyProfile:
        """The profile of one label, or of all labels of a person at once."""
        profile = SketchProfile(
            self.used_facts, self.bags, self.floor, *measurement_cost(self.measurement)
        )
        return profile if self.person is None else profile.group(self.protected)

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares of the fit with all labels, "
            "plus floor.added_variance",
            **fit_excess(self.rank, self.bags).to_json(),
        }

    @property
    def superseded(self) -> str:
        if self.compact:
            return "compact releases are drawn no more"
        if self.accountant == PAPER:
            return "the paper's theorem prices releases no more (`accountant='exact'`)"
        return super().superseded

    @property
    def basis(self) -> str:
        return _BASIS[self.accountant] + ("" if self.person is None else _PERSON_BASIS)

    def own_fields(self) -> Document:
        form = {"form": "compact"} if self.compact else {}
        return form | self.floor_fields("the residual sum of squares")


# ---- how many aggregates, and under which floor
#
# As aggregates are added the forecast error first falls like 1/m; once the needed floor exceeds the
# data's own residual it falls more slowly or levels off. So the number need not know the residual:
# take the largest that the file may hold, and stop where more no longer reduce the error. See
# theory §6.

_GROWTH = 4
_LEAST_GAIN = 4e-3
"""Four times the aggregates must reduce the forecast error by this share to be worth the file."""


def choose_bags(claim: WtdFlagClaim, residual_ms: float, megabytes: float) -> int:
    """Return how many aggregates to publish (step 2), for a guess of the residual mean square."""
    rank = claim.rank
    most = min(MOST_PUBLISHED_BAGS, aggregates_in(megabytes, rank))
    if not claim.mode.adds:
        # Without added noise the declared residual must carry all aggregates.
        profile = replace(claim, floor=residual_ms * claim.rows).privacy_profile
        most = min(most, int(calibrate(profile, "bags", claim.epsilon, claim.delta)))
    if most < rank + 2:
        raise PlanError(
            f"file size and floor allow {most} aggregates, but a fit of {rank} columns needs at "
            f"least {rank + 2}; raise `max_megabytes`, ε or δ, use `floor='measured+added'`, or "
            "drop columns"
        )

    def expected_error(bags: int) -> float:
        some = replace(claim, bags=bags)
        some = replace(some, floor=some.needed_floor(certified=False))  # only the last is certified
        noise = some.expected_added_variance(residual_ms) / claim.rows
        return residual_ms + (residual_ms + noise) * mean_excess(rank, bags)

    bags = min(most, 8 * (rank + 1))
    current = expected_error(bags)
    while bags < most:
        more = min(most, _GROWTH * bags)
        following = expected_error(more)
        if current - following < _LEAST_GAIN * current * (more / bags - 1) / (_GROWTH - 1):
            break
        bags, current = more, following
    return bags


# ---- mechanism


class WtdFlag(floors.FloorMechanism):
    """m sums of all rows with secret Gaussian weights (Algorithm 1).

    `plan`, from features only
        1. summarize the design: exact XᵀX, its verified Cholesky factor R, the largest leverage
                                                                               -> summarize_design
        2. choose the number of aggregates m                                   -> choose_bags
        3. calibrate the residual floor that m aggregates need at (ε, δ) -> with_calibrated_floor
    `run`, one pass over the labels
        4. sum XᵀX, Xᵀy and yᵀy exactly                                        -> run
        5. check the features, their leverage and the persons again            -> _differences
        6. establish the floor: measure σ with noise, add what is missing as noise
                                                                               -> establish_floor
        7. draw aggregated features Z = G·R; they do not depend on labels      -> draw_aggregates
        8. draw aggregated labels N(Z·β̂, σ² + added), exactly rounded          -> draw_aggregates
    Labels enter in step 4 and leave in steps 6 and 8 alone. Their noise is drawn by
    `residual_floor`, which sampled-wtd-flag shares (`establish_floor` and
    `AggregateLabelSampler.publish`), through `sampling/rounded_noise`.
    """

    name = "wtd-flag"
    Options = FloorOptions
    former_accountants = (PAPER,)
    covers_persons = True
    closed_form = True
    sections: ClassVar = {"floor": read_schema("floor")}
    account_fields = ("residual_ms", "bags", "max_leverage", "features")

    # ---- planning

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Choose the number of aggregates and the floor that they need; no label is read."""
        options = request.options
        design.check_residual_left()
        person = most_rows(design.features, source, engine)
        fields = floors.planned_fields(request, design, person.rows if person else 1)
        claim = WtdFlagClaim(**fields, bags=1, person=person)
        # Step 2
        megabytes = options.megabytes(claim.rows * (len(design.features.columns) + 1))
        bags = options.bags or choose_bags(claim, options.residual(claim.width), megabytes)
        if bags > MOST_PUBLISHED_BAGS:
            raise PlanError(
                f"{bags:,} aggregates are too many; ask for {MOST_PUBLISHED_BAGS:,} at most "
                "(`bags`)"
            )
        # Step 3. The claim is complete with it: nothing that a run sees can change the guarantee.
        claim = replace(claim, bags=bags).with_calibrated_floor(
            options.residual_ms, whose=f"{bags} aggregates", cure="ask for fewer (`bags`)"
        )
        return self.make_plan(design, claim, claim.forecast(options))

    def least_added_mse(self, request: Request, design: DesignSummary) -> float:
        """Return what infinitely many aggregates add: equal noise in all directions (theory §8).

        Fewer aggregates need less of a floor, but not in proportion, so they add more (theory §6).
        """
        design.check_residual_left()
        mu, facts = largest_mu(request.epsilon, request.delta), design.facts
        isotropic = design.factor.rank * float(design.leverage.maximum)
        return (facts.width / mu) ** 2 * isotropic / facts.rows

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the labels in one pass; establish the floor; then draw the aggregates."""
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, WtdFlagClaim)
        plan.check_source(source, claim.intercept <= (features.constant is not None))
        randomness.spend()
        # Step 4: labels enter. Only sums of them are kept. Persons are counted in the very pass
        # that sums labels: another might see other rows.
        sums = GramAccumulator(features), LabelCrossProducts(features, labels)
        person_rows = 1
        if source.person is None:
            gram, moments = engine.run_pass("label sums", source, *sums)
        else:
            scan = PersonScan(features)
            gram, moments, persons = engine.run_pass("label sums", source, *sums, scan)
            person_rows = persons.rows
        # Step 5
        plan.check_feature_sums(gram.digest())
        factor = plan.factor_of(gram)
        if any(self._differences(claim, features, factor, source, engine, person_rows)):
            raise PlanError(OTHER_FEATURES)
        # Step 6. From here on labels matter, through σ² and β̂ alone. σ is published with noise.
        residual = ExactLeastSquares(factor, moments)
        outcome = floors.establish_floor(claim, [residual], labels, randomness)
        # Steps 7 and 8. `sampler` draws the noise of labels, which hides what is left of them.
        sampler = floors.AggregateLabelSampler(
            residual, labels, outcome.added_variance, features.intercept
        )
        threads = thread_count(engine.threads)
        blocks = draw_aggregates(factor, sampler, claim.bags, claim.grid, randomness, threads)
        schema = aggregate_schema(features, source.label or "label")

        def batches() -> Generator[pa.RecordBatch, None, None]:
            with closing(blocks), engine.progress("aggregates", claim.bags) as advance:
                for design, drawn in blocks:
                    design *= features.kept_scales
                    yield aggregate_batch(schema, design, drawn)
                    advance(len(drawn))

        return plan.pending_release(
            source, randomness, grid=claim.grid, schema=schema, batches=batches(), outcome=outcome
        )

    def _differences(
        self,
        claim: WtdFlagClaim,
        features: FeatureMap,
        factor: VerifiedCholesky,
        source: Source,
        engine: Engine,
        person_rows: int,
    ) -> Iterator[str]:
        """Say in what a table differs from the facts that the claim rests on (step 5).

        Equal sums do not suffice: tables with equal sums may differ in leverage and persons.
        """
        if (factor.rows, factor.rank) != (claim.rows, claim.rank):
            yield "the certificate's rows and rank are not those of the table"
        largest = engine.run_pass("leverages", source, LeverageScan(features, factor)).maximum
        yield from claim.differences(largest, factor.error_bound)
        if person_rows > claim.protected:
            yield f"a person has {person_rows} rows, the certificate says {claim.protected} at most"

    # ---- reading a release

    def claim_from_json(self, document: Document) -> WtdFlagClaim:
        compact = document["form"] == "compact"
        return WtdFlagClaim(**floors.floor_claim_fields(document), compact=compact)

    def describe(self, document: Document) -> Facts:
        return describe_floor(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from floors.check_floor_release(release, claim)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare rows, columns, leverage, persons and the law of Z with the table's."""
        claim, features = self.claim_from_json(release.certificate), release.features
        gram = engine.run_pass("feature sums", source, GramAccumulator(features))
        if (problem := other_table(release, gram)) is not None:
            yield problem
            return
        factor = verified_cholesky(gram, features)
        if factor.kept != features.kept_columns:
            yield "the released columns are not independent in the table"
            return
        person = most_rows(features, source, engine)
        person_rows = 1 if person is None else person.rows
        yield from self._differences(claim, features, factor, source, engine, person_rows)
        yield from check_design(release, factor)

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the most aggregates under a floor, or what a number of them costs."""
        floor = question.rows * question.needed("residual_ms")
        answers: dict[str, Document] = {}
        for name, facts in floors.account_facts(question, question.rows).items():
            profile = SketchProfile(facts, question.bags or 1, floor)
            if question.bags is None:
                most = int(calibrate(profile, "bags", *question.budget))
                answer, possible = Document(max_bags=most), most > 0
                reason = (
                    f"one label can move the residual norm by {facts.width:g}, and the floor on "
                    f"that norm is {math.sqrt(floor):g}: not even one bag has "
                    f"ε = {question.epsilon:g}, δ = {question.delta:g}"
                )
            else:
                epsilon = epsilon_at(profile, question.delta)
                possible = math.isfinite(epsilon)
                delta = profile.delta(question.epsilon).upper
                answer = Document(epsilon=epsilon if possible else None, delta=delta)
                reason = f"no ε is enough for {question.bags} aggregates at δ = {question.delta:g}"
            answers[name] = answer if possible else answer | {"reason": reason}
        return {"accountants": answers}


# ---- drawing aggregates (steps 7 and 8)

_MOST_ROWS, _FEWEST_ROWS, _NUMBERS = 1 << 14, 1 << 10, 1 << 19
"""A block has at most so many rows, and no more than so many numbers unless it has the fewest."""
_MOST_THREADS = 8
"""They draw faster than one file can be written, and each of them holds some MiB."""
_PANEL = 64
"""Columns of the triangle R that are multiplied at a time: R is zero below a panel's diagonal."""


def block_rows(columns: int) -> int:
    """Return the rows of a block: a power of two, so that it fits a processor's cache if it can."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, 1 << (_NUMBERS // columns).bit_length() - 1))


def draw_aggregates(
    factor: VerifiedCholesky,
    sampler: floors.AggregateLabelSampler,
    bags: int,
    grid: int,
    randomness: Randomness,
    threads: int = 1,
) -> Generator[tuple[Reals, Reals], None, None]:
    """Yield `bags` aggregates block by block: Z in integer columns, and t on the public grid.

    Aggregates are independent, so blocks can be drawn at the same time. Where a block begins
    depends on the number of columns alone, and its randomness on its place alone: threads change
    the time that it takes, not the numbers.
    """
    root = factor.root()
    rows = block_rows(factor.rank + 1)

    def block(place: int) -> tuple[Reals, Reals]:
        streams = randomness.block(place)
        size = min(rows, bags - place * rows)
        normal = streams.features.standard_normal((size, factor.rank))
        # Z = G·R does not depend on labels, so ordinary floating point may be used for it. Its law
        # differs from the ideal one by rounding, which the claim's `inflation` covers.
        features = _times_triangle(normal, root)
        # Labels leave here: exactly rounded draws of N(Z·β̂, σ² + added).
        codes = sampler.publish(features, grid, streams)
        return features, np.ldexp(codes, sampler.exponent)

    with threadpool_limits(1, "blas"):  # the threads here are enough
        yield from map_in_order(block, range(-(-bags // rows)), min(threads, _MOST_THREADS))


def _times_triangle(left: Reals, upper: Reals) -> Reals:
    """Return left @ upper for an upper triangle, in Fortran order."""
    product = np.empty((upper.shape[1], len(left)))
    for start in range(0, len(product), _PANEL):
        stop = start + _PANEL
        np.matmul(upper[:stop, start:stop].T, left[:, :stop].T, out=product[start:stop])
    return product.T
