"""A table in memory as codes and numbers, and the paper's bags drawn from it with seeds.

This is simulation: weights come from a seeded generator and labels are raw. Nothing here is a
release. One column per level, all levels (min_count 1); rows are held as codes, never dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp_paper.experiments.run import Data

Reals = NDArray[np.float64]
_BLOCK = 400_000
TEST_PART = 5
"""Every fifth row is left for testing: the paper's 80 % and 20 %."""


@dataclass(frozen=True, eq=False)
class Design:
    """Every row: level codes with their places in the design, numbers, and the label."""

    features: FeatureMap
    codes: NDArray[np.int32]
    """Rows by categorical columns: positions in the design."""
    numbers: NDArray[np.float32]
    labels: NDArray[np.float32]
    _tests: dict[int, tuple[Reals, Reals, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Data) -> Design:
        features = fit_features(data.source, min_count=1, winsor=0)
        codes, numbers, labels = [], [], []
        scales = features.scales[list(features.number_columns)]
        for batch, values in data.source.labelled_batches():
            encoded = features.encode(batch)
            places = np.empty((encoded.rows, len(encoded.categories)), dtype=np.int32)
            for column, offset in enumerate(features.category_offsets):
                places[:, column] = offset + encoded.categories[column]
            codes.append(places)
            numbers.append((encoded.numbers * scales).astype(np.float32))
            labels.append(values.astype(np.float32))
        return cls(
            features,
            np.concatenate(codes),
            np.concatenate(numbers),
            np.concatenate(labels),
        )

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        return self.features.width

    @property
    def train_rows(self) -> int:
        return self.rows - self.rows // TEST_PART

    def shuffled(self, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rows to train on and rows to test on, in random order."""
        order = _order(self.rows, seed)
        return order[: self.train_rows], order[self.train_rows :]

    def encoded(self, rows: NDArray[np.int32]) -> Encoded:
        """These rows as the learners take them."""
        features = self.features
        scales = features.scales[list(features.number_columns)]
        levels = [self.codes[rows, c] - first for c, first in enumerate(features.category_offsets)]
        codes = features.joint_codes.join(levels)
        return Encoded(len(rows), self.numbers[rows] / scales, codes, features.joint_codes)

    def aggregated(self, rows: NDArray[np.int32], weights: Reals) -> tuple[Reals, Reals]:
        """Σ w·x and Σ w·y of every bag; one line of rows and of weights per bag."""
        bags, size = weights.shape
        sums, totals = np.empty((bags, self.width)), np.empty(bags)
        step = max(1, _BLOCK // size)
        for start in range(0, bags, step):
            part = slice(start, min(bags, start + step))
            chosen, w = rows.reshape(bags, size)[part], weights[part]
            sums[part] = self._sums(chosen, w)
            totals[part] = np.einsum("bk,bk->b", w, self.labels[chosen])
        return sums, totals

    def _sums(self, rows: NDArray[np.int32], weights: Reals) -> Reals:
        bags = len(rows)
        base = (np.arange(bags) * self.width)[:, None]
        sums = np.zeros(bags * self.width)
        for column in range(self.codes.shape[1]):
            places = (base + self.codes[rows, column]).ravel()
            sums += np.bincount(places, weights.ravel(), minlength=len(sums))
        made = sums.reshape(bags, self.width)
        for index, position in enumerate(self.features.number_columns):
            made[:, position] = np.einsum("bk,bk->b", weights, self.numbers[rows, index])
        made[:, 0] = weights.sum(axis=1)
        return made

    @property
    def units(self) -> tuple[Reals, Reals]:
        """Slope and offset that turn the numbers of the design into those of the table."""
        known = self.features.numeric
        slopes = np.array([column.step / column.scale for column in known])
        return slopes, np.array([column.centre * column.step for column in known])

    def plain(self, sums: Reals) -> Reals:
        """Aggregated rows with numbers as the table has them, and without the constant."""
        slopes, offsets = self.units
        made = sums.copy()
        places = list(self.features.number_columns)
        made[:, places] = made[:, places] * slopes + sums[:, :1] * offsets
        return made[:, 1:]

    def from_plain(self, weights: Reals) -> Reals:
        """Weights of plain rows as weights of the design, its constant first."""
        slopes, offsets = self.units
        made = np.concatenate([[0.0], weights])
        places = list(self.features.number_columns)
        made[0] = made[places] @ offsets
        made[places] *= slopes
        return made

    def test_sums(self, seed: int) -> tuple[Reals, Reals, float]:
        """XᵀX, Xᵀy and yᵀy of the rows to test on: all that the error of a linear model needs."""
        if seed not in self._tests:
            self._tests[seed] = self.gram(np.sort(self.shuffled(seed)[1]))
        return self._tests[seed]

    def test_mse(self, betas: Reals, seed: int) -> list[float]:
        """Mean squared error of linear models, a column each, on the rows to test on."""
        gram, cross, square = self.test_sums(seed)
        errors = square - 2 * cross @ betas + np.einsum("if,ij,jf->f", betas, gram, betas)
        return [float(error) for error in errors / (self.rows - self.train_rows)]

    def gram(self, rows: NDArray[np.int32] | None = None) -> tuple[Reals, Reals, float]:
        """XᵀX, Xᵀy and yᵀy."""
        width = self.width
        gram, cross, square = np.zeros((width, width)), np.zeros(width), 0.0
        for codes, numbers, labels in self._blocks(rows):
            dense = np.column_stack([np.ones(len(labels)), numbers])
            gram[: dense.shape[1], : dense.shape[1]] += dense.T @ dense
            cross[: dense.shape[1]] += dense.T @ labels
            square += float(labels @ labels)
            for first in range(codes.shape[1]):
                cross += np.bincount(codes[:, first], labels, minlength=width)
                for index in range(dense.shape[1]):
                    gram[index] += np.bincount(codes[:, first], dense[:, index], minlength=width)
                for second in range(first, codes.shape[1]):
                    places = codes[:, first].astype(np.int64) * width + codes[:, second]
                    gram += np.bincount(places, minlength=width**2).reshape(width, width)
        upper = np.triu(gram)
        return upper + np.triu(gram, 1).T, cross, square

    def _blocks(
        self, rows: NDArray[np.int32] | None
    ) -> Iterator[tuple[NDArray[np.int32], Reals, Reals]]:
        count = self.rows if rows is None else len(rows)
        for start in range(0, count, _BLOCK):
            part = slice(start, start + _BLOCK) if rows is None else rows[start : start + _BLOCK]
            yield (
                self.codes[part],
                self.numbers[part].astype(float),
                self.labels[part].astype(float),
            )


@lru_cache(maxsize=10)
def _order(rows: int, seed: int) -> NDArray[np.int32]:
    return np.random.default_rng([seed, 1]).permutation(np.arange(rows, dtype=np.int32))


def least_squares(sums: Reals, totals: Reals) -> Reals:
    """argmin ‖t − Zβ‖ for each column t, the shortest: blocks of levels are dependent."""
    if len(sums) > sums.shape[1]:
        return solve(sums.T @ sums, sums.T @ totals)
    return np.asarray(np.linalg.lstsq(sums, totals, rcond=1e-10)[0])


def solve(gram: Reals, cross: Reals) -> Reals:
    """The shortest solution of normal equations, dependent columns set aside."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * 1e-10
    scaled = vectors[:, kept] / values[kept]
    return np.asarray(scaled @ (vectors[:, kept].T @ cross))


def rank(gram: Reals) -> int:
    """Independent columns, numerically."""
    values = np.linalg.eigvalsh(gram)
    return int((values > values[-1] * 1e-10).sum())
