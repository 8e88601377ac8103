"""Checks of published numbers that several mechanisms share.

Statistical checks fail with a chance below 1e-12 for a release that was drawn as it says.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.gram import FeatureGram
from labeldp.exact.label_sums import LABEL_BITS
from labeldp.mechanisms.noise_checks import CHANCE
from labeldp.releases.certificate import Claim
from labeldp.releases.pending import AGGREGATES, FEATURES

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]

_ROUNDING = 1e-6
"""Largest size, relative to other entries, of an entry that is 0 but for rounding."""


def check_labels(release: Release, claim: Claim, grid: int) -> Generator[str, None, bool]:
    """Yield where aggregates are no numbers, or labels off the grids that follow from the claim.

    Returns whether all are numbers, so that others can compute with them.
    """
    features, numerics = release.features, release.certificate["numerics"]
    if claim.intercept is not (features.constant is not None):
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    exponent = numerics["label_exponent"]
    yield from check_label_exponent(claim.label_range, features.intercept, exponent)
    unsound = list(check_numbers(release))
    yield from unsound or check_grid(release, grid)
    return not unsound


def check_numbers(release: Release) -> Iterator[str]:
    """Yield a problem if some aggregates are not finite numbers."""
    if release.aggregates_features:
        numbers: Iterator[Reals] = (part for both in release.chunks() for part in both)
    else:
        numbers = release.label_chunks()
    for part in numbers:
        if not np.isfinite(part).all():
            yield f"{AGGREGATES} has values that are not numbers"
            return


def check_grid(release: Release, grid: int) -> Iterator[str]:
    """Yield where aggregate labels are off the public grid, or the certificate names another."""
    if release.certificate["numerics"]["grid_exponent"] != grid:
        yield f"certificate: the grid exponent should be {grid}"
    for labels in release.label_chunks():
        cells = np.ldexp(labels, -grid)
        if (cells != np.rint(cells)).any():
            yield f"{AGGREGATES} has labels off the public grid: their low bits may leak"
            return
        if (np.signbit(labels) & (labels == 0)).any():
            yield f"{AGGREGATES} has labels −0.0: the sign of a zero may carry one bit each"
            return


def check_label_exponent(
    label_range: tuple[float, float], centred: bool, exponent: int
) -> Iterator[str]:
    """Yield a problem if labels were not rounded to the grid that follows from their range."""
    low, high = label_range
    reach = high - low if centred else 2 * max(abs(low), abs(high))
    # the range was widened by up to a step of the label grid
    reaches = (reach, reach * (1 - 2.0**-LABEL_BITS))
    exponents = {math.ceil(math.log2(width)) - LABEL_BITS for width in reaches}
    if exponent not in exponents:
        yield f"certificate: the label exponent should be {max(exponents)}"


def other_table(release: Release, gram: FeatureGram) -> str | None:
    """Return why a table is not the one released (its rows or its feature sums), else None."""
    certificate = release.certificate
    if gram.rows != certificate["rows"]:
        return f"the table has {gram.rows} rows, the certificate says {certificate['rows']}"
    if gram.digest() != certificate["digests"]["feature_sums"]:
        return "the table's features are not those of the release"
    return None


FAR = 7.2
"""Deviations that normal noise exceeds with less than this chance."""
SCARCE = 3
"""With so few degrees of freedom even labels without noise are not that improbable: they stand
on a grid of 2**-10 deviations, and (2**-20)**(3/2) is above 1e-12."""


def check_reach(release: Release, most: float) -> Iterator[str]:
    """Yield a problem if labels are larger than weighted sums of labels in their range can be.

    Each is normal about 0 with a variance of `most` at most, and a compact release has the same
    sum of squares.
    """
    square = sum(float(labels @ labels) for labels in release.label_chunks())
    if chdtrc(release.bags, square / most) < CHANCE:
        yield f"{AGGREGATES} has labels larger than those in the range can make them"


def check_scatter(release: Release, floor: float) -> Iterator[str]:
    """Yield a problem if labels vary less about their fit than the floor demands.

    The floor is their variance given features. The residual sum of squares of the fit is that
    variance times χ² with bags − columns degrees of freedom (theory §5), or more if the labels'
    means do not lie on one fit. Any other
    slope only adds to it, so rounding in the normal equations cannot raise a false alarm.
    Features count in their integer codes: squares of 1e200 or 1e-200 are no doubles.
    """
    units, columns = release.features.kept_scales, len(release.features.names)
    gram, cross = np.zeros((columns, columns)), np.zeros(columns)
    for raw, labels in release.chunks():
        design = raw / units
        gram += design.T @ design
        cross += design.T @ labels
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise ValueError(f"numbers of {AGGREGATES} are too large")  # LAPACK would not come back
    size = np.sqrt(np.diag(gram))
    scale = np.where(size > 0, size, 1.0)
    slope = np.linalg.lstsq(gram / np.outer(scale, scale), cross / scale)[0] / scale
    square = sum(float(((t - z / units @ slope) ** 2).sum()) for z, t in release.chunks())
    freedom = release.bags - columns
    if freedom > 0 and chdtr(freedom, square / floor) < CHANCE:
        yield f"{AGGREGATES} has labels that vary less about their fit than the floor demands"


# ---- the law of aggregated features
#
# Aggregates Σ g·x with secret normal weights are normal with the Gram matrix XᵀX: whitened by its
# factor they are independent standard normals (theory §3a). QR makes of m rows of d such numbers a
# triangle whose entries are independent again: χ with m, m−1, … degrees of freedom on the diagonal
# and normals above it (Bartlett). Every entry is tested, and so are the rows and their mean. A row
# of the table among the aggregates, for example, fails.


def check_design(release: Release, factor: VerifiedCholesky) -> Iterator[str]:
    """Yield a problem if aggregates are not sums of the table's rows with normal weights."""
    units, whitener = release.features.kept_scales, factor.whitener.T
    parts = (design / units @ whitener for design, _ in release.chunks())
    compact = release.certificate["form"] == "compact"
    likely = _triangle_fits(np.concatenate(list(parts)), release.bags) if compact else _fits(parts)
    if not likely:
        yield f"{AGGREGATES} has features that were not drawn from the table by their law"


