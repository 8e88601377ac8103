"""Whether aggregated features were drawn from their law, for whoever holds the features.

Aggregates Σ g·x with secret normal weights are normal with the Gram matrix XᵀX: whitened by its
factor they are independent standard normals (theory §3a). Of m rows of d such numbers, QR makes a
triangle whose entries are independent again, χ with m, m−1, … degrees of freedom on the diagonal
and normals above it (Bartlett): every one of them is tested, and so are the rows and their mean.
An aggregate that is anything else, such as a row of the table, has no place in that law.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES

_CHANCE = 1e-12
"""Aggregates that their law produces with less than this chance were not drawn from it."""
_ROUNDING = 1e-6
"""Of numbers that are 0 but for rounding, relative to those beside them."""

Reals = NDArray[np.float64]


def check_design(release: Release, factor: VerifiedCholesky) -> Iterator[str]:
    """Whether aggregates weigh all rows of the table with independent normals."""
    units, whitener = release.features.kept_scales, factor.whitener.T
    parts = (design / units @ whitener for design, _ in release.chunks())
    compact = release.certificate["form"] == "compact"
    likely = _triangle_fits(np.concatenate(list(parts)), release.bags) if compact else _fits(parts)
    if not likely:
        yield f"{AGGREGATES} has features that were not drawn from the table by their law"


def improbable(squares: Reals, freedom: Reals | float) -> bool:
    """Whether one of several χ² is further from its middle than chance has it."""
    if not len(squares):
        return False
    tails = np.minimum(chdtr(freedom, squares), chdtrc(freedom, squares))
    return bool(2 * len(squares) * np.min(tails) < _CHANCE)


def _fits(parts: Iterator[Reals]) -> bool:
    """Whether these are independent standard normals, looked at a part at a time."""
    count, total, gram = 0, np.zeros(0), np.zeros((0, 0))
    for part in parts:
        if improbable((part**2).sum(axis=1), part.shape[1]):
            return False
        if not count:
            total, gram = np.zeros(part.shape[1]), np.zeros((part.shape[1],) * 2)
        count += len(part)
        total += part.sum(axis=0)
        gram += part.T @ part
    if not count:
        return True
    if improbable(np.array([total @ total / count]), len(total)):
        return False
    if count <= len(total):  # there is no triangle; every row was looked at
        return True
    try:
        return _entries_fit(np.asarray(np.linalg.cholesky(gram).T, np.float64), count)
    except np.linalg.LinAlgError:
        return False


def _triangle_fits(rows: Reals, bags: int) -> bool:
    """The same of the triangle that stands in a compact release, above a row of zeros."""
    triangle, last = rows[:-1], rows[-1]
    below = np.abs(np.tril(triangle, -1)).max(initial=0.0)
    if last.any() or below > _ROUNDING * np.abs(triangle).max(initial=0.0):
        return False
    return _entries_fit(triangle, bags)


def _entries_fit(triangle: Reals, bags: int) -> bool:
    """Bartlett's law of the factor of a Wishart matrix: each entry, those above, and all."""
    rank = len(triangle)
    diagonal, above = np.diag(triangle) ** 2, triangle[np.triu_indices(rank, 1)] ** 2
    sums = np.array([above.sum(), above.sum() + diagonal.sum()])
    freedom = np.array([rank * (rank - 1) / 2, rank * bags])
    some = freedom > 0
    return not (
        improbable(diagonal, bags - np.arange(rank, dtype=np.float64))
        or improbable(above, 1.0)
        or improbable(sums[some], freedom[some])
    )


def bag_squares(design: Reals, sums: Reals, ranks: NDArray[np.int64]) -> tuple[Reals, Reals]:
    """χ² of each bag's sum of rows with normal weights, and how far the sum is from their span.

    `design` holds bags × rows × columns. z = Dᵀg lies in the span of D's rows, and zᵀ(DᵀD)⁺z is
    χ² with as many degrees of freedom as D has rank.
    """
    size = np.abs(design).max(axis=1, keepdims=True)
    scale = np.where(size > 0, size, 1.0)
    _, values, right = np.linalg.svd(design / scale, full_matrices=False)
    scaled = sums / scale[:, 0]
    along = (right @ scaled[:, :, None])[:, :, 0]
    inside = np.arange(values.shape[1]) < ranks[:, None]
    squares = np.where(inside, along / np.where(inside, values, 1.0), 0.0) ** 2
    off = scaled - (right.transpose(0, 2, 1) @ np.where(inside, along, 0.0)[:, :, None])[:, :, 0]
    length = np.linalg.norm(scaled, axis=1)
    away = np.linalg.norm(off, axis=1) / np.where(length > 0, length, 1.0)
    return squares.sum(axis=1), away
