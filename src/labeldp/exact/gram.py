"""XᵀX in exact integers, from encoded batches; one-hot columns are never made dense.

Why the sums are exact. Numeric columns arrive as integers of at most 20 bits (as doubles). A
product of two has at most 40 bits, and a sum of 8192 = 2**13 products stays below 2**53, where
doubles are exact for integers. So a float64 BLAS product over a block of at most 8192 rows rounds
nothing, whatever order the BLAS adds in. Block sums are then added as 64-bit integers; the total
over a large table exceeds 64 bits, so it is kept in two limbs, high·2**32 + low. Categories are
counted by joint codes (`features/encoder.py`).

Integer addition is associative, hence the same rows give the same bytes on any engine, for any
number of threads, batch size or partitioning of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels, kernels_for
from labeldp.passes.accumulator import PassRequirements

BLOCK_ROWS = 8192
"""20 + 20 + 13 bits: sums of products over so many rows are exact in doubles."""
MOST_ROWS = 1 << 40
"""Over so many rows (a trillion), in batches of at least 512, no limb reaches 2**62."""
_LIMB = 32
_LOW_MASK = (1 << _LIMB) - 1
_LARGEST_SUM = 2.0**62


@dataclass(frozen=True)
class FeatureGram:
    """XᵀX over integer design columns: public.

    `low` holds every entry except that those between two numeric columns have a second limb:
    they are high·2**32 + low. `numbers` are the positions of the numeric columns.
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
        """Return Σ x² of every column, rounded to doubles."""
        total = np.diagonal(self.low).astype(np.float64)
        total[list(self.numbers)] += np.diagonal(self.high) * 2.0**_LIMB
        return total

    def exact(self, columns: Iterable[int]) -> NDArray[np.object_]:
        """Return the submatrix of `columns` as Python integers."""
        return self._integers(columns).astype(object)

    def modulo(self, prime: int, columns: Iterable[int]) -> list[int]:
        """Return the entries of that submatrix modulo a prime, row by row."""
        return [int(entry) for entry in (self._integers(columns) % prime).ravel().tolist()]

    def _integers(self, columns: Iterable[int]) -> NDArray[Any]:
        """Return the submatrix as 64-bit integers where all entries fit, else as Python's."""
        chosen = np.fromiter(columns, dtype=np.intp)
        matrix = self.low[np.ix_(chosen, chosen)]
        place = {column: position for position, column in enumerate(chosen)}
        kept = [k for k, column in enumerate(self.numbers) if column in place]
        if not kept:
            return matrix
        target = [place[self.numbers[k]] for k in kept]
        high = self.high[np.ix_(kept, kept)]
        # Two summands below 2**62 each: their sum fits 63 bits and a sign.
        largest_high, largest = (max(int(x.max()), -int(x.min())) for x in (high, matrix))
        if max(largest_high << _LIMB, largest) >= 1 << 62:
            matrix, high = matrix.astype(object), high.astype(object)
        matrix[np.ix_(target, target)] += high << _LIMB
        return matrix

    def digest(self) -> str:
        """Return the SHA-256 of the sums: of features only, so it may be published."""
        hasher = hashlib.sha256(f"{self.rows} {self.width} {self.numbers}".encode())
        high, low = self.high.copy(), self.low.copy()
        if self.numbers:
            # One representation for one number: carry what exceeds the low limb, since how much
            # it holds depends on how the table was cut into batches.
            index = np.ix_(self.numbers, self.numbers)
            high += low[index] >> _LIMB
            low[index] &= _LOW_MASK
        for array in (low, high):
            hasher.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return hasher.hexdigest()


