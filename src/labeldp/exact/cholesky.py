"""Independent columns of X and a verified Cholesky factor of XᵀX: public.

Rank. No tolerance decides the rank. Columns that have a verified factor (below) are independent:
that is a proof. Mostly all columns have one except, in every category, the one level that the
sums show to be a combination of the others. Where no factor exists, elimination of the integer
matrix XᵀX modulo a 63-bit prime decides. A column that is dependent modulo the prime but not over
the integers (chance about 1e-18) would only be left out, which is always safe.

Verification. LAPACK's factor L is floating point, and how far off it is depends on the condition
of XᵀX. So its distance from the truth is measured afterwards and bounded rigorously: with S the
exact XᵀX scaled by powers of two,

    ‖L⁻¹ S L⁻ᵀ − I‖ ≤ error_bound,   hence   (XᵀX)⁻¹ ≼ L⁻ᵀL⁻¹/(1 − error_bound),

for the computed `inverse` and for the true inverse of `lower` alike. Nothing about LAPACK is
trusted: a wrong factor has a large bound and is refused.

Every statement about (XᵀX)⁻¹ (leverages, the error of β̂, the distribution of sampled
aggregates) rests on that one number.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.errors import DataError
from labeldp.exact.gram import FeatureGram
from labeldp.features.feature_map import FeatureMap

ROUNDOFF = 2.0**-53
"""Relative error of one rounded operation on doubles."""
LARGE = 512
"""From so many columns on, products are arranged to cost less; bounds may be a little wider."""
MAX_ERROR_BOUND = 2.0**-12
"""A factor further from the truth is not used. Tables that pass come nowhere near."""

_PRIME = 2**63 - 25
_SMALL = 64
_THRESHOLDS = (2.0**-30, 2.0**-24, 2.0**-18, 2.0**-12)
"""What counts as nearly dependent: tried in turn until the factor can be verified."""


@dataclass(frozen=True)
class VerifiedCholesky:
    """A verified Cholesky factor of the Gram matrix of the kept columns.

    exponents:    column k is scaled by 2**-exponents[k], which is exact;
    lower:        L with L·Lᵀ ≈ the scaled Gram matrix;
    inverse:      L⁻¹, computed;
    error_bound:  at least ‖L⁻¹ S L⁻ᵀ − I‖, see above.
    """

    rows: int
    kept: tuple[int, ...]
    gram: NDArray[np.object_] = field(repr=False)
    exponents: NDArray[np.int64] = field(repr=False)
    lower: NDArray[np.float64] = field(repr=False)
    inverse: NDArray[np.float64] = field(repr=False)
    error_bound: float

    def cache_key(self) -> tuple[object, ...]:
        """Return what tells factors apart; `lower` and `gram` follow from it up to their checks."""
        return self.kept, self.exponents.tobytes(), matrix_digest(self.inverse), self.error_bound

    def is_of(self, gram: FeatureGram) -> bool:
        """Return whether the factor was computed from exactly these sums."""
        return self.rows == gram.rows and bool((gram.exact(self.kept) == self.gram).all())

    @property
    def rank(self) -> int:
        return len(self.kept)

    def root(self) -> NDArray[np.float64]:
        """Return R with RᵀR ≈ XᵀX: rows of G·R are aggregates of the features (theory §3a)."""
        return np.ldexp(self.lower.T, self.exponents)

    @property
    def whitener(self) -> NDArray[np.float64]:
        """L⁻¹ in the units of the columns."""
        return np.ldexp(self.inverse, -self.exponents)

    def crossproduct(self) -> NDArray[np.float64]:
        """Return M ≈ (XᵀX)⁻¹ with (XᵀX)⁻¹ ≼ M/(1 − error_bound), up to rounding of M's entries."""
        whitener = self.whitener
        if self.rank >= LARGE:
            return gram_of_triangle(whitener)
        return np.asarray(whitener.T @ whitener)

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """Return upper bounds of the diagonal of (XᵀX)⁻¹."""
        # A sum of `rank` squares is off by at most rank + 1 roundings; 4 and 2 leave room.
        slack = 1 + (self.rank + 4) * 2 * ROUNDOFF
        return np.asarray((self.whitener**2).sum(axis=0) * slack / (1 - self.error_bound))


def verified_cholesky(
    gram: FeatureGram, features: FeatureMap, *, saturated: bool = False
) -> VerifiedCholesky:
    """Drop dependent columns exactly and nearly dependent ones too, factorise, verify.

    Only columns that the feature map keeps are considered. As many columns as rows leave no
    residual and are refused, unless `saturated` says that the labels are hidden otherwise.
    """
    # The cheap guess first: if it can be verified, that proves independence many times sooner
    # than elimination modulo a prime.
    order, likely = preferred_columns(gram, features)
    cholesky, _ = _factorise(gram, likely)
    kept = independent_columns(gram, order) if cholesky is None else likely
    if gram.rows <= len(kept) and not saturated:
        raise too_few_rows(gram.rows, len(kept))
    for threshold in _THRESHOLDS:
        if cholesky is None:
            cholesky, scaled = _factorise(gram, kept)
        if cholesky is not None:
            return cholesky
        # Two columns that agree up to rounding on their grids are independent over the integers,
        # yet no double can tell them apart. Leaving one out is always safe.
        kept = _drop_nearly_dependent(kept, scaled, threshold)
    raise DataError("the feature columns are too nearly collinear; drop or combine some")


