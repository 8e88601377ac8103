"""sampled-wtd-FLAg: one sum of each of m random bags, with secret weights (Algorithm 2).

Bags are m disjoint sets of k rows, drawn from a public seed and published. Bag j's aggregate is
(Z_j, t_j) = Σ w·(x, y) over its rows, with secret normal weights w. Given Z_j, the label t_j is
N(Z_j·β̂_j, σ_j²), with β̂_j and σ_j² the fit and the residual of the bag's own rows (theory §3a).

Plan (features only)
    1. choose the bag size k                                              -> choose_bag_size
    2. draw the bags from a public seed                                   -> bags.fresh_draw
    3. read the bags' features: their ranks and their largest leverage    -> bag_facts
    4. calibrate the residual floor that every bag needs at (ε, δ)        -> _floor
Run (one pass for the rows of the bags)
    5. read features and labels of the bags' rows; check them             -> run, LabelledBags
    6. establish the floor under the smallest residual of a bag           -> LabelledBags.establish
    7. draw weights and Z_j, then t_j, exactly rounded                    -> LabelledBags.draw

Privacy: a row is in one bag at most, so one changed label changes one aggregate, whose loss has the
exact law of theory §3b. The guarantee holds given the published bags or, with `over_draw`, over
their draw: a row is in a bag with the chance mk/n, which multiplies δ (§4). With the accountant
"paper" it is Theorem 2, which rests on a promise about the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.privacy_profile import NonPrivate, PrivacyProfile
from labeldp.accounting.residual_floor import FloorMode, measurement_cost
from labeldp.accounting.sketch import (
    BagOfSizeProfile,
    DatasetBounds,
    DisjointBagsProfile,
    SketchProfile,
    spans_labels,
)
from labeldp.accounting.subsampling import SubsampledBagsProfile
from labeldp.accounting.theorems import Answer, Theorem2
from labeldp.data.source import Source
from labeldp.errors import InputError, PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.leverage import LeverageScan
from labeldp.exact.stacked import BagFits, StackedBags, bags_at_once, fit_bags, stacked_design
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms import account
from labeldp.mechanisms.bags import (
    MEMBERS,
    BagRows,
    Draw,
    SimulationInputs,
    check_bag_rows,
    check_members,
    check_stable_rows,
    fresh_draw,
    members_table,
)
from labeldp.mechanisms.base import OTHER_FEATURES, Mechanism, MechanismPlan, read_schema
from labeldp.mechanisms.checks import bag_squares, improbable
from labeldp.mechanisms.description import (
    Description,
    Document,
    describe_draw,
    describe_floor,
)
from labeldp.mechanisms.design_summary import (
    HEADROOM,
    DesignSummary,
    feature_bound,
    inflation_for,
)
from labeldp.mechanisms.forecast import (
    bag_sizes,
    forecast,
    mean_excess,
    relative_excess,
    sketched_error,
)
from labeldp.mechanisms.options import (
    AccountQuestion,
    PlanRequest,
    SampledWtdFlagOptions,
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
    means,
    root_bounds,
    sketched_labels,
)
from labeldp.passes.engine import Engine
from labeldp.release.certificate import AddedError, FloorOutcome, read_common_fields
from labeldp.release.label_model import SketchedLabels
from labeldp.release.pending import AGGREGATES, PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.release.files import Release

Reals = NDArray[np.float64]

# ---- claim

_BASIS = {
    "exact": "exact law of the privacy loss of one aggregate given the largest leverage of a row "
    "in its bag (over the draw: for any leverage); supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss of one aggregate for any features; supremum "
    "over neighbours certified",
    "paper": "Theorem 2 of 'Label Differential Privacy via Aggregation', its proof mended",
}
_THEOREM2_BASIS = (
    "ASSUMPTION: the curator asserts from public knowledge that the smallest eigenvalue of "
    "[X|y]'[X|y] is at least rows times min_eigenvalue; the run checked it, and that it went ahead "
    "is one bit about the labels that is not accounted for"
)


@dataclass(frozen=True)
class Theorem2Promise:
    """What Theorem 2 asks of the whole table, beside the label range."""

    min_eigenvalue: float
    """λ*: the curator asserts σ_min([X|y])² ≥ nλ*."""
    feature_bound: float
    """B_X: the largest norm of an encoded row, public."""


@dataclass(frozen=True)
class SampledWtdFlagClaim(FloorClaim):
    """`facts` are those of a bag: its size as rows, its largest rank and leverage."""

    mechanism: ClassVar[str] = "sampled-wtd-flag"

    rank: int
    draw: Draw
    promise: Theorem2Promise | None = None
    """Given if and only if the accountant is "paper"."""

    @property
    def privacy_profile(self) -> PrivacyProfile:
        if self.promise is not None:
            return self._theorem2(self.promise)
        cost = measurement_cost(self.measurement)
        bags = DisjointBagsProfile(SketchProfile(self.usable_facts, 1, self.floor, *cost))
        return self.draw.over(bags)

    @property
    def usable_facts(self) -> DatasetBounds:
        """What the accountant may use: over the draw, only what holds of every draw."""
        if self.accountant == "exact" and not self.draw.over_draw:
            return self.facts
        return replace(self.facts, max_leverage=None)

    @property
    def expected_floor(self) -> float:
        """kλ*, the residual of a typical bag under Theorem 2's promise: it sets the grid."""
        return self.draw.bag_size * self.promise.min_eigenvalue if self.promise else self.floor

    def _theorem2(self, promise: Theorem2Promise) -> Theorem2:
        return Theorem2(
            self.draw.rows,
            self.facts.label_range,
            promise.min_eigenvalue,
            promise.feature_bound,
            self.rank,
            self.draw.bag_size,
        )

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus "
            "floor.added_variance/bag_size; approximate, since bags differ",
            **relative_excess(self.rank, self.bags),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """Return bounds for bags of k rows; what was measured is the smallest residual of a bag."""
        _, bounds = self.residual_ms(None)
        return sketched_error(
            self.rank,
            self.bags,
            bounds,
            width=self.facts.width,
            noise_ms=(outcome.added_variance if outcome else 0.0) / self.draw.bag_size,
            basis="bounds for any residual that the label range allows, and floor.added_variance; "
            "approximate, since bags differ",
        )

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:
        """Return the deviation of the added noise, beside what secret weights do."""
        return None if outcome is None else math.sqrt(outcome.added_variance)

    def to_json(self) -> Document:
        promise = self.promise
        facts = self.facts_json("the smallest residual sum of squares of a bag")
        terms = None
        if promise is not None:
            facts["floor"]["basis"] = _THEOREM2_BASIS
            # the four bag sizes that Theorem 2 asks for; the bags must have the largest
            terms = [float(t) for t in self._theorem2(promise).terms(self.epsilon, self.delta)]
        return {
            **self.common_fields(_BASIS[self.accountant]),
            "form": "rows",
            "bag_size": self.draw.bag_size,
            "rows": self.draw.rows,
            "rank": self.rank,
            **facts,
            "draw": {
                **self.draw.to_json(),
                "bag_rank": self.facts.features,
                "min_eigenvalue": promise.min_eigenvalue if promise else None,
                "feature_bound": promise.feature_bound if promise else None,
                "theorem2_terms": terms,
            },
            "noise": None,
        }


