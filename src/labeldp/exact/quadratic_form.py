"""The quadratic form xᵀMx of encoded rows, M = CᵀC, with a bound on its rounding error: public.

M ≈ (XᵀX)⁻¹ gives leverages; public weights C give squared row norms, the sensitivity of
shaped-flag (theory §9). Both are maxima over all rows that privacy rests on, so what is computed
in doubles is always accompanied by a bound of how far it may be off.

A row has one level per category and some numbers. What the categories contribute is looked up in
tables by joint codes; a number contributes itself times a slope that is linear in the others:

    xᵀMx = table(codes) + Σ_j v_j·(M_jj·v_j + 2·M_0j + Σ_categories + 2·Σ_{k<j} M_jk·v_k).

It is computed elementwise in a fixed order, or roughly by a matrix product; one bound covers the
rounding of both.

`LeverageScan` bounds the largest leverage h_i = x_iᵀ(XᵀX)⁻¹x_i by a pass over the features. Where
rows have many numbers, a matrix product first finds the few rows that may be among the largest. To
the maximum the bound on the rounding error is added, and the whole is divided by 1 − error_bound of
the verified Cholesky factor: (XᵀX)⁻¹ ≼ M/(1 − error_bound), so the result is an upper bound of
every true leverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import LARGE, ROUNDOFF, VerifiedCholesky
from labeldp.exact.gram import BLOCK_ROWS, GramAccumulator, no_rows
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import add_pair_lookup
from labeldp.passes.accumulator import PassRequirements, RowNumber

Floats = NDArray[np.float64]

MANY_NUMBERS = 8
"""From so many numeric columns on, a matrix product that finds the few candidates pays."""
_CACHED_ROWS, _CACHED_TERMS = 64, 1 << 15
"""Rows, or rows times numbers, that fit the processor's cache."""


