"""sampled-wtd-FLAg: one sum of each of m random bags, with secret weights (Algorithm 2).

Bags are m disjoint sets of k rows, drawn from a public seed and published. Bag j's aggregate is
(Z_j, t_j) = Σ w·(x, y) over its rows, with secret normal weights w. Given Z_j, the label t_j is
N(Z_j·β̂_j, σ_j²), with β̂_j and σ_j² the fit and the residual of the bag's own rows (theory §3a).

Privacy: a row is in one bag at most, so one changed label changes one aggregate, whose loss has the
exact law of theory §3b. The guarantee holds given the published bags or, with `over_draw`, over
their draw: a row is in a bag with the chance mk/n, which multiplies δ (§4). The paper's own
guarantee, Theorem 2, asks for a promise about the whole table and for bags of 128 million rows in
its own example: no release rests on it (`labeldp_paper.theory.privacy`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.sketch import (
    DatasetBounds,
    SketchProfile,
    measurement_cost,
    spans_labels,
)
from labeldp.data.source import Source
from labeldp.display import Document, Facts, Private, describe_draw, describe_floor
from labeldp.errors import PlanError
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts, LabelGrid
from labeldp.exact.stacked import BagFits, StackedBags, bag_factor, fit_stacked_bags, stacked_design
from labeldp.mechanisms import bags as bagging, residual_floor as floors
from labeldp.mechanisms.bags import BagRows, Draw
from labeldp.mechanisms.base import (
    OTHER_FEATURES,
    MechanismPlan,
    read_schema,
)
from labeldp.mechanisms.checks import bag_squares, improbable
from labeldp.mechanisms.design_summary import HEADROOM, DesignSummary, inflation_for
from labeldp.mechanisms.forecast import bag_sizes, fit_excess, mean_excess
from labeldp.mechanisms.options import (
    AccountQuestion,
    PlanRequest,
    SampledWtdFlagOptions,
    aggregates_in,
)
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import AddedError, FloorOutcome
from labeldp.releases.pending import AGGREGATES, PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]
Request = PlanRequest[SampledWtdFlagOptions]

# ---- claim

_BASIS = {
    "exact": "exact law of the privacy loss of one aggregate given the largest leverage of a row "
    "in its bag (over the draw: for any leverage); supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss of one aggregate for any features; supremum "
    "over neighbours certified",
}


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagClaim(floors.FloorClaim):
    """Every bag of `draw` has at least this floor, and at most this leverage and rank."""

    mechanism: ClassVar[str] = "sampled-wtd-flag"

    bag_rank: int
    draw: Draw

    @property
    def facts(self) -> DatasetBounds:
        """Bounds of a bag."""
        return replace(super().facts, rows=self.draw.bag_size, features=self.bag_rank)

    @property
    def privacy_profile(self) -> PrivacyProfile:
        facts, cost = self.used_facts, measurement_cost(self.measurement)
        if self.draw.over_draw:  # only what holds of every draw may be used
            facts = replace(facts, max_leverage=None)
        return self.draw.over(SketchProfile(facts, 1, self.floor, *cost, disjoint=True))

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus "
            "floor.added_variance/bag_size; approximate, since bags differ",
            **fit_excess(self.rank, self.bags).to_json(),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """Return bounds for bags of k rows; what was measured is the smallest residual of a bag."""
        error = super().added_error(outcome and replace(outcome, measured=None))
        return replace(error, added_basis=f"{error.added_basis}; approximate, since bags differ")

    @property
    def basis(self) -> str:
        return _BASIS[self.accountant]

    def own_fields(self) -> Document:
        return {
            "bag_size": self.draw.bag_size,
            **self.floor_fields("the smallest residual sum of squares of a bag"),
            "draw": self.draw.to_json() | {"bag_rank": self.bag_rank},
        }


# ---- how large bags should be (step 1)
#
# m = n/k bags of k rows have an excess of (γ + s²/k)·d/(m−d−1): larger bags need less noise per
# row, and there are fewer of them. The best are about as large as carries the floor they need. The
# choice affects utility, never privacy.

_SIZE_STEP = 2**0.5
_TYPICAL_LEVERAGE = 2.0
"""A bag's largest leverage is guessed at this many times n/k of the table's."""


def bags_of_size(options: SampledWtdFlagOptions, rows: int, rank: int, bag_size: int) -> int:
    """Return as many bags as were asked for, or as rows, file and memory allow."""
    most = min(rows, bagging.MOST_MEMBERS) // bag_size
    return options.bags or max(1, min(most, aggregates_in(options.megabytes(), rank)))


def choose_bag_size(
    claim: SampledWtdFlagClaim, options: SampledWtdFlagOptions, design: DesignSummary
) -> int:
    """Return the size with the smallest forecast error, for a guess of the residual (step 1)."""
    rows, rank, residual_ms = claim.rows, claim.rank, options.residual(claim.width)

    def error(size: int) -> float:
        bags = bags_of_size(options, rows, rank, size)
        draw = replace(claim.draw, bags=bags, bag_size=size)
        leverage = min(1.0, _TYPICAL_LEVERAGE * (claim.max_leverage or 1.0) * rows / size)
        some = replace(claim, bags=bags, draw=draw, max_leverage=leverage)
        some = replace(some, floor=some.needed_floor(certified=False))
        if not some.mode.adds and some.expected_lower_bound(residual_ms) < some.floor:
            return math.inf  # such bags are not private
        noise = residual_ms + some.expected_added_variance(residual_ms) / size
        return residual_ms + noise * mean_excess(rank, bags)

    most = rows // (options.bags or rank + 2)
    sizes = bag_sizes(2 * (rank + 1), _SIZE_STEP, most)
    return bagging.best_bag_size(sizes, error, design, "use `floor='measured+added'`")


# ---- what holds of every bag (step 3)

_ALLOWANCE = 2.0**-20
"""For rounding: the same for all draws, except for features nearly collinear within a bag."""


@dataclass
class BagBounds:
    """What holds of every bag that was looked at: largest rank, leverage and error of a factor."""

    rank: int = 0
    leverage: float = 0.0
    error_bound: float = 0.0

    def add(self, stack: StackedBags) -> None:
        self.rank = max(self.rank, int(stack.rank.max()))
        self.leverage = max(self.leverage, float(stack.leverages().max()))
        self.error_bound = max(self.error_bound, float(stack.error_bound.max()))

    def differences(self, claim: SampledWtdFlagClaim) -> Iterator[str]:
        """Say in what the bags differ from the facts that a claim rests on."""
        if self.rank > claim.bag_rank:
            yield f"a bag has rank {self.rank}, the certificate says {claim.bag_rank}"
        yield from claim.differences(self.leverage, self.error_bound)


# ---- mechanism

_AWAY = 1e-6
"""Of a sum's length: how far rounding takes it from the span of its rows."""


