"""What sampled-wtd-FLAg promises, and how that is checked: one aggregate of each bag."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.residual_floor import measurement_cost
from labeldp.accounting.sketch import DatasetBounds, DisjointBagsProfile, SketchProfile
from labeldp.accounting.theorems import Theorem2
from labeldp.data.source import Source
from labeldp.errors import PlanError
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.stacked import stacked_design
from labeldp.mechanisms.bags import BagRows, Draw, check_bag_rows, check_members
from labeldp.mechanisms.design_checks import bag_squares, improbable
from labeldp.mechanisms.design_summary import feature_bound
from labeldp.mechanisms.floor_checks import check_floor_release, untested_floor
from labeldp.mechanisms.forecast import relative_excess, sketched_error
from labeldp.mechanisms.residual_floor import FloorClaim, read_floor
from labeldp.mechanisms.sampled_wtd_flag.bagwise import bag_blocks, bag_facts
from labeldp.passes.engine import Engine
from labeldp.release.claim import AddedError, FloorOutcome, read_head
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES

_AWAY = 1e-6
"""Of a sum's length: how far rounding takes it from the span of its rows."""

BASIS = {
    "exact": "exact law of the privacy loss of one aggregate given the largest leverage of a row "
    "in its bag (over the draw: for any leverage); supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss of one aggregate for any features; supremum "
    "over neighbours certified",
    "paper": "Theorem 2 of 'Label Differential Privacy via Aggregation', its proof mended",
}
THEOREM2_BASIS = (
    "ASSUMPTION: the curator asserts from public knowledge that the smallest eigenvalue of "
    "[X|y]'[X|y] is at least rows times min_eigenvalue; the run checked it, and that it went ahead "
    "is one bit about the labels that is not accounted for"
)


@dataclass(frozen=True)
class Promise:
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
    promise: Promise | None = None
    """Given if and only if the accountant is "paper"."""

    @property
    def law(self) -> PrivacyProfile:
        if self.promise is not None:
            return self._theorem2(self.promise)
        return self.draw.over(
            DisjointBagsProfile(
                SketchProfile(self.known, 1, self.floor, *measurement_cost(self.measurement))
            )
        )

    @property
    def expected_floor(self) -> float:
        """kλ*, the residual of a typical bag under Theorem 2's promise: it sets the grid."""
        return self.draw.bag_size * self.promise.min_eigenvalue if self.promise else self.floor

    @property
    def known(self) -> DatasetBounds:
        """The facts that the accountant may use: over the draw, only those of every draw."""
        if self.accountant == "exact" and not self.draw.over_draw:
            return self.facts
        return replace(self.facts, max_leverage=None)

    def _theorem2(self, promise: Promise) -> Theorem2:
        return Theorem2(
            self.draw.rows,
            self.facts.label_range,
            promise.min_eigenvalue,
            promise.feature_bound,
            self.rank,
            self.draw.bag_size,
        )

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus "
            "floor.added_variance/bag_size; approximate, since bags differ",
            **relative_excess(self.rank, self.bags),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """The same for bags of k rows; what was measured is the smallest residual of a bag."""
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
        """Beside what secret weights do."""
        return None if outcome is None else math.sqrt(outcome.added_variance)

    def to_json(self) -> dict[str, Any]:
        promise = self.promise
        facts = self.facts_json("the smallest residual sum of squares of a bag")
        if promise:
            facts["floor"]["basis"] = THEOREM2_BASIS
        return {
            **self.head(BASIS[self.accountant]),
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
                "theorem2_terms": self._terms(promise) if promise else None,
            },
            "noise": None,
        }

    def _terms(self, promise: Promise) -> list[float]:
        """The four bag sizes that Theorem 2 asks for; the bags must have the largest."""
        return list(map(float, self._theorem2(promise).terms(self.epsilon, self.delta)))


def read_claim(document: dict[str, Any]) -> SampledWtdFlagClaim:
    """The inverse of `to_json`."""
    drawn = document["draw"]
    promised = drawn["min_eigenvalue"] is not None
    if promised != (document["accountant"]["name"] == "paper"):
        raise ValueError("Theorem 2 and its promise go together")
    return SampledWtdFlagClaim(
        **read_head(document),
        **read_floor(document, rows=int(document["bag_size"]), rank=int(drawn["bag_rank"])),
        rank=int(document["rank"]),
        draw=Draw.from_json(document),
        promise=Promise(float(drawn["min_eigenvalue"]), float(drawn["feature_bound"]))
        if promised
        else None,
    )


def check(release: Release) -> Iterator[str]:
    """Bags are those of the seed, and the numbers are what the claim makes them."""
    claim = read_claim(release.certificate)
    yield from check_members(release.files["bags"], claim.draw)
    if not 0 <= (claim.facts.features or 0) <= min(claim.rank, claim.draw.bag_size):
        yield "certificate: draw.bag_rank is no rank that a bag of these columns can have"
    bound = feature_bound(release.features)
    if claim.promise is not None and claim.promise.feature_bound < bound:
        yield "certificate: the features may have longer rows than draw.feature_bound"
    if not math.isclose(claim.floor, claim.expected_floor, rel_tol=1e-9):
        yield f"certificate: floor.needed should be {claim.expected_floor:.9g}"
    yield from check_floor_release(release, claim, scatter=claim.promise is None)


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether the bags' rows have the features, ranks and leverages of the certificate."""
    claim, features = read_claim(release.certificate), release.features
    rows = BagRows(features, claim.draw)
    problems = list(check_bag_rows(rows, release, source, engine))
    if problems:
        yield from problems
        return
    labels = LabelGrid.for_range(claim.facts.label_range, intercept=features.intercept)
    try:
        facts = bag_facts(rows, features, labels, claim.draw, adds=claim.mode.adds, engine=engine)
    except PlanError as problem:
        yield str(problem)
        return
    leverage, claimed = facts.max_leverage or 0.0, claim.facts.max_leverage
    if claimed is not None and claimed < leverage * (1 - 1e-8):
        yield f"a row has leverage {leverage:.6g} in its bag, the certificate says {claimed:.6g}"
    if (claim.facts.features or 0) < (facts.features or 0):
        yield f"a bag has rank {facts.features}, the certificate says {claim.facts.features}"
    if claim.facts.inflation < facts.inflation * (1 - 1e-6):
        yield "the certificate's inflation is too small for these features"
    yield from _check_law(release, rows, claim.draw.bag_size)


def _check_law(release: Release, rows: BagRows, bag_size: int) -> Iterator[str]:
    """Whether every aggregate weighs the rows of its bag with normals."""
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


def untested(release: Release) -> Iterator[str]:
    """What `check` cannot see."""
    yield from untested_floor(release, scatter=read_claim(release.certificate).promise is None)
