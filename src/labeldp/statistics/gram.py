"""XᵀX in exact integers, from encoded batches; one-hot columns are never made dense.

Numeric columns arrive as integers of at most 20 bits, so a product summed over 8192 rows
stays below 2**53 and a float64 BLAS product of such a block is exact; block sums are then
added as integers in two limbs. Categorical columns are counted. Hence the same data gives
the same bytes on any engine and in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from labeldp.features import Encoded, FeatureMap

BLOCK_ROWS = 8192
_LIMB = 32
_TABLE_CELLS = 1 << 22


@dataclass(frozen=True)
class FeatureGram:
    """XᵀX over integer design columns: public.

    `low` holds every entry but those between two numeric columns, which need two limbs:
    high·2**32 + low.
    """

    rows: int
    low: NDArray[np.int64]
    high: NDArray[np.int64] = field(repr=False)
    numbers: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.low)

    def __add__(self, other: FeatureGram) -> FeatureGram:
        return FeatureGram(
            self.rows + other.rows, self.low + other.low, self.high + other.high, self.numbers
        )

    def diagonal(self) -> NDArray[np.float64]:
        """Σ x² of every column, rounded to doubles."""
        total = np.diagonal(self.low).astype(np.float64)
        index = list(self.numbers)
        total[index] += np.diagonal(self.high) * 2.0**_LIMB
        return total

    def exact(self, columns: Iterable[int]) -> NDArray[np.object_]:
        """The submatrix of `columns` as Python integers."""
        chosen = np.fromiter(columns, dtype=np.intp)
        matrix = self.low[np.ix_(chosen, chosen)].astype(object)
        place = {column: position for position, column in enumerate(chosen)}
        kept = [k for k, column in enumerate(self.numbers) if column in place]
        target = [place[self.numbers[k]] for k in kept]
        matrix[np.ix_(target, target)] += self.high[np.ix_(kept, kept)].astype(object) << _LIMB
        return matrix

    def digest(self) -> str:
        """SHA-256 of the sums: features only, so it may be published."""
        hasher = hashlib.sha256(f"{self.rows} {self.width} {self.numbers}".encode())
        high, low = self.high.copy(), self.low.copy()
        if self.numbers:  # one form for one number: carry what exceeds the low limb
            index = np.ix_(self.numbers, self.numbers)
            high += low[index] >> _LIMB
            low[index] &= (1 << _LIMB) - 1
        for array in (low, high):
            hasher.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return hasher.hexdigest()


class GramSum:
    """Adds up XᵀX batch by batch."""

    def __init__(self, features: FeatureMap) -> None:
        width, numbers = len(features.all_names), len(features.number_columns)
        self._features = features
        self._rows = 0
        self._low = np.zeros((width, width), dtype=np.int64)
        self._high = np.zeros((numbers, numbers), dtype=np.int64)

    def add(self, batch: Encoded) -> None:
        self._rows += batch.rows
        _add_categories(self._low, self._features, batch)
        _add_numbers(self._low, self._high, self._features, batch)

    def total(self) -> FeatureGram:
        low = np.triu(self._low) + np.triu(self._low, 1).T
        if self._features.intercept:
            low[0, 0] = self._rows
        return FeatureGram(self._rows, low, self._high, tuple(self._features.number_columns))


def exact_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.object_]:
    """leftᵀ·right as Python integers, for integer entries of at most 20 bits."""
    total: NDArray[np.object_] = np.zeros((left.shape[1], right.shape[1]), dtype=object)
    for start in range(0, len(left), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        total += (left[block].T @ right[block]).astype(np.int64).astype(object)
    return total


def _add_categories(low: NDArray[np.int64], features: FeatureMap, batch: Encoded) -> None:
    blocks = list(
        zip(batch.categories, features.category_offsets, features.category_sizes, strict=True)
    )
    for codes, offset, size in blocks:
        counts = np.bincount(codes, minlength=size)
        inside = np.arange(offset, offset + size)
        low[inside, inside] += counts
        if features.intercept:
            low[0, inside] += counts
    for (codes, offset, size), (codes2, offset2, size2) in combinations(blocks, 2):
        target = low[offset : offset + size, offset2 : offset2 + size2]
        _add_pairs(target, codes, codes2)


def _add_pairs(
    target: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32]
) -> None:
    """Count how often each pair of levels meets; large tables touch only what occurs."""
    cells = target.shape[0] * target.shape[1]
    pairs = left.astype(np.int64) * target.shape[1] + right
    if cells <= _TABLE_CELLS:
        target += np.bincount(pairs, minlength=cells).reshape(target.shape)
        return
    seen, counts = np.unique(pairs, return_counts=True)
    target[seen // target.shape[1], seen % target.shape[1]] += counts


def _add_numbers(
    low: NDArray[np.int64], high: NDArray[np.int64], features: FeatureMap, batch: Encoded
) -> None:
    columns, values = list(features.number_columns), batch.numbers
    if not columns:
        return
    if features.intercept:
        low[0, columns] += values.sum(axis=0).astype(np.int64)
    for codes, offset, size in zip(
        batch.categories, features.category_offsets, features.category_sizes, strict=False
    ):
        inside = np.arange(offset, offset + size)
        for position, column in enumerate(columns):
            sums = np.bincount(codes, weights=values[:, position], minlength=size)
            low[column, inside] += sums.astype(np.int64)
    upper = np.triu(np.ones((len(columns), len(columns)), dtype=bool))
    for start in range(0, len(values), BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        product = (block.T @ block).astype(np.int64)
        high += product >> _LIMB
        low[np.ix_(columns, columns)] += np.where(upper, product & ((1 << _LIMB) - 1), 0)
