"""The largest leverage h_i = x_iᵀ(XᵀX)⁻¹x_i, by a second pass over the features: public.

Each row's leverage is a sum of table look-ups for its compound codes plus a small quadratic
form of its numbers, computed with elementwise operations in a fixed order, so that it does
not depend on how rows are batched. A bound on the rounding error is added, and the whole is
divided by 1 − defect: the result is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.features import Encoded, FeatureMap
from labeldp.kernels import Kernels, Scratch, best
from labeldp.statistics.factor import Factor
from labeldp.statistics.gram import category_blocks

_UNIT = 2.0**-53
_COSTLIEST = 5


@dataclass(frozen=True)
class CostlyRow:
    """A row whose label is hard to hide, and the column that makes it so."""

    row: int | None
    """None where rows have no numbers, as on a cluster."""
    leverage: float
    column: str
    """The raw column with the largest share of the leverage."""

    @property
    def where(self) -> str:
        """The row, in words."""
        return "a row" if self.row is None else f"row {self.row:,}"


@dataclass(frozen=True)
class Leverage:
    """Upper bound of every row's leverage, and the rows that cost most privacy."""

    maximum: float
    costliest: tuple[CostlyRow, ...]

    def renumbered(self, number: Callable[[int], int]) -> Leverage:
        """The same with other row numbers."""
        rows = tuple(
            costly if costly.row is None else replace(costly, row=number(costly.row))
            for costly in self.costliest
        )
        return replace(self, costliest=rows)


@dataclass(frozen=True)
class _Seen:
    row: int | None
    value: float
    codes: tuple[int, ...]
    numbers: NDArray[np.float64]

    @property
    def rank(self) -> tuple[float, tuple[int, ...], tuple[float, ...], int]:
        """Costliest first; ties by content, so that the order of the rows cannot matter."""
        return -self.value, self.codes, tuple(self.numbers), self.row or 0


Seen = tuple[list[_Seen], NDArray[np.float64]]
"""What one part of the rows showed: its costliest rows and the reach of its numbers."""


class LeverageScan:
    """Looks at every row's leverage; parts of the rows merge in any order."""

    def __init__(
        self, features: FeatureMap, factor: Factor, kernels: Kernels | None = None
    ) -> None:
        self._form = _QuadraticForm(features, factor)
        self._features, self._defect = features, factor.defect
        self._kernels, self._scratch = kernels or best(), Scratch()
        self._costliest: list[_Seen] = []
        self._reach = np.zeros(len(features.number_columns))

    def another(self) -> LeverageScan:
        """A scan of other rows for the same leverages; the tables are shared."""
        fresh = copy(self)
        fresh._costliest, fresh._reach = [], np.zeros_like(self._reach)
        fresh._scratch = Scratch()
        return fresh

    def add(self, first: int | None, batch: Encoded) -> None:
        """Look at a batch whose first row has this number, if rows have numbers."""
        values = self._form(batch, self._kernels, self._scratch)
        places = self._candidates(values, batch)
        if len(places):
            self._keep(_seen(first, places, values[places], batch.take(places)))
        for reach in (
            batch.numbers.max(axis=0, initial=0.0),
            -batch.numbers.min(axis=0, initial=0.0),
        ):
            self._reach = np.maximum(self._reach, reach)

    def _candidates(self, values: NDArray[np.float64], batch: Encoded) -> NDArray[np.intp]:
        """The rows that may be among the costliest; of equal ones those first by content."""
        full = len(self._costliest) == _COSTLIEST
        least = self._costliest[-1].value if full else -np.inf
        if not len(values) or values.max() < least:
            return np.empty(0, dtype=np.intp)
        place = max(0, len(values) - _COSTLIEST)
        least = max(least, float(np.partition(values, place)[place]))
        equal = np.flatnonzero(values == least)
        rows = batch.take(equal)
        contents = (*rows.categories, *rows.numbers.T)
        first = np.lexsort((equal, *reversed(contents)))[:_COSTLIEST]
        return np.concatenate([np.flatnonzero(values > least), equal[first]])

    def merge(self, other: LeverageScan) -> LeverageScan:
        """Take in what another part saw."""
        self.take(other.seen())
        return self

    def seen(self) -> Seen:
        """What this part saw, without the form: what travels between machines."""
        return self._costliest, self._reach

    def take(self, seen: Seen) -> None:
        """Take in what `seen` of another part returned."""
        costliest, reach = seen
        self._keep(costliest)
        self._reach = np.maximum(self._reach, reach)

    def total(self) -> Leverage:
        """Add the rounding error and the factor's defect: a rigorous upper bound."""
        largest = self._costliest[0].value + self._form.rounding(self._reach)
        maximum = largest / (1 - self._defect) * (1 + 4 * _UNIT)
        rows = tuple(CostlyRow(seen.row, seen.value, self._blame(seen)) for seen in self._costliest)
        return Leverage(min(1.0, maximum), rows)

    def _keep(self, rows: list[_Seen]) -> None:
        ranked = sorted(self._costliest + rows, key=lambda seen: seen.rank)
        self._costliest = ranked[:_COSTLIEST]

    def _blame(self, seen: _Seen) -> str:
        """The design column with the largest share x_k·(Mx)_k of the leverage, constant aside."""
        features = self._features
        row = np.zeros(len(features.all_names))
        if features.intercept:
            row[0] = 1.0
        row[list(features.number_columns)] = seen.numbers
        row[
            [
                offset + code
                for offset, code in zip(features.category_offsets, seen.codes, strict=True)
            ]
        ] = 1.0
        share = row * self._form.gradient(row)
        return features.all_names[int(features.intercept + np.argmax(share[features.intercept :]))]


