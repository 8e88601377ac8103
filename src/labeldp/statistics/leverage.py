"""The largest leverage h_i = x_iᵀ(XᵀX)⁻¹x_i, by a second pass over the features: public.

Each row's leverage is a sum of table look-ups for its levels plus a small quadratic form
of its numbers, computed with elementwise operations only, so that it does not depend on
how rows are batched. A bound on the rounding error is added, and the whole is divided by
1 − defect: the result is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.features import Encoded, FeatureMap
from labeldp.statistics.factor import Factor

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

    def __init__(self, features: FeatureMap, factor: Factor) -> None:
        self._form = _QuadraticForm(features, factor)
        self._features, self._defect = features, factor.defect
        self._costliest: list[_Seen] = []
        self._reach = np.zeros(len(features.number_columns))

    def add(self, first: int | None, batch: Encoded) -> None:
        """Look at a batch whose first row has this number, if rows have numbers."""
        values = self._form(batch)
        top = _top(values, batch)
        self._keep(
            [
                _Seen(
                    None if first is None else first + int(index),
                    float(values[index]),
                    tuple(int(codes[index]) for codes in batch.categories),
                    batch.numbers[index].copy(),
                )
                for index in top
            ]
        )
        reach = np.abs(batch.numbers).max(axis=0, initial=0.0)
        self._reach = np.maximum(self._reach, reach)

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


def _top(values: NDArray[np.float64], batch: Encoded) -> NDArray[np.intp]:
    """The rows of a batch that come first by `_Seen.rank`."""
    most = min(_COSTLIEST, len(values))
    near = np.flatnonzero(values >= np.partition(values, -most)[-most])
    contents = (*(codes[near] for codes in batch.categories), *batch.numbers[near].T)
    return near[np.lexsort((near, *reversed(contents), -values[near]))[:most]]


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
        self._slices = [
            slice(offset, offset + size)
            for offset, size in zip(features.category_offsets, features.category_sizes, strict=True)
        ]
        self._intercept = features.intercept

    def __call__(self, batch: Encoded) -> NDArray[np.float64]:
        matrix, numbers = self._matrix, self._numbers
        total = np.full(batch.rows, matrix[0, 0] if self._intercept else 0.0)
        for place, (codes, block) in enumerate(zip(batch.categories, self._slices, strict=True)):
            table = np.diagonal(matrix[block, block]).copy()
            if self._intercept:
                table += 2 * matrix[0, block]
            total += table[codes]
            for codes2, block2 in zip(batch.categories[:place], self._slices[:place], strict=True):
                total += 2 * matrix[block, block2][codes, codes2]
        for place, column in enumerate(numbers):
            values = batch.numbers[:, place]
            slope = values * matrix[column, column]
            if self._intercept:
                slope += 2 * matrix[0, column]
            for codes, block in zip(batch.categories, self._slices, strict=True):
                slope += 2 * matrix[block, column][codes]
            for place2, column2 in enumerate(numbers[:place]):
                slope += (2 * matrix[column, column2]) * batch.numbers[:, place2]
            total += values * slope
        return total

    def gradient(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mx of a dense row."""
        return np.asarray(self._matrix @ row)

    def rounding(self, reach: NDArray[np.float64]) -> float:
        """A bound on the rounding error of any row's value: terms × unit × Σ|terms|."""
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
