"""Rows that the search for a noise shape works on, as levels and numbers: one-hot is never dense.

A row u = B·x has few entries in x: some numbers, and one level of every category. So the two sums
that a step takes over rows are look-ups (theory §9):

    Σ p_i u_i u_iᵀ = B·(Σ p_i x_i x_iᵀ)·Bᵀ    weights summed by pairs of levels
    ‖A u_i‖² = x_iᵀ(AB)ᵀ(AB)x_i               entries looked up by pairs of levels
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]

_DENSE = 0.14
"""Nanoseconds that a step takes for two dense entries of a row."""


@dataclass(frozen=True)
class ActiveRows:
    """Some rows u = B·x of a table, whitened by a factor."""

    numbers: Array = field(repr=False)
    """The first columns of x, one line for each row: the constant and the numbers, whitened."""
    levels: NDArray[np.intp] = field(repr=False)
    """The columns of x that are 1, one line for each category; the last: levels without one."""
    basis: Array = field(repr=False)
    """B."""

    @classmethod
    def of(cls, encoded: Encoded, features: FeatureMap, cholesky: VerifiedCholesky) -> ActiveRows:
        """Return encoded rows; `features` keep the columns of the factor."""
        _, count = row_work(features)
        rank, place = cholesky.rank, features.kept_places
        codes = np.empty((encoded.rows, 0))
        if count:
            codes = features.keep(features.kept_columns[:count]).integers(encoded)
        # The leading block of the factor whitens these columns. Those that nearly depend on each
        # other then leave no large entries in B.
        numbers = np.ldexp(codes, -cholesky.exponents[:count]) @ cholesky.inverse[:count, :count].T
        basis = np.eye(rank)
        basis[count:, count:] = cholesky.whitener[count:, count:]
        basis[count:, :count] = cholesky.inverse[count:, :count] @ cholesky.lower[:count, :count]
        levels = np.empty((0, encoded.rows), np.intp)
        if count < rank:
            column = np.where(place < 0, rank, place)
            blocks = zip(features.category_offsets, encoded.categories, strict=True)
            levels = np.array([column[offset + level] for offset, level in blocks])
        return cls(numbers, levels, basis)

    def take(self, chosen: NDArray[np.bool_]) -> ActiveRows:
        """Return these rows alone."""
        return replace(self, numbers=self.numbers[chosen], levels=self.levels[:, chosen])

    def with_rows(self, rows: ActiveRows) -> ActiveRows:
        """Return these and further rows of the table."""
        numbers = np.concatenate([self.numbers, rows.numbers])
        return replace(self, numbers=numbers, levels=np.hstack([self.levels, rows.levels]))

    @property
    def count(self) -> int:
        return len(self.numbers)

    def _cells(self) -> Iterator[NDArray[np.intp]]:
        """Yield places in a flat table, of each category's level beside those from it on."""
        for category, left in enumerate(self.levels):
            yield left * (len(self.basis) + 1) + self.levels[category:]

    def second_moment(self, weights: Array) -> tuple[Array, float]:
        """Return Σ p_i u_i u_iᵀ, and a bound on the norm of its rounding error."""
        (count, numbers), width = self.numbers.shape, len(self.basis) + 1
        sums = np.zeros(width**2)
        for cells in self._cells():
            repeated = np.broadcast_to(weights, cells.shape)
            sums += np.bincount(cells.ravel(), repeated.ravel(), width**2)
        upper = sums.reshape(width, width)
        upper[np.diag_indices(width)] /= 2
        for levels in self.levels:
            for number, column in enumerate((self.numbers * weights[:, None]).T):
                upper[number] += np.bincount(levels, column, width)
        moment = (upper + upper.T)[:-1, :-1]
        scaled = self.numbers * np.sqrt(weights)[:, None]
        moment[:numbers, :numbers] = scaled.T @ scaled
        # An entry is a sum of `count` terms, and those of the products are of `width`. Every sum
        # is off by as many roundings of the sum of sizes; the factor 2 covers their products.
        error = 2 * (count + 2 * width + 8) * ROUNDOFF * float(weights @ self._sizes)
        return self.basis @ moment @ self.basis.T, error

    @cached_property
    def _sizes(self) -> Array:
        """‖|B|·|x_i|‖² of every row."""
        sizes = replace(self, numbers=np.abs(self.numbers), basis=np.eye(len(self.basis)))
        return sizes.squared_norms(np.abs(self.basis))

    def squared_norms(self, matrix: Array) -> Array:
        """Return ‖A u_i‖² of every row."""
        numbers, root = self.numbers.shape[1], matrix @ self.basis
        inner = root.T @ root
        slopes = self.numbers @ inner[:numbers, :numbers]
        table = np.zeros((len(inner) + 1, len(inner) + 1))
        table[:-1, :-1] = 2 * inner
        for levels in self.levels:
            slopes += table[:, :numbers].take(levels, axis=0)
        norms = np.einsum("ij,ij->i", slopes, self.numbers)
        table[np.diag_indices(len(table))] /= 2
        for cells in self._cells():
            norms += table.ravel().take(cells).sum(axis=0)
        return np.asarray(norms)


def row_work(features: FeatureMap) -> tuple[float, int]:
    """Return the nanoseconds of a step for a row, and how many of its first columns are dense.

    They are the constant and the numbers, which stand before categories; or all columns, where
    categories are so many and so small that pairs of levels would be more work.
    """
    categories, columns = len(features.category_sizes), len(features.kept_columns)
    numbers = int((features.kept_places[: features.number_columns.stop] >= 0).sum())
    pairs = 3.0 * categories * (categories + 1) + 4.0 * categories * numbers
    return min((pairs + _DENSE * numbers**2, numbers), (_DENSE * columns**2, columns))