class SampledWtdFlag(floors.FloorMechanism):
    """One sum of each of m random bags, with secret Gaussian weights (Algorithm 2).

    Plan (features only)
        1. choose the bag size k                                             -> choose_bag_size
        2. draw the bags from a public seed                                  -> bags.fresh_draw
        3. read the bags' features: their ranks and their largest leverage   -> BagBounds
        4. calibrate the residual floor that every bag needs at (ε, δ) -> with_calibrated_floor
    Run (one pass for the rows of the bags)
        5. read features and labels of the bags' rows                        -> bags.read_run
        6. fit every bag; check the bounds again          -> LabelledBags, BagBounds.differences
        7. establish the floor under the smallest residual                   -> establish_floor
        8. draw weights and Z_j, then t_j, exactly rounded                   -> LabelledBags.draw
    Labels enter in step 5 and leave in steps 7 and 8 alone. Their noise is drawn by
    `sampling/rounded_noise`.
    """

    name = "sampled-wtd-flag"
    Options = SampledWtdFlagOptions
    names_rows = True
    sections: ClassVar = {"floor": read_schema("floor"), "draw": read_schema("draw")}
    table_names = ("bags",)
    account_fields = ("residual_ms", "bags", "bag_size", "max_leverage", "features")

    # ---- planning

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Draw bags and compute the floor that they need; no label is read."""
        options, rows, rank = request.options, design.facts.rows, design.factor.rank
        design.check_residual_left()
        # Bags and bounds of them are still open here, and follow below.
        draft = SampledWtdFlagClaim(
            **floors.planned_fields(request, design),
            bags=1,
            bag_rank=rank,
            draw=Draw(rows, 1, 1, "", random=True, over_draw=options.over_draw),
        )
        size = options.bag_size or choose_bag_size(draft, options, design)
        bags = bags_of_size(options, rows, rank, size)
        if options.over_draw and not draft.mode.adds and (problem := spans_labels(size, rank)):
            # Bags that might determine their labels are refused whichever are drawn. Were a draw
            # refused for the rows that it has, whoever tries until one passes would meet some rows
            # more often than the claim says (theory §14).
            raise PlanError(problem)
        draw = bagging.fresh_draw(options, rows, bags, size, request.delta)
        bag_rows, bounds = BagRows(design.features, draw).read(source, engine), BagBounds()
        for _, stack in bag_rows.stacks(engine):
            bounds.add(stack)
        if not draft.mode.adds and (problem := spans_labels(size, bounds.rank)):
            raise PlanError(problem)
        inflation = inflation_for(bounds.error_bound) + 2 * bounds.error_bound
        claim = replace(
            draft,
            bags=bags,
            draw=draw,
            bag_rank=bounds.rank,
            max_leverage=min(1.0, bounds.leverage * (1 + HEADROOM)),
            inflation=max(_ALLOWANCE, inflation),
        ).with_calibrated_floor(
            options.residual_ms, whose=f"bags of {size:,} rows", cure="ask for larger bags"
        )
        expected = claim.forecast(options)
        return self.make_plan(design, claim, expected, feature_sums=bag_rows.digest())

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the rows of the bags in one pass; then draw one aggregate of each bag."""
        claim, features, labels = plan.claim, plan.features, plan.labels
        assert isinstance(claim, SampledWtdFlagClaim)
        draw = claim.draw
        plan.check_source(source, (draw.rows, draw.bags) == (claim.rows, claim.bags))
        # Step 5: labels enter, and stay within `values` and `bags`, which are private.
        rows, values = bagging.read_run(plan, claim.draw, source, engine, randomness)
        # Step 6
        bags = LabelledBags(labels, rows, values, engine)
        if any(bags.bounds.differences(claim)):
            raise PlanError(OTHER_FEATURES)
        # Step 7: the root of the smallest residual is published with noise.
        outcome = floors.establish_floor(claim, bags.smallest_residuals(), labels, randomness)
        # Step 8
        schema = aggregate_schema(features, source.label or "label")
        blocks = bags.draw(outcome.added_variance, claim.grid, randomness)
        scales = features.kept_scales
        return plan.pending_release(
            source,
            randomness,
            grid=claim.grid,
            schema=schema,
            batches=(aggregate_batch(schema, design * scales, sums) for design, sums in blocks),
            files={"bags": claim.draw.table()},
            outcome=outcome,
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> SampledWtdFlagClaim:
        return SampledWtdFlagClaim(
            **floors.floor_claim_fields(document),
            bag_rank=int(document["draw"]["bag_rank"]),
            draw=Draw.from_json(document),
        )

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        return super().table_schemas(release) | {"bags": bagging.MEMBERS}

    def describe(self, document: Document) -> Facts:
        return describe_floor(document) + describe_draw(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        yield from bagging.check_members(release.files["bags"], claim.draw)
        if not 0 <= claim.bag_rank <= min(claim.rank, claim.draw.bag_size):
            yield "certificate: draw.bag_rank is no rank that a bag of these columns can have"
        if not claim.mode.adds and (problem := spans_labels(claim.draw.bag_size, claim.bag_rank)):
            yield f"certificate: {problem}"
        yield from floors.check_floor_release(release, claim)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare features, ranks, leverages and the law of Z with those of the bags' rows."""
        claim, features = self.claim_from_json(release.certificate), release.features
        rows = bagging.released_rows(release, claim.draw, source, engine)
        # Every aggregate must weigh the rows of its bag with normals.
        bounds, published = BagBounds(), release.design / features.kept_scales
        square, freedom, likely = 0.0, 0, True
        for numbers, stack in rows.stacks(engine):
            bounds.add(stack)
            squares, away = bag_squares(stack.design, published[numbers], stack.rank)
            square, freedom = square + float(squares.sum()), freedom + int(stack.rank.sum())
            unlikely = improbable(squares, stack.rank.astype(np.float64)) or away.max() > _AWAY
            likely = likely and not unlikely
        yield from bounds.differences(claim)
        if not likely:
            yield f"{AGGREGATES} has features that were not drawn from their bags by their law"
        elif improbable(np.array([square]), float(freedom)):
            yield f"{AGGREGATES} has features that vary more or less than their law has it"

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return what bags of one size cost."""
        residual_ms, size = question.needed("residual_ms"), question.needed("bag_size")
        if problem := spans_labels(size, question.features or 0):
            raise PlanError(problem)
        bags = {
            name: bagging.account_bags(question, SketchProfile(facts, 1, residual_ms * size))
            for name, facts in floors.account_facts(question, size).items()
        }
        return {"accountants": bags}


# ---- the steps of a run


class LabelledBags(Private):
    """The bags with their labels and fits."""

    def __init__(self, labels: LabelGrid, rows: BagRows, values: Reals, engine: Engine) -> None:
        self._labels, self._rows, self._values, self._features = labels, rows, values, rows.features
        self._fits: list[BagFits] = []
        self.bounds = BagBounds()
        for numbers, stack in rows.stacks(engine):
            self.bounds.add(stack)
            self._fits.append(fit_stacked_bags(stack, labels.codes(values[numbers])))

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
            _, residual = self._residual(bag)
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
            low, high = (np.sqrt(np.square(end) + added) for end in (fits.low, fits.high))
            codes = rounded_noise.sample_rounded(
                *floors.means(total, fits.slope, fits.slope_error, centre),
                (low * (1 - 2.0**-50), high * (1 + 2.0**-50)),
                grid - labels.exponent,
                randomness,
                partial(self._exact, numbers.start, total, added_variance),
            )
            yield total, np.ldexp(codes, labels.exponent)

    def _exact(
        self, first: int, total: Reals, added_variance: float, number: int, precision: int
    ) -> tuple[Any, Any]:
        """Return the law of one bag's label to any precision, for the rare draw in doubt."""
        factor, residual = self._residual(first + number)
        intercept = self._features.intercept
        law = floors.AggregateLabelSampler(residual, self._labels, added_variance, intercept)
        columns = self._features.kept_places[list(factor.kept)]
        return law.exact_at(total[number : number + 1, columns])(0, precision)

    def _residual(self, number: int) -> tuple[VerifiedCholesky, ExactLeastSquares]:
        bag, sums = self._rows.bag(number), LabelCrossProducts(self._features, self._labels)
        sums.add(bag, self._values[number])
        factor = bag_factor(self._features, bag)
        return factor, ExactLeastSquares(factor, sums.result())
