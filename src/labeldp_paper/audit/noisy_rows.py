"""Trying noisy-rows: every label about itself (theory §11)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from labeldp.data.source import Source
from labeldp.mechanisms.noisy_rows import NoisyRowsClaim, noisy_labels
from labeldp.passes.engine import Engine
from labeldp.planning import Plan
from labeldp.release.files import Release
from labeldp_paper.audit.audit_spec import (
    LAPLACE,
    NORMAL,
    NoiseComponent,
    Observation,
    Reals,
    RngFactory,
    Rows,
    on_grid,
)

_LAWS = {"laplace": LAPLACE, "gaussian": NORMAL}


def moves(plan: Plan, _: Iterable[Reals]) -> Reals:
    """Every label moves one number, by as much."""
    return np.ones(plan.features.rows)


def most(plan: Plan) -> float:
    """As many as are covered together."""
    return float(plan.claim.protected)


class Rowwise:
    """A table whose labels are known; rows that an attacker asks about are drawn many times."""

    def __init__(self, plan: Plan, source: Source, engine: Engine, rows: Rows) -> None:  # noqa: ARG002
        claim = plan.claim
        assert isinstance(claim, NoisyRowsClaim)
        self._claim, self._grid = claim, plan.labels
        self._values = np.concatenate([labels for _, labels in source.labelled_batches()])
        self._rows = rows

    def draw(self, releases: int, rng_factory: RngFactory) -> Observation:
        values = np.tile(self._values[self._rows], releases)
        drawn = noisy_labels(values, self._grid, self._claim.noise, rng_factory())
        return {"labels": drawn.reshape(releases, -1)}

    def read(self, release: Release) -> Observation:
        return {"labels": release.labels[None]}

    def parts(self, shown: Observation) -> tuple[NoiseComponent, ...]:
        whole = shown["labels"].shape[1] == len(self._values)
        values = self._values if whole else self._values[self._rows]
        claim, law = self._claim, _LAWS[self._claim.noise.name]
        part = NoiseComponent(
            "labels",
            shown["labels"],
            on_grid(self._grid, values),
            np.array([[claim.noise.scale]]),
            law,
            claim.noise.grid,
            claim.width * claim.noise.law.norm(claim.protected),
        )
        return (part,)
