"""sampled-wtd-FLAg: one sum of each of m random bags, with secret weights (Algorithm 2).

Bags are m disjoint sets of k rows, drawn from a public seed and published. Bag j's aggregate is
(Z_j, t_j) = Σ w·(x, y) over its rows, with secret normal weights w. Given Z_j, the label t_j is
N(Z_j·β̂_j, σ_j²), with β̂_j and σ_j² the fit and the residual of the bag's own rows (theory §3a).

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
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.privacy_profile import NonPrivate, PrivacyProfile
from labeldp.accounting.sketch import (
    BagOfSizeProfile,
    DatasetBounds,
    FloorMode,
    SketchProfile,
    measurement_cost,
    spans_labels,
)
from labeldp.accounting.subsampling import SubsampledProfile, inclusion_probability
from labeldp.accounting.theorems import Theorem2
from labeldp.data.source import Source
from labeldp.errors import InputError, PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.leverage import LeverageScan
from labeldp.exact.stacked import BagFits, StackedBags, fit_stacked_bags, stacked_design
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms import bags as bagging, residual_floor as floors
from labeldp.mechanisms.bags import BagRows, Draw
from labeldp.mechanisms.base import OTHER_FEATURES, Mechanism, MechanismPlan, read_schema
from labeldp.mechanisms.checks import bag_squares, improbable
from labeldp.mechanisms.description import Description, Document, describe_draw, describe_floor
from labeldp.mechanisms.design_summary import HEADROOM, DesignSummary, feature_bound, inflation_for
from labeldp.mechanisms.forecast import bag_sizes, fit_excess, forecast, mean_excess, sketched_error
from labeldp.mechanisms.options import (
    AccountQuestion,
    PlanRequest,
    SampledWtdFlagOptions,
    aggregates_in,
)
from labeldp.passes.engine import Engine
from labeldp.release.certificate import AddedError, FloorOutcome
from labeldp.release.label_model import SketchedLabels
from labeldp.release.pending import AGGREGATES, PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.release.files import Release

Reals = NDArray[np.float64]
Request = PlanRequest[SampledWtdFlagOptions]

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


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagClaim(floors.FloorClaim):
    """Every bag of `draw` has at least this floor, and at most this leverage and rank."""

    mechanism: ClassVar[str] = "sampled-wtd-flag"

    bag_rank: int
    draw: Draw
    promise: Theorem2 | None = None
    """What Theorem 2 asks of the whole table; given if and only if the accountant is "paper"."""

    @property
    def facts(self) -> DatasetBounds:
        """Bounds of a bag."""
        return replace(super().facts, rows=self.draw.bag_size, features=self.bag_rank)

    def __post_init__(self) -> None:
        if (self.promise is not None) != (self.accountant == "paper"):
            raise InputError("Theorem 2 and its promise go together; plan again")
        if self.promise is not None:
            self.promise.terms(self.epsilon, self.delta)  # refuses where it does not apply
            # The theorem's B_Y is half the range: labels count from its middle, if there is an
            # intercept, else from 0.
            if self.largest_label > self.width / 2:
                raise InputError(
                    "Theorem 2 needs labels that count from the middle of their range; keep the "
                    "intercept, or use the accountant exact"
                )

    @property
    def privacy_profile(self) -> PrivacyProfile:
        if self.promise is not None:
            return self.promise
        cost = measurement_cost(self.measurement)
        bag = SketchProfile(self.usable_facts, 1, self.floor, *cost, disjoint=True)
        return self.draw.over(bag)

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

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus "
            "floor.added_variance/bag_size; approximate, since bags differ",
            **fit_excess(self.rank, self.bags).to_json(),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """Return bounds for bags of k rows; what was measured is the smallest residual of a bag."""
        _, bounds = self.residual_ms(None)
        return sketched_error(
            self.rank,
            self.bags,
            bounds,
            width=self.width,
            noise_ms=(outcome.added_variance if outcome else 0.0) / self.draw.bag_size,
            basis="bounds for any residual that the label range allows, and floor.added_variance; "
            "approximate, since bags differ",
        )

    @property
    def basis(self) -> str:
        return _BASIS[self.accountant]

    def own_fields(self) -> Document:
        facts = self.floor_fields("the smallest residual sum of squares of a bag")
        draw = self.draw.to_json() | {"bag_rank": self.bag_rank}
        if self.promise is not None:
            facts["floor"]["basis"] = _THEOREM2_BASIS
            # the four bag sizes that Theorem 2 asks for; the bags must have the largest
            terms = self.promise.terms(self.epsilon, self.delta)
            draw |= {
                "min_eigenvalue": self.promise.min_eigenvalue,
                "feature_bound": self.promise.feature_bound,
                "theorem2_terms": [float(term) for term in terms],
            }
        return {"bag_size": self.draw.bag_size, **facts, "draw": draw}


# ---- how large bags should be (step 1)
#
# m = n/k bags of k rows have an excess of (γ + s²/k)·d/(m−d−1): larger bags need less noise per
# row, and there are fewer of them. The best are about as large as carries the floor they need. The
# choice affects utility, never privacy.

_SIZE_STEP = 2**0.5
_TYPICAL_LEVERAGE = 2.0
"""A bag's largest leverage is guessed at this many times n/k of the table's."""


def bags_of_size(options: SampledWtdFlagOptions, rows: int, rank: int, bag_size: int) -> int:
    """Return as many bags as were asked for, or as rows and file allow."""
    return options.bags or min(aggregates_in(options.megabytes(), rank), rows // bag_size)


def choose_bag_size(
    floor: floors.FloorParameters, options: SampledWtdFlagOptions, design: DesignSummary
) -> int:
    """Return the size with the smallest forecast error."""
    table, rank = floor.facts, floor.rank
    mu, slack = measurement_cost(floor.measurement)

    def error(size: int) -> float:
        bags = bags_of_size(options, table.rows, rank, size)
        leverage = _TYPICAL_LEVERAGE * (table.max_leverage or 1.0) * table.rows / size
        usable = leverage < 1.0 and floor.accountant == "exact" and not options.over_draw
        facts = replace(table, rows=size, max_leverage=leverage if usable else None)
        profile: PrivacyProfile = SketchProfile(facts, mu=mu, slack=slack)
        if options.over_draw:
            chance = inclusion_probability(table.rows, bags, size)
            profile = SubsampledProfile(profile, chance)
        needed = calibrate(profile, "floor", floor.epsilon, floor.delta, certified=False)
        if not floor.mode.adds and floor.expected_lower_bound(size) < needed:
            return math.inf  # such bags are not private
        noise = floor.residual_ms + floor.expected_added_variance(needed, size) / size
        return floor.residual_ms + noise * mean_excess(rank, bags)

    most = table.rows // (options.bags or rank + 2)
    errors = {size: error(size) for size in bag_sizes(2 * (rank + 1), _SIZE_STEP, most)}
    return bagging.best_bag_size(errors, design, "use `floor='measured+added'`")


# ---- what holds of every bag (step 3)

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


class BagBlock:
    """Some bags with their factors: ranks, error bounds and largest leverages.

    A bag for which the stack proves nothing has a factor of its own in `alone`.
    """

    def __init__(self, rows: BagRows, numbers: slice, encoded: Encoded) -> None:
        features, self.numbers = rows.features, numbers
        self.bags = numbers.stop - numbers.start
        self.stack = stack = StackedBags(features, encoded, self.bags)
        self.alone: dict[int, VerifiedCholesky] = {}
        self.ranks, self.error_bounds = stack.rank.copy(), stack.error_bound.copy()
        self.leverages = stack.leverages().copy()
        for bag in np.flatnonzero(stack.careful).tolist():
            members = rows.bag(numbers.start + bag)
            factor = self.alone[bag] = bag_factor(features, members)
            self.ranks[bag], self.error_bounds[bag] = factor.rank, factor.error_bound
            self.leverages[bag] = 1.0
            if factor.rank < members.rows:
                scan = LeverageScan(features, factor)
                scan.add(members)
                self.leverages[bag] = scan.result().maximum

    def check(self, facts: DatasetBounds) -> None:
        """Refuse bags of which the plan's facts do not hold."""
        same = (
            self.ranks.max() <= (facts.features or 0)
            and inflation_for(float(self.error_bounds.max())) <= facts.inflation
            and (facts.max_leverage is None or self.leverages.max() <= facts.max_leverage)
        )
        if not same:
            raise PlanError(OTHER_FEATURES)