class GramAccumulator:
    """Accumulator of XᵀX over all design columns, kept or not.

    Rows are counted in tables by joint category codes, from which XᵀX follows: for two categories
    its entries are counts of pairs of levels, for a category and a number sums of the number by
    level, for two numbers sums of products.
    """

    def __init__(self, features: FeatureMap, kernels: Kernels | None = None) -> None:
        self._features, self._kernels = replace(features, kept=None), kernels
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
        return GramAccumulator(self._features, self._kernels)

    def _allocate(self) -> None:
        """Make empty tables: late, for an accumulator that only merges needs none."""
        numbers = len(self._features.number_columns)
        widths = self._features.joint_codes.widths
        self._kernels = self._kernels or kernels_for(self._features.rows)
        self._counts = [np.zeros(width, dtype=np.int64) for width in widths]
        self._pairs = {
            (left, right): np.zeros((widths[left], widths[right]), np.int64)
            for left, right in self._features.joint_codes.pairs
        }
        self._sums = np.zeros(numbers, dtype=np.int64)
        self._level_sums = [np.zeros((numbers, width), np.int64) for width in widths]
        self._low = np.zeros((numbers, numbers), dtype=np.int64)
        self._high = np.zeros((numbers, numbers), dtype=np.int64)

    def add(self, batch: Encoded, *_: object) -> None:
        if not batch.rows:
            return
        if not self._rows:
            self._allocate()
        kernels, codes = self._kernels, batch.codes
        assert kernels is not None
        self._rows += batch.rows
        if len(codes) == 1:  # no pair whose table would have these counts as a margin
            kernels.count(self._counts[0], codes[0])
        for (left, right), table in self._pairs.items():
            kernels.count_pairs(table, codes[left], codes[right])
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
                kernels.add_sums(level_sums[place], code, values[:, place])
        product = exact_products(values, values)
        self._high += product >> _LIMB
        self._low += product & _LOW_MASK

    def _total(self) -> FeatureGram | None:
        """Return XᵀX of the rows that were added and merged; None without any."""
        if not self._rows:
            return self._merged
        features, joint_codes = self._features, self._features.joint_codes
        blocks, numbers = features.category_blocks, list(features.number_columns)
        low = np.zeros((features.width, features.width), dtype=np.int64)

        def place(one: int, two: int, table: NDArray[np.int64]) -> None:
            """Write the counts of two categories above the diagonal."""
            if one < two:
                low[blocks[one], blocks[two]] = table
            else:
                low[blocks[two], blocks[one]] = table.T

        counts = dict(enumerate(self._counts))
        for (left, right), table in self._pairs.items():
            counts[left], counts[right] = table.sum(axis=1), table.sum(axis=0)
            for one, two in product(joint_codes.groups[left], joint_codes.groups[right]):
                place(one, two, joint_codes.margin((left, right), table, one, two))
        for group, group_counts in counts.items():
            for one, two in combinations(joint_codes.groups[group], 2):
                place(one, two, joint_codes.margin((group,), group_counts, one, two))
            for member in joint_codes.groups[group]:
                levels = joint_codes.margin((group,), group_counts, member)
                low[blocks[member], blocks[member]] = np.diag(levels)
                if features.intercept:
                    low[0, blocks[member]] = levels
        if numbers:
            columns = slice(numbers[0], numbers[-1] + 1)
            low[columns, columns] = self._low
            if features.intercept:
                low[0, columns] = self._sums
            for group, sums in enumerate(self._level_sums):
                for member in joint_codes.groups[group]:
                    low[columns, blocks[member]] = joint_codes.margin((group,), sums, member)
        low = np.triu(low) + np.triu(low, 1).T
        if features.intercept:
            low[0, 0] = self._rows
        own = FeatureGram(self._rows, low, self._high.copy(), tuple(numbers))
        return own if self._merged is None else self._merged + own

    def state(self) -> FeatureGram | None:
        return self._total()

    def merge(self, state: FeatureGram | None) -> None:
        if state is not None:
            self._merged = state if self._merged is None else self._merged + state

    def result(self, *_: object) -> FeatureGram:
        total = self._total()
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


def exact_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return leftᵀ·right, for integer entries of at most 20 bits and at most 2**20 rows.

    Block by block, each of at most `BLOCK_ROWS` rows, in doubles without rounding; block sums
    are converted to integers before they are added.
    """
    whole = len(left) // BLOCK_ROWS * BLOCK_ROWS
    one, two = (side[:whole].T.reshape(side.shape[1], -1, BLOCK_ROWS) for side in (left, right))
    blocks = (one.swapaxes(0, 1) @ two.transpose(1, 2, 0)).astype(np.int64)
    rest = (left[whole:].T @ right[whole:]).astype(np.int64)
    return np.asarray(blocks.sum(axis=0) + rest)
