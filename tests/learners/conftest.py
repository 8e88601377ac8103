"""Stand-ins for the rooms above the learners: a feature map and a release, as plain as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray


@dataclass(frozen=True)
class PlainFeatureMap:
    """Numeric columns, centred and scaled, a one-hot column "job", and a constant at the front."""

    centre: tuple[float, ...] = (40.0, 35.0)
    scale: tuple[float, ...] = (12.0, 0.25)
    levels: tuple[str, ...] = ("cook", "nurse", "smith")
    intercept: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        constant = ("intercept",) if self.intercept else ()
        return (*constant, "age", "hours", *(f"job={level}" for level in self.levels))

    def design(self, rows: Any) -> NDArray[np.float64]:
        table = pa.table(rows)
        numeric = [
            (table[name].to_numpy() - centre) / scale
            for name, centre, scale in zip(("age", "hours"), self.centre, self.scale, strict=True)
        ]
        jobs = np.array(table["job"].to_pylist())
        constant = [np.ones(len(jobs))] if self.intercept else []
        return np.column_stack([*constant, *numeric, *((jobs == level) for level in self.levels)])

    def to_original_units(self) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        T = np.diag([1.0, *(1 / s for s in self.scale), *(1.0 for _ in self.levels)])
        T[0, 1:3] = [-c / s for c, s in zip(self.centre, self.scale, strict=True)]
        return (self.names, T) if self.intercept else (self.names, T[1:, 1:])

    def to_json(self) -> dict[str, Any]:
        return {
            "centre": list(self.centre),
            "scale": list(self.scale),
            "levels": list(self.levels),
            "intercept": self.intercept,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> PlainFeatureMap:
        lists = (tuple(document[key]) for key in ("centre", "scale", "levels"))
        return cls(*lists, intercept=document["intercept"])


@dataclass(frozen=True)
class PlainRelease:
    design: NDArray[np.float64]
    labels: NDArray[np.float64]
    features: PlainFeatureMap


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """400 rows with an exactly collinear one-hot block and heavy-tailed labels in "pay"."""
    rng = np.random.default_rng(2)
    age, hours = rng.normal(40, 12, 400), rng.normal(35, 0.25, 400)
    job = rng.choice(["cook", "nurse", "smith"], 400, p=[0.6, 0.3, 0.1])
    pay = 3 + 0.5 * age - 2 * hours + 4 * (job == "smith") + rng.standard_t(2.5, 400)
    return pa.table({"age": age, "hours": hours, "job": job, "pay": pay})


@pytest.fixture(scope="session")
def make_release() -> Callable[..., PlainRelease]:
    """release = make(table, bags, seed): G·R; with seed None, the aggregates' expected Gram."""

    def make(
        table: pa.Table, bags: int, seed: int | None, features: PlainFeatureMap | None = None
    ) -> PlainRelease:
        features = features or PlainFeatureMap()
        A = np.column_stack([features.design(table), table["pay"].to_numpy()])
        R = np.linalg.qr(A, mode="r")
        if seed is None:
            rows = np.zeros((bags, A.shape[1]))
            rows[: len(R)] = np.sqrt(bags) * R
        else:
            rows = np.random.default_rng(seed).normal(size=(bags, len(R))) @ R
        return PlainRelease(rows[:, :-1], rows[:, -1], features)

    return make


@pytest.fixture(scope="session")
def feature_map_type() -> type[PlainFeatureMap]:
    return PlainFeatureMap
