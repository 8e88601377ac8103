"""The grids of bags that the sampled and the noisy tables share: data, sizes, and how they look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.pictures import Curve, Picture
from labeldp_paper.experiments.design import TEST_PART, Design, Reals, rank, solve
from labeldp_paper.experiments.printed import BAG_SIZES, BAGS, PARAMETERS, Spread
from labeldp_paper.experiments.result import Row
from labeldp_paper.experiments.run import Data, Run

TARGETS = (1.0, 4.0)
"""The ε at which every table is shown again, with noise that makes it true."""


@dataclass(frozen=True)
class Grid:
    """One data set's grid, as large as the run's profile allows."""

    run: Run
    name: str

    @property
    def bags(self) -> tuple[int, ...]:
        return (128, 256) if self.run.small else BAGS[self.name]

    @property
    def sizes(self) -> tuple[int, ...]:
        return (8, 16) if self.run.small else BAG_SIZES[self.name]

    @property
    def rows(self) -> int:
        """Rows of a stand-in: what the largest cell needs and its test part."""
        return self.bags[-1] * self.sizes[-1] * 5 // 4 + 5

    @cached_property
    def data(self) -> Data:
        return self.run.data(self.name, self.rows)

    @cached_property
    def design(self) -> Design:
        return Design.read(self.data)

    @property
    def train_rows(self) -> int:
        """Without reading the table."""
        return self.data.rows - self.data.rows // TEST_PART

    @property
    def delta(self) -> float:
        return PARAMETERS[self.name].delta

    @property
    def label_range(self) -> tuple[float, float]:
        low, high = self.data.source.label_range or (0.0, 1.0)
        return (float(low), float(high))

    @property
    def kind(self) -> str:
        """Whose data they are."""
        return "synthetic" if self.data.key["synthetic"] else "given"

    def common(self, cell: Row, model: str) -> Row:
        """What every row of a cell says."""
        return {
            "dataset": self.name,
            "synthetic": self.data.key["synthetic"],
            "model": model,
            "bags": cell["bags"],
            "bag_size": cell["bag_size"],
            "delta": self.delta,
        }

    def printed(self, table: tuple[tuple[Spread, ...], ...], cell: Row) -> Row:
        """What the paper prints in this cell; nothing for a tiny grid."""
        if self.run.small:
            return {}
        line, column = self.bags.index(cell["bags"]), self.sizes.index(cell["bag_size"])
        mean, deviation = table[line][column]
        return {"paper_mse": mean, "paper_mse_std": deviation}

    def draw(self, seed: int, bags: int, size: int) -> NDArray[np.int32]:
        """Disjoint bags of training rows; those of fewer bags are among those of more."""
        train, _ = self.design.shuffled(seed)
        return train[: bags * size].reshape(bags, size)

    def weights(self, seed: int, bags: int, size: int) -> tuple[Reals, np.random.Generator]:
        """Standard normal weights, and the generator for whatever else is drawn."""
        random = np.random.default_rng([seed, bags, size, 2])
        return random.standard_normal((bags, size)), random

    def instance(self, seeds: int) -> Row:
        """The fit with every training label, tested on the rest."""
        whole = self.design.gram()
        errors = []
        for seed in range(self.run.seed, self.run.seed + seeds):
            gram, cross, _ = self.design.test_sums(seed)
            beta = solve(whole[0] - gram, whole[1] - cross)
            errors += self.design.test_mse(beta[:, None], seed)
        return {**mean_and_spread(errors), "rank": rank(whole[0]), "columns": self.design.width}


def mean_and_spread(errors: Sequence[float]) -> Row:
    """Mean and standard deviation over seeds."""
    several = len(errors) > 1
    return {
        "mse": float(np.mean(errors)),
        "mse_std": float(np.std(errors, ddof=1)) if several else 0.0,
        "seeds": len(errors),
    }


def falling(
    name: str,
    title: str,
    rows: Sequence[Row],
    levels: tuple[tuple[str, float], ...],
    label: Callable[[Row], str],
) -> Picture:
    """Error against the number of bags, a curve for each kind of row."""
    kinds = list(dict.fromkeys(label(row) for row in rows))
    curves = []
    for colour, kind in enumerate(kinds):
        mine = sorted((row for row in rows if label(row) == kind), key=lambda row: row["bags"])
        curves.append(
            Curve(
                kind,
                tuple(row["bags"] for row in mine),
                tuple(row["mse"] for row in mine),
                tuple(row["mse"] - row["mse_std"] for row in mine),
                tuple(row["mse"] + row["mse_std"] for row in mine),
                "joined",
                colour,
            )
        )
    return Picture(
        name, title, "number of bags m", "test MSE", tuple(curves), levels, log_x=True, log_y=True
    )