def improbable(squares: Reals, freedom: Reals | float) -> bool:
    """Return whether one of several χ² numbers is in a tail of less than `CHANCE` in all."""
    if not len(squares):
        return False
    tails = np.minimum(chdtr(freedom, squares), chdtrc(freedom, squares))
    return bool(2 * len(squares) * np.min(tails) < CHANCE)


def _fits(parts: Iterator[Reals]) -> bool:
    """Return whether these rows pass as independent standard normals; they come in parts."""
    count, total, gram = 0, np.zeros(1), np.zeros((1, 1))
    for part in parts:
        if improbable((part**2).sum(axis=1), part.shape[1]):
            return False
        count += len(part)
        total = total + part.sum(axis=0)
        gram = gram + part.T @ part
    if improbable(np.array([total @ total / max(1, count)]), len(total)) and count:
        return False
    if count <= len(total):  # there is no triangle; every row was looked at
        return True
    try:
        return _entries_fit(np.asarray(np.linalg.cholesky(gram).T, np.float64), count)
    except np.linalg.LinAlgError:
        return False


def _triangle_fits(rows: Reals, bags: int) -> bool:
    """Return whether the triangle of a compact release, above a row of zeros, follows its law."""
    triangle, last = rows[:-1], rows[-1]
    below = np.abs(np.tril(triangle, -1)).max(initial=0.0)
    if last.any() or below > _ROUNDING * np.abs(triangle).max(initial=0.0):
        return False
    return _entries_fit(triangle, bags)


def _entries_fit(triangle: Reals, bags: int) -> bool:
    """Return whether a factor of a Wishart matrix passes for one by Bartlett's law.

    Tested are each entry, the sum of those above the diagonal, and the sum of all.
    """
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
    """Return χ² of each bag's sum of rows with normal weights, and its distance from their span.

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
