"""The quadratic form xᵀMx of encoded rows, M = CᵀC, with a bound on its rounding error.

M ≈ (XᵀX)⁻¹ gives leverages; public weights C give squared row norms, the sensitivity of
shaped-flag (theory §9). Both are maxima over all rows that privacy rests on, so what is computed
in doubles is always accompanied by a bound of how far it may be off.

A row has one level per category and some numbers. What the categories contribute is looked up in
tables by joint codes; a number contributes itself times a slope that is linear in the others:

    xᵀMx = table(codes) + Σ_j v_j·(M_jj·v_j + 2·M_0j + Σ_categories + 2·Σ_{k<j} M_jk·v_k).

There are two ways to compute it: elementwise in a fixed order (`__call__`), whose every digit is
the same however rows are batched, and by a matrix product (`rough`), which is faster for many
numbers and whose last digits depend on the batch. One bound covers the rounding of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import LARGE, ROUNDOFF, VerifiedCholesky
from labeldp.exact.gram import BLOCK_ROWS
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels, Scratch

if TYPE_CHECKING:
    from labeldp.exact.row_norms import Weights

_MANY = 64
"""From so many numbers on, one NumPy call per pair of them costs more than it computes."""
_CACHED_ROWS = 64
"""Rows whose products fit the processor's cache."""