def too_few_rows(rows: int, columns: int) -> DataError:
    """Return the refusal of a table whose features could spell out the labels."""
    return DataError(
        f"{rows} rows cannot protect labels with {columns} independent feature columns: "
        "the labels then lie in the span of the features; add rows or drop columns"
    )


def ridge_cholesky(cholesky: VerifiedCholesky, penalties: NDArray[np.float64]) -> VerifiedCholesky:
    """Return the factor of XᵀX + diag(penalties), penalties in scaled units; `gram` stays XᵀX."""
    plain = np.ldexp(cholesky.gram.astype(np.float64), -cholesky.exponents)
    scaled = np.ldexp(plain.T, -cholesky.exponents) + np.diag(penalties)
    ridged = _verified(cholesky.rows, cholesky.kept, cholesky.gram, cholesky.exponents, scaled)
    assert ridged is not None  # it is better conditioned than the factor without a ridge
    return ridged


def _factorise(
    gram: FeatureGram, kept: list[int]
) -> tuple[VerifiedCholesky | None, NDArray[np.float64]]:
    """Return the factor of these columns or None, and their scaled Gram matrix in this order."""
    order = tuple(sorted(kept))
    matrix = gram.exact(order)
    # Powers of two bring the diagonal near 1 without rounding anything.
    exponents = np.array([round(math.log2(int(s)) / 2) for s in np.diagonal(matrix)], np.int64)
    scaled = np.ldexp(matrix.astype(np.float64), -(exponents[:, None] + exponents[None, :]))
    cholesky = _verified(gram.rows, order, matrix, exponents, scaled)
    place = np.searchsorted(order, kept)
    return cholesky, scaled if cholesky is not None else scaled[np.ix_(place, place)]


def _verified(
    rows: int,
    kept: tuple[int, ...],
    matrix: NDArray[np.object_],
    exponents: NDArray[np.int64],
    scaled: NDArray[np.float64],
) -> VerifiedCholesky | None:
    """Return the factor of a scaled Gram matrix, or None if doubles cannot carry it."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular
    from scipy.linalg.lapack import dtrtri

    # The last digits of a large factor depend on the number of BLAS threads.
    with threadpool_limits(1, "blas") if len(kept) > _SMALL else nullcontext():
        try:
            lower = np.asarray(cholesky(scaled, lower=True))
        except LinAlgError:
            return None
        if not len(lower):  # a bag whose features are all 0: LAPACK refuses it
            inverse = lower
        elif len(lower) <= _SMALL:  # many times faster there
            inverse = np.asarray(dtrtri(lower, lower=1)[0])
        else:
            inverse = np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True))
    bound = float(error_bounds(scaled, lower, inverse))
    if not bound <= MAX_ERROR_BOUND:  # nan is refused too
        return None
    return VerifiedCholesky(rows, kept, matrix, exponents, lower, inverse, bound)


def _drop_nearly_dependent(
    kept: list[int], scaled: NDArray[np.float64], threshold: float
) -> list[int]:
    """Leave out columns of which the ones before explain all but `threshold` of the square.

    A Cholesky factorisation column by column; what is left of a column's square is the squared
    distance from the span of the columns chosen before it.
    """
    lower = np.zeros_like(scaled)
    chosen: list[int] = []
    for column in range(len(kept)):
        row = lower[column, : len(chosen)]
        rest = scaled[column, column] - row @ row
        if rest <= threshold * scaled[column, column]:
            continue
        below = scaled[column + 1 :, column] - lower[column + 1 :, : len(chosen)] @ row
        lower[column + 1 :, len(chosen)] = below / math.sqrt(rest)
        chosen.append(column)
    return [kept[column] for column in chosen]


def independent_columns(gram: FeatureGram, order: Sequence[int]) -> list[int]:
    """Return the columns that are independent of those before them in `order`.

    X has the rank of XᵀX over the integers, and modulo a prime the rank can only be smaller. The
    pivot columns of the reduced row echelon form are the ones that no earlier column spans.
    """
    from flint import nmod_mat

    width = len(order)
    entries = [int(entry) for entry in (gram.exact(order) % _PRIME).flat]
    echelon, rank = nmod_mat(width, width, entries, _PRIME).rref()
    kept: list[int] = []
    for column in range(width):
        if len(kept) < rank and int(echelon[len(kept), column]) != 0:
            kept.append(order[column])
    return kept


def preferred_columns(gram: FeatureGram, features: FeatureMap) -> tuple[list[int], list[int]]:
    """Return the kept columns in the order in which they claim their place, and the likely basis.

    The most frequent level of every category comes last, so that it becomes the baseline. The
    likely basis leaves out columns of zeros and the last level of full categories: the levels of
    a category add up to the constant column, or, without a constant, to the first category. The
    sums prove it: Xv = 0 exactly where vᵀXᵀXv = 0.
    """
    diagonal, blocks = gram.diagonal(), features.category_blocks
    baselines = [block.start + int(np.argmax(diagonal[block])) for block in blocks]
    late, chosen = set(baselines), set(features.kept_columns)
    order = [column for column in range(len(diagonal)) if column not in late] + baselines
    order = [column for column in order if column in chosen]
    levels = [list(range(block.start, block.stop)) for block in blocks]
    whole = [each for each in zip(levels, baselines, strict=True) if chosen.issuperset(each[0])]
    constant = [0]
    if not (features.intercept and 0 in chosen):
        constant = whole.pop(0)[0] if whole else []
    left_out = set()
    for block, baseline in whole:
        columns = constant + block
        signs = np.repeat([1, -1], [len(constant), len(block)])
        if signs @ gram.counts[np.ix_(columns, columns)] @ signs == 0:
            left_out.add(baseline)
    return order, [c for c in order if c not in left_out and diagonal[c] > 0.0]


def error_bounds(
    scaled: NDArray[np.float64], lower: NDArray[np.float64], inverse: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return rigorous bounds of ‖L⁻¹ S L⁻ᵀ − I‖, S the exact matrix, for L⁻¹ computed and true.

    `scaled` is S rounded to doubles: of one matrix or of each in a stack. The computed product
    is within depth·ROUNDOFF·Σ|terms| of the exact one entry by entry, so
    ‖E‖ ≤ ‖computed product − I‖ + ROUNDOFF·‖depth·Σ|terms|‖ in the Frobenius norm. With
    F = inverse·L − I, the true inverse of L has the error (I+F)⁻¹(I+E)(I+F)⁻ᵀ − I, whose norm is
    at most (1 + ‖E‖)/(1 − ‖F‖)² − 1.
    """
    size = scaled.shape[-1]
    if scaled.ndim == 2 and size >= LARGE:
        first, second = _large_distances(scaled, lower, inverse)
    else:
        reach, one = np.abs(inverse), np.eye(size)
        # Two products of `size` terms each, and the rounding of S's entries to doubles; then one
        # product. 1.01: sizes and norms are rounded themselves.
        terms = (2 * size + 6) * (reach @ np.abs(scaled) @ reach.mT)
        first = np.linalg.norm(inverse @ scaled @ inverse.mT - one, axis=(-2, -1))
        first = first + 1.01 * ROUNDOFF * np.linalg.norm(terms, axis=(-2, -1))
        terms = (size + 3) * (reach @ np.abs(lower))
        second = np.linalg.norm(inverse @ lower - one, axis=(-2, -1))
        second = second + 1.01 * ROUNDOFF * np.linalg.norm(terms, axis=(-2, -1))
    # 1e-9 covers the rounding of this line. (I+F)⁻¹ is only known to exist, and to be at most
    # 1/(1−‖F‖) long, where ‖F‖ < 1; half of that leaves room.
    bound = ((1 + first) / (1 - second) ** 2 - 1) * (1 + 1e-9)
    return np.where(second < 0.5, bound, math.inf)