# ---- how large bags should be
#
# m = n/k bags of k rows have an excess of (γ + s²/k)·d/(m−d−1): larger bags need less noise per
# row, and there are fewer of them. The best are about as large as carries the floor they need. The
# choice affects utility, never privacy.

_SIZE_STEP = 2**0.5
_TYPICAL_LEVERAGE = 2.0
"""A bag's largest leverage is guessed at this many times n/k of the table's."""


@dataclass(frozen=True)
class BagSizes:
    """What decides the size of bags."""

    floor: FloorParameters
    over_draw: bool
    asked_bags: int | None
    most_bags: int

    def bags(self, bag_size: int) -> int:
        """Return as many bags as were asked for, or as rows and file allow."""
        return self.asked_bags or min(self.most_bags, self.floor.facts.rows // bag_size)

    def needed_floor(self, bag_size: int) -> float:
        """Return about what bags of this size will need."""
        floor, table = self.floor, self.floor.facts
        leverage = _TYPICAL_LEVERAGE * (table.max_leverage or 1.0) * table.rows / bag_size
        usable = leverage < 1.0 and floor.accountant == "exact" and not self.over_draw
        facts = replace(table, rows=bag_size, max_leverage=leverage if usable else None)
        mu, slack = measurement_cost(floor.measurement)
        profile: PrivacyProfile = SketchProfile(facts, mu=mu, slack=slack)
        if self.over_draw:
            profile = SubsampledBagsProfile(profile, table.rows, bag_size, self.bags(bag_size))
        return calibrate(profile, "floor", floor.epsilon, floor.delta, certified=False)

    def error(self, bag_size: int) -> float:
        """Return the forecast mean squared error; infinite if bags are too few or not private."""
        floor, needed = self.floor, self.needed_floor(bag_size)
        if not floor.mode.adds and floor.shown(bag_size) < needed:
            return math.inf
        noise = floor.residual_ms + floor.added(needed, bag_size) / bag_size
        return floor.residual_ms + noise * mean_excess(floor.rank, self.bags(bag_size))


def choose_bag_size(sizes: BagSizes) -> int:
    """Return the size with the smallest forecast error (step 1)."""
    rows, rank = sizes.floor.facts.rows, sizes.floor.rank
    candidates = bag_sizes(2 * (rank + 1), _SIZE_STEP, rows // (sizes.asked_bags or rank + 2))
    best = min(candidates, key=sizes.error, default=None)
    if best is None or sizes.error(best) == math.inf:
        raise PlanError(
            f"no size of bags gives a private fit of {rank} columns on {rows:,} rows at this "
            "budget; raise ε or δ, use `floor='measured+added'`, or use `mechanism='wtd-flag'`"
        )
    return best


# ---- what holds of every bag

_ALLOWANCE = 2.0**-20
"""For rounding: the same for all draws, except for features nearly collinear within a bag."""


def bag_factor(features: FeatureMap, bag: Encoded) -> VerifiedCholesky:
    """Return the factor of a bag's features, without columns that depend on others in the bag.

    Their aggregates are published all the same: given the others they follow from the secret
    weights and the features, never from labels.
    """
    sums = GramAccumulator(features)
    sums.add(bag)
    return verified_cholesky(sums.result(), features, saturated=True)


def bag_leverage(features: FeatureMap, factor: VerifiedCholesky, bag: Encoded) -> float:
    """Return the largest leverage of a row within its bag."""
    if factor.rank >= bag.rows:
        return 1.0
    scan = LeverageScan(features, factor)
    scan.add(bag)
    return scan.result().maximum


@dataclass(frozen=True, eq=False)
class BagBlock:
    """Some bags, looked at together; a bag for which the quick way proves nothing is done alone."""

    features: FeatureMap
    numbers: slice
    """Of the bags among all of them."""
    rows: Encoded

    @property
    def bags(self) -> int:
        return int(self.numbers.stop - self.numbers.start)

    @cached_property
    def stack(self) -> StackedBags:
        return StackedBags(self.features, self.rows, self.bags)

    @cached_property
    def alone(self) -> dict[int, VerifiedCholesky]:
        """The factors of the bags that the stack leaves out."""
        careful = np.flatnonzero(self.stack.careful).tolist()
        return {bag: bag_factor(self.features, self.bag(bag)) for bag in careful}

    def bag(self, number: int) -> Encoded:
        """Return the rows of one bag of the block."""
        size = self.rows.rows // self.bags
        return self.rows.take(np.arange(number * size, (number + 1) * size))

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        return self._with_alone(self.stack.rank, {b: f.rank for b, f in self.alone.items()})

    @cached_property
    def error_bounds(self) -> Reals:
        alone = {b: f.error_bound for b, f in self.alone.items()}
        return self._with_alone(self.stack.error_bound, alone)

    @cached_property
    def leverages(self) -> Reals:
        """The largest leverage in each bag."""
        alone = {b: bag_leverage(self.features, f, self.bag(b)) for b, f in self.alone.items()}
        return self._with_alone(self.stack.leverages(), alone)

    @staticmethod
    def _with_alone(stacked: NDArray, alone: dict[int, float]) -> NDArray:  # type: ignore[type-arg]
        whole = stacked.copy()
        whole[list(alone)] = list(alone.values())
        return whole


def bag_blocks(rows: BagRows, features: FeatureMap, bag_size: int) -> Iterator[BagBlock]:
    """Yield the bags in order, as many at once as suits the processor."""
    for numbers, encoded in rows.blocks(bags_at_once(features, bag_size)):
        yield BagBlock(features, numbers, encoded)


def bag_facts(
    rows: BagRows,
    features: FeatureMap,
    labels: LabelGrid,
    draw: Draw,
    *,
    adds: bool,
    engine: Engine,
) -> DatasetBounds:
    """Return what holds of every bag (step 3).

    Bags that determine their labels are refused, unless added noise hides them (`adds`).
    """
    bag_size = draw.bag_size
    rank, leverage, inflation = 0, 0.0, _ALLOWANCE
    with engine.progress("leverages of bags", draw.bags) as advance:
        for block in bag_blocks(rows, features, bag_size):
            rank = max(rank, int(block.ranks.max()))
            if rank >= bag_size and not adds:
                raise PlanError(spans_labels(bag_size, rank))
            leverage = max(leverage, float(block.leverages.max()))
            error_bound = float(block.error_bounds.max())
            inflation = max(inflation, inflation_for(error_bound) + 2 * error_bound)
            advance(block.bags)
    return DatasetBounds(
        rows=bag_size,
        label_range=labels.range,
        features=rank,
        max_leverage=min(1.0, leverage * (1 + HEADROOM)),
        centred=features.intercept,
        inflation=inflation,
    )


# ---- mechanism

_AWAY = 1e-6
"""Of a sum's length: how far rounding takes it from the span of its rows."""


class SampledWtdFlag(Mechanism):
    """One sum of each of m random bags, with secret Gaussian weights (Algorithm 2)."""

    name = "sampled-wtd-flag"
    title = "one sum of each of m random bags, with secret Gaussian weights (Algorithm 2)"
    Options = SampledWtdFlagOptions
    accountants = ("paper", "exact-worst-case", "exact")
    why_single_rows = "a person's rows may stand in several bags, whose costs add up"
    sections: ClassVar = {"floor": read_schema("floor"), "draw": read_schema("draw")}
    table_names = ("bags",)
    account_fields = (
        "residual_ms",
        "bags",
        "bag_size",
        "max_leverage",
        "leverage_factor",
        "features",
        "feature_bound",
        "min_eigenvalue",
    )

    # ---- planning

    def check_request(
        self,
        request: PlanRequest[SampledWtdFlagOptions],
        source: Source,
    ) -> None:
        super().check_request(request, source)
        check_stable_rows(source)
        self._floor_mode(request)

    def plan(
        self,
        request: PlanRequest[SampledWtdFlagOptions],
        design: DesignSummary,
        source: Source,
        engine: Engine,
    ) -> MechanismPlan:
        """Draw bags and compute the floor that they need; no label is read."""
        self.check_request(request, source)
        options, facts, rank = request.options, design.facts, design.factor.rank
        mode = self._floor_mode(request)
        design.check_residual_left()
        promise = None
        if options.min_eigenvalue is not None:
            promise = Theorem2Promise(options.min_eigenvalue, feature_bound(design.features))
        parameters = FloorParameters(
            facts,
            request.epsilon,
            request.delta,
            request.accountant,
            mode,
            options.residual_ms or options.residual(facts.width),
        )
        most_bags = aggregates_in(options.megabytes(), rank)
        sizes = BagSizes(parameters, options.over_draw, options.bags, most_bags)
        bag_size = options.bag_size or self._default_size(request, sizes, promise)
        bags = max(1, sizes.bags(bag_size))
        problem = spans_labels(bag_size, rank)
        if problem and options.over_draw and not mode.adds:
            # Bags that might determine their labels are refused whichever are drawn. Were a draw
            # refused for the rows that it has, whoever tries until one passes would meet some rows
            # more often than the claim says (theory §14).
            raise PlanError(problem)
        draw = fresh_draw(options, facts.rows, bags, bag_size, request.delta)
        rows = BagRows(design.features, draw).read(source, engine)
        claim = SampledWtdFlagClaim(
            request.accountant,
            request.epsilon,
            request.delta,
            bags,
            0.0,
            mode,
            parameters.measurement,
            bag_facts(rows, design.features, design.labels, draw, adds=mode.adds, engine=engine),
            rank,
            draw,
            promise,
        )
        claim = replace(claim, floor=self._floor(claim, options.residual_ms))
        return MechanismPlan(
            self,
            claim,
            design.features,
            design.labels,
            rows.digest(),
            forecast(
                rows=bag_size,
                rank=rank,
                bags=bags,
                residual_ms=parameters.residual_ms,
                added_variance=parameters.added(claim.floor, bag_size),
                residual_source="stated" if options.residual_ms else options.residual_source,
            ),
            design.notes,
        )

    def _floor_mode(self, request: PlanRequest[SampledWtdFlagOptions]) -> FloorMode:
        options = request.options
        if request.accountant != "paper":
            if options.min_eigenvalue is not None:
                raise InputError(
                    "`min_eigenvalue` is Theorem 2's promise: use it with the accountant "
                    "paper, or leave it out"
                )
            return floor_mode(options, request.accountant)
        if options.floor not in (None, "declared") or options.residual_ms is not None:
            raise InputError(
                "Theorem 2 has no floor but the smallest eigenvalue of the whole table; give "
                "`min_eigenvalue` alone, without `floor` or `residual_ms`"
            )
        if options.min_eigenvalue is None or not options.over_draw:
            raise InputError(
                "Theorem 2 rests on a promise about the table and on the draw of the bags; "
                "give `min_eigenvalue` and `over_draw`"
            )
        return FloorMode.DECLARED

    def _default_size(
        self,
        request: PlanRequest[SampledWtdFlagOptions],
        sizes: BagSizes,
        promise: Theorem2Promise | None,
    ) -> int:
        if promise is None:
            return choose_bag_size(sizes)
        facts = sizes.floor.facts
        theorem = Theorem2(
            facts.rows,
            facts.label_range,
            promise.min_eigenvalue,
            promise.feature_bound,
            sizes.floor.rank,
        )
        answer = theorem.min_bag_size(request.epsilon, request.delta)
        if answer.value is None:
            raise PlanError(f"{answer.reason}; use the accountant exact")
        return int(answer.value)

    def _floor(self, claim: SampledWtdFlagClaim, promised_ms: float | None) -> float:
        """Return what every bag must reach: what is needed, or all that was promised (step 4)."""
        size = claim.draw.bag_size
        if claim.promise is not None:
            spent = claim.delta_at(claim.epsilon)
            if spent > claim.delta:
                raise PlanError(
                    f"Theorem 2 gives bags of {size:,} rows δ = {spent:.3g} at "
                    f"ε = {claim.epsilon:g}; ask for larger bags or use the accountant exact"
                )
            return claim.expected_floor
        needed = calibrate(
            replace(claim, floor=1.0).privacy_profile, "floor", claim.epsilon, claim.delta
        )
        whose = f"bags of {size:,} rows"
        return claimed_floor(needed, size, promised_ms, whose=whose, cure="ask for larger bags")

    def simulate(
        self,
        plan: MechanismPlan,
        source: Source,  # noqa: ARG002
        stream: np.random.Generator,
    ) -> SimulationInputs:
        claim = plan.claim
        assert isinstance(claim, SampledWtdFlagClaim)
        weights = stream.standard_normal((claim.bags, claim.draw.bag_size))
        variances = np.full(claim.bags, plan.forecast.added_variance)
        return SimulationInputs(claim.draw, weights, variances, weigh=False)

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the rows of the bags in one pass; then draw one aggregate of each bag."""
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, SampledWtdFlagClaim)
        plan.check_source(
            source,
            claim.facts.centred <= (features.constant is not None),
            (claim.facts.rows, claim.bags) == (claim.draw.bag_size, claim.draw.bags),
            claim.rank == len(features.names),
            (claim.promise is not None) == (claim.accountant == "paper"),
            claim.floor == claim.expected_floor,
        )
        randomness.spend()
        rows = BagRows(features, claim.draw)
        values = rows.read_labelled(source, engine)
        plan.check_feature_sums(rows.digest())
        bags = LabelledBags(claim, features, labels, rows, values)
        outcome = bags.establish(source, engine, randomness)
        grid = rounded_noise.grid_for(math.sqrt(claim.floor))
        schema = aggregate_schema(features, source.label or "label")

        def batches() -> Generator[pa.RecordBatch, None, None]:
            with engine.progress("aggregates", claim.bags) as advance:
                for design, sums in bags.draw(outcome.added_variance, grid, randomness):
                    yield aggregate_batch(schema, design * features.kept_scales, sums)
                    advance(len(sums))

        return plan.pending_release(
            source,
            randomness,
            grid=grid,
            schema=schema,
            batches=batches(),
            files={"bags": members_table(claim.draw)},
            outcome=outcome,
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> SampledWtdFlagClaim:
        draw = document["draw"]
        promised = draw["min_eigenvalue"] is not None
        if promised != (document["accountant"]["name"] == "paper"):
            raise ValueError("Theorem 2 and its promise go together")
        promise = None
        if promised:
            bounds = float(draw["min_eigenvalue"]), float(draw["feature_bound"])
            promise = Theorem2Promise(*bounds)
        rows, rank = int(document["bag_size"]), int(draw["bag_rank"])
        return SampledWtdFlagClaim(
            **read_common_fields(document),
            **floor_claim_fields(document, rows=rows, rank=rank),
            rank=int(document["rank"]),
            draw=Draw.from_json(document),
            promise=promise,
        )

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        return super().table_schemas(release) | {"bags": MEMBERS}

    def label_model(self, release: Release) -> SketchedLabels:
        return sketched_labels(release)

    def describe(self, document: Document) -> Description:
        return describe_floor(document) + describe_draw(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from check_members(release.files["bags"], claim.draw)
        if not 0 <= (claim.facts.features or 0) <= min(claim.rank, claim.draw.bag_size):
            yield "certificate: draw.bag_rank is no rank that a bag of these columns can have"
        bound = feature_bound(release.features)
        if claim.promise is not None and claim.promise.feature_bound < bound:
            yield "certificate: the features may have longer rows than draw.feature_bound"
        if not math.isclose(claim.floor, claim.expected_floor, rel_tol=1e-9):
            yield f"certificate: floor.needed should be {claim.expected_floor:.9g}"
        yield from check_floor_release(release, claim, scatter=claim.promise is None)

    def not_checked(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from floor_not_checked(release, scatter=claim.promise is None)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare features, ranks, leverages and the law of Z with those of the bags' rows."""
        claim, features = self.claim_from_json(release.certificate), release.features
        rows = BagRows(features, claim.draw)
        problems = list(check_bag_rows(rows, release, source, engine))
        if problems:
            yield from problems
            return
        labels = LabelGrid.for_range(claim.facts.label_range, intercept=features.intercept)
        adds = claim.mode.adds
        try:
            facts = bag_facts(rows, features, labels, claim.draw, adds=adds, engine=engine)
        except PlanError as problem:
            yield str(problem)
            return
        leverage, claimed = facts.max_leverage or 0.0, claim.facts.max_leverage
        if claimed is not None and claimed < leverage * (1 - 1e-8):
            yield (
                f"a row has leverage {leverage:.6g} in its bag, the certificate says {claimed:.6g}"
            )
        if (claim.facts.features or 0) < (facts.features or 0):
            yield f"a bag has rank {facts.features}, the certificate says {claim.facts.features}"
        if claim.facts.inflation < facts.inflation * (1 - 1e-6):
            yield "the certificate's inflation is too small for these features"
        yield from self._check_law(release, rows, claim.draw.bag_size)

    def _check_law(self, release: Release, rows: BagRows, bag_size: int) -> Iterator[str]:
        """Check that every aggregate weighs the rows of its bag with normals."""
        features, whole, freedom = release.features, 0.0, 0
        published = release.design / features.kept_scales
        for block in bag_blocks(rows, features, bag_size):
            design = stacked_design(features, block.rows, block.bags)
            squares, away = bag_squares(design, published[block.numbers], block.ranks)
            whole, freedom = whole + float(squares.sum()), freedom + int(block.ranks.sum())
            if improbable(squares, block.ranks.astype(np.float64)) or away.max() > _AWAY:
                yield f"{AGGREGATES} has features that were not drawn from their bags by their law"
                return
        if improbable(np.array([whole]), float(freedom)):
            yield f"{AGGREGATES} has features that vary more or less than their law has it"

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the smallest private bag, or what bags of one size cost."""
        account.check_bags(question)
        residual_ms = account.needed_field(self.name, question, "residual_ms")
        known = (question.leverage_factor or question.max_leverage) is not None
        if known and question.features is None:
            raise InputError("`leverage_factor` and `max_leverage` need `features`")
        if question.leverage_factor and question.max_leverage:
            raise InputError("`leverage_factor` and `max_leverage` say the same: give one of them")
        if question.max_leverage and question.bag_size is None:
            raise InputError("`max_leverage` is of bags of one size: give `bag_size` with it")
        answers = {"paper": self._account_theorem2(question)}
        for name in ("exact-worst-case", "exact")[: 1 + known]:
            answers[name] = self._account_exact(question, residual_ms, public=name == "exact")
        return account.answer_document(
            self.name, question, self.account_fields, {"accountants": answers}
        )

    def _account_exact(
        self, question: AccountQuestion, residual_ms: float, *, public: bool
    ) -> Document:
        columns, size = question.features, question.bag_size
        factor = question.leverage_factor if public else None
        if size is None:
            profile = BagOfSizeProfile(
                question.label_range, residual_ms, 1, columns, factor, centred=question.centred
            )
            smallest = calibrate(profile, "bag_size", *question.budget)
            return account.smallest_bag(question, Answer(smallest))
        if columns is not None and (problem := spans_labels(size, columns)):
            answer = account.bag_costs(question, NonPrivate()) | {"max_bags": 0, "reason": problem}
            if "unconditional" in answer:
                answer["unconditional"]["delta"] = account.bag_chance(question)
            return answer
        leverage = question.max_leverage if public else None
        if factor is not None and columns is not None:
            leverage = min(1.0, factor * columns / size)
        facts = DatasetBounds(size, question.label_range, columns, leverage, question.centred)
        return account.bag_costs(question, SketchProfile(facts, 1, residual_ms * size))

    def _account_theorem2(self, question: AccountQuestion) -> Document:
        eigenvalue, bound = question.min_eigenvalue, question.feature_bound
        if eigenvalue is None or bound is None or question.features is None:
            fields = ("min_eigenvalue", "feature_bound", "features")
            missing = [f"`{name}`" for name in fields if getattr(question, name) is None]
            return {"reason": f"Theorem 2 needs {', '.join(missing)}"}
        theorem = Theorem2(
            question.rows,
            question.label_range,
            eigenvalue,
            bound,
            question.features,
            question.bag_size or 2,
        )
        if question.bag_size is None:
            return account.smallest_bag(question, theorem.min_bag_size(*question.budget))
        return account.theorem_costs(question, theorem)


# ---- the steps of a run

_KEPT_SLOPES = 1 << 24
"""Slopes of bags that may stay in memory between two looks: 256 MiB with their errors."""
_EIGENVALUE_ROUNDING = 1e-11
"""Of eigenvalues, relative to the trace; far above what doubles lose."""


class LabelledBags:
    """The bags with their labels: private, so it prints as nothing."""

    def __init__(
        self,
        claim: SampledWtdFlagClaim,
        features: FeatureMap,
        labels: LabelGrid,
        rows: BagRows,
        values: Reals,
    ) -> None:
        self._claim, self._features, self._labels = claim, features, labels
        self._rows, self._values = rows, values
        self._fits: list[BagFits] = []
        self._keeps_fits = claim.bags * len(features.names) <= _KEPT_SLOPES
        self._place = {column: at for at, column in enumerate(features.kept_columns)}

    def __repr__(self) -> str:
        return "LabelledBags(private)"

    def establish(self, source: Source, engine: Engine, randomness: Randomness) -> FloorOutcome:
        """Check every bag's public facts again and establish the floor under them all (step 6)."""
        promise = self._claim.promise
        if promise is None:
            return establish_floor(self._claim, self.smallest(engine), self._labels, randomness)
        self._residual_bounds(engine)
        check_eigenvalue(promise.min_eigenvalue, self._features, self._labels, source, engine)
        return FloorOutcome()

    def smallest(self, engine: Engine) -> list[ExactLeastSquares]:
        """Return exact residuals of the bags one of which has the smallest, whichever it is.

        A residual that is surely no smaller than another is not needed: where many are 0, one is.
        """
        low, high = self._residual_bounds(engine)
        smallest: list[ExactLeastSquares] = []
        doubtful = np.flatnonzero(low <= high.min())
        for bag in doubtful[np.argsort(high[doubtful], kind="stable")]:
            if smallest and Fraction(low[bag]) ** 2 >= smallest[0].square_high:
                continue
            factor = bag_factor(self._features, self._rows.bag(bag))
            smallest.append(self._residual(factor, bag))
            smallest.sort(key=lambda residual: residual.square_high)
            least = smallest[0]
            smallest = [least, *(r for r in smallest[1:] if r.square_low < least.square_high)]
        return smallest

    def _residual_bounds(self, engine: Engine) -> tuple[Reals, Reals]:
        """Return bounds of the root of every bag's residual; public facts are checked again."""
        claim = self._claim
        low, high = np.empty(claim.bags), np.empty(claim.bags)
        with engine.progress("residuals of bags", claim.bags) as advance:
            for block in self._blocks():
                self._check_facts(block)
                fits = self._fit(block)
                low[block.numbers], high[block.numbers] = fits.low, fits.high
                if self._keeps_fits:
                    self._fits.append(fits)
                advance(block.bags)
        return low, high

    def draw(
        self, added_variance: float, grid: int, randomness: Randomness
    ) -> Iterator[tuple[Reals, Reals]]:
        """Yield one aggregate of every bag, block by block: Z of integer columns, and t (step 7).

        The secret weights and Z come from ordinary floating point: they do not depend on labels.
        Labels leave through `sample_rounded` alone.
        """
        labels = self._labels
        centre = labels.centre if self._features.intercept else 0
        for number, block in enumerate(self._blocks()):
            fits = self._fits[number] if self._keeps_fits else self._fit(block)
            design = stacked_design(self._features, block.rows, block.bags)
            weights = randomness.features.standard_normal(design.shape[:2])
            total = (weights[:, None, :] @ design)[:, 0]
            codes = rounded_noise.sample_rounded(
                *means(total, fits.slope, fits.slope_error, centre),
                std_bounds(fits, added_variance, labels),
                grid - labels.exponent,
                randomness,
                self._exact(block, total, added_variance),
            )
            yield total, np.ldexp(codes, labels.exponent)

    def _blocks(self) -> Iterator[BagBlock]:
        return bag_blocks(self._rows, self._features, self._claim.draw.bag_size)

    def _check_facts(self, block: BagBlock) -> None:
        """Refuse bags of which the plan's facts do not hold."""
        facts = self._claim.facts
        same = (
            block.ranks.max() <= (facts.features or 0)
            and inflation_for(float(block.error_bounds.max())) <= facts.inflation
            and (facts.max_leverage is None or block.leverages.max() <= facts.max_leverage)
        )
        if not same:
            raise PlanError(OTHER_FEATURES)

    def _fit(self, block: BagBlock) -> BagFits:
        """Fit the bags in doubles with error bounds; exactly, where a bag stands alone."""
        fits = fit_bags(block.stack, self._labels.codes(self._values[block.numbers]))
        for bag, factor in block.alone.items():
            residual = self._residual(factor, block.numbers.start + bag)
            slope, error = np.zeros_like(fits.slope[bag]), np.zeros_like(fits.slope[bag])
            columns = self._columns(factor)
            slope[columns], error[columns] = residual.coefficients(), residual.coefficient_errors()
            fits.put(bag, slope, error, root_bounds(residual.square_low, residual.square_high))
        return fits

    def _exact(self, block: BagBlock, total: Reals, added_variance: float) -> rounded_noise.Exact:
        """Return the law of a bag's label to any precision, for the rare draw in doubt."""

        @cache
        def law(bag: int) -> rounded_noise.Exact:
            factor = bag_factor(self._features, block.bag(bag))
            residual = self._residual(factor, block.numbers.start + bag)
            sampler = AggregateLabelSampler(
                residual, self._labels, added_variance, self._features.intercept
            )
            return sampler.exact_at(total[bag : bag + 1, self._columns(factor)])

        return lambda bag, precision: law(bag)(0, precision)

    def _columns(self, factor: VerifiedCholesky) -> list[int]:
        """Return where a factor's columns stand among the kept ones."""
        return [self._place[column] for column in factor.kept]

    def _residual(self, factor: VerifiedCholesky, bag: int) -> ExactLeastSquares:
        sums = LabelCrossProducts(self._features, self._labels)
        sums.add(self._rows.bag(bag), self._values[bag])
        return ExactLeastSquares(factor, sums.result())


def std_bounds(fits: BagFits, added_variance: float, labels: LabelGrid) -> tuple[Reals, Reals]:
    """Return √(σ² + added) of every bag in label codes, rounded down and up."""
    added = math.ldexp(added_variance, -2 * labels.exponent)
    down, up = np.sqrt(np.square(fits.low) + added), np.sqrt(np.square(fits.high) + added)
    return down * (1 - 2.0**-50), up * (1 + 2.0**-50)


def check_eigenvalue(
    least: float, features: FeatureMap, labels: LabelGrid, source: Source, engine: Engine
) -> None:
    """Refuse a table that breaks Theorem 2's promise; labels count from the middle of the range."""
    gram, moments = engine.run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, labels)
    )
    # `not >=` rather than `<`, so that a result that is no number is refused as well
    if not smallest_eigenvalue(gram, moments, features, labels) >= gram.rows * least:
        raise PlanError(
            "the promised smallest eigenvalue does not hold for these labels and features; "
            "promise less, or use the accountant exact (this refusal tells one bit about the "
            "labels)"
        )


def smallest_eigenvalue(
    gram: FeatureGram, moments: LabelMoments, features: FeatureMap, labels: LabelGrid
) -> float:
    """Return a lower bound of σ_min([X|y])² in design and label units."""
    kept = list(features.kept_columns)
    scales = np.append(features.kept_scales, math.ldexp(1.0, labels.exponent))
    matrix = np.empty((len(scales), len(scales)))
    matrix[:-1, :-1] = gram.exact(kept).astype(np.float64)
    matrix[-1, :-1] = matrix[:-1, -1] = moments.cross[kept].astype(np.float64)
    matrix[-1, -1] = float(moments.square)
    matrix *= np.outer(scales, scales)
    return float(np.linalg.eigvalsh(matrix)[0] - _EIGENVALUE_ROUNDING * np.trace(matrix))
