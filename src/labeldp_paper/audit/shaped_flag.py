"""Trying shaped-flag: aggregates about C·Xᵀy, and the residual's root about σ (theory §9)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from labeldp.data.source import Source
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts
from labeldp.exact.row_norms import Weights
from labeldp.mechanisms.options import RADIAL
from labeldp.mechanisms.shaped_flag import (
    ShapedFlagClaim,
    aggregate_labels,
    exact_residual,
    residual_root,
)
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.files import Release
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from labeldp_paper.audit.audit_spec import (
    LAPLACE as ABSOLUTE,
    NORMAL as SQUARE,
    RADIAL as LENGTH,
    Fit,
    NoiseComponent,
    Observation,
    Reals,
    RngFactory,
    Rows,
)

_AT_ONCE = 1 << 20
"""Numbers of normal noise that are drawn by one call."""


def _of(plan: Plan) -> tuple[ShapedFlagClaim, Weights]:
    claim, weights = plan.claim, plan.weights
    assert isinstance(claim, ShapedFlagClaim)
    assert isinstance(weights, Weights)
    return claim, weights


def moves(plan: Plan, pieces: Iterable[Reals]) -> Reals:
    """‖C·x‖ of every row."""
    matrix = _of(plan)[1].matrix
    return np.concatenate([np.linalg.norm(rows @ matrix.T, axis=1) for rows in pieces])


def most(plan: Plan) -> float:
    """L, of a row or of all rows of a person."""
    return _of(plan)[0].length


class Shaped:
    """A table whose labels are known."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, _: Rows) -> None:
        self._claim, self._weights = _of(plan)
        self._labels, sums = plan.labels, Fit(plan, source).sums
        tallies = GramAccumulator(plan.features), LabelCrossProducts(plan.features, plan.labels)
        self._gram, self._moments = engine.run_pass("label sums", source, *tallies)
        self._residual = exact_residual(plan, self._gram, self._moments)
        self._mean, self._root = self._weights.matrix @ sums.cross, sums.root

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness = rng_factory()
        shown = {"aggregates": self._aggregates(releases, randomness)}
        if self._claim.residual_noise_std is not None:
            args = self._claim, self._residual, self._labels, randomness
            shown["residual"] = np.array([[residual_root(*args)] for _ in range(releases)])
        return shown

    def _aggregates(self, releases: int, randomness: Randomness) -> Reals:
        """Normal noise is drawn number by number, so that the rows of C may be repeated."""
        count = self._weights.rank
        once = 1 if self._claim.noise_law == RADIAL else max(1, _AT_ONCE // count)
        drawn = [
            self._call(min(once, releases - start), randomness)
            for start in range(0, releases, once)
        ]
        return np.concatenate(drawn).reshape(releases, count)

    def _call(self, times: int, randomness: Randomness) -> Reals:
        weights = self._weights
        copies = Weights(weights.kept, np.tile(weights.matrix, (times, 1)))
        grid = rounded_noise.grid_for(self._claim.noise_std)
        rest = self._gram, self._moments, self._labels, self._claim, grid, randomness
        return aggregate_labels(weights if times == 1 else copies, *rest)

    def read(self, release: Release) -> Observation:
        root = release.certificate.get("residual_root")
        shown = {"aggregates": release.labels[None]}
        return shown if root is None else shown | {"residual": np.array([[root]])}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        claim = self._claim
        radial, grid = claim.noise_law == RADIAL, rounded_noise.grid_for(claim.noise_std)
        aggregates = NoiseComponent(
            "aggregates",
            shown["aggregates"],
            self._mean,
            np.array([[claim.scale]]),
            LENGTH if radial else SQUARE,
            grid,
            claim.width * claim.length,
        )
        if claim.residual_noise_std is None or claim.residual_scale is None:
            return (aggregates,)
        root = NoiseComponent(
            "residual",
            shown["residual"],
            np.array([self._root]),
            np.array([[claim.residual_scale]]),
            ABSOLUTE if radial else SQUARE,
            rounded_noise.grid_for(claim.residual_noise_std),
            claim.residual_reach,
        )
        return aggregates, root
