"""The appendix's network, 128-64-1, on simulated bags; it needs the extra "torch"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.learners import BagRegressor, WeightedBags
from labeldp_paper.experiments.bag_grid import Grid, mean_and_spread
from labeldp_paper.experiments.result import Row


@dataclass(frozen=True)
class Effort:
    """How much of the paper's training a run can afford."""

    bags: tuple[int, ...]
    sizes: tuple[int, ...]
    seeds: int
    epochs: int
    test_rows: int
    instance_rows: int
    learning_rate: float = 1e-3


def has_torch() -> bool:
    """Whether networks can be trained here."""
    return find_spec("torch") is not None


def effort(grid: Grid) -> Effort:
    """All of the grid in a full run; its smallest bags and fewer epochs in a quick one."""
    if grid.run.full:
        return Effort(grid.bags, grid.sizes, 10, 200, 10**9, 10**9)
    if grid.run.small:
        return Effort(grid.bags[:1], grid.sizes[:1], 1, 2, 500, 1000)
    few = grid.bags[:3] if grid.name == "criteo" else grid.bags[:2]
    return Effort(few, grid.sizes[:1], 1, 15, 50_000, 50_000, 3e-3)


def network(seed: int, work: Effort) -> BagRegressor:
    """The paper's sizes and schedule, as far as the effort goes."""
    return BagRegressor(
        hidden=(128, 64),
        epochs=work.epochs,
        learning_rate=work.learning_rate,
        patience=3,
        seed=seed,
    )


def neural_errors(
    grid: Grid, bags: int, size: int, fraction: float, noise_std: float, work: Effort
) -> Row:
    """Test errors over seeds; noise of this deviation on this part of the labels."""
    errors = []
    for seed in range(grid.run.seed, grid.run.seed + work.seeds):
        members = grid.draw(seed, bags, size)
        weights, random = grid.weights(seed, bags, size)
        noisy = random.random((bags, size)) < fraction
        labels = grid.design.labels[members].astype(float)
        labels += noise_std * np.where(noisy, random.standard_normal((bags, size)), 0.0)
        made = WeightedBags.from_bags(
            grid.design.features,
            grid.design.encoded(members.ravel()),
            np.repeat(np.arange(bags), size),
            np.arange(bags * size),
            weights.ravel(),
            np.einsum("bk,bk->b", weights, labels),
        )
        errors.append(_test(grid, network(seed, work).fit(made), seed, work.test_rows))
    return mean_and_spread(errors)


def neural_instance(grid: Grid, work: Effort) -> Row:
    """The network with labels of single rows, as many of them as the run can afford."""
    errors = []
    for seed in range(grid.run.seed, grid.run.seed + work.seeds):
        train, _ = grid.design.shuffled(seed)
        rows = train[: work.instance_rows]
        made = WeightedBags.from_rows(
            grid.design.features, _raw(grid, rows), grid.design.labels[rows].astype(float)
        )
        errors.append(_test(grid, network(seed, work).fit(made), seed, work.test_rows))
    return {**mean_and_spread(errors), "rows": min(work.instance_rows, grid.design.train_rows)}


def _test(grid: Grid, model: Any, seed: int, most: int) -> float:
    _, test = grid.design.shuffled(seed)
    rows = test[:most]
    error = grid.design.labels[rows] - model.predict(_raw(grid, rows))
    return float(np.mean(np.square(error)))


def _raw(grid: Grid, rows: NDArray[np.int32]) -> pa.Table:
    return _features(str(grid.data.path), grid.design.features.columns).take(rows)


@lru_cache(maxsize=2)
def _features(path: str, columns: tuple[str, ...]) -> pa.Table:
    return pq.read_table(path, columns=list(columns)).combine_chunks()
