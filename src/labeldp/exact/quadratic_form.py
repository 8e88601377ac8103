"""x ↦ xᵀMx for encoded rows, M = CᵀC: table look-ups for compound codes, and products.

M ≈ (XᵀX)⁻¹ gives leverages; public weights C give the sensitivity of shaped-flag (theory §9).

Two ways: elementwise, whose every digit is the same however rows are batched, and by a matrix
product, which is quicker for many numbers. One bound covers the rounding of both.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import LARGE, ROUNDOFF
from labeldp.exact.gram import BLOCK_ROWS
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels
from labeldp.kernels.scratch import Scratch

_MANY = 64
"""From so many numbers on a call for each two of them costs more than it computes."""
_SOME_ROWS = 64
"""Whose products the processor keeps near."""


class Squares(Protocol):
    """M = CᵀC of some columns: a `Factor`, or `Weights`."""

    @property
    def kept(self) -> tuple[int, ...]: ...
    @property
    def rank(self) -> int:
        """Rows of C."""

    def pseudo_inverse(self) -> NDArray[np.float64]:
        """M, each entry an inner product of at most `rank` terms."""

    def pseudo_inverse_size(self) -> NDArray[np.float64]:
        """Σ|terms| of every entry of M."""

    def column_norms(self) -> NDArray[np.float64]:
        """Of the columns of C: no entry of M has more Σ|terms| than the product of its two."""


class QuadraticForm:
    """x ↦ xᵀMx for encoded rows, M spread over all columns (0 where dropped)."""

    def __init__(self, features: FeatureMap, squares: Squares) -> None:
        width, kept = len(features.all_names), np.ix_(squares.kept, squares.kept)
        self._matrix = np.zeros((width, width))
        self._matrix[kept] = squares.pseudo_inverse()
        self._wide, self._rank = width >= LARGE, squares.rank
        if self._wide:
            self._norms = np.zeros(width)
            self._norms[list(squares.kept)] = squares.column_norms()
        else:
            self._size = np.zeros((width, width))
            self._size[kept] = squares.pseudo_inverse_size()
        self._numbers = list(features.number_columns)
        self._slices = features.category_blocks
        self._intercept = features.intercept
        self._compounds = features.compounds
        self._pairs = self._pair_tables()
        self._slopes = [self._slope_tables(column) for column in self._numbers]
        self._slopes_at = [np.array(tables) for tables in zip(*self._slopes, strict=True)]

    def __call__(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """Of every row; each operation is one of NumPy's on whole columns, in a fixed order."""
        matrix, numbers, shape = self._matrix, self._numbers, (batch.rows,)
        products = _loop if len(numbers) < _MANY else _at_once
        compounds = batch.codes
        total = self._of_codes(batch, kernels, scratch)
        for place, column in enumerate(numbers):
            values = batch.numbers[:, place]
            slope = scratch("slope", shape, np.float64)
            np.multiply(values, matrix[column, column], out=slope)
            if self._intercept:
                slope += 2 * matrix[0, column]
            for table, codes in zip(self._slopes[place], compounds, strict=True):
                kernels.add_lookup(slope, table, codes)
            products(slope, 2 * matrix[column, numbers[:place]], batch.numbers, scratch)
            slope *= values
            total += slope
        return total

    def rough(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """The same but for rounding, by a matrix product: its last digits depend on the batch."""
        total = self._of_codes(batch, kernels, scratch)
        inner = self._matrix[np.ix_(self._numbers, self._numbers)]
        for start in range(0, batch.rows, BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            numbers = batch.numbers[part].T  # a number's values lie side by side, here as there
            slopes = inner @ numbers
            if self._intercept:
                slopes += 2 * self._matrix[0, self._numbers][:, None]
            for at, codes in zip(self._slopes_at, batch.codes, strict=True):
                slopes += at[:, codes[part]]
            total[part] += np.einsum("ji,ji->i", slopes, numbers)
        return total

    def _of_codes(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """What the constant and the categories add."""
        total: NDArray[np.float64] = scratch("total", (batch.rows,), np.float64)
        total[:] = self._constant
        for (left, right), table in self._pairs.items():
            if left == right:
                kernels.add_lookup(total, table, batch.codes[left])
            else:
                kernels.add_pair_lookup(total, table, batch.codes[left], batch.codes[right])
        return total

    @property
    def _constant(self) -> float:
        return float(self._matrix[0, 0]) if self._intercept else 0.0

    def _pair_tables(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """What each pair of compound codes adds; the first group's tables take in the rest.

        With a single group its own table stands alone, under the key (0, 0).
        """
        compounds = self._compounds
        singles = [self._single_table(group) for group in range(len(compounds.groups))]
        if len(singles) == 1:
            return {(0, 0): singles[0]}
        tables = {}
        for left, right in compounds.pairs:
            table = np.zeros((compounds.widths[left], compounds.widths[right]))
            for member, levels in compounds.levels(left):
                for member2, levels2 in compounds.levels(right):
                    block = 2 * self._matrix[self._slices[member], self._slices[member2]]
                    table += block[np.ix_(levels, levels2)]
            if left == 0:
                table += singles[right]
            if (left, right) == (0, 1):
                table += singles[0][:, None]
            tables[left, right] = table
        return tables

    def _single_table(self, group: int) -> NDArray[np.float64]:
        """What a compound code adds by itself: its levels' squares and products."""
        matrix, table = self._matrix, np.zeros(self._compounds.widths[group])
        members = self._compounds.levels(group)
        for place, (member, levels) in enumerate(members):
            block = self._slices[member]
            table += np.diagonal(matrix[block, block])[levels]
            if self._intercept:
                table += 2 * matrix[0, block][levels]
            for member2, levels2 in members[:place]:
                table += 2 * matrix[block, self._slices[member2]][levels, levels2]
        return table

    def _slope_tables(self, column: int) -> list[NDArray[np.float64]]:
        """What each group's code adds to the slope of a number."""
        tables = []
        for group, width in enumerate(self._compounds.widths):
            table = np.zeros(width)
            for member, levels in self._compounds.levels(group):
                table += 2 * self._matrix[self._slices[member], column][levels]
            tables.append(table)
        return tables

    def gradient(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mx of a dense row."""
        return np.asarray(self._matrix @ row)

    def rounding(self, reach: NDArray[np.float64]) -> float:
        """A bound on the rounding error of any row's value: depth × unit × Σ|terms|.

        The depth counts every pair of terms: more than `sharp_rounding`, and simpler.
        """
        if self._wide:
            return self.sharp_rounding(reach)
        groups = self._intercept + len(self._slices) + len(self._numbers)
        depth = groups**2 + 2 * len(self._matrix) + self._rank + 8
        return 2 * depth * ROUNDOFF * self._largest_size(reach)

    def sharp_rounding(self, reach: NDArray[np.float64]) -> float:
        """The same, less generous.

        A row's value is a sum of entries of M times the row's numbers. With c categories and q
        numbers a term passes at most c² + c additions in the tables and c² between them, or
        c + q in a number's slope and q more in the total, and three roundings of products; in
        whatever order a matrix product adds its terms, that is no more. The entries' own
        errors are those of inner products of `rank` terms, which `pseudo_inverse_size` bounds.
        """
        categories = len(self._slices) + 1
        depth = 2 * categories * (categories + 1) + 2 * len(self._numbers) + self._rank + 8
        return 2 * depth * ROUNDOFF * self._largest_size(reach)

    def _largest_size(self, reach: NDArray[np.float64]) -> float:
        """Σ|terms| of any row's value, at most."""
        if self._wide:
            return self._largest_norm(reach) ** 2 * (1 + 1e-9)
        groups: list[NDArray[np.float64]] = []
        matrix = self._size
        if self._intercept:
            groups.append(matrix[:, 0])
        groups += [matrix[:, block].max(axis=1, initial=0.0) for block in self._slices]
        groups += [
            matrix[:, column] * most for column, most in zip(self._numbers, reach, strict=True)
        ]
        size = 0.0
        for group in groups:
            if self._intercept:
                size += group[0]
            size += sum(group[block].max(initial=0.0) for block in self._slices)
            size += float(group[self._numbers] @ reach) if self._numbers else 0.0
        return size

    def _largest_norm(self, reach: NDArray[np.float64]) -> float:
        """Σ|x_k|·‖column k of C‖ of any row, at most: its square bounds Σ|terms| (Cauchy-Schwarz).

        It takes no product of C with itself.
        """
        norms = self._norms
        total = float(norms[0]) if self._intercept else 0.0
        total += sum(float(norms[block].max(initial=0.0)) for block in self._slices)
        return total + (float(norms[self._numbers] @ reach) if self._numbers else 0.0)


def _loop(
    slope: NDArray[np.float64],
    factors: NDArray[np.float64],
    numbers: NDArray[np.float64],
    scratch: Scratch,
) -> None:
    """Add the first columns of `numbers` times their factors, one after the other."""
    for place, factor in enumerate(factors):
        product = scratch("product", slope.shape, np.float64)
        np.multiply(factor, numbers[:, place], out=product)
        slope += product


def _at_once(
    slope: NDArray[np.float64],
    factors: NDArray[np.float64],
    numbers: NDArray[np.float64],
    scratch: Scratch,
) -> None:
    """The same to the last digit, some rows at a time: a sum along columns goes in their order."""
    terms = scratch("terms", (len(factors) + 1, _SOME_ROWS), np.float64)
    for start in range(0, len(slope), _SOME_ROWS):
        part = slope[start : start + _SOME_ROWS]
        some = terms[:, : len(part)]
        some[0] = part
        columns = numbers[start : start + len(part), : len(factors)].T
        np.multiply(columns, factors[:, None], out=some[1:])
        np.add.accumulate(some, axis=0, out=some)
        part[:] = some[-1]
