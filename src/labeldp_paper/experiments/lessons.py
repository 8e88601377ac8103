"""The network's cells of a grid: how much of the paper's training a run affords, and its errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from labeldp_paper.experiments.bag_grid import Grid, mean_and_spread
from labeldp_paper.experiments.cells import Cell
from labeldp_paper.experiments.networks import Bags, Lesson, train
from labeldp_paper.experiments.printed import NOISY_FRACTIONS
from labeldp_paper.experiments.result import Row
from labeldp_paper.experiments.training import BATCH_ROWS, EPOCHS, RATE

_VERSION = 1


@dataclass(frozen=True)
class Effort:
    """What a run can afford: the paper's training, or so many rows seen in all."""

    seeds: int
    most_epochs: int
    rows_seen: int
    batch_rows: int
    rate: float
    test_rows: int
    instance_rows: int
    instance_seen: int

    @classmethod
    def of(cls, grid: Grid) -> Effort:
        if grid.run.full:
            return cls(10, EPOCHS, 10**12, BATCH_ROWS[grid.name], 1e-3, 10**9, 10**9, 10**12)
        if grid.run.small:
            return cls(1, 2, 10**12, 256, 1e-3, 500, 1000, 10**12)
        seen, rate = (500_000, 1e-3) if grid.name == "criteo" else (1_500_000, 5e-3)
        return cls(1, EPOCHS, seen, 1024, rate, 50_000, 200_000, 1_000_000)

    def lesson(self, bags: int, size: int) -> Lesson:
        """At least one epoch; bags of one row are the instance."""
        seen = self.rows_seen if size > 1 else self.instance_seen
        epochs = min(self.most_epochs, max(1, round(seen / (bags * size))))
        return Lesson(self.batch_rows, epochs, self.rate)

    def text(self, grid: Grid) -> str:
        """What differs from the paper's training."""
        if self.most_epochs == EPOCHS and self.rows_seen >= 10**12:
            return f"{self.seeds} seeds, {EPOCHS} epochs of batches of {self.batch_rows:,} rows"
        return (
            f"{self.seeds} seed, as many epochs as show a network {self.rows_seen:,} rows (at "
            f"least one; {EPOCHS} in the paper), batches of {self.batch_rows:,} rows (paper: "
            f"{BATCH_ROWS[grid.name]:,}), first rate {self.rate:g} (paper: 0.001)"
        )


def network_errors(grid: Grid, work: Effort) -> list[Row]:
    """Every m, k and ρ of the grid: errors of the network, over seeds."""
    cells = [
        Cell(
            {"bags": m, "bag_size": k, "seed": seed, **_key(work, m, k)},
            partial(_bags, grid, m, k, seed, work),
            cost=max(m * k, work.rows_seen if work.rows_seen < 10**12 else EPOCHS * m * k),
            threads=None,
        )
        for seed in range(grid.run.seed, grid.run.seed + work.seeds)
        for m in grid.bags
        for k in grid.sizes
    ]
    found = grid.run.rows("noisy-networks", _VERSION, grid.data.key, cells, some=True, none=True)
    return _means(found, ("bags", "bag_size"))


def network_instance(grid: Grid, work: Effort) -> list[Row]:
    """The network with the labels of single rows, for every ρ."""
    rows = min(work.instance_rows, grid.train_rows)
    cells = [
        Cell(
            {"rows": rows, "seed": seed, **_key(work, rows, 1)},
            partial(_instance, grid, rows, seed, work),
            cost=max(rows, work.instance_seen if work.instance_seen < 10**12 else EPOCHS * rows),
            threads=None,
        )
        for seed in range(grid.run.seed, grid.run.seed + work.seeds)
    ]
    found = grid.run.rows(
        "noisy-networks-instance", _VERSION, grid.data.key, cells, some=True, none=True
    )
    return _means(found, ("rows",))


def network_whole(grid: Grid, work: Effort) -> list[Row]:
    """The smallest cell without noise after the paper's whole training; none if all had that."""
    if grid.run.full or grid.run.small:
        return []
    whole = replace(work, rows_seen=10**12, batch_rows=BATCH_ROWS[grid.name], rate=RATE)
    bags, size = grid.bags[0], grid.sizes[0]
    cell = Cell(
        {"bags": bags, "bag_size": size, "seed": grid.run.seed, **_key(whole, bags, size)},
        partial(_bags, grid, bags, size, grid.run.seed, whole, (0.0,)),
        cost=EPOCHS * bags * size,
        threads=None,
    )
    return grid.run.rows(
        "noisy-networks-whole", _VERSION, grid.data.key, [cell], some=True, none=True
    )


def _key(work: Effort, bags: int, size: int) -> Row:
    lesson = work.lesson(bags, size)
    return {
        "epochs": lesson.epochs,
        "batch_rows": lesson.batch_rows,
        "rate": lesson.rate,
        "test_rows": work.test_rows,
    }


def _means(found: list[Row], names: tuple[str, ...]) -> list[Row]:
    """A row for each cell and ρ, over seeds."""
    cells: dict[tuple[int, ...], list[Row]] = {}
    for row in found:
        cells.setdefault(tuple(row[name] for name in names), []).append(row)
    return [
        {
            **dict(zip(names, place, strict=True)),
            "noisy_fraction": fraction,
            "epochs": seeds[0]["epochs"],
            **mean_and_spread([row["errors"][at] for row in seeds]),
        }
        for place, seeds in cells.items()
        for at, fraction in enumerate(NOISY_FRACTIONS)
    ]


def _bags(
    grid: Grid,
    bags: int,
    size: int,
    seed: int,
    work: Effort,
    fractions: tuple[float, ...] = NOISY_FRACTIONS,
) -> Row:
    members = grid.draw(seed, bags, size)
    weights, random = grid.weights(seed, bags, size)
    return _learnt(grid, members, weights, random, seed, work, fractions)


def _instance(grid: Grid, rows: int, seed: int, work: Effort) -> Row:
    """Bags of one row and weight 1."""
    members = grid.design.shuffled(seed)[0][:rows, None]
    random = np.random.default_rng([seed, rows, 5])
    return _learnt(grid, members, np.ones(members.shape), random, seed, work)


def _learnt(
    grid: Grid,
    members: NDArray[np.int32],
    weights: NDArray[np.float64],
    random: np.random.Generator,
    seed: int,
    work: Effort,
    fractions: tuple[float, ...] = NOISY_FRACTIONS,
) -> Row:
    """Unit noise on a part of the labels; rows that are noisy for one ρ are so for larger ones."""
    labels = grid.design.labels[members].astype(float)
    coins, noise = random.random(members.shape), random.standard_normal(members.shape)
    totals = [np.einsum("bk,bk->b", weights, labels + noise * (coins < part)) for part in fractions]
    bags = Bags(members, weights.astype(np.float32), np.array(totals, dtype=np.float32))
    made = train(grid.design, bags, work.lesson(*members.shape), random)
    return {"errors": made.test_mse(grid.design, grid.design.shuffled(seed)[1][: work.test_rows])}