class QuadraticForm:
    """xᵀMx of encoded rows, M spread over all design columns (0 where one is left out).

    kept: the columns of C. matrix: CᵀC as it was computed, each entry an inner product of at most
    len(C) terms in any order.
    """

    def __init__(
        self, features: FeatureMap, kept: Sequence[int], root: Floats, matrix: Floats
    ) -> None:
        width, square = len(features.all_names), np.ix_(kept, kept)
        self._matrix = np.zeros((width, width))
        self._matrix[square] = matrix
        self._rank, self._wide = len(root), width >= LARGE
        # The rounding of M_jk is relative to Σ|terms| = (|C|ᵀ|C|)_jk, which for wide tables is
        # bounded by the product of the norms of two columns of C instead.
        if self._wide:
            self._norms = np.zeros(width)
            self._norms[list(kept)] = np.linalg.norm(root, axis=0)
        else:
            self._size = np.zeros((width, width))
            self._size[square] = np.abs(root).T @ np.abs(root)
        self._numbers = list(features.number_columns)
        self._slices = features.category_blocks
        self._intercept = features.intercept
        self._joint_codes = joint_codes = features.joint_codes
        self._pairs = self._pair_tables()
        # What each group's code adds to the slope of every number: one table a group.
        self._slopes = [np.zeros((len(self._numbers), width)) for width in joint_codes.widths]
        for group, tables in enumerate(self._slopes):
            for member, levels in joint_codes.levels(group):
                block = self._matrix[self._slices[member]][:, self._numbers]
                tables += 2 * block[levels].T

    def __call__(self, batch: Encoded, *, rough: bool = False) -> Floats:
        """Return the form of every row: the same digits however rows are batched, unless `rough`.

        Elementwise operations in a fixed order give every row its own digits. A matrix product is
        faster where there are many numbers, but its last digits depend on the rows beside a row.
        """
        numbers = self._numbers
        total = np.full(batch.rows, self._matrix[0, 0] if self._intercept else 0.0)
        for (left, right), table in self._pairs.items():
            if left == right:
                total += table.take(batch.codes[left])
            else:
                add_pair_lookup(total, table, batch.codes[left], batch.codes[right])
        if not numbers:
            return total
        inner = self._matrix[np.ix_(numbers, numbers)]
        step = BLOCK_ROWS if rough else max(_CACHED_ROWS, _CACHED_TERMS // len(numbers))
        for start in range(0, batch.rows, step):
            part = slice(start, start + step)
            values = batch.numbers[part].T  # contiguous: encoded columns are stored side by side
            slopes = inner @ values if rough else np.diagonal(inner)[:, None] * values
            if self._intercept:
                slopes += 2 * self._matrix[0, numbers][:, None]
            for tables, codes in zip(self._slopes, batch.codes, strict=True):
                slopes += tables.take(codes[part], axis=1)
            if rough:
                total[part] += np.einsum("ji,ji->i", slopes, values)
                continue
            # Every number in turn adds its product to the slopes of all later ones, so each slope
            # gets its terms one after the other, in the same order whatever the rows.
            for place in range(len(numbers) - 1):
                slopes[place + 1 :] += 2 * inner[place + 1 :, place, None] * values[place]
            slopes *= values
            for terms in slopes:
                total[part] += terms
        return total

    def _pair_tables(self) -> dict[tuple[int, int], Floats]:
        """Return what each pair of joint codes contributes.

        What a group contributes by itself (its levels' squares and products) is added to one of
        the tables with the first group, so that it costs no look-up of its own; a single group
        has its table under the key (0, 0).
        """
        joint_codes, matrix, slices = self._joint_codes, self._matrix, self._slices
        singles = []
        for group, width in enumerate(joint_codes.widths):
            single = np.zeros(width)
            members = joint_codes.levels(group)
            for place, (member, levels) in enumerate(members):
                block = slices[member]
                single += np.diagonal(matrix[block, block])[levels]
                if self._intercept:
                    single += 2 * matrix[0, block][levels]
                for member2, levels2 in members[:place]:
                    single += 2 * matrix[block, slices[member2]][levels, levels2]
            singles.append(single)
        if len(singles) == 1:
            return {(0, 0): singles[0]}
        tables = {}
        for left, right in joint_codes.pairs:
            table = np.zeros((joint_codes.widths[left], joint_codes.widths[right]))
            for member, levels in joint_codes.levels(left):
                for member2, levels2 in joint_codes.levels(right):
                    table += (2 * matrix[slices[member], slices[member2]])[np.ix_(levels, levels2)]
            if left == 0:
                table += singles[right]
            if (left, right) == (0, 1):
                table += singles[0][:, None]
            tables[left, right] = table
        return tables

    def gradient(self, row: Floats) -> Floats:
        """Return M·x of a dense row."""
        return np.asarray(self._matrix @ row)

    def rounding_error(self, reach: Floats, *, generous: bool = False) -> float:
        """Bound the rounding error of any row whose numbers are at most `reach` in size.

        It is depth × roundoff × Σ|terms|. A row's value is a sum of entries of M times the row's
        numbers. With c categories and q numbers a term passes at most c² + c additions in the
        tables and c² between them, or c + q in a number's slope and q more in the total, and three
        roundings of products; in whatever order a matrix product adds its terms, it is no more. The
        entries' own errors are those of inner products of `rank` terms. The factor 2 covers terms
        of second order. The `generous` depth counts every pair of terms, which is more: leverages
        use it, because published certificates hold its digits.
        """
        categories, numbers = len(self._slices) + 1, len(self._numbers)
        depth = 2 * categories * (categories + 1) + 2 * numbers
        if generous and not self._wide:
            depth = (self._intercept + len(self._slices) + numbers) ** 2 + 2 * len(self._matrix)
        return 2 * (depth + self._rank + 8) * ROUNDOFF * self._largest_size(reach)

    def _largest_size(self, reach: Floats) -> float:
        """Return an upper bound of Σ|terms| of any row's value.

        A row has one level per category, so the largest entry of a block stands for the block.
        """

        def row_sum(entries: Floats) -> float:
            """The largest Σ|x_k|·entries_k of any row."""
            total = float(entries[0]) if self._intercept else 0.0
            total += sum(float(entries[block].max(initial=0.0)) for block in self._slices)
            return total + (float(entries[self._numbers] @ reach) if self._numbers else 0.0)

        if self._wide:
            # Cauchy-Schwarz: Σ|terms| ≤ (Σ_k |x_k|·‖column k of C‖)², without a product |C|ᵀ|C|.
            return row_sum(self._norms) ** 2 * (1 + 1e-9)
        size = self._size
        groups = [size[:, 0]] if self._intercept else []
        groups += [size[:, block].max(axis=1, initial=0.0) for block in self._slices]
        groups += [
            size[:, column] * most for column, most in zip(self._numbers, reach, strict=True)
        ]
        return sum(map(row_sum, groups))


@dataclass(frozen=True)
class Leverage:
    """Upper bound of every row's leverage, and the row whose label is hardest to hide."""

    maximum: float
    row: int | None
    """The row of largest leverage; None where rows have no numbers, as on a cluster."""
    column: str
    """The design column with the largest share of that row's leverage."""


_Candidate = tuple[float, tuple[float, ...], int]
"""(−leverage, levels and numbers, row). The least is that of largest leverage, ties by content and
not by the place of a row, so that the order in which rows come cannot matter."""
_NO_ROW: _Candidate = (math.inf, (), -1)
ScanState = tuple[_Candidate, NDArray[np.float64]]
"""The row of largest leverage, and the reach of the numbers."""


class LeverageScan:
    """Accumulator of the largest leverage of the rows from which a factor was computed."""

    def __init__(self, features: FeatureMap, cholesky: VerifiedCholesky) -> None:
        self._features, self._cholesky = features, cholesky
        self._error_bound = cholesky.error_bound
        self._costliest = _NO_ROW
        self._reach = np.zeros(len(features.number_columns))

    @cached_property
    def _form(self) -> QuadraticForm:
        factor = self._cholesky
        return QuadraticForm(self._features, factor.kept, factor.whitener, factor.crossproduct())

    @property
    def requirements(self) -> PassRequirements:
        every, cholesky = replace(self._features, kept=None), self._cholesky
        return PassRequirements(
            every.columns,
            every,
            cache_keys=((LeverageScan, every, *cholesky.cache_key()),),
            row_check=(GramAccumulator(every), cholesky.is_of),
        )

    def new(self) -> LeverageScan:
        """Return an empty one with the same form: another machine might round M differently.

        The factor, which may be large and has served its purpose, stays behind.
        """
        fresh = copy(self)
        fresh._form = self._form
        fresh._costliest, fresh._reach = _NO_ROW, np.zeros_like(self._reach)
        vars(fresh).pop("_cholesky", None)
        return fresh

    def add(self, batch: Encoded, _labels: object = None, first: int = 0) -> None:
        self._reach = np.maximum(self._reach, np.abs(batch.numbers).max(axis=0, initial=0.0))
        rough = len(self._reach) >= MANY_NUMBERS
        values = self._form(batch, rough=rough)
        # A rough value is off by at most two rounding errors: its own, and that of the value it
        # stands for. So the largest value is at least the largest rough one less that slack, and
        # a row with such a value has a rough one of at least that less the slack again.
        slack = 2 * self._form.rounding_error(self._reach, generous=True) if rough else 0.0
        least = max(-self._costliest[0], float(values.max(initial=-np.inf)) - slack)
        near = np.flatnonzero(values >= least - slack)
        if not len(near):
            return
        rows = batch.take(near)
        values = self._form(rows) if rough else values[near]
        contents = np.column_stack([*rows.categories, rows.numbers])
        place = np.lexsort((*contents.T[::-1], -values))[0]
        candidate = -float(values[place]), tuple(contents[place].tolist()), first + int(near[place])
        self._costliest = min(self._costliest, candidate)

    def state(self) -> ScanState:
        return self._costliest, self._reach

    def merge(self, state: ScanState) -> None:
        costliest, reach = state
        self._costliest = min(self._costliest, costliest)
        self._reach = np.maximum(self._reach, reach)

    def result(self, row: RowNumber = int) -> Leverage:
        negative, content, number = self._costliest
        if negative == math.inf:
            raise no_rows()
        # The largest computed value is at most one error below the largest true one, whatever
        # row has it: both errors are within the same bound.
        largest = -negative + self._form.rounding_error(self._reach, generous=True)
        # The factor's error widens the bound; 4 roundings of the operations here.
        maximum = largest / (1 - self._error_bound) * (1 + 4 * ROUNDOFF)
        # h ≤ 1 for every row of a projection
        return Leverage(min(1.0, float(maximum)), row(number), self._main_column(content))

    def _main_column(self, content: tuple[float, ...]) -> str:
        """Return the design column with the largest share x_k·(Mx)_k, the constant aside."""
        features = self._features
        levels, numbers = np.split(content, [len(features.categorical)])
        row = np.zeros(len(features.all_names))
        row[: features.intercept] = 1.0
        row[list(features.number_columns)] = numbers
        row[np.add(features.category_offsets, levels).astype(np.intp)] = 1.0
        share = row * self._form.gradient(row)
        return features.all_names[int(features.intercept + np.argmax(share[features.intercept :]))]
