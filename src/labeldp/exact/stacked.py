"""Cholesky factors, leverages and least squares of many small bags of rows at once.

A bag is a small table. Alone it costs milliseconds of overhead and microseconds of arithmetic, so
bags of one size are stacked and every step is taken for all of them at once. The promises are
those of `cholesky.py`, by the same bound. A bag whose factor is not shown to be good here, for
whatever reason, gets the one of `verified_cholesky`.

Columns whose factor has an error bound below 1 are independent: no further proof is needed. Where
the nonzero columns of a bag are not all independent, exact elimination modulo two 31-bit primes
finds those that are (both must agree, so they err as rarely as one prime of 62 bits).

`StackedBags` is public. `BagFits` holds β̂ and σ of every bag and is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.display import Private
from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky, error_bounds, verified_cholesky
from labeldp.exact.gram import BLOCK_ROWS, GramAccumulator
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

PRIMES = (2**31 - 1, 2**31 - 19)
MAX_BAG_ERROR_BOUND = 2.0**-24
"""A factor used here is at least so good; only nearly collinear columns come near."""
MOST_BAG_ROWS = 1 << 22
"""Sums over so many rows fit 64 bits."""
MOST_BAG_COLUMNS = 160
"""Beyond, one-hot columns are better counted than multiplied, and bags cost arithmetic."""
_BLOCK_ENTRIES = 1 << 18
"""Entries in a block of bags: some megabytes, which fit the processor's cache."""
ROUNDING = 1.01 * ROUNDOFF
"""Relative error of one operation, with room for the rounding of the bound itself."""
_REFINEMENTS = 2
_SLACK = 2.0**-49
"""Relative: for the few operations on a bound."""


