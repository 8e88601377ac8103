"""Trying wtd-FLAg: labels about Z·β̂ with the deviation √(σ² + s²), given Z (theory §3, §6).

A measured floor is another part, σ̂ about σ. What was added for it follows from σ̂ alone, so the
density of a release is that of σ̂ times that of the labels given σ̂ and Z.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from labeldp.accounting.residual_floor import FloorMode
from labeldp.data.source import Source
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.exact.least_squares import ExactLeastSquares
from labeldp.mechanisms.residual_floor import AggregateLabelSampler, establish_floor
from labeldp.mechanisms.wtd_flag import WtdFlagClaim, draw_aggregates
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.certificate import FloorOutcome
from labeldp.release.files import Release
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp_paper.audit.audit_spec import (
    NORMAL,
    Fit,
    NoiseComponent,
    Observation,
    Reals,
    RngFactory,
    Rows,
)

_ROUNDING = 1e-9


def _claim(plan: Plan) -> WtdFlagClaim:
    assert isinstance(plan.claim, WtdFlagClaim)
    return plan.claim


def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
    """The leverage of every row."""
    assert plan.factor is not None  # which planning has just made
    root = plan.factor.root().T
    whitened = (np.linalg.solve(root, rows.T) for rows in pieces)
    return np.concatenate([np.square(each).sum(axis=0) for each in whitened])


def most(plan: Plan) -> float:
    """The largest leverage that is priced, of as many rows as are covered together."""
    claim = _claim(plan)
    return (claim.facts.max_leverage or 1.0) * claim.protected


def any_labels(plan: Plan) -> bool:
    """A declared floor, and a measured one without noise to add, need a residual that is large."""
    return _claim(plan).mode in (FloorMode.ADDED, FloorMode.MEASURED_ADDED)


def refusal(plan: Plan) -> str | None:
    """A compact release has other laws; either form can be made from the other (theory §8)."""
    if not _claim(plan).compact:
        return None
    return "a compact release tells what its aggregates do: audit these, leave `compact` out"


class Sketched:
    """A table whose labels are known."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, _: Rows) -> None:
        self._plan, self._claim = plan, _claim(plan)
        self._sums, features = Fit(plan, source).sums, plan.features
        tallies = GramAccumulator(features), LabelCrossProducts(features, plan.labels)
        gram, moments = engine.run_pass("label sums", source, *tallies)
        self._factor = verified_cholesky(gram, features)
        self._residual = ExactLeastSquares(self._factor, moments)
        self._slope = self._sums.slope / features.kept_scales
        self._grid = rounded_noise.grid_for(math.sqrt(self._claim.floor))

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        """Aggregates are independent, so those of all releases of one floor are drawn as one."""
        randomness = rng_factory()
        outcomes = [self._outcome(randomness) for _ in range(releases)]
        added = np.array([outcome.added_variance for outcome in outcomes])
        shown = _empty(releases, self._claim.bags, self._factor.rank)
        for variance in np.unique(added):
            here = np.flatnonzero(added == variance)
            design, labels = self._aggregates(float(variance), len(here), rng_factory())
            shown["design"][here], shown["labels"][here] = design, labels
        measured = [[o.measured] for o in outcomes if o.measured is not None]
        seen = {"measured": np.array(measured)} if measured else {}
        return shown | seen | {"added": added[:, None]}

    def _outcome(self, randomness: Randomness) -> FloorOutcome:
        return establish_floor(self._claim, [self._residual], self._plan.labels, randomness)

    def _aggregates(
        self, added: float, releases: int, randomness: Randomness
    ) -> tuple[Reals, Reals]:
        features, bags = self._plan.features, self._claim.bags
        law = AggregateLabelSampler(self._residual, self._plan.labels, added, features.intercept)
        drawn = draw_aggregates(self._factor, law, bags * releases, self._grid, randomness)
        design, labels = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        design *= features.kept_scales
        return design.reshape(releases, bags, -1), labels.reshape(releases, bags)

    def read(self, release: Release) -> Observation:
        outcome = FloorOutcome.of(release.certificate)
        assert outcome is not None
        measured = {"measured": np.array([[outcome.measured]])} if self._claim.measurement else {}
        added = np.array([[outcome.added_variance]])
        numbers = {"design": release.design[None], "labels": release.labels[None]}
        return {**numbers, **measured, "added": added}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        claim, root = self._claim, self._sums.root
        labels = NoiseComponent(
            "aggregates",
            shown["labels"],
            shown["design"] @ self._slope,
            np.sqrt(root**2 + shown["added"]),
            NORMAL,
            self._grid,
            least=math.sqrt(claim.floor) * (1 - _ROUNDING),
        )
        if claim.measurement is None:
            return (labels,)
        noise = claim.measurement.noise(claim.facts.width)
        reach = claim.facts.width * math.sqrt(claim.protected)
        mean, scale = np.array([root]), np.array([[noise]])
        grid = rounded_noise.grid_for(noise)
        return NoiseComponent("floor", shown["measured"], mean, scale, NORMAL, grid, reach), labels


def _empty(releases: int, bags: int, columns: int) -> Observation:
    return {"design": np.empty((releases, bags, columns)), "labels": np.empty((releases, bags))}