def bag_facts(rows: BagRows, labels: LabelGrid, *, adds: bool, engine: Engine) -> DatasetBounds:
    """Return what holds of every bag.

    Bags that determine their labels are refused, unless added noise hides them (`adds`).
    """
    bag_size = rows.draw.bag_size
    rank, leverage, inflation = 0, 0.0, _ALLOWANCE
    with engine.progress("leverages of bags", rows.draw.bags) as advance:
        for numbers, encoded in rows.blocks():
            block = BagBlock(rows, numbers, encoded)
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
        centred=rows.features.intercept,
        inflation=inflation,
    )


# ---- mechanism

_AWAY = 1e-6
"""Of a sum's length: how far rounding takes it from the span of its rows."""


class SampledWtdFlag(Mechanism):
    """One sum of each of m random bags, with secret Gaussian weights (Algorithm 2).

    Plan (features only)
        1. choose the bag size k                                             -> choose_bag_size
        2. draw the bags from a public seed                                  -> bags.fresh_draw
        3. read the bags' features: their ranks and their largest leverage   -> bag_facts
        4. calibrate the residual floor that every bag needs at (ε, δ)       -> calibrate
    Run (one pass for the rows of the bags)
        5. read features and labels of the bags' rows                        -> bags.read_run
        6. fit every bag and check its facts again                           -> LabelledBags
        7. establish the floor under the smallest residual                   -> establish_floor
        8. draw weights and Z_j, then t_j, exactly rounded                   -> LabelledBags.draw
    """

    name = "sampled-wtd-flag"
    Options = SampledWtdFlagOptions
    accountants = ("paper", "exact-worst-case", "exact")
    why_single_rows = "a person's rows may stand in several bags, whose costs add up"
    sections: ClassVar = {"floor": read_schema("floor"), "draw": read_schema("draw")}
    table_names = ("bags",)
    account_fields = (
        "residual_ms", "bags", "bag_size", "max_leverage", "leverage_factor", "features",
        "feature_bound", "min_eigenvalue",
    )  # fmt: skip

    # ---- planning

    def check_request(self, request: Request, source: Source) -> None:
        super().check_request(request, source)
        bagging.check_stable_rows(source)
        self._floor_mode(request)

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Draw bags and compute the floor that they need; no label is read."""
        self.check_request(request, source)
        options, table, rank = request.options, design.facts, design.factor.rank
        budget = request.epsilon, request.delta
        design.check_residual_left()
        parameters = floors.FloorParameters(
            table,
            *budget,
            request.accountant,
            self._floor_mode(request),
            options.residual_ms or options.residual(table.width),
        )
        mode, size, promise = parameters.mode, options.bag_size, None
        if options.min_eigenvalue is not None:
            bound = feature_bound(design.features)
            promise = Theorem2(table.rows, table.label_range, options.min_eigenvalue, bound, rank)
            try:
                size = size or promise.min_bag_size(*budget)
            except PlanError as problem:
                raise PlanError(f"{problem}; use the accountant exact") from None
            promise = replace(promise, bag_size=size)
        size = size or choose_bag_size(parameters, options, design)
        bags = max(1, bags_of_size(options, table.rows, rank, size))
        spanned = spans_labels(size, rank)
        if spanned and options.over_draw and not mode.adds:
            # Bags that might determine their labels are refused whichever are drawn. Were a draw
            # refused for the rows that it has, whoever tries until one passes would meet some rows
            # more often than the claim says (theory §14).
            raise PlanError(spanned)
        draw = bagging.fresh_draw(options, table.rows, bags, size, request.delta)
        rows = BagRows(design.features, draw).read(source, engine)
        facts = bag_facts(rows, design.labels, adds=mode.adds, engine=engine)
        claim = SampledWtdFlagClaim(
            **design.claim_fields(request),
            bags=bags,
            floor=1.0,
            mode=mode,
            measurement=parameters.measurement,
            max_leverage=facts.max_leverage,
            inflation=facts.inflation,
            bag_rank=facts.features or 0,
            draw=draw,
            promise=promise,
        )
        # What every bag must reach: what is needed, or all that was promised.
        if promise is None:
            needed = calibrate(claim.privacy_profile, "floor", *budget)
            whose, cure = f"bags of {size:,} rows", "ask for larger bags"
            floor = floors.claimed_floor(needed, size, options.residual_ms, whose=whose, cure=cure)
        else:
            floor, spent = claim.expected_floor, claim.delta_at(request.epsilon)
            if spent > request.delta:
                raise PlanError(
                    f"Theorem 2 gives bags of {size:,} rows δ = {spent:.3g} at "
                    f"ε = {request.epsilon:g}; ask for larger bags or use the accountant exact"
                )
        expected = forecast(
            rows=size,
            rank=rank,
            bags=bags,
            residual_ms=parameters.residual_ms,
            added_variance=parameters.expected_added_variance(floor, size),
            residual_source="stated" if options.residual_ms else options.residual_source,
        )
        claim = replace(claim, floor=floor)
        return self.make_plan(design, claim, expected, feature_sums=rows.digest())

    def _floor_mode(self, request: Request) -> FloorMode:
        options = request.options
        if request.accountant != "paper":
            if options.min_eigenvalue is not None:
                raise InputError(
                    "`min_eigenvalue` is Theorem 2's promise: use it with the accountant "
                    "paper, or leave it out"
                )
            return floors.floor_mode(options, request.accountant)
        floor = options.floor not in (None, "declared") or options.residual_ms is not None
        if floor or options.min_eigenvalue is None or not options.over_draw:
            raise InputError(
                "Theorem 2 rests on a promise about the table and on the draw of the bags; give "
                "`min_eigenvalue` and `over_draw`, without `floor` or `residual_ms`"
            )
        return FloorMode.DECLARED

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the rows of the bags in one pass; then draw one aggregate of each bag."""
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, SampledWtdFlagClaim)
        plan.check_source(
            source,
            claim.intercept <= (features.constant is not None),
            (claim.rows, claim.bags) == (claim.draw.rows, claim.draw.bags),
            claim.rank == len(features.names),
            claim.floor == claim.expected_floor,
            claim.promise is None or claim.promise.feature_bound >= feature_bound(features),
        )
        rows, values = bagging.read_run(plan, claim.draw, source, engine, randomness)
        bags, outcome = LabelledBags(claim.facts, labels, rows, values, engine), FloorOutcome()
        if claim.promise is None:
            outcome = floors.establish_floor(claim, bags.smallest_residuals(), labels, randomness)
        else:
            check_eigenvalue(claim.promise.min_eigenvalue, features, labels, source, engine)
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
            files={"bags": claim.draw.table()},
            outcome=outcome,
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> SampledWtdFlagClaim:
        draw, section = Draw.from_json(document), document["draw"]
        fields, promise = floors.floor_claim_fields(document), None
        if section["min_eigenvalue"] is not None:
            bounds = float(section["min_eigenvalue"]), float(section["feature_bound"])
            label_range, rank = fields["label_range"], fields["rank"]
            promise = Theorem2(draw.rows, label_range, *bounds, rank, draw.bag_size)
        bag_rank = int(section["bag_rank"])
        return SampledWtdFlagClaim(**fields, bag_rank=bag_rank, draw=draw, promise=promise)

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        return super().table_schemas(release) | {"bags": bagging.MEMBERS}

    def label_model(self, release: Release) -> SketchedLabels:
        return floors.sketched_labels(release)

    def describe(self, document: Document) -> Description:
        return describe_floor(document) + describe_draw(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from bagging.check_members(release.files["bags"], claim.draw)
        if not 0 <= claim.bag_rank <= min(claim.rank, claim.draw.bag_size):
            yield "certificate: draw.bag_rank is no rank that a bag of these columns can have"
        bound = feature_bound(release.features)
        if claim.promise is not None and claim.promise.feature_bound < bound:
            yield "certificate: the features may have longer rows than draw.feature_bound"
        if not math.isclose(claim.floor, claim.expected_floor, rel_tol=1e-9):
            yield f"certificate: floor.needed should be {claim.expected_floor:.9g}"
        yield from floors.check_floor_release(release, claim, scatter=claim.promise is None)

    def not_checked(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from floors.floor_not_checked(release, scatter=claim.promise is None)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare features, ranks, leverages and the law of Z with those of the bags' rows."""
        claim, features = self.claim_from_json(release.certificate), release.features
        rows = bagging.released_rows(release, claim.draw, source, engine)
        if isinstance(rows, str):
            yield rows
            return
        labels = LabelGrid.for_range(claim.label_range, intercept=features.intercept)
        try:
            facts = bag_facts(rows, labels, adds=claim.mode.adds, engine=engine)
        except PlanError as problem:
            yield str(problem)
            return
        leverage, claimed = facts.max_leverage or 0.0, claim.max_leverage
        if claimed is not None and claimed < leverage * (1 - 1e-8):
            yield (
                f"a row has leverage {leverage:.6g} in its bag, the certificate says {claimed:.6g}"
            )
        if (claim.bag_rank or 0) < (facts.features or 0):
            yield f"a bag has rank {facts.features}, the certificate says {claim.bag_rank}"
        if claim.inflation < facts.inflation * (1 - 1e-6):
            yield "the certificate's inflation is too small for these features"
        # Every aggregate must weigh the rows of its bag with normals.
        square, freedom, published = 0.0, 0, release.design / features.kept_scales
        for numbers, encoded in rows.blocks():
            block = BagBlock(rows, numbers, encoded)
            squares, away = bag_squares(block.stack.design, published[numbers], block.ranks)
            square, freedom = square + float(squares.sum()), freedom + int(block.ranks.sum())
            if improbable(squares, block.ranks.astype(np.float64)) or away.max() > _AWAY:
                yield f"{AGGREGATES} has features that were not drawn from their bags by their law"
                return
        if improbable(np.array([square]), float(freedom)):
            yield f"{AGGREGATES} has features that vary more or less than their law has it"

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the smallest private bag, or what bags of one size cost."""
        bagging.account_chance(question)
        residual_ms, labels = question.needed("residual_ms"), question.label_range
        columns, size = question.features, question.bag_size
        factor, leverage = question.leverage_factor, question.max_leverage
        known = (factor or leverage) is not None
        if known and columns is None:
            raise InputError("`leverage_factor` and `max_leverage` need `features`")
        if factor and leverage:
            raise InputError("`leverage_factor` and `max_leverage` say the same: give one of them")
        if leverage and size is None:
            raise InputError("`max_leverage` is of bags of one size: give `bag_size` with it")
        if factor and columns and size:
            leverage = min(1.0, factor * columns / size)

        def exact(factor: float | None, leverage: float | None) -> Document:
            if size is None:
                profile: PrivacyProfile = BagOfSizeProfile(
                    labels, residual_ms, 1, columns, factor, centred=question.centred
                )
                return bagging.account_bags(question, profile)
            if columns is not None and (problem := spans_labels(size, columns)):
                answer = bagging.account_bags(question, NonPrivate())
                return answer | {"max_bags": 0, "reason": problem}
            facts = DatasetBounds(size, labels, columns, leverage, question.centred)
            return bagging.account_bags(question, SketchProfile(facts, 1, residual_ms * size))

        names = ("min_eigenvalue", "feature_bound", "features")
        missing = [f"`{name}`" for name in names if getattr(question, name) is None]
        if missing:
            paper: Document = {"reason": f"Theorem 2 needs {', '.join(missing)}"}
        else:
            promise = {name: getattr(question, name) for name in names}
            theorem = Theorem2(question.rows, labels, bag_size=size or 2, **promise)
            paper = bagging.account_bags(question, theorem)
        answers = {"paper": paper, "exact-worst-case": exact(None, None)}
        if known:
            answers["exact"] = exact(factor, leverage)
        return {"accountants": answers}


# ---- the steps of a run

_EIGENVALUE_ROUNDING = 1e-11
"""Of eigenvalues, relative to the trace; far above what doubles lose."""


class LabelledBags:
    """The bags with their labels and fits: private, so it prints as nothing."""

    def __init__(
        self, facts: DatasetBounds, labels: LabelGrid, rows: BagRows, values: Reals, engine: Engine
    ) -> None:
        self._labels, self._rows, self._values, self._features = labels, rows, values, rows.features
        self._fits: list[BagFits] = []
        with engine.progress("residuals of bags", rows.draw.bags) as advance:
            for numbers, encoded in rows.blocks():
                block = BagBlock(rows, numbers, encoded)
                block.check(facts)
                fits = fit_stacked_bags(block.stack, labels.codes(values[numbers]))
                for bag, factor in block.alone.items():  # exactly
                    residual = self._residual(numbers.start + bag, factor)
                    columns = rows.features.kept_places[list(factor.kept)]
                    slope, error = np.zeros((2, fits.slope.shape[1]))
                    slope[columns] = residual.coefficients()
                    error[columns] = residual.coefficient_errors()
                    root = floors.root_bounds(residual.square_low, residual.square_high)
                    fits.set_bag(bag, slope, error, root)
                self._fits.append(fits)
                advance(block.bags)

    def __repr__(self) -> str:
        return "LabelledBags(private)"

    def smallest_residuals(self) -> list[ExactLeastSquares]:
        """Return exact residuals of some bags, among them the one that has the smallest.

        A residual that is surely no smaller than another is not needed: where many are 0, one is.
        """
        low = np.concatenate([fits.low for fits in self._fits])
        high = np.concatenate([fits.high for fits in self._fits])
        doubtful = np.flatnonzero(low <= high.min())
        residuals: list[ExactLeastSquares] = []
        least: Fraction | None = None
        for bag in doubtful[np.argsort(high[doubtful], kind="stable")]:
            if least is not None and Fraction(low[bag]) ** 2 >= least:
                continue
            residual = self._residual(bag, bag_factor(self._features, self._rows.bag(bag)))
            residuals.append(residual)
            least = residual.square_high if least is None else min(least, residual.square_high)
        return residuals

    def draw(
        self, added_variance: float, grid: int, randomness: Randomness
    ) -> Iterator[tuple[Reals, Reals]]:
        """Yield one aggregate of every bag, block by block: Z of integer columns, and t (step 8).

        The secret weights and Z come from ordinary floating point: they do not depend on labels.
        Labels leave through `sample_rounded` alone.
        """
        labels, features = self._labels, self._features
        centre = labels.centre if features.intercept else 0
        added = math.ldexp(added_variance, -2 * labels.exponent)
        for (numbers, encoded), fits in zip(self._rows.blocks(), self._fits, strict=True):
            design = stacked_design(features, encoded, numbers.stop - numbers.start)
            weights = randomness.features.standard_normal(design.shape[:2])
            total = (weights[:, None, :] @ design)[:, 0]
            codes = rounded_noise.sample_rounded(
                *floors.means(total, fits.slope, fits.slope_error, centre),
                std_bounds(fits, added),
                grid - labels.exponent,
                randomness,
                partial(self._exact, numbers.start, total, added_variance),
            )
            yield total, np.ldexp(codes, labels.exponent)

    def _exact(
        self, first: int, total: Reals, added_variance: float, number: int, precision: int
    ) -> tuple[Any, Any]:
        """Return the law of one bag's label to any precision, for the rare draw in doubt."""
        factor = bag_factor(self._features, self._rows.bag(first + number))
        residual, intercept = self._residual(first + number, factor), self._features.intercept
        law = floors.AggregateLabelSampler(residual, self._labels, added_variance, intercept)
        columns = self._features.kept_places[list(factor.kept)]
        return law.exact_at(total[number : number + 1, columns])(0, precision)

    def _residual(self, bag: int, factor: VerifiedCholesky) -> ExactLeastSquares:
        sums = LabelCrossProducts(self._features, self._labels)
        sums.add(self._rows.bag(bag), self._values[bag])
        return ExactLeastSquares(factor, sums.result())


def std_bounds(fits: BagFits, added: float) -> tuple[Reals, Reals]:
    """Return √(σ² + added) of every bag in label codes, rounded down and up."""
    down, up = np.sqrt(np.square(fits.low) + added), np.sqrt(np.square(fits.high) + added)
    return down * (1 - 2.0**-50), up * (1 + 2.0**-50)


def check_eigenvalue(
    least: float, features: FeatureMap, labels: LabelGrid, source: Source, engine: Engine
) -> None:
    """Refuse a table that breaks Theorem 2's promise; labels count from the middle of the range."""
    gram, moments = engine.run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, labels)
    )
    kept = list(features.kept_columns)
    scales = np.append(features.kept_scales, math.ldexp(1.0, labels.exponent))
    matrix = np.empty((len(scales), len(scales)))
    matrix[:-1, :-1] = gram.exact(kept).astype(np.float64)
    matrix[-1, :-1] = matrix[:-1, -1] = moments.cross[kept].astype(np.float64)
    matrix[-1, -1] = float(moments.square)
    matrix *= np.outer(scales, scales)
    # a lower bound of σ_min([X|y])² in design and label units
    smallest = np.linalg.eigvalsh(matrix)[0] - _EIGENVALUE_ROUNDING * np.trace(matrix)
    # `not >=` rather than `<`, so that a result that is no number is refused as well
    if not smallest >= gram.rows * least:
        raise PlanError(
            "the promised smallest eigenvalue does not hold for these labels and features; "
            "promise less, or use the accountant exact (this refusal tells one bit about the "
            "labels)"
        )