def _seen(
    first: int | None, places: NDArray[np.intp], values: NDArray[np.float64], rows: Encoded
) -> list[_Seen]:
    """Rows of a batch whose first row has this number."""
    codes = np.stack(rows.categories, axis=1).tolist() if rows.codes else [[]] * rows.rows
    return [
        _Seen(None if first is None else first + int(place), float(value), tuple(levels), numbers)
        for place, value, levels, numbers in zip(places, values, codes, rows.numbers, strict=True)
    ]


class _QuadraticForm:
    """x ↦ xᵀMx for encoded rows, M ≈ (XᵀX)⁻¹ spread over all columns (0 where dropped)."""

    def __init__(self, features: FeatureMap, factor: Factor) -> None:
        width = len(features.all_names)
        matrix = np.zeros((width, width))
        matrix[np.ix_(factor.kept, factor.kept)] = factor.pseudo_inverse()
        self._matrix = matrix
        self._size = np.zeros((width, width))
        self._size[np.ix_(factor.kept, factor.kept)] = factor.pseudo_inverse_size()
        self._rank = factor.rank
        self._numbers = list(features.number_columns)
        self._slices = category_blocks(features)
        self._intercept = features.intercept
        self._compounds = features.compounds
        self._pairs = self._pair_tables()
        self._slopes = [self._slope_tables(column) for column in self._numbers]

    def __call__(self, batch: Encoded, kernels: Kernels, scratch: Scratch) -> NDArray[np.float64]:
        matrix, numbers, shape = self._matrix, self._numbers, (batch.rows,)
        compounds = batch.codes
        total: NDArray[np.float64] = scratch("total", shape, np.float64)
        total[:] = self._constant
        for (left, right), table in self._pairs.items():
            if left == right:
                kernels.add_entries(total, table, compounds[left])
            else:
                kernels.add_pair_entries(total, table, compounds[left], compounds[right])
        for place, column in enumerate(numbers):
            values = batch.numbers[:, place]
            slope = scratch("slope", shape, np.float64)
            np.multiply(values, matrix[column, column], out=slope)
            if self._intercept:
                slope += 2 * matrix[0, column]
            for table, codes in zip(self._slopes[place], compounds, strict=True):
                kernels.add_entries(slope, table, codes)
            for place2, column2 in enumerate(numbers[:place]):
                product = scratch("product", shape, np.float64)
                np.multiply(2 * matrix[column, column2], batch.numbers[:, place2], out=product)
                slope += product
            slope *= values
            total += slope
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
        """A bound on the rounding error of any row's value: terms × unit × Σ|terms|.

        A row's value is a sum of at most (number of blocks)² entries of M times the row's
        numbers. In whatever order and tables such terms are added up, each passes at most one
        rounding per term and two for its products; `pseudo_inverse_size` bounds the terms and
        the entries' own errors, inner products of `rank` terms.
        """
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
        terms = len(groups) ** 2 + 2 * len(self._matrix) + self._rank + 8
        return 2 * terms * _UNIT * size
