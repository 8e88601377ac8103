"""Rows that the search for a noise shape works on, as levels and numbers: one-hot is never dense.

A row u = B·x has few entries in x: some numbers, and one level of every category. So the two sums
that a step takes over rows are look-ups (theory §9):

    Σ p_i u_i u_iᵀ = B·(Σ p_i x_i x_iᵀ)·Bᵀ    weights summed by pairs of levels
    ‖A u_i‖² = x_iᵀ(AB)ᵀ(AB)x_i               entries looked up by pairs of levels
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]


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
        rank, place = cholesky.rank, features.kept_places
        # Numbers stand before categories, so the leading block of the factor whitens them. Columns
        # that nearly depend on each other then leave no large entries in B.
        count = int((place[: features.number_columns.stop] >= 0).sum())
        kept = place[list(features.number_columns)] >= 0
        codes = np.ones((encoded.rows, count))
        codes[:, int(features.constant is not None) :] = encoded.numbers[:, kept]
        codes = np.ldexp(codes, -cholesky.exponents[:count])
        basis = np.eye(rank)
        basis[count:, count:] = cholesky.whitener[count:, count:]
        basis[count:, :count] = cholesky.inverse[count:, :count] @ cholesky.lower[:count, :count]
        column = np.where(place < 0, rank, place)
        levels = np.empty((len(features.category_sizes), encoded.rows), np.intp)
        blocks = zip(levels, features.category_offsets, encoded.categories, strict=True)
        for line, offset, level in blocks:
            line[:] = column[offset + level]
        return cls(codes @ cholesky.inverse[:count, :count].T, levels, basis)

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

    @cached_property
    def _pairs(self) -> NDArray[np.intp]:
        """Cells of a flat table by any two levels of a row: one line for each pair."""
        pairs = list(combinations_with_replacement(self.levels, 2))
        cells = np.empty((len(pairs), self.count), np.intp)
        for line, (left, right) in zip(cells, pairs, strict=True):
            line[:] = left * (len(self.basis) + 1) + right
        return cells

    def second_moment(self, weights: Array) -> tuple[Array, float]:
        """Return Σ p_i u_i u_iᵀ, and a bound on the norm of its rounding error."""
        (count, numbers), width = self.numbers.shape, len(self.basis) + 1
        repeated = np.broadcast_to(weights, self._pairs.shape).ravel()
        sums = np.bincount(self._pairs.ravel(), repeated, width**2)
        upper = sums.astype(np.float64).reshape(width, width)
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
        for cells in self._pairs:
            norms += table.ravel().take(cells)
        return np.asarray(norms)
