"""Independent columns of X and a verified Cholesky factor of XᵀX: public.

The rank is never decided by a tolerance. Columns are independent if they have a verified
factor; mostly all have but the one level of each category that the sums show to be made of
the others. Where they have none, exact arithmetic modulo a 63-bit prime decides. (A column
judged dependent modulo the prime but not over the integers, chance about 1e-18, would only be
left out, which is always safe.) The factor is floating point, but its distance from the truth
is bounded rigorously: with S = XᵀX scaled by powers of two,

    ‖L⁻¹ S L⁻ᵀ − I‖ ≤ defect,   hence   (XᵀX)⁻¹ ≼ L⁻ᵀL⁻¹/(1 − defect),

for the computed `inverse` and for the true inverse of `lower` alike.

Every bound that involves (XᵀX)⁻¹ (leverages, the error of β̂, the law of the sampled
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

_PRIME = 2**63 - 25
ROUNDOFF = 2.0**-53
"""Of one operation on doubles, relative."""
_SMALL = 64
LARGE = 512
"""From so many columns on, products are arranged to cost less; bounds may be a little wider."""
MAX_DEFECT = 2.0**-12
"""A factor further from the truth is not used; nothing that is left comes near."""
_THRESHOLDS = (2.0**-30, 2.0**-24, 2.0**-18, 2.0**-12)
"""What counts as nearly dependent, tried in turn until the factor is good."""


@dataclass(frozen=True)
class VerifiedCholesky:
    """A verified factor of the Gram matrix of the kept columns.

    exponents: column k is scaled by 2**-exponents[k];
    lower:     L with L·Lᵀ ≈ the scaled Gram;
    inverse:   L⁻¹;  defect: the bound above.
    """

    rows: int
    kept: tuple[int, ...]
    gram: NDArray[np.object_] = field(repr=False)
    exponents: NDArray[np.int64] = field(repr=False)
    lower: NDArray[np.float64] = field(repr=False)
    inverse: NDArray[np.float64] = field(repr=False)
    defect: float

    def identity(self) -> tuple[object, ...]:
        """What tells factors apart; `lower` and `gram` follow from it up to their checks."""
        return self.kept, self.exponents.tobytes(), content(self.inverse), self.defect

    def is_of(self, gram: FeatureGram) -> bool:
        """Whether it was made from these very sums."""
        return self.rows == gram.rows and bool((gram.exact(self.kept) == self.gram).all())

    @property
    def rank(self) -> int:
        return len(self.kept)

    def root(self) -> NDArray[np.float64]:
        """R with RᵀR ≈ XᵀX, so that rows of G·R are aggregates of the features (theory §3a)."""
        return np.ldexp(self.lower.T, self.exponents)

    @property
    def whitener(self) -> NDArray[np.float64]:
        """L⁻¹ in the units of the columns."""
        return np.ldexp(self.inverse, -self.exponents)

    def pseudo_inverse(self) -> NDArray[np.float64]:
        """M ≈ (XᵀX)⁻¹ with (XᵀX)⁻¹ ≼ M/(1 − defect), up to float rounding of M's entries."""
        whitener = self.whitener
        return square_of(whitener) if self.rank >= LARGE else np.asarray(whitener.T @ whitener)

    def pseudo_inverse_size(self) -> NDArray[np.float64]:
        """Σ|terms| of every entry of M: what its rounding is relative to."""
        whitener = np.abs(self.whitener)
        return np.asarray(whitener.T @ whitener)

    def column_norms(self) -> NDArray[np.float64]:
        """Of the columns of L⁻¹ in their units."""
        return np.asarray(np.linalg.norm(self.whitener, axis=0))

    def inverse_diagonal(self) -> NDArray[np.float64]:
        """Upper bounds of the diagonal of (XᵀX)⁻¹."""
        slack = 1 + (self.rank + 4) * 2 * ROUNDOFF
        return np.asarray((self.whitener**2).sum(axis=0) * slack / (1 - self.defect))


