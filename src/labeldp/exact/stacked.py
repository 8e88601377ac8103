"""The factors of many small tables of one shape, side by side: public.

A bag is a small table. Alone it costs milliseconds of overhead and microseconds of arithmetic,
so bags are stacked and every step is taken for all of them at once. The promises are those of
`factor.py`, by the same bound: a bag whose factor is not shown to be good here, for whatever
reason, is marked `careful` and left to `factorise`.

Columns whose factor has a defect below 1 are independent: no further proof is needed. Where all
columns that are not zero are not, exact elimination modulo two 31-bit primes finds those that
are (both must agree: together they err as rarely as one of 62 bits).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, defects
from labeldp.exact.gram import BLOCK_ROWS
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

PRIMES = (2**31 - 1, 2**31 - 19)
MOST_DEFECT = 2.0**-24
"""Of a factor that is used here: none comes near, unless columns are nearly collinear."""
MOST_ROWS = 1 << 22
"""Of a bag: its sums then fit 64 bits."""
MOST_COLUMNS = 160
"""Beyond, one-hot columns are better counted than multiplied, and bags cost arithmetic."""
_NUMBERS = 1 << 18
"""Of a block of bags: some megabytes, which the processor keeps near."""
ROUNDING = 1.01 * ROUNDOFF
"""Of one operation, with room for the rounding of the bound itself."""


def bags_at_once(features: FeatureMap, rows: int) -> int:
    """How many bags of so many rows make a block."""
    columns = len(features.names)
    return max(1, _NUMBERS // (columns * max(rows, columns)))


def stacked_design(features: FeatureMap, encoded: Encoded, bags: int) -> Reals:
    """The kept design columns of bags in integers: (bags, rows, columns)."""
    dense = features.integers(encoded)
    return dense.reshape(bags, encoded.rows // bags, dense.shape[1])


class Stack:
    """A block of bags with their factors.

    rank, defect: of every bag;  kept: which kept design columns its factor has;
    whitener:     L⁻¹ of every bag in the units of the design, 0 where a column is left out, so
                  that (XᵀX)⁻¹ ≼ whitenerᵀ·whitener/(1 − defect);
    careful:      the bags for which none of these holds.
    """

    def __init__(self, features: FeatureMap, encoded: Encoded, bags: int) -> None:
        self._features, self._encoded = features, encoded
        self.bags, self.rows, self.columns = bags, encoded.rows // bags, len(features.names)
        self.kept: Flags = np.zeros((bags, self.columns), dtype=bool)
        self.defect: Reals = np.full(bags, np.inf)
        if self.rows <= MOST_ROWS and self.columns <= MOST_COLUMNS:
            self._factorise()
        self.careful: Flags = ~(self.defect <= MOST_DEFECT)
        self.rank: Integers = self.kept.sum(axis=1)

    @cached_property
    def design(self) -> Reals:
        return stacked_design(self._features, self._encoded, self.bags)

    @cached_property
    def whitener(self) -> Reals:
        return np.zeros((self.bags, self.columns, self.columns))

    @cached_property
    def white(self) -> Reals:
        """whitener·x of every row, with errors of at most `terms`·ROUNDING·`reach`."""
        return self.design @ self.whitener.mT

    @cached_property
    def reach(self) -> Reals:
        """Σ|terms| of the entries of `white`, for the largest entries of any row of the bag."""
        largest = np.abs(self.design).max(axis=1)
        return np.asarray((np.abs(self.whitener) @ largest[:, :, None])[:, :, 0])

    @property
    def terms(self) -> int:
        return self.columns + 2

    def leverages(self) -> Reals:
        """Upper bounds of the largest leverage in every bag; of careful ones, inf.

        The leverage of x is at most ‖whitener·x‖²/(1 − defect), and the computed norm is off by
        the error of `white` and by its own rounding.
        """
        largest = np.sqrt(np.square(self.white).sum(axis=2).max(axis=1))
        blur = self.terms * ROUNDING * np.linalg.norm(self.reach, axis=1)
        root = largest * (1 + 2 * self.terms * ROUNDOFF) + blur
        bound = root**2 / (1 - self.defect) * (1 + 16 * ROUNDOFF)
        bound = np.where(self.rank >= self.rows, 1.0, np.minimum(1.0, bound))
        return np.where(self.careful, np.inf, bound)

    def _factorise(self) -> None:
        gram = products_of_bags(self.design, self.design)
        everywhere = np.arange(self.bags)
        self._try(gram, everywhere, np.diagonal(gram, axis1=1, axis2=2) > 0)
        rest = np.flatnonzero(~(self.defect <= MOST_DEFECT))
        if len(rest):
            order = self._preferences(rest)
            ordered = gram[rest[:, None, None], order[:, :, None], order[:, None, :]]
            found, sure = independent(ordered)
            kept = np.zeros_like(found)
            np.put_along_axis(kept, order, found, axis=1)
            self._try(gram, rest[sure], kept[sure])

    def _try(self, gram: Integers, bags: NDArray[np.intp], kept: Flags) -> None:
        """Take the factors of these bags and columns that are shown to be good."""
        ranks = kept.sum(axis=1)
        columns = np.argsort(~kept, axis=1, kind="stable")
        for rank in np.unique(ranks[(ranks > 0) & (ranks <= self.rows)]):
            chosen = np.flatnonzero(ranks == rank)
            place, some = columns[chosen, :rank], bags[chosen]
            matrix = gram[some[:, None, None], place[:, :, None], place[:, None, :]]
            inverse, exponents, defect = _factors(matrix.astype(np.float64))
            good = np.flatnonzero(defect <= MOST_DEFECT)
            some, place = some[good], place[good]
            scaled = np.ldexp(inverse[good], -exponents[good, None, :])
            lines = np.arange(rank)[None, :, None]
            self.whitener[some[:, None, None], lines, place[:, None, :]] = scaled
            self.defect[some], self.kept[some] = defect[good], kept[chosen[good]]

    def _preferences(self, bags: NDArray[np.intp]) -> NDArray[np.intp]:
        """Of every bag, its columns in the order in which they claim their place.

        The order of `factorise`: in every category the bag's own commonest level comes last.
        """
        features = self._features
        place = features.kept_places
        key = np.tile(np.arange(self.columns), (len(bags), 1))
        numbers = np.arange(len(bags))
        levels = self._encoded.categories
        for number, (offset, size) in enumerate(
            zip(features.category_offsets, features.category_sizes, strict=True)
        ):
            codes = levels[number].reshape(self.bags, self.rows)[bags]
            cells = (numbers[:, None] * size + codes).reshape(-1)
            counts = np.bincount(cells, minlength=len(bags) * size).reshape(len(bags), size)
            baseline = place[offset + counts.argmax(axis=1)]
            late = baseline >= 0
            key[numbers[late], baseline[late]] = self.columns + number
        return np.argsort(key, axis=1)


def products_of_bags(left: Reals, right: Reals) -> Integers:
    """leftᵀ·right of every bag, for integers of at most 20 bits and at most `MOST_ROWS` rows."""
    total: Integers = np.zeros((len(left), left.shape[2], right.shape[2]), dtype=np.int64)
    for start in range(0, left.shape[1], BLOCK_ROWS):
        some = slice(start, start + BLOCK_ROWS)
        total += (left[:, some].mT @ right[:, some]).astype(np.int64)
    return total


def independent(gram: Integers) -> tuple[Flags, Flags]:
    """The columns that are independent of those before them, and for which bags this is sure.

    A column is dependent if what elimination leaves of its square is 0. Crosswise multiplication
    needs no inverses, and a factor that is not 0 modulo the prime leaves every 0 where it is.
    """
    first, second = (_independent_modulo(gram, prime) for prime in PRIMES)
    return first, (first == second).all(axis=1)


def _independent_modulo(gram: Integers, prime: int) -> Flags:
    rest: NDArray[np.uint64] = (gram % prime).astype(np.uint64)
    square = np.uint64(prime * prime)
    found: Flags = np.zeros(gram.shape[:2], dtype=bool)
    for column in range(gram.shape[1]):
        pivot = rest[:, 0, 0]
        found[:, column] = pivot != 0
        row = np.where(found[:, column, None], rest[:, 0, 1:], np.uint64(0))
        scale = np.where(found[:, column], pivot, np.uint64(1))
        products = row[:, :, None] * row[:, None, :]
        rest = rest[:, 1:, 1:] * scale[:, None, None]
        rest += square - products
        rest %= np.uint64(prime)
    return found


def _factors(matrix: Reals) -> tuple[Reals, Integers, Reals]:
    """L⁻¹ of every scaled Gram matrix, its exponents, and its defect: inf or nan if hopeless."""
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)
    exponents = np.rint(np.log2(diagonal) / 2).astype(np.int64)
    scaled = np.ldexp(matrix, -(exponents[:, :, None] + exponents[:, None, :]))
    with np.errstate(all="ignore"):
        lower = _cholesky(scaled)
        inverse = _inverse(lower)
        return inverse, exponents, defects(scaled, lower, inverse)


def _cholesky(matrix: Reals) -> Reals:
    """L of every matrix; nan where one is not positive definite."""
    lower = np.zeros_like(matrix)
    for column in range(matrix.shape[1]):
        known = lower[:, column:, :column] @ lower[:, column, :column, None]
        rest = matrix[:, column:, column] - known[:, :, 0]
        lower[:, column:, column] = rest / np.sqrt(rest[:, :1])
    return lower


def _inverse(lower: Reals) -> Reals:
    """The inverse of every triangle."""
    inverse = np.zeros_like(lower)
    for row in range(lower.shape[1]):
        inverse[:, row, row] = 1 / lower[:, row, row]
        known = lower[:, row, None, :row] @ inverse[:, :row, :row]
        inverse[:, row, :row] = -known[:, 0] * inverse[:, row, row, None]
    return inverse
