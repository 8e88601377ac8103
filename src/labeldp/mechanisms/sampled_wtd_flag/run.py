"""Carrying out sampled-wtd-FLAg: one pass for the rows of the bags, one aggregate of each.

Given the published bags, bag j's aggregate (Z_j, t_j) = Σ w·(x, y) has Z_j = Σ w·x, drawn with
secret weights, and t_j | Z_j ~ N(Z_j·β̂_j, σ_j²) (theory §3a with one aggregate): the labels
enter through β̂_j and σ_j alone, and t_j goes through the door.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.stacked import BagFits, fit_bags, stacked_design
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.bags import BagRows, SimulationInputs, members_table
from labeldp.mechanisms.design_summary import inflation_for
from labeldp.mechanisms.plans import OTHER_FEATURES, Plan
from labeldp.mechanisms.residual_floor import (
    AggregateLabelSampler,
    establish_floor,
    means,
    root_bounds,
)
from labeldp.mechanisms.sampled_wtd_flag.bagwise import Block, bag_blocks, bag_factor
from labeldp.mechanisms.sampled_wtd_flag.claim import SampledWtdFlagClaim
from labeldp.passes.engine import Engine
from labeldp.release.claim import FloorOutcome
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

Labels = NDArray[np.float64]

_KEPT = 1 << 24
"""Slopes of bags that may stay in memory between two looks: 256 MiB with their errors."""
_ROUNDING = 1e-11
"""Of eigenvalues, relative to the trace; far above what doubles lose."""


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over features and labels, then the bags block by block."""
    claim, features, labels = plan.claim, plan.features, plan.labels
    assert isinstance(claim, SampledWtdFlagClaim)
    plan.bind(
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
    plan.check_sums(rows.digest())
    bags = LabelledBags(claim, features, labels, rows, values)
    outcome = bags.settle(source, engine, randomness)
    grid = rounded_noise.grid_for(math.sqrt(claim.floor))
    schema = aggregate_schema(features, source.label or "label")

    def batches() -> Generator[pa.RecordBatch, None, None]:
        with engine.progress("aggregates", claim.bags) as advance:
            for design, sums in bags.draw(outcome.added_variance, grid, randomness):
                yield aggregate_batch(schema, design * features.kept_scales, sums)
                advance(len(sums))

    certificate = plan.certifier(outcome, source, grid, randomness)
    files = {"bags": members_table(claim.draw)}
    return PendingRelease(features, schema, batches(), certificate, files)


class LabelledBags:
    """The bags with their labels: private, so it prints as nothing."""

    def __init__(
        self,
        claim: SampledWtdFlagClaim,
        features: FeatureMap,
        labels: LabelGrid,
        rows: BagRows,
        values: Labels,
    ) -> None:
        self._claim, self._features, self._labels = claim, features, labels
        self._rows, self._values = rows, values
        self._fits: list[BagFits] = []
        self._stays = claim.bags * len(features.names) <= _KEPT
        self._place = {column: at for at, column in enumerate(features.kept_columns)}

    def __repr__(self) -> str:
        return "LabelledBags(private)"

    def settle(self, source: Source, engine: Engine, randomness: Randomness) -> FloorOutcome:
        """Check every bag's public facts again and establish the floor under them all."""
        promise = self._claim.promise
        if promise is None:
            return establish_floor(self._claim, self.smallest(engine), self._labels, randomness)
        self._look(engine)
        check_eigenvalue(promise.min_eigenvalue, self._features, self._labels, source, engine)
        return FloorOutcome()

    def smallest(self, engine: Engine) -> list[ExactLeastSquares]:
        """Exact residuals of the bags one of which has the smallest, after a look at all."""
        return self._smallest(*self._look(engine))

    def _look(self, engine: Engine) -> tuple[Labels, Labels]:
        """Between what the root of every bag's residual lies; their public facts are checked."""
        claim = self._claim
        low, high = np.empty(claim.bags), np.empty(claim.bags)
        with engine.progress("residuals of bags", claim.bags) as advance:
            for block in self._blocks():
                self._check(block)
                fits = self._fit(block)
                low[block.numbers], high[block.numbers] = fits.low, fits.high
                if self._stays:
                    self._fits.append(fits)
                advance(block.bags)
        return low, high

    def draw(
        self, added_variance: float, grid: int, randomness: Randomness
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """One aggregate of every bag, block by block: integer design columns, and the labels."""
        labels = self._labels
        centre = labels.centre if self._features.intercept else 0
        for number, block in enumerate(self._blocks()):
            fits = self._fits[number] if self._stays else self._fit(block)
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

    def _blocks(self) -> Iterator[Block]:
        return bag_blocks(self._rows, self._features, self._claim.draw.bag_size)

    def _check(self, block: Block) -> None:
        """That the plan's facts hold of these bags."""
        facts = self._claim.facts
        same = (
            block.ranks.max() <= (facts.features or 0)
            and inflation_for(float(block.error_bounds.max())) <= facts.inflation
            and (facts.max_leverage is None or block.leverages.max() <= facts.max_leverage)
        )
        if not same:
            raise PlanError(OTHER_FEATURES)

    def _fit(self, block: Block) -> BagFits:
        """The bags' regressions in doubles; exact ones of the bags that stand alone."""
        fits = fit_bags(block.stack, self._labels.codes(self._values[block.numbers]))
        for bag, factor in block.alone.items():
            residual = self._residual(factor, block.numbers.start + bag)
            slope, error = np.zeros_like(fits.slope[bag]), np.zeros_like(fits.slope[bag])
            columns = self._columns(factor)
            slope[columns], error[columns] = residual.coefficients(), residual.coefficient_errors()
            fits.put(bag, slope, error, root_bounds(residual.square_low, residual.square_high))
        return fits

    def _smallest(self, low: Labels, high: Labels) -> list[ExactLeastSquares]:
        """Exact residuals of the bags one of which has the smallest, whichever it is.

        A residual that is surely no smaller than another is not needed: where many are 0, one is.
        """
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

    def _exact(
        self, block: Block, total: NDArray[np.float64], added_variance: float
    ) -> rounded_noise.Exact:
        """The law of a bag's label to any precision, for the rare one in doubt."""

        @cache
        def law(bag: int) -> rounded_noise.Exact:
            factor = bag_factor(self._features, block.bag(bag))
            residual = self._residual(factor, block.numbers.start + bag)
            whole = AggregateLabelSampler(
                residual, self._labels, added_variance, self._features.intercept
            )
            return whole.exact_at(total[bag : bag + 1, self._columns(factor)])

        return lambda bag, precision: law(bag)(0, precision)

    def _columns(self, factor: VerifiedCholesky) -> list[int]:
        """Where a factor's columns stand among the kept ones."""
        return [self._place[column] for column in factor.kept]

    def _residual(self, factor: VerifiedCholesky, bag: int) -> ExactLeastSquares:
        sums = LabelCrossProducts(self._features, self._labels)
        sums.add(self._rows.bag(bag), self._values[bag])
        return ExactLeastSquares(factor, sums.result())


def std_bounds(fits: BagFits, added_variance: float, labels: LabelGrid) -> tuple[Labels, Labels]:
    """√(σ² + added) of every bag in label codes, rounded down and up."""
    added = math.ldexp(added_variance, -2 * labels.exponent)
    down, up = np.sqrt(np.square(fits.low) + added), np.sqrt(np.square(fits.high) + added)
    return down * (1 - 2.0**-50), up * (1 + 2.0**-50)


def check_eigenvalue(
    least: float, features: FeatureMap, labels: LabelGrid, source: Source, engine: Engine
) -> None:
    """Refuse a table that breaks the promise. Labels count from the middle of their range."""
    gram, moments = engine.run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, labels)
    )
    if smallest_eigenvalue(gram, moments, features, labels) >= gram.rows * least:
        return
    raise PlanError(
        "the promised smallest eigenvalue does not hold for these labels and features; promise "
        "less, or use the accountant exact (this refusal tells one bit about the labels)"
    )