def _large_distances(
    scaled: NDArray[np.float64], lower: NDArray[np.float64], inverse: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ‖E‖ and ‖F‖ of `error_bounds` for one large matrix, at a quarter of the cost.

    Triangles are multiplied as triangles. Of the matrices of sizes |inverse|·|S|·|inverse|ᵀ and
    |inverse|·|L| only row and column sums are formed, since ‖A‖₂² ≤ ‖A‖₁·‖A‖_∞.
    """
    from scipy.linalg.blas import dtrmm

    size, reach = len(scaled), np.abs(inverse)
    sums = reach.sum(axis=0)
    terms = reach @ (np.abs(scaled) @ sums)  # symmetric: row sums are column sums
    lengths = np.abs(lower).sum(axis=1), np.abs(lower).T @ sums
    rows, columns = reach @ lengths[0], lengths[1]
    del reach  # a large matrix, before the products need room
    product = dtrmm(1.0, inverse, scaled, lower=1)
    product = dtrmm(1.0, inverse, product, side=1, lower=1, trans_a=1, overwrite_b=1)
    product[np.diag_indices_from(product)] -= 1.0
    first = float(np.linalg.norm(product)) + (2 * size + 6) * 1.01 * ROUNDOFF * terms.max()
    product = dtrmm(1.0, inverse, lower, lower=1)
    product[np.diag_indices_from(product)] -= 1.0
    widest = math.sqrt(rows.max() * columns.max())
    second = float(np.linalg.norm(product)) + (size + 3) * 1.01 * ROUNDOFF * widest
    return np.asarray(first), np.asarray(second)


def matrix_digest(matrix: NDArray[np.float64]) -> str:
    """Return a digest that tells matrices apart, to remember results by."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest()


def gram_of_triangle(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return AᵀA of a lower triangle A, at a sixth of the cost of the product."""
    from scipy.linalg.lapack import dlauum

    half = dlauum(lower, lower=1)[0]  # above the diagonal it stays as it was: zeros
    whole = np.asarray(half + half.T)
    np.fill_diagonal(whole, np.diagonal(half))
    return whole
