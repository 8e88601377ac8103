"""Trying sampled-wtd-FLAg: the label of every bag about Z·β̂ of its rows, with the deviation
√(σ² + s²) of its residual and of what was added, given Z (theory §3 with one aggregate, §4).

A measured floor is another part, as in wtd-FLAg; it is that of the bag of least residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from labeldp.accounting.residual_floor import FloorMode
from labeldp.data.source import Source
from labeldp.mechanisms.bags import BagRows
from labeldp.mechanisms.residual_floor import establish_floor
from labeldp.mechanisms.sampled_wtd_flag import LabelledBags, SampledWtdFlagClaim
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.certificate import FloorOutcome
from labeldp.release.files import Release
from labeldp.sampling import rounded_noise
from labeldp_paper.audit.audit_spec import (
    NORMAL,
    NoiseComponent,
    Observation,
    Reals,
    RngFactory,
    Rows,
    on_grid,
)

_ROUNDING = 1e-9
_RANK = 1e-9
"""Of singular values, relative to the largest: below it columns depend on each other."""


def _claim(plan: Plan) -> SampledWtdFlagClaim:
    assert isinstance(plan.claim, SampledWtdFlagClaim)
    return plan.claim


def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
    """The leverage of every row in its bag; a row that is in none moves nothing."""
    draw = _claim(plan).draw
    wanted = np.zeros(draw.rows, dtype=bool)
    wanted[draw.members] = True
    kept, first = [], 0
    for rows in pieces:
        kept.append(rows[wanted[first : first + len(rows)]])
        first += len(rows)
    inside, place = np.concatenate(kept), np.cumsum(wanted) - 1
    every = np.zeros(draw.rows)
    for members in draw.members:
        basis = _basis(inside[place[members]])
        every[members] = np.square(basis).sum(axis=1)
    return every


def most(plan: Plan) -> float:
    """The largest leverage that is priced."""
    return _claim(plan).usable_facts.max_leverage or 1.0


def any_labels(plan: Plan) -> bool:
    """A declared floor, and a measured one without noise to add, need a residual that is large."""
    return _claim(plan).mode in (FloorMode.ADDED, FloorMode.MEASURED_ADDED)


def refusal(plan: Plan) -> str | None:
    """Only a claim about the bags that were drawn, each with its floor, can be tried with them."""
    claim = _claim(plan)
    if claim.promise is not None:
        return (
            "Theorem 2 promises no residual of a bag, so that nothing here could be priced: audit "
            "`accountant='exact'`"
        )
    if claim.draw.over_draw:
        return "the claim is about all draws of bags, and an audit tries one: leave `over_draw` out"
    return None


class Sketched:
    """A table whose labels are known."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, _: Rows) -> None:
        self._plan, self._claim, features = plan, _claim(plan), plan.features
        rows = BagRows(features, self._claim.draw)
        values = rows.read_labelled(source, engine)
        self._bags = LabelledBags(self._claim, features, plan.labels, rows, values)
        self._residuals = self._bags.smallest(engine)
        self._grid = rounded_noise.grid_for(math.sqrt(self._claim.floor))
        fits = [
            _plain(features.integers(rows.bag(bag)), on_grid(plan.labels, values[bag]))
            for bag in range(self._claim.bags)
        ]
        self._slopes = np.array([slope for slope, _ in fits]) / features.kept_scales
        self._roots = np.array([root for _, root in fits])

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness = rng_factory()
        outcomes = [
            establish_floor(self._claim, self._residuals, self._plan.labels, randomness)
            for _ in range(releases)
        ]
        drawn = [
            block
            for outcome in outcomes
            for block in self._bags.draw(outcome.added_variance, self._grid, randomness)
        ]
        design, labels = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
        shape = releases, self._claim.bags
        numbers = {
            "design": (design * self._plan.features.kept_scales).reshape(*shape, -1),
            "labels": labels.reshape(shape),
        }
        return numbers | _floors(outcomes)

    def read(self, release: Release) -> Observation:
        outcome = FloorOutcome.of(release.certificate)
        assert outcome is not None
        numbers = {"design": release.design[None], "labels": release.labels[None]}
        return numbers | _floors([outcome])

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        claim = self._claim
        labels = NoiseComponent(
            "aggregates",
            shown["labels"],
            np.einsum("rbd,bd->rb", shown["design"], self._slopes),
            np.sqrt(self._roots**2 + shown["added"]),
            NORMAL,
            self._grid,
            least=math.sqrt(claim.floor) * (1 - _ROUNDING),
        )
        if claim.measurement is None:
            return (labels,)
        noise, least = claim.measurement.noise(claim.facts.width), self._roots.min()
        mean, scale, grid = np.array([least]), np.array([[noise]]), rounded_noise.grid_for(noise)
        reach = claim.facts.width
        return NoiseComponent("floor", shown["measured"], mean, scale, NORMAL, grid, reach), labels


def _floors(outcomes: list[FloorOutcome]) -> Observation:
    """What releases measured, if they did, and what they added."""
    measured = [[each.measured] for each in outcomes if each.measured is not None]
    added = np.array([[each.added_variance] for each in outcomes])
    return {"added": added} | ({"measured": np.array(measured)} if measured else {})


def _basis(rows: Reals) -> Reals:
    """Orthonormal columns that span those of a bag, whatever their units are."""
    sizes = np.linalg.norm(rows, axis=0)
    left, values, _ = np.linalg.svd(rows / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    return np.asarray(left[:, values > _RANK * values[0]])


def _plain(rows: Reals, labels: Reals) -> tuple[Reals, float]:
    """β̂ and σ of a bag; of columns that depend on each other, any of the slopes."""
    sizes = np.linalg.norm(rows, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    slope = np.linalg.lstsq(rows / sizes, labels, _RANK)[0] / sizes
    basis = _basis(rows)
    left = labels - basis @ (basis.T @ labels)
    left -= basis @ (basis.T @ left)
    return slope, float(np.linalg.norm(left))
