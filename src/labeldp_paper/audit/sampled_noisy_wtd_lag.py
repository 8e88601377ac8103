"""Trying sampled-noisy-wtd-LAg: every bag's label about Σ w·y, with its public deviation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from labeldp.data.source import Source
from labeldp.mechanisms.bags import BagRows
from labeldp.mechanisms.sampled_noisy_wtd_lag import (
    BagWeights,
    SampledNoisyWtdLagClaim,
    draw_sums,
    label_grid,
)
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.files import Release
from labeldp_paper.audit.audit_spec import (
    NORMAL,
    NoiseComponent,
    Observation,
    Reals,
    RngFactory,
    Rows,
    on_grid,
)

_AT_ONCE = 1 << 20
"""Weights of a call."""
_ROUNDING = 1e-9


def _claim(plan: Plan) -> SampledNoisyWtdLagClaim:
    assert isinstance(plan.claim, SampledNoisyWtdLagClaim)
    return plan.claim


def moves(plan: Plan, _: Iterable[Reals]) -> Reals:
    """μ of every row: how far its label moves the sum of its bag, over the noise there."""
    claim, weights = _claim(plan), _claim(plan).weights(None)
    each = np.abs(weights.values) * claim.width / weights.noise(claim.noise_std)[:, None]
    every = np.zeros(claim.draw.rows)
    every[claim.draw.members] = each
    return every


def most(plan: Plan) -> float:
    """As the claim prices it."""
    return _claim(plan).mu or 0.0


def refusal(plan: Plan) -> str | None:
    """Only a claim about the bags and weights that were drawn can be tried with them alone."""
    claim = _claim(plan)
    if claim.mu is None or claim.draw.over_draw:
        return (
            "the claim is about all draws of bags and weights, and an audit tries one: audit "
            "`accountant='exact'` given the bags"
        )
    if claim.noisy_column is not None:
        return "which rows are noisy stands in a column; audit a `noisy_fraction` instead"
    return None


class Lagged:
    """A table whose labels are known."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, _: Rows) -> None:
        self._claim, self._labels = _claim(plan), plan.labels
        self._weights = self._claim.weights(None)
        self._values = BagRows(plan.features, self._claim.draw).read_labelled(source, engine)
        self._noise = self._weights.noise(self._claim.noise_std)
        self._grid = label_grid(self._noise)
        self._mean = np.einsum(
            "ij,ij->i", self._weights.values, on_grid(self._labels, self._values)
        )

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        randomness, weights = rng_factory(), self._weights
        once = max(1, _AT_ONCE // weights.values.size)
        drawn = []
        for start in range(0, releases, once):
            times = (min(once, releases - start), 1)
            copies = BagWeights(np.tile(weights.values, times), np.tile(weights.noisy, times))
            values, noise = np.tile(self._values, times), self._claim.noise_std
            drawn.append(draw_sums(copies, values, self._labels, noise, self._grid, randomness))
        return {"labels": np.concatenate(drawn).reshape(releases, -1)}

    def read(self, release: Release) -> Observation:
        return {"labels": release.labels[None]}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        least = float(self._noise.min())
        mu = self._claim.mu or 0.0
        return (
            NoiseComponent(
                "labels",
                shown["labels"],
                self._mean,
                self._noise[None],
                NORMAL,
                self._grid,
                most=mu * least,
                least=least * (1 - _ROUNDING),
            ),
        )
