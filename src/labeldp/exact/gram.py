"""XᵀX in exact integers, from encoded batches; one-hot columns are never made dense.

Why the sums are exact. Numeric columns arrive as integers of at most 20 bits (as doubles). A
product of two has at most 40 bits, and a sum of 8192 = 2**13 products stays below 2**53, where
doubles are exact for integers. So a float64 BLAS product over a block of at most 8192 rows rounds
nothing, whatever order the BLAS adds in. Sums over a batch are 64-bit integers; over a large
table they exceed 64 bits, so batches are added up as Python integers. Categories are counted by
joint codes (`features/encoder.py`).

Integer addition is associative, hence the same rows give the same bytes on any engine, for any
number of threads, batch size or partitioning of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import add_sums, count_pairs
from labeldp.passes.accumulator import PassRequirements

Integers = NDArray[np.int64]
Columns = int | list[int] | slice

BLOCK_ROWS = 8192
"""20 + 20 + 13 bits: sums of products over so many rows are exact in doubles."""
MOST_ROWS = 1 << 40
"""A trillion: sums of one column stay below 2**61, and counts below that."""
_LARGEST_SUM = 2.0**62


@dataclass(frozen=True)
class FeatureGram:
    """XᵀX over integer design columns: public.

    `counts` holds every entry but those between two numeric columns, which are Python integers
    in `products`. `numbers` are the positions of the numeric columns.
    """

    rows: int
    counts: Integers
    products: NDArray[np.object_] = field(repr=False)
    numbers: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.counts)

    def __add__(self, other: FeatureGram) -> FeatureGram:
        counts, products = self.counts + other.counts, self.products + other.products
        return FeatureGram(self.rows + other.rows, counts, products, self.numbers)

    def diagonal(self) -> NDArray[np.float64]:
        """Return Σ x² of every column, rounded to doubles."""
        total = np.diagonal(self.counts).astype(np.float64)
        total[list(self.numbers)] = np.diagonal(self.products).astype(np.float64)
        return total

    def exact(self, columns: Iterable[int]) -> NDArray[np.object_]:
        """Return the submatrix of `columns` as Python integers."""
        chosen = np.fromiter(columns, dtype=np.intp)
        matrix: NDArray[np.object_] = self.counts[np.ix_(chosen, chosen)].astype(object)
        place = {column: position for position, column in enumerate(chosen)}
        kept = [k for k, column in enumerate(self.numbers) if column in place]
        target = [place[self.numbers[k]] for k in kept]
        matrix[np.ix_(target, target)] = self.products[np.ix_(kept, kept)]
        return matrix

    def digest(self) -> str:
        """Return the SHA-256 of the sums: of features only, so it may be published.

        Published digests are those of two matrices of 64-bit integers: an entry between two
        numeric columns is high·2**32 + low with 0 ≤ low < 2**32, any other is low.
        """
        hasher = hashlib.sha256(f"{self.rows} {self.width} {self.numbers}".encode())
        low = self.counts.copy()
        low[np.ix_(self.numbers, self.numbers)] = self.products & 0xFFFFFFFF
        for array in (low, self.products >> 32):
            hasher.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return hasher.hexdigest()


class GramAccumulator:
    """Accumulator of XᵀX over all design columns, kept or not.

    Rows are counted in tables by joint category codes, from which XᵀX follows: for two categories
    its entries are counts of pairs of levels, for a category and a number sums of the number by
    level, for two numbers sums of products.
    """

    def __init__(self, features: FeatureMap) -> None:
        self._features = replace(features, kept=None)
        self._rows = 0
        self._merged: FeatureGram | None = None

    @property
    def requirements(self) -> PassRequirements:
        features = self._features
        return PassRequirements(
            features.columns,
            features,
            state_bytes=8 * (2 * features.width**2 + features.joint_codes.cells),
            cache_keys=((GramAccumulator, features),),
        )

    def new(self) -> GramAccumulator:
        return GramAccumulator(self._features)

    def _allocate(self) -> None:
        """Make empty tables: late, for an accumulator that only merges needs none."""
        numbers = len(self._features.number_columns)
        widths = self._features.joint_codes.widths
        self._counts = [np.zeros(width, dtype=np.int64) for width in widths]
        self._pairs = {
            (left, right): np.zeros((widths[left], widths[right]), np.int64)
            for left, right in self._features.joint_codes.pairs
        }
        self._sums = np.zeros(numbers, dtype=np.int64)
        self._level_sums = [np.zeros((numbers, width), np.int64) for width in widths]
        self._products: NDArray[np.object_] = np.zeros((numbers, numbers), dtype=object)

    def add(self, batch: Encoded, *_: object) -> None:
        if not self._rows:
            self._allocate()
        codes = batch.codes
        self._rows += batch.rows
        if len(codes) == 1:  # no pair whose table would have these counts as a margin
            self._counts[0] += np.bincount(codes[0], minlength=len(self._counts[0]))
        for (left, right), table in self._pairs.items():
            count_pairs(table, codes[left], codes[right])
        if not self._features.number_columns:
            return
        values = batch.numbers
        sums = values.sum(axis=0)
        # Rows of another table may lie so far outside the fitted range that sums overflow.
        if not (np.abs(sums) < _LARGEST_SUM).all():
            raise DataError(
                "numbers lie far outside the range that their column was fitted on; plan again on "
                "this table"
            )
        self._sums += sums.astype(np.int64)
        for level_sums, code in zip(self._level_sums, codes, strict=True):
            for place in range(len(level_sums)):
                add_sums(level_sums[place], code, values[:, place])
        self._products += exact_products(values, values).astype(object)

    def state(self) -> FeatureGram | None:
        """Return XᵀX of the rows that were added and merged; None without any."""
        if not self._rows:
            return self._merged
        features, joint_codes = self._features, self._features.joint_codes
        blocks, numbers = features.category_blocks, list(features.number_columns)
        whole = np.zeros((features.width, features.width), dtype=np.int64)

        def place(rows: Columns, columns: Columns, table: Integers) -> None:
            whole[rows, columns], whole[columns, rows] = table, table.T

        # A table of two groups counts every pair of their members, and its margins are the counts
        # of each group. Within a group its joint codes count the pairs of its members.
        counts = dict(enumerate(self._counts))
        for (left, right), table in self._pairs.items():
            counts[left], counts[right] = table.sum(axis=1), table.sum(axis=0)
            for one, two in product(joint_codes.groups[left], joint_codes.groups[right]):
                margin = joint_codes.margin((left, right), table, one, two)
                place(blocks[one], blocks[two], margin)
        for group, members in enumerate(joint_codes.groups):
            for one, two in combinations(members, 2):
                margin = joint_codes.margin((group,), counts[group], one, two)
                place(blocks[one], blocks[two], margin)
            for member in members:
                levels = joint_codes.margin((group,), counts[group], member)
                whole[blocks[member], blocks[member]] = np.diag(levels)
                if features.intercept:
                    place(0, blocks[member], levels)
                sums = joint_codes.margin((group,), self._level_sums[group], member)
                place(numbers, blocks[member], sums)
        if features.intercept:
            place(0, numbers, self._sums)
            whole[0, 0] = self._rows
        own = FeatureGram(self._rows, whole, self._products.copy(), tuple(numbers))
        return own if self._merged is None else self._merged + own

    def merge(self, state: FeatureGram | None) -> None:
        if state is not None:
            self._merged = state if self._merged is None else self._merged + state

    def result(self, *_: object) -> FeatureGram:
        total = self.state()
        if total is None:
            raise no_rows()
        if total.rows > MOST_ROWS:
            raise DataError(
                f"the data have more than {MOST_ROWS:,} rows, and exact sums of more could "
                f"overflow; release parts of the table"
            )
        return total


def no_rows() -> DataError:
    """Return the refusal of an empty table."""
    return DataError("the data have no rows; nothing can be released")


def exact_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> Integers:
    """Return leftᵀ·right, for integer entries of at most 20 bits and at most 2**20 rows."""
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)  # doubles round nothing within a block
        total += (left[block].T @ right[block]).astype(np.int64)
    return total