def smallest_eigenvalue(
    gram: FeatureGram, moments: LabelMoments, features: FeatureMap, labels: LabelGrid
) -> float:
    """A lower bound of σ_min([X|y])² in design and label units, but for rounding."""
    kept = list(features.kept_columns)
    scales = np.append(features.kept_scales, math.ldexp(1.0, labels.exponent))
    matrix = np.empty((len(scales), len(scales)))
    matrix[:-1, :-1] = gram.exact(kept).astype(np.float64)
    matrix[-1, :-1] = matrix[:-1, -1] = moments.cross[kept].astype(np.float64)
    matrix[-1, -1] = float(moments.square)
    matrix *= np.outer(scales, scales)
    return float(np.linalg.eigvalsh(matrix)[0] - _ROUNDING * np.trace(matrix))


def rehearse(plan: Plan, source: Source, stream: np.random.Generator) -> SimulationInputs:  # noqa: ARG001
    """Fresh weights, and the noise of the forecast."""
    claim = plan.claim
    assert isinstance(claim, SampledWtdFlagClaim)
    weights = stream.standard_normal((claim.bags, claim.draw.bag_size))
    variances = np.full(claim.bags, plan.forecast.added_variance)
    return SimulationInputs(claim.draw, weights, variances, weigh=False)
