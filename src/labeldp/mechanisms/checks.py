"""Checks of published numbers that all mechanisms share."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import chdtr, chdtrc

from labeldp.exact.gram import FeatureGram
from labeldp.exact.label_sums import LABEL_BITS
from labeldp.release.files import Release
from labeldp.release.pending import AGGREGATES

_CHANCE = 1e-12
"""A release that its law produces with less than this chance was not drawn from it."""


def check_numbers(release: Release) -> Iterator[str]:
    """Whether aggregates are numbers."""
    for design, labels in release.chunks():
        if not (np.isfinite(design).all() and np.isfinite(labels).all()):
            yield f"{AGGREGATES} has values that are not numbers"
            return


def check_grid(release: Release, grid: int) -> Iterator[str]:
    """Whether aggregate labels stand on the public grid, and the certificate says which."""
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
    """Whether labels were rounded to the grid that their range decides."""
    low, high = label_range
    reach = high - low if centred else 2 * max(abs(low), abs(high))
    # the range was widened by up to a step of the label grid
    reaches = (reach, reach * (1 - 2.0**-LABEL_BITS))
    exponents = {math.ceil(math.log2(width)) - LABEL_BITS for width in reaches}
    if exponent not in exponents:
        yield f"certificate: the label exponent should be {max(exponents)}"


def other_table(release: Release, gram: FeatureGram) -> str | None:
    """What says that a table is not the one released, if something does: its rows or its sums."""
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
    """Whether labels are no larger than weighted sums of labels in their range can be.

    Each is normal about 0 with a variance of `most` at most, and a compact release has the same
    sum of squares.
    """
    square = sum(float(labels @ labels) for labels in release.label_chunks())
    if chdtrc(release.bags, square / most) < _CHANCE:
        yield f"{AGGREGATES} has labels larger than those in the range can make them"


def check_scatter(release: Release, floor: float) -> Iterator[str]:
    """Whether labels vary about their fit as the floor demands."""
    if _scatter_chance(release, floor) < _CHANCE:
        yield f"{AGGREGATES} has labels that vary less about their fit than the floor demands"


def _scatter_chance(release: Release, floor: float) -> float:
    """The chance of so small a scatter if the labels' variance given the features is `floor`.

    The residual sum of squares of the fit is that variance times χ² with bags − columns
    degrees of freedom (theory §5), or more if the labels' means do not lie on one fit. Any other
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
    return float(chdtr(freedom, square / floor)) if freedom > 0 else 1.0
