"""wtd-FLAg: m sums of all rows with secret Gaussian weights (Algorithm 1 of the paper).

The release is Wᵀ[X | y] with W an n×m matrix of independent standard normals that nobody sees. W is
never drawn: the m rows of the release are independent N(0, [X|y]ᵀ[X|y]), so they are sampled from
the Gram matrix (theory §3a). Given its aggregated features Z_j, an aggregated label is
N(Z_j·β̂, σ²), with β̂ the least-squares fit of all labels and σ² its residual sum of squares.

Plan (features only)
    1. summarize the design: exact XᵀX, its verified Cholesky factor R, the largest leverage
                                                                              -> summarize_design
    2. choose the number of aggregates m                                      -> choose_bags
    3. calibrate the residual floor that m aggregates need at (ε, δ)          -> needed_floor
Run (one pass over the labels)
    4. exact XᵀX, Xᵀy and yᵀy; check features, leverage and persons again      -> run
    5. establish the floor: measure σ with noise, add what is missing as noise -> establish_floor
    6. sample aggregated features Z = G·R; they do not depend on labels        -> draw_aggregates
    7. sample aggregated labels N(Z·β̂, σ² + added), exactly rounded            -> draw_aggregates
A compact release replaces steps 6 and 7 by d+1 rows that carry the same information (theory §8):
                                                                              -> draw_compact

Privacy: a changed label changes σ and β̂, and thus the law of the aggregates; the exact law of the
privacy loss is known (theory §3b). It is largest for the neighbour that the public leverage still
allows when σ² is as small as the floor (§3e). That supremum, composed with the measurement of
step 5, is the guarantee (`accounting.sketch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.sketch import ACCOUNTANTS, DatasetBounds
from labeldp.accounting.theorems import Answer, Theorem1
from labeldp.data.source import Source
from labeldp.errors import InputError, PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.leverage import Leverage, LeverageScan
from labeldp.exact.person_norms import PersonScan, PersonSums
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.account import needed_field
from labeldp.mechanisms.base import OTHER_FEATURES, Mechanism, MechanismPlan, read_schema
from labeldp.mechanisms.checks import check_design, other_table
from labeldp.mechanisms.description import (
    Description,
    Document,
    describe_floor,
    describe_person,
    number,
)
from labeldp.mechanisms.design_summary import (
    DesignSummary,
    inflation_for,
    most_rows,
    person_notes,
)
from labeldp.mechanisms.forecast import (
    forecast,
    mean_excess,
    relative_excess,
    sketched_error,
)
from labeldp.mechanisms.notes import Note
from labeldp.mechanisms.options import (
    AccountQuestion,
    PlanRequest,
    WtdFlagOptions,
    aggregates_in,
)
from labeldp.mechanisms.residual_floor import (
    AggregateLabelSampler,
    FloorClaim,
    FloorParameters,
    check_floor_release,
    claimed_floor,
    establish_floor,
    floor_claim_fields,
    floor_mode,
    floor_not_checked,
    sketched_labels,
)
from labeldp.passes.engine import Engine
from labeldp.release.certificate import AddedError, FloorOutcome, read_common_fields
from labeldp.release.label_model import SketchedLabels
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp.threads import map_in_order, thread_count

if TYPE_CHECKING:
    from labeldp.release.files import Release

Reals = NDArray[np.float64]

MOST_PUBLISHED_BAGS = 10**7
"""Largest number of aggregates in a release."""

# ---- claim

_BASIS = {
    "exact": "exact law of the privacy loss given the features' largest leverage; "
    "supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss for any features; supremum over neighbours "
    "certified",
    "paper": "Theorem 1 of 'Label Differential Privacy via Aggregation'",
}
_PERSON_BASIS = "; for as many labels at once as a person has rows, wherever these stand"


@dataclass(frozen=True)
class WtdFlagClaim(FloorClaim):
    """`bags` aggregates of a table whose residual sum of squares is at least `floor`."""

    mechanism: ClassVar[str] = "wtd-flag"

    compact: bool = False
    """Published as d+1 rows that carry all that the aggregates do (theory §8)."""

    @property
    def privacy_profile(self) -> PrivacyProfile:
        """The profile of one label, or of all labels of a person at once."""
        profile = ACCOUNTANTS[self.accountant](self.facts, self.bags, self.floor, self.measurement)
        return profile if self.person is None else profile.group(self.protected)

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares of the fit with all labels, "
            "plus floor.added_variance",
            **relative_excess(self.facts.features or 0, self.bags),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """Return (σ² + s²)·d/(m−d−1) over the rows, with σ² as it was measured (theory §6)."""
        measured, bounds = self.residual_ms(outcome)
        return sketched_error(
            self.facts.features or 0,
            self.bags,
            bounds,
            width=self.facts.width,
            residual_ms=measured,
            noise_ms=(outcome.added_variance if outcome else 0.0) / self.facts.rows,
            basis="the residual as floor.measured shows it, and floor.added_variance"
            if measured is not None
            else "bounds for any residual that the label range allows, and floor.added_variance",
        )

    def extent(self, design: int, raw: int) -> tuple[int, int]:
        rows, columns = super().extent(design, raw)
        return (design + 1 if self.compact else rows), columns

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:
        """Return the deviation of the added noise, beside what secret weights do."""
        return None if outcome is None else math.sqrt(outcome.added_variance)

    def to_json(self) -> Document:
        return {
            **self.common_fields(
                _BASIS[self.accountant] + ("" if self.person is None else _PERSON_BASIS)
            ),
            "form": "compact" if self.compact else "rows",
            "bag_size": self.facts.rows,
            "rows": self.facts.rows,
            "rank": self.facts.features,
            **self.facts_json("the residual sum of squares"),
            "draw": None,
            "noise": None,
        }


# ---- how many aggregates, and under which floor
#
# As aggregates are added the forecast error first falls like 1/m; once the needed floor exceeds the
# data's own residual it falls more slowly or levels off. So the number need not know the residual:
# take the largest that the file may hold, and stop where more no longer reduce the error. A compact
# release has d+1 rows whatever m is, so there the largest m is taken (theory §6, §8).

_GROWTH = 4
_LEAST_GAIN = 4e-3
"""Four times the aggregates must reduce the forecast error by this share to be worth the file."""


def profile_under(floor: FloorParameters, bags: int, residual_ss: float) -> PrivacyProfile:
    """Return the accountant's profile, for as many labels at once as a person may have."""
    profile = ACCOUNTANTS[floor.accountant](floor.facts, bags, residual_ss, floor.measurement)
    return profile if floor.labels == 1 else profile.group(floor.labels)