class QuadraticForm:
    """xᵀMx of encoded rows, M spread over all design columns (0 where one is left out).

    `root` gives C of M = CᵀC: M itself, each entry an inner product of at most `rank` terms; what
    the rounding of an entry is relative to, Σ|terms|; and the norms of C's columns, since Σ|terms|
    of M_jk is at most the product of two of them.
    """

    def __init__(self, features: FeatureMap, root: VerifiedCholesky | Weights) -> None:
        width, kept = len(features.all_names), np.ix_(root.kept, root.kept)
        self._matrix = np.zeros((width, width))
        self._matrix[kept] = root.crossproduct()
        self._wide, self._rank = width >= LARGE, root.rank
        if self._wide:
            self._norms = np.zeros(width)
            self._norms[list(root.kept)] = root.column_norms()
        else:
            self._size = np.zeros((width, width))
            self._size[kept] = root.crossproduct_size()
        self._numbers = list(features.number_columns)
        self._slices = features.category_blocks
        self._intercept = features.intercept
        self._joint_codes = features.joint_codes
        self._pairs = self._pair_tables()
        self._slopes = [self._slope_tables(column) for column in self._numbers]
        self._slopes_at = [np.array(tables) for tables in zip(*self._slopes, strict=True)]

    def __call__(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """Return the form of every row, by NumPy operations on whole columns in a fixed order."""
        matrix, numbers, shape = self._matrix, self._numbers, (batch.rows,)
        add_products = _add_products if len(numbers) < _MANY else _add_many_products
        joint_codes = batch.codes
        total = self._of_codes(batch, kernels, scratch)
        for place, column in enumerate(numbers):
            values = batch.numbers[:, place]
            slope = scratch("slope", shape, np.float64)
            np.multiply(values, matrix[column, column], out=slope)
            if self._intercept:
                slope += 2 * matrix[0, column]
            for table, codes in zip(self._slopes[place], joint_codes, strict=True):
                kernels.add_lookup(slope, table, codes)
            add_products(slope, 2 * matrix[column, numbers[:place]], batch.numbers, scratch)
            slope *= values
            total += slope
        return total

    def rough(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """Return the same up to rounding, by a matrix product: last digits depend on the batch."""
        total = self._of_codes(batch, kernels, scratch)
        inner = self._matrix[np.ix_(self._numbers, self._numbers)]
        for start in range(0, batch.rows, BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            numbers = batch.numbers[part].T  # contiguous: encoded columns are stored side by side
            slopes = inner @ numbers
            if self._intercept:
                slopes += 2 * self._matrix[0, self._numbers][:, None]
            for at, codes in zip(self._slopes_at, batch.codes, strict=True):
                slopes += at[:, codes[part]]
            total[part] += np.einsum("ji,ji->i", slopes, numbers)
        return total

    def _of_codes(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        """Return what the constant and the categories contribute."""
        total: NDArray[np.float64] = scratch("total", (batch.rows,), np.float64)
        total[:] = self._matrix[0, 0] if self._intercept else 0.0
        for (left, right), table in self._pairs.items():
            if left == right:
                kernels.add_lookup(total, table, batch.codes[left])
            else:
                kernels.add_pair_lookup(total, table, batch.codes[left], batch.codes[right])
        return total

    def _pair_tables(self) -> dict[tuple[int, int], NDArray[np.float64]]:
        """Return what each pair of joint codes contributes.

        What a group contributes by itself is added to one of the tables with the first group, so
        that it costs no look-up of its own; a single group has its table under the key (0, 0).
        """
        joint_codes = self._joint_codes
        singles = [self._single_table(group) for group in range(len(joint_codes.groups))]
        if len(singles) == 1:
            return {(0, 0): singles[0]}
        tables = {}
        for left, right in joint_codes.pairs:
            table = np.zeros((joint_codes.widths[left], joint_codes.widths[right]))
            for member, levels in joint_codes.levels(left):
                for member2, levels2 in joint_codes.levels(right):
                    block = 2 * self._matrix[self._slices[member], self._slices[member2]]
                    table += block[np.ix_(levels, levels2)]
            if left == 0:
                table += singles[right]
            if (left, right) == (0, 1):
                table += singles[0][:, None]
            tables[left, right] = table
        return tables

    def _single_table(self, group: int) -> NDArray[np.float64]:
        """Return what a joint code contributes by itself: its levels' squares and products."""
        matrix, table = self._matrix, np.zeros(self._joint_codes.widths[group])
        members = self._joint_codes.levels(group)
        for place, (member, levels) in enumerate(members):
            block = self._slices[member]
            table += np.diagonal(matrix[block, block])[levels]
            if self._intercept:
                table += 2 * matrix[0, block][levels]
            for member2, levels2 in members[:place]:
                table += 2 * matrix[block, self._slices[member2]][levels, levels2]
        return table

    def _slope_tables(self, column: int) -> list[NDArray[np.float64]]:
        """Return what each group's code adds to the slope of a number."""
        tables = []
        for group, width in enumerate(self._joint_codes.widths):
            table = np.zeros(width)
            for member, levels in self._joint_codes.levels(group):
                table += 2 * self._matrix[self._slices[member], column][levels]
            tables.append(table)
        return tables

    def gradient(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M·x of a dense row."""
        return np.asarray(self._matrix @ row)

    def generous_rounding_error(self, reach: NDArray[np.float64]) -> float:
        """Bound the rounding error of any row's value: depth × roundoff × Σ|terms|.

        The depth counts every pair of terms, more than `rounding_error` does. Leverages use it:
        published certificates hold its digits.
        """
        if self._wide:
            return self.rounding_error(reach)
        groups = self._intercept + len(self._slices) + len(self._numbers)
        depth = groups**2 + 2 * len(self._matrix) + self._rank + 8
        return 2 * depth * ROUNDOFF * self._largest_size(reach)

    def rounding_error(self, reach: NDArray[np.float64]) -> float:
        """Bound the rounding error of any row whose numbers are at most `reach` in size.

        A row's value is a sum of entries of M times the row's numbers. With c categories and q
        numbers a term passes at most c² + c additions in the tables and c² between them, or
        c + q in a number's slope and q more in the total, and three roundings of products; in
        whatever order a matrix product adds its terms, it is no more. The entries' own errors
        are those of inner products of `rank` terms, which `crossproduct_size` bounds. The
        factor 2 covers terms of second order.
        """
        categories = len(self._slices) + 1
        depth = 2 * categories * (categories + 1) + 2 * len(self._numbers) + self._rank + 8
        return 2 * depth * ROUNDOFF * self._largest_size(reach)

    def _largest_size(self, reach: NDArray[np.float64]) -> float:
        """Return an upper bound of Σ|terms| of any row's value.

        A row has one level per category, so the largest entry of a block stands for the block.
        """
        if self._wide:
            # Cauchy-Schwarz: Σ|terms| ≤ (Σ_k |x_k|·‖column k of C‖)², without a product |C|ᵀ|C|.
            norms = self._norms
            norm = float(norms[0]) if self._intercept else 0.0
            norm += sum(float(norms[block].max(initial=0.0)) for block in self._slices)
            norm += float(norms[self._numbers] @ reach) if self._numbers else 0.0
            return norm**2 * (1 + 1e-9)
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


def _add_products(
    slope: NDArray[np.float64],
    factors: NDArray[np.float64],
    numbers: NDArray[np.float64],
    scratch: Scratch,
) -> None:
    """Add the first columns of `numbers` times their factors to `slope`, one after the other."""
    for place, factor in enumerate(factors):
        product = scratch("product", slope.shape, np.float64)
        np.multiply(factor, numbers[:, place], out=product)
        slope += product


def _add_many_products(
    slope: NDArray[np.float64],
    factors: NDArray[np.float64],
    numbers: NDArray[np.float64],
    scratch: Scratch,
) -> None:
    """Do the same to the last digit, some rows at a time.

    `accumulate` adds one column after the other, as the loop does; `sum` would add pairwise.
    """
    terms = scratch("terms", (len(factors) + 1, _CACHED_ROWS), np.float64)
    for start in range(0, len(slope), _CACHED_ROWS):
        part = slope[start : start + _CACHED_ROWS]
        some = terms[:, : len(part)]
        some[0] = part
        columns = numbers[start : start + len(part), : len(factors)].T
        np.multiply(columns, factors[:, None], out=some[1:])
        np.add.accumulate(some, axis=0, out=some)
        part[:] = some[-1]