def verified_cholesky(
    gram: FeatureGram, features: FeatureMap, *, saturated: bool = False
) -> VerifiedCholesky:
    """Drop dependent columns exactly and nearly dependent ones too, factorise, verify.

    Only columns that the feature map keeps are considered. As many columns as rows leave no
    residual and are refused, unless `saturated` says that the labels are hidden otherwise.
    Two columns that agree but for the rounding to their grids are independent over the
    integers, yet no double can tell them apart: such a column is left out as well.
    """
    order = _preference(gram.diagonal(), features)
    likely = _without_baselines(gram, order, features)
    factor, _ = _try(gram, likely)  # which proves them independent, many times sooner
    kept = independent_columns(gram, order) if factor is None else likely
    if gram.rows <= len(kept) and not saturated:
        raise spanned(gram.rows, len(kept))
    for threshold in _THRESHOLDS:
        if factor is None:
            factor, scaled = _try(gram, kept)
        if factor is not None:
            return factor
        kept = _distinct(kept, scaled, threshold)
    raise DataError("the feature columns are too nearly collinear; drop or combine some")


def spanned(rows: int, columns: int) -> DataError:
    """The refusal of labels that features could spell out."""
    return DataError(
        f"{rows} rows cannot protect labels with {columns} independent feature columns: "
        "the labels then lie in the span of the features; add rows or drop columns"
    )


def ridged(factor: VerifiedCholesky, penalties: NDArray[np.float64]) -> VerifiedCholesky:
    """The factor of XᵀX + diag(penalties), both scaled as the first: it is better conditioned.

    Its `gram` stays that of the table.
    """
    plain = np.ldexp(factor.gram.astype(np.float64), -factor.exponents)
    scaled = np.ldexp(plain.T, -factor.exponents) + np.diag(penalties)
    found = _verified(factor.rows, factor.kept, factor.gram, factor.exponents, scaled)
    assert found is not None
    return found


def _try(gram: FeatureGram, kept: list[int]) -> tuple[VerifiedCholesky | None, NDArray[np.float64]]:
    """The factor of these columns, if doubles can carry it, else their scaled Gram matrix."""
    order = tuple(sorted(kept))
    matrix = gram.exact(order)
    exponents = np.array([_half_log2(int(entry)) for entry in np.diagonal(matrix)], np.int64)
    scaled = np.ldexp(matrix.astype(np.float64), -(exponents[:, None] + exponents[None, :]))
    factor = _verified(gram.rows, order, matrix, exponents, scaled)
    if factor is not None:
        return factor, scaled
    place = np.searchsorted(order, kept)
    return None, scaled[np.ix_(place, place)]


def _verified(
    rows: int,
    kept: tuple[int, ...],
    matrix: NDArray[np.object_],
    exponents: NDArray[np.int64],
    scaled: NDArray[np.float64],
) -> VerifiedCholesky | None:
    """The factor of columns in increasing order, or None if doubles cannot carry it."""
    from scipy.linalg import LinAlgError, cholesky

    with threadpool_limits(1, "blas") if len(kept) > _SMALL else nullcontext():
        # the last digits of a large factor follow the number of threads
        try:
            lower = np.asarray(cholesky(scaled, lower=True))
        except LinAlgError:
            return None
        inverse = _inverse(lower)
    defect = float(defects(scaled, lower, inverse))
    if not defect <= MAX_DEFECT:
        return None
    return VerifiedCholesky(rows, kept, matrix, exponents, lower, inverse, defect)


def _inverse(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a triangle; for a small one LAPACK's own routine is many times faster."""
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dtrtri

    if not len(lower):  # a bag whose features are all 0: LAPACK refuses it
        return lower
    if len(lower) <= _SMALL:
        return np.asarray(dtrtri(lower, lower=1)[0])
    return np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True))


def _distinct(kept: list[int], scaled: NDArray[np.float64], threshold: float) -> list[int]:
    """Leave out columns of which the ones before explain all but `threshold` of the square."""
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
    """The columns that are independent of those before them in `order`."""
    from flint import nmod_mat

    width = len(order)
    echelon, rank = nmod_mat(width, width, gram.modulo(_PRIME, order), _PRIME).rref()
    kept: list[int] = []
    for column in range(width):
        if len(kept) < rank and int(echelon[len(kept), column]) != 0:
            kept.append(order[column])
    return kept


def _preference(diagonal: NDArray[np.float64], features: FeatureMap) -> list[int]:
    """Columns in the order in which they claim their place: a baseline level comes last."""
    baselines = [
        block.start + int(np.argmax(diagonal[block])) for block in features.category_blocks
    ]
    late = set(baselines)
    order = [column for column in range(len(diagonal)) if column not in late] + baselines
    chosen = set(features.kept_columns)
    return [column for column in order if column in chosen]


