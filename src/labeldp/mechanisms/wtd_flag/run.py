"""Carrying out wtd-FLAg: the labels are read once, and leave by the door alone.

The m rows WᵀA are iid N(0, AᵀA), so no weights are drawn (theory §3a): the aggregated
features are Z = G·R with RᵀR = XᵀX, and given Z the aggregated labels are independent
N(Z_j·β̂, σ²). Z does not depend on labels and takes an ordinary float path; the labels go
through the door. An added floor of variance s² (theory §6) makes σ² into σ² + s². Nothing here
chooses anything by looking at labels, except through the measured floor, which is published with
noise and priced in the claim.

Aggregates are independent, so blocks of them are drawn by several threads at once. Where a
block begins depends on the number of columns alone, its randomness on its place alone
(`Randomness.block`): threads change nothing but time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelMoments
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.exact.leverage import Leverage, LeverageScan
from labeldp.exact.person_norms import PersonScan, PersonSums
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.design_summary import inflation_for, most_rows
from labeldp.mechanisms.plans import OTHER_FEATURES, Plan
from labeldp.mechanisms.residual_floor import AggregateLabelSampler, establish_floor
from labeldp.mechanisms.wtd_flag.claim import WtdFlagClaim
from labeldp.passes.engine import Engine
from labeldp.release.pending import PendingRelease, aggregate_batch, aggregate_schema
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp.threads import in_order, workers

_MOST_ROWS, _FEWEST_ROWS, _NUMBERS = 1 << 14, 1 << 10, 1 << 19
"""A block has at most so many rows, and no more than so many numbers unless it has the fewest."""
_MOST_THREADS = 8
"""They draw faster than one file can be written, and every one holds some MiB."""
_PANEL = 64
"""Columns of the triangle R multiplied at a time: above a panel's diagonal nothing is zero."""


def run(plan: Plan, source: Source, engine: Engine, randomness: Randomness) -> PendingRelease:
    """One pass over features and labels, and whose they are, then the draw."""
    claim, features, labels = plan.claim, plan.features, plan.labels
    assert isinstance(claim, WtdFlagClaim)
    plan.bind(
        source,
        claim.facts.centred <= (features.constant is not None),
        not claim.compact or claim.bags > (claim.facts.features or 0) + 1,
    )
    randomness.spend()
    gram, moments, seen = _sums(plan, source, engine)
    plan.check_sums(gram.digest())
    factor = plan.factor
    if factor is None or factor.kept != features.kept_columns or not factor.is_of(gram):
        factor = verified_cholesky(gram, features)  # a plan may have been put together by hand
    leverage = engine.run_pass("leverages", source, LeverageScan(features, factor))
    check_facts(claim, features, factor, leverage)
    person = most_rows(features, source, engine, seen)
    if person is not None and person.rows > claim.protected:
        raise PlanError(OTHER_FEATURES)
    residual = ExactLeastSquares(factor, moments)
    outcome = establish_floor(claim, [residual], labels, randomness)
    grid = rounded_noise.grid_for(math.sqrt(claim.floor))
    schema = aggregate_schema(features, source.label or "label")

    draw: Callable[..., Generator[Aggregates, None, None]] = (
        draw_compact if claim.compact else partial(draw_aggregates, threads=workers(engine.threads))
    )
    law = AggregateLabelSampler(residual, labels, outcome.added_variance, features.intercept)
    drawn = draw(
        factor,
        law,
        bags=claim.bags,
        scales=features.kept_scales,
        grid=grid,
        randomness=randomness,
    )

    def batches() -> Generator[pa.RecordBatch, None, None]:
        with closing(drawn), engine.progress("aggregates", claim.bags) as advance:
            for block in drawn:
                yield aggregate_batch(schema, block.features, block.labels)
                advance(len(block.labels))

    certificate = plan.certifier(outcome, source, grid, randomness)
    return PendingRelease(features, schema, batches(), certificate)


def _sums(
    plan: Plan, source: Source, engine: Engine
) -> tuple[FeatureGram, LabelMoments, PersonSums | None]:
    """Of features and labels, and whose rows these are: no other pass may tell."""
    tallies = GramAccumulator(plan.features), LabelCrossProducts(plan.features, plan.labels)
    if source.person is None:
        return *engine.run_pass("label sums", source, *tallies), None
    return engine.run_pass("label sums", source, *tallies, PersonScan(plan.features))


def check_facts(
    claim: WtdFlagClaim, features: FeatureMap, factor: VerifiedCholesky, leverage: Leverage
) -> None:
    """The facts that the claim rests on, seen again in the table that is released.

    The digest of the sums does not suffice: tables with equal sums may differ in leverage.
    """
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

    features: NDArray[np.float64]
    """Σ w·x over design columns in the feature map's scales; every column contiguous."""
    labels: NDArray[np.float64]
    """Σ w·y (+ added noise), on the public grid."""


def block_rows(columns: int) -> int:
    """Rows of a block: a power of two, so that a block fits a processor's cache if it can."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, 1 << (_NUMBERS // columns).bit_length() - 1))


def draw_aggregates(
    factor: VerifiedCholesky,
    law: AggregateLabelSampler,
    *,
    bags: int,
    scales: NDArray[np.float64],
    grid: int,
    randomness: Randomness,
    threads: int = 1,
) -> Generator[Aggregates, None, None]:
    """Yield `bags` aggregates block by block, drawn ahead by so many threads."""
    root = factor.root()
    rows = block_rows(factor.rank + 1)

    def block(place: int) -> Aggregates:
        streams = randomness.block(place)
        size = min(rows, bags - place * rows)
        normal = streams.features.standard_normal((size, factor.rank))
        features = _times_triangle(normal, root)
        codes = law.publish(features, grid, streams)
        features *= scales
        return Aggregates(features, np.ldexp(codes, law.exponent))

    with threadpool_limits(1, "blas"):  # the threads here are enough
        yield from in_order(block, range(-(-bags // rows)), min(threads, _MOST_THREADS))


def _times_triangle(left: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """left @ upper for an upper triangle, in Fortran order."""
    product = np.empty((upper.shape[1], len(left)))
    for start in range(0, len(product), _PANEL):
        stop = start + _PANEL
        np.matmul(upper[:stop, start:stop].T, left[:, :stop].T, out=product[start:stop])
    return product.T


def draw_compact(
    factor: VerifiedCholesky,
    law: AggregateLabelSampler,
    *,
    bags: int,
    scales: NDArray[np.float64],
    grid: int,
    randomness: Randomness,
) -> Generator[Aggregates, None, None]:
    """Yield the d+1 rows of a compact release: the triangle that QR makes of `bags` aggregates.

    G = QT with T the Bartlett factor of a Wishart matrix: χ with m, m−1, … degrees of freedom
    on its diagonal, normals above, all independent. Row i of T·R takes the place of an aggregate,
    and a last row, without features, holds what is left of the labels: √(σ² + s²)·χ with
    m − d degrees. Either form can be made from the other without labels (theory §8).
    """
    rank, stream = factor.rank, randomness.features
    triangle = np.triu(stream.standard_normal((rank, rank)), 1)
    triangle += np.diag(np.sqrt(stream.chisquare(bags - np.arange(rank))))
    features = triangle @ factor.root()
    codes = law.publish(features, grid, randomness)
    step = grid - law.exponent
    left = rounded_noise.sample_rounded_chi(bags - rank, step, randomness, law.exact_at(features))
    yield Aggregates(
        np.vstack([features * scales, np.zeros((1, rank))]),
        np.ldexp(np.append(codes, left), law.exponent),
    )
