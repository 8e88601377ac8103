"""Checks of published numbers that all mechanisms share."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import chdtr

from labeldp.release import AGGREGATES, Release
from labeldp.statistics.labels import LABEL_BITS

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
    size = np.sqrt(np.diag(gram))
    scale = np.where(size > 0, size, 1.0)
    slope = np.linalg.lstsq(gram / np.outer(scale, scale), cross / scale)[0] / scale
    square = sum(float(((t - z / units @ slope) ** 2).sum()) for z, t in release.chunks())
    freedom = release.bags - columns
    return float(chdtr(freedom, square / floor)) if freedom > 0 else 1.0