def _without_baselines(gram: FeatureGram, order: Sequence[int], features: FeatureMap) -> list[int]:
    """`order` less columns of zeros, and of every category that fills the rows its last level.

    The levels of a category fill the rows if they add up to the constant or, without one, to
    the first category. The sums prove it: Xv = 0 exactly where vᵀXᵀXv = 0.
    """
    chosen, place = set(order), {column: at for at, column in enumerate(order)}
    diagonal = gram.diagonal()
    whole = [
        list(range(block.start, block.stop))
        for block in features.category_blocks
        if chosen.issuperset(range(block.start, block.stop))
    ]
    constant = [0] if features.intercept and 0 in chosen else whole.pop(0) if whole else []
    left_out = set()
    for block in whole:
        columns = constant + block
        signs = np.repeat([1, -1], [len(constant), len(block)])
        if signs @ gram.low[np.ix_(columns, columns)] @ signs == 0:
            left_out.add(max(block, key=place.__getitem__))
    return [c for c in order if c not in left_out and diagonal[c] > 0.0]


def _half_log2(value: int) -> int:
    return round(math.log2(value) / 2)


def defects(
    scaled: NDArray[np.float64], lower: NDArray[np.float64], inverse: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rigorous bounds of ‖L⁻¹ S L⁻ᵀ − I‖, S the exact matrix, for L⁻¹ computed and true.

    Of one matrix or of each in a stack. With E the error for the computed inverse and
    F = inverse·L − I, the true inverse of L has the error (I+F)⁻¹(I+E)(I+F)⁻ᵀ − I.
    """
    size = scaled.shape[-1]
    if scaled.ndim == 2 and size >= LARGE:
        first, second = _large_distances(scaled, lower, inverse)
    else:
        # two products of `size` terms each, plus the rounding of S's entries to doubles
        whitened = inverse @ scaled @ inverse.mT
        reach = np.abs(inverse)
        terms = (2 * size + 6) * (reach @ np.abs(scaled) @ reach.mT)
        first = _distance_to_identity(whitened, terms)
        second = _distance_to_identity(inverse @ lower, (size + 3) * (reach @ np.abs(lower)))
    bound = ((1 + first) / (1 - second) ** 2 - 1) * (1 + 1e-9)
    return np.where(second < 0.5, bound, math.inf)


def _large_distances(
    scaled: NDArray[np.float64], lower: NDArray[np.float64], inverse: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same two distances of one large matrix, at a quarter of the cost.

    Triangles are multiplied as such, and of the terms of each product only the sums of rows and
    columns are formed: no matrix has a norm above the root of the largest of both.
    """
    from scipy.linalg.blas import dtrmm

    size, reach = len(scaled), np.abs(inverse)
    sums = reach.sum(axis=0)
    terms = reach @ (np.abs(scaled) @ sums)  # symmetric: rows add up as columns do
    lengths = np.abs(lower).sum(axis=1), np.abs(lower).T @ sums
    rows, columns = reach @ lengths[0], lengths[1]
    del reach
    product = dtrmm(1.0, inverse, scaled, lower=1)
    product = dtrmm(1.0, inverse, product, side=1, lower=1, trans_a=1, overwrite_b=1)
    first = _off_identity(product) + (2 * size + 6) * 1.01 * ROUNDOFF * terms.max()
    product = dtrmm(1.0, inverse, lower, lower=1)
    widest = math.sqrt(rows.max() * columns.max())
    second = _off_identity(product) + (size + 3) * 1.01 * ROUNDOFF * widest
    return np.asarray(first), np.asarray(second)


def _off_identity(product: NDArray[np.float64]) -> float:
    """‖product − I‖ in the Frobenius norm; the product is used up."""
    product[np.diag_indices_from(product)] -= 1.0
    return float(np.linalg.norm(product))


def content(matrix: NDArray[np.float64]) -> str:
    """A digest that tells matrices apart: of what is known by them, many may be remembered."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).hexdigest()


def square_of(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """AᵀA of a lower triangle A, at a sixth of the cost of the product."""
    from scipy.linalg.lapack import dlauum

    half = dlauum(lower, lower=1)[0]  # above the diagonal it stays as it was: zeros
    whole = np.asarray(half + half.T)
    np.fill_diagonal(whole, np.diagonal(half))
    return whole


def _distance_to_identity(
    product: NDArray[np.float64], terms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """‖product − I‖ in the Frobenius norm, with the rounding of its `terms`."""
    gap = np.linalg.norm(product - np.eye(product.shape[-1]), axis=(-2, -1))
    return np.asarray(gap + 1.01 * ROUNDOFF * np.linalg.norm(terms, axis=(-2, -1)))