def needed_floor(floor: FloorParameters, bags: int, *, certified: bool = True) -> float:
    """Return the residual sum of squares, own and added, that so many aggregates need (step 3)."""
    profile = profile_under(floor, bags, 1.0)
    return calibrate(profile, "floor", floor.epsilon, floor.delta, certified=certified)


def max_bags(
    accountant: str, facts: DatasetBounds, floor: float, epsilon: float, delta: float
) -> Answer:
    """Return the most aggregates under a floor, and why there are none if there are none."""
    if accountant == "paper":
        promise = Theorem1(facts.rows, facts.label_range, floor / facts.rows)
        return promise.max_bags(epsilon, delta)
    bags = calibrate(ACCOUNTANTS[accountant](facts, 1, floor, None), "bags", epsilon, delta)
    reason = (
        f"one label can move the residual norm by {facts.width:g}, and the floor on that norm is "
        f"{math.sqrt(floor):g}: not even one bag has ε = {epsilon:g}, δ = {delta:g}"
    )
    return Answer(bags, "" if bags else reason)


def most_bags_in(megabytes: float, columns: int) -> int:
    """Return the most aggregates that a file of this size can hold."""
    return min(MOST_PUBLISHED_BAGS, aggregates_in(megabytes, columns))


def choose_bags(floor: FloorParameters, megabytes: float, *, compact: bool = False) -> int:
    """Return how many aggregates to publish (step 2)."""
    rank, smallest = floor.rank, floor.rank + 2
    most = MOST_PUBLISHED_BAGS if compact else most_bags_in(megabytes, rank)
    if most < smallest:
        raise PlanError(
            f"a file of this size holds {most} aggregates, but a fit of {rank} columns needs "
            f"at least {smallest}; raise `max_megabytes` or drop columns"
        )
    if not floor.mode.adds:
        most = min(most, _most_without_noise(floor))
    if most < smallest:
        raise PlanError(
            f"the budget allows {most} aggregates under this floor, but a fit of {rank} "
            f"columns needs at least {smallest}; raise ε or δ, use `floor='measured+added'`, or "
            "drop columns"
        )
    if compact:
        return most
    bags = min(most, 8 * (rank + 1))
    current = _expected_error(floor, bags)
    while bags < most:
        more = min(most, _GROWTH * bags)
        following = _expected_error(floor, more)
        if current - following < _LEAST_GAIN * current * (more / bags - 1) / (_GROWTH - 1):
            break
        bags, current = more, following
    return bags