def bags_at_once(features: FeatureMap, rows: int) -> int:
    """Return how many bags of so many rows make a block."""
    columns = len(features.names)
    return max(1, _BLOCK_ENTRIES // (columns * max(rows, columns)))


def stacked_design(features: FeatureMap, encoded: Encoded, bags: int) -> Reals:
    """Return the kept design columns of bags in integers: (bags, rows, columns)."""
    dense = features.integers(encoded)
    return dense.reshape(bags, encoded.rows // bags, dense.shape[1])


class StackedBags:
    """A block of bags with their factors.

    rank, error_bound: of every bag;
    kept:              which of the kept design columns its factor has;
    whitener:          L⁻¹ of every bag in the units of the design, 0 where a column is left out,
                       so that (XᵀX)⁻¹ ≼ whitenerᵀ·whitener/(1 − error_bound).
    """

    def __init__(self, features: FeatureMap, encoded: Encoded, bags: int) -> None:
        self._features, self._encoded = features, encoded
        self.bags, self.rows, self.columns = bags, encoded.rows // bags, len(features.names)
        self.design = stacked_design(features, encoded, bags)
        self.whitener: Reals = np.zeros((bags, self.columns, self.columns))
        self.kept: Flags = np.zeros((bags, self.columns), dtype=bool)
        self.error_bound: Reals = np.full(bags, np.inf)
        if self.rows <= MOST_BAG_ROWS and self.columns <= MOST_BAG_COLUMNS:
            self._factorise()
        for bag in np.flatnonzero(np.isinf(self.error_bound)).tolist():
            self._factorise_alone(bag)
        self.rank: Integers = self.kept.sum(axis=1)

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
        """Roundings in an entry of `white`: its terms, and two more."""
        return self.columns + 2

    def leverages(self) -> Reals:
        """Return upper bounds of the largest leverage in every bag.

        The leverage of x is at most ‖whitener·x‖²/(1 − error_bound), and the computed norm is off
        by the error of `white` and by its own rounding.
        """
        largest = np.sqrt(np.square(self.white).sum(axis=2).max(axis=1))
        error = self.terms * ROUNDING * np.linalg.norm(self.reach, axis=1)
        root = largest * (1 + 2 * self.terms * ROUNDOFF) + error
        bound = root**2 / (1 - self.error_bound) * (1 + 16 * ROUNDOFF)
        return np.where(self.rank >= self.rows, 1.0, np.minimum(1.0, bound))

    def _factorise(self) -> None:
        gram = grams_of_bags(self.design)
        self._try(gram, np.arange(self.bags), np.diagonal(gram, axis1=1, axis2=2) > 0)
        rest = np.flatnonzero(np.isinf(self.error_bound))
        if len(rest):
            independent, sure = independent_in_bags(gram[rest])
            self._try(gram, rest[sure], independent[sure])

    def _factorise_alone(self, bag: int) -> None:
        factor = bag_factor(
            self._features, self._encoded.take(slice(bag * self.rows, (bag + 1) * self.rows))
        )
        place = self._features.kept_places[list(factor.kept)]
        self.kept[bag, place], self.error_bound[bag] = True, factor.error_bound
        self.whitener[bag][: factor.rank, place] = factor.whitener

    def _try(self, gram: Integers, bags: NDArray[np.intp], kept: Flags) -> None:
        """Take the factors of these bags and columns that are shown to be good."""
        ranks = kept.sum(axis=1)
        columns = np.argsort(~kept, axis=1, kind="stable")
        for rank in np.unique(ranks[(ranks > 0) & (ranks <= self.rows)]):
            chosen = np.flatnonzero(ranks == rank)
            place, some = columns[chosen, :rank], bags[chosen]
            matrix = gram[some[:, None, None], place[:, :, None], place[:, None, :]]
            inverse, exponents, bound = _factors(matrix.astype(np.float64))
            good = np.flatnonzero(bound <= MAX_BAG_ERROR_BOUND)
            some, place = some[good], place[good]
            scaled = np.ldexp(inverse[good], -exponents[good, None, :])
            lines = np.arange(rank)[None, :, None]
            self.whitener[some[:, None, None], lines, place[:, None, :]] = scaled
            self.error_bound[some], self.kept[some] = bound[good], kept[chosen[good]]


def bag_factor(features: FeatureMap, bag: Encoded) -> VerifiedCholesky:
    """Return the factor of a bag's features, without columns that depend on others in the bag.

    Their aggregates are published all the same: given the others they follow from the secret
    weights and the features, never from labels.
    """
    sums = GramAccumulator(features)
    sums.add(bag)
    return verified_cholesky(sums.result(), features, saturated=True)


def grams_of_bags(design: Reals) -> Integers:
    """Return XᵀX of every bag, of integers of at most 20 bits; exact as in `gram.py`."""
    total: Integers = np.zeros((len(design), design.shape[2], design.shape[2]), dtype=np.int64)
    for start in range(0, design.shape[1], BLOCK_ROWS):
        some = design[:, start : start + BLOCK_ROWS]
        total += (some.mT @ some).astype(np.int64)
    return total


def independent_in_bags(gram: Integers) -> tuple[Flags, Flags]:
    """Return the columns that no earlier ones span, and for which bags this is sure.

    Elimination column by column modulo each prime; a column is dependent if nothing is left of
    its square. Cross-multiplication needs no inverses modulo the prime, and a multiplier that is
    not 0 modulo the prime leaves every 0 where it is.
    """
    answers: list[Flags] = []
    for prime in PRIMES:
        rest: NDArray[np.uint64] = (gram % prime).astype(np.uint64)
        square = np.uint64(prime * prime)  # keeps differences positive in unsigned arithmetic
        independent: Flags = np.zeros(gram.shape[:2], dtype=bool)
        for column in range(gram.shape[1]):
            pivot = rest[:, 0, 0]
            independent[:, column] = pivot != 0
            row = np.where(independent[:, column, None], rest[:, 0, 1:], np.uint64(0))
            scale = np.where(independent[:, column], pivot, np.uint64(1))
            # Both factors are below 2**31, so no product exceeds 62 bits, nor their sum 63.
            products = row[:, :, None] * row[:, None, :]
            rest = rest[:, 1:, 1:] * scale[:, None, None]
            rest += square - products
            rest %= np.uint64(prime)
        answers.append(independent)
    return answers[0], (answers[0] == answers[1]).all(axis=1)


def _factors(matrix: Reals) -> tuple[Reals, Integers, Reals]:
    """Return L⁻¹ of every scaled Gram matrix, its exponents and its error bound (inf or nan)."""
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)
    exponents = np.rint(np.log2(diagonal) / 2).astype(np.int64)
    scaled = np.ldexp(matrix, -(exponents[:, :, None] + exponents[:, None, :]))
    # A matrix that is not positive definite gives nan, which no comparison accepts.
    with np.errstate(all="ignore"):
        lower = np.zeros_like(scaled)
        for column in range(scaled.shape[1]):
            known = lower[:, column:, :column] @ lower[:, column, :column, None]
            rest = scaled[:, column:, column] - known[:, :, 0]
            lower[:, column:, column] = rest / np.sqrt(rest[:, :1])
        inverse = np.zeros_like(lower)
        for row in range(lower.shape[1]):
            inverse[:, row, row] = 1 / lower[:, row, row]
            known = lower[:, row, None, :row] @ inverse[:, :row, :row]
            inverse[:, row, :row] = -known[:, 0] * inverse[:, row, row, None]
        return inverse, exponents, error_bounds(scaled, lower, inverse)


@dataclass(frozen=True, repr=False, eq=False)
class BagFits(Private):
    """Coefficients in label codes and σ of every bag, in enclosures."""

    slope: Reals
    slope_error: Reals
    """Bounds of |β̂ − slope|."""
    low: Reals
    high: Reals
    """Bounds of σ."""


def fit_stacked_bags(stack: StackedBags, codes: Reals) -> BagFits:
    """Compute least squares of every bag's label codes, (bags, rows), on its features.

    `ExactLeastSquares` says what is enclosed. Here doubles do: with the rows of a bag at hand,
    the residual e = y − Xβ̃ of a trial β̃ is known to a few units in the last place of its terms
    (`blur` bounds the norm of that error), and with P the projection on the features

        σ² = ‖e‖² − ‖Pe‖²,   |β̂_k − β̃_k| ≤ √((XᵀX)⁻¹_kk)·‖Pe‖.

    P does not lengthen, so the error of e enters ‖Pe‖ as it is; of the computed e, Pe has the
    length of whitener·Xᵀe up to the factor's error bound. Where an enclosure does not decide,
    the caller computes `ExactLeastSquares` of that bag.
    """
    design, white, whitener = stack.design, stack.white, stack.whitener
    known = 1 - stack.error_bound
    slope = np.zeros((stack.bags, stack.columns, 1))
    rest = labels = codes[:, :, None]
    # Any trial β̃ would do for the enclosure; a good one makes it tight.
    for _ in range(_REFINEMENTS):
        slope += whitener.mT @ (white.mT @ rest)
        rest = labels - design @ slope
    terms = np.abs(labels) + np.abs(design) @ np.abs(slope)
    blur = np.linalg.norm(terms[:, :, 0], axis=1) * ((stack.terms + 1) * ROUNDING)
    # ‖whitener·Xᵀ·rest‖ from above: its entries are sums over rows of products of rounded numbers
    sums = np.abs((white.mT @ rest)[:, :, 0])
    roundings = (stack.terms + stack.rows + 2) * ROUNDING
    sums += stack.reach * (np.abs(rest[:, :, 0]).sum(axis=1, keepdims=True) * roundings)
    norm = np.linalg.norm(sums, axis=1) * ((1 + stack.terms * ROUNDING) * (1 + _SLACK))
    projected = norm / np.sqrt(known) + blur
    size, slack = np.linalg.norm(rest[:, :, 0], axis=1), (stack.rows + 4) * ROUNDING
    # σ² ≥ (‖e‖ − ‖Pe‖)·(‖e‖ + ‖Pe‖), with ‖e‖ from below and ‖Pe‖ from above
    inner = np.maximum(0.0, size * (1 - slack) - blur)
    square = np.maximum(0.0, inner - projected) * (inner + projected)
    spread = np.sqrt(np.square(whitener).sum(axis=1) / known[:, None])
    room = (1 + 2 * stack.terms * ROUNDING) * (1 + _SLACK)
    return BagFits(
        slope[:, :, 0],
        spread * projected[:, None] * room,
        np.sqrt(square) * (1 - _SLACK),
        (size + blur) * (1 + slack),
    )