def _most_without_noise(floor: FloorParameters) -> int:
    """Return the most aggregates under the guessed residual, without added noise."""
    residual_ss = floor.facts.rows * floor.residual_ms
    if floor.measurement is not None:
        # Measuring loses a quantile to the bound and may lose it once more to chance.
        bound, width = floor.measurement.lower_bound, floor.facts.width
        residual_ss = bound(bound(residual_ss**0.5, 0.0, width), 0.0, width) ** 2
    if residual_ss == 0.0:
        return 0
    return int(calibrate(profile_under(floor, 1, residual_ss), "bags", floor.epsilon, floor.delta))


def _expected_error(floor: FloorParameters, bags: int) -> float:
    """Return the mean squared error of a fit if the residual mean square is as guessed."""
    needed = needed_floor(floor, bags, certified=False)  # only the chosen floor must be certified
    noise = floor.added(needed, floor.facts.rows) / floor.facts.rows
    return floor.residual_ms + (floor.residual_ms + noise) * mean_excess(floor.rank, bags)


# ---- mechanism


class WtdFlag(Mechanism):
    """m sums of all rows with secret Gaussian weights (Algorithm 1)."""

    name = "wtd-flag"
    title = "m sums of all rows with secret Gaussian weights (Algorithm 1)"
    Options = WtdFlagOptions
    accountants = ("paper", "exact-worst-case", "exact")
    covers_persons = True
    closed_form = True
    has_error_bound = True
    sections: ClassVar = {"floor": read_schema("floor")}
    account_fields = ("residual_ms", "bags", "max_leverage", "features")

    # ---- planning

    def check_request(self, request: PlanRequest[WtdFlagOptions], source: Source) -> None:
        super().check_request(request, source)
        floor_mode(request.options, request.accountant)
        if source.person is not None and request.accountant == "paper":
            raise PlanError(
                "the paper's theorem speaks of one label, not of all rows of a person together; "
                "use `accountant='exact'`, or leave `person` out to protect single rows"
            )

    def plan(
        self,
        request: PlanRequest[WtdFlagOptions],
        design: DesignSummary,
        source: Source,
        engine: Engine,
    ) -> MechanismPlan:
        """Choose the number of aggregates and the floor that they need; no label is read."""
        self.check_request(request, source)
        options, facts = request.options, design.facts
        mode = floor_mode(options, request.accountant)
        design.check_residual_left()
        person = most_rows(design.features, source, engine)
        parameters = FloorParameters(
            facts,
            request.epsilon,
            request.delta,
            request.accountant,
            mode,
            options.residual_ms or options.residual(facts.width),
            person.rows if person else 1,
        )
        rank = parameters.rank
        megabytes = options.megabytes(facts.rows * (len(design.features.columns) + 1))
        bags = options.bags or choose_bags(parameters, megabytes, compact=options.compact)
        self._check_bags(bags, rank, options)
        floor = claimed_floor(
            needed_floor(parameters, bags),
            facts.rows,
            options.residual_ms,
            whose=f"{bags} aggregates",
            cure="ask for fewer (`bags`)",
        )
        return MechanismPlan(
            self,
            WtdFlagClaim(
                request.accountant,
                request.epsilon,
                request.delta,
                bags,
                floor,
                mode,
                parameters.measurement,
                facts,
                options.compact,
                person=person,
            ),
            design.features,
            design.labels,
            design.feature_sums,
            forecast(
                rows=facts.rows,
                rank=rank,
                bags=bags,
                residual_ms=parameters.residual_ms,
                added_variance=parameters.added(floor, facts.rows),
                residual_source="stated" if options.residual_ms else options.residual_source,
            ),
            (
                *design.notes,
                *self._size_note(options, bags, rank, megabytes),
                *person_notes(person),
            ),
            design.factor,
        )

    def _check_bags(self, bags: int, rank: int, options: WtdFlagOptions) -> None:
        if bags > MOST_PUBLISHED_BAGS:
            raise PlanError(
                f"{bags:,} aggregates are too many; ask for {MOST_PUBLISHED_BAGS:,} at most "
                "(`bags`)"
            )
        if options.compact and bags <= rank + 1:
            raise PlanError(
                f"{bags} aggregates of {rank} columns have no compact form of fewer rows; ask for "
                "more (`bags`), or leave `compact` out"
            )

    def _size_note(
        self, options: WtdFlagOptions, bags: int, rank: int, megabytes: float
    ) -> Iterator[Note]:
        """Say so if the file's size, not the data, limits the number of aggregates."""
        asked = options.bags or options.max_megabytes or options.compact
        if not asked and bags >= most_bags_in(megabytes, rank):
            yield Note(
                f"the file is kept to {number(megabytes)} MB, which more aggregates would exceed: "
                "allow more with `max_megabytes`, or publish with `compact=True`, where their "
                "number is free",
                Note.NOISE,
            )

    def least_added_mse(self, request: PlanRequest[WtdFlagOptions], design: DesignSummary) -> float:
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
        plan.check_source(
            source,
            claim.facts.centred <= (features.constant is not None),
            not claim.compact or claim.bags > (claim.facts.features or 0) + 1,
        )
        randomness.spend()
        gram, moments, persons = self._sums(plan, source, engine)
        plan.check_feature_sums(gram.digest())
        factor = plan.factor
        if factor is None or factor.kept != features.kept_columns or not factor.is_of(gram):
            factor = verified_cholesky(gram, features)  # the plan came from a file, or was edited
        # Equal sums do not suffice: tables with equal sums may differ in leverage and persons.
        leverage = engine.run_pass("leverages", source, LeverageScan(features, factor))
        check_facts(claim, features, factor, leverage)
        person = most_rows(features, source, engine, persons)
        if person is not None and person.rows > claim.protected:
            raise PlanError(OTHER_FEATURES)
        # From here on labels matter, through σ² and β̂ alone.
        residual = ExactLeastSquares(factor, moments)
        outcome = establish_floor(claim, [residual], labels, randomness)
        sampler = AggregateLabelSampler(
            residual, labels, outcome.added_variance, features.intercept
        )
        grid = rounded_noise.grid_for(math.sqrt(claim.floor))
        schema = aggregate_schema(features, source.label or "label")
        draw: Callable[..., Generator[Aggregates, None, None]] = (
            draw_compact
            if claim.compact
            else partial(draw_aggregates, threads=thread_count(engine.threads))
        )
        blocks = draw(
            factor,
            sampler,
            bags=claim.bags,
            scales=features.kept_scales,
            grid=grid,
            randomness=randomness,
        )

        def batches() -> Generator[pa.RecordBatch, None, None]:
            with closing(blocks), engine.progress("aggregates", claim.bags) as advance:
                for block in blocks:
                    yield aggregate_batch(schema, block.features, block.labels)
                    advance(len(block.labels))

        return plan.pending_release(
            source, randomness, grid=grid, schema=schema, batches=batches(), outcome=outcome
        )

    def _sums(
        self, plan: MechanismPlan, source: Source, engine: Engine
    ) -> tuple[FeatureGram, LabelMoments, PersonSums | None]:
        """Sum features and labels, and count persons, in the one pass that reads labels (step 4).

        Persons must be counted in that very pass: another pass might see other rows.
        """
        sums = GramAccumulator(plan.features), LabelCrossProducts(plan.features, plan.labels)
        if source.person is None:
            return *engine.run_pass("label sums", source, *sums), None
        return engine.run_pass("label sums", source, *sums, PersonScan(plan.features))

    # ---- reading a release

    def claim_from_json(self, document: Document) -> WtdFlagClaim:
        rows, rank = int(document["rows"]), int(document["rank"])
        return WtdFlagClaim(
            **read_common_fields(document),
            **floor_claim_fields(document, rows=rows, rank=rank),
            compact=document["form"] == "compact",
        )

    def label_model(self, release: Release) -> SketchedLabels:
        return sketched_labels(release)

    def describe(self, document: Document) -> Description:
        return describe_floor(document) + describe_person(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from check_floor_release(release, claim, scatter=True)

    def not_checked(self, release: Release) -> Iterator[str]:
        yield from floor_not_checked(release, scatter=True)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare rows, columns, leverage, persons and the law of Z with the table's."""
        certificate, features = release.certificate, release.features
        gram = engine.run_pass("feature sums", source, GramAccumulator(features))
        if (problem := other_table(release, gram)) is not None:
            yield problem
            return
        factor = verified_cholesky(gram, features)
        if factor.kept != features.kept_columns:
            yield "the released columns are not independent in the table"
            return
        largest = engine.run_pass("leverages", source, LeverageScan(features, factor)).maximum
        claimed = certificate["max_leverage"]
        if claimed is not None and claimed < largest:
            yield f"the largest leverage is {largest:.6g}, the certificate says {claimed:.6g}"
        if certificate["inflation"] < inflation_for(factor.error_bound):
            yield "the certificate's inflation is too small for these features"
        claim, person = self.claim_from_json(certificate), most_rows(features, source, engine)
        if person is not None and person.rows > claim.protected:
            yield f"a person has {person.rows} rows, the certificate says {claim.protected} at most"
        yield from check_design(release, factor)

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the most aggregates under a floor, or what a number of them costs."""
        residual_ms = needed_field(self.name, question, "residual_ms")
        if (question.max_leverage is None) != (question.features is None):
            raise InputError("`max_leverage` and `features` go together: give both or neither")
        facts = DatasetBounds(
            question.rows,
            question.label_range,
            question.features,
            question.max_leverage,
            question.centred,
        )
        answers = {
            name: self._account_by(name, facts, question, question.rows * residual_ms)
            for name in ACCOUNTANTS
            if name != "exact" or question.max_leverage is not None
        }
        return {
            "mechanism": self.name,
            "rows": question.rows,
            "label_range": list(question.label_range),
            "residual_ms": residual_ms,
            "epsilon": question.epsilon,
            "delta": question.delta,
            "bags": question.bags,
            "max_leverage": question.max_leverage,
            "features": question.features,
            "accountants": answers,
        }

    def _account_by(
        self, accountant: str, facts: DatasetBounds, question: AccountQuestion, floor: float
    ) -> Document:
        if question.bags is None:
            most = max_bags(accountant, facts, floor, *question.budget)
            return {"max_bags": most.value} | ({"reason": most.reason} if most.reason else {})
        profile = ACCOUNTANTS[accountant](facts, question.bags, floor)
        epsilon = epsilon_at(profile, question.delta)
        delta = profile.group(1).delta(question.epsilon).upper
        if math.isfinite(epsilon):
            return {"epsilon": epsilon, "delta": delta}
        reason = max_bags(accountant, facts, floor, *question.budget).reason
        none = f"no ε is enough for {question.bags} aggregates at δ = {question.delta:g}"
        return {"epsilon": None, "delta": delta, "reason": reason or none}


# ---- the steps of a run


def check_facts(
    claim: WtdFlagClaim, features: FeatureMap, factor: VerifiedCholesky, leverage: Leverage
) -> None:
    """Refuse a table in which the public facts that the claim rests on do not hold."""
    facts = claim.facts
    same = (
        factor.rows == facts.rows
        and factor.kept == features.kept_columns
        and factor.rank == facts.features
        and inflation_for(factor.error_bound) <= facts.inflation
        and (facts.max_leverage is None or leverage.maximum <= facts.max_leverage)
    )
    if not same:
        raise PlanError(OTHER_FEATURES)


@dataclass(frozen=True)
class Aggregates:
    """Some of the published rows: public."""

    features: Reals
    """Σ w·x over design columns in the feature map's scales; every column contiguous."""
    labels: Reals
    """Σ w·y (+ added noise), on the public grid."""


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
    sampler: AggregateLabelSampler,
    *,
    bags: int,
    scales: Reals,
    grid: int,
    randomness: Randomness,
    threads: int = 1,
) -> Generator[Aggregates, None, None]:
    """Yield `bags` aggregates block by block, drawn ahead by so many threads (steps 6 and 7).

    Aggregates are independent, so blocks can be drawn at the same time. Where a block begins
    depends on the number of columns alone, and its randomness on its place alone: threads change
    the time that it takes, not the numbers.
    """
    root = factor.root()
    rows = block_rows(factor.rank + 1)

    def block(place: int) -> Aggregates:
        streams = randomness.block(place)
        size = min(rows, bags - place * rows)
        normal = streams.features.standard_normal((size, factor.rank))
        # Z = G·R does not depend on labels, so ordinary floating point may be used for it. Its law
        # differs from the ideal one by rounding, which the claim's `inflation` covers.
        features = _times_triangle(normal, root)
        # Labels leave here: exactly rounded draws of N(Z·β̂, σ² + added).
        codes = sampler.publish(features, grid, streams)
        features *= scales
        return Aggregates(features, np.ldexp(codes, sampler.exponent))

    with threadpool_limits(1, "blas"):  # the threads here are enough
        yield from map_in_order(block, range(-(-bags // rows)), min(threads, _MOST_THREADS))


def _times_triangle(left: Reals, upper: Reals) -> Reals:
    """Return left @ upper for an upper triangle, in Fortran order."""
    product = np.empty((upper.shape[1], len(left)))
    for start in range(0, len(product), _PANEL):
        stop = start + _PANEL
        np.matmul(upper[:stop, start:stop].T, left[:, :stop].T, out=product[start:stop])
    return product.T


def draw_compact(
    factor: VerifiedCholesky,
    sampler: AggregateLabelSampler,
    *,
    bags: int,
    scales: Reals,
    grid: int,
    randomness: Randomness,
) -> Generator[Aggregates, None, None]:
    """Yield the d+1 rows of a compact release: the triangle that QR makes of `bags` aggregates.

    G = QT with T the Bartlett factor of a Wishart matrix: χ with m, m−1, … degrees of freedom on
    its diagonal, normals above, all independent. Row i of T·R takes the place of an aggregate. A
    last row, without features, holds what is left of the labels: √(σ² + s²)·χ with m − d degrees
    of freedom. Either form can be made from the other without labels (theory §8).
    """
    rank, stream = factor.rank, randomness.features
    triangle = np.triu(stream.standard_normal((rank, rank)), 1)
    triangle += np.diag(np.sqrt(stream.chisquare(bags - np.arange(rank))))
    features = triangle @ factor.root()
    codes = sampler.publish(features, grid, randomness)
    step, exact = grid - sampler.exponent, sampler.exact_at(features)
    left = rounded_noise.sample_rounded_chi(bags - rank, step, randomness, exact)
    yield Aggregates(
        np.vstack([features * scales, np.zeros((1, rank))]),
        np.ldexp(np.append(codes, left), sampler.exponent),
    )
