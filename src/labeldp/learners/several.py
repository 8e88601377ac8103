"""Several releases of the same columns, of rows that are all different, as one (theory §9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.features.columns import NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.whitened import NoisyNormalEquations, pooled, weighed
from labeldp.release.label_model import SumLabels

if TYPE_CHECKING:
    from labeldp.release.files import Release

_ENCODING = ("name", "indicator", "log")
"""What two encodings of a number must share: then each is an affine map of the other, but for rows
that are winsorised at other ends."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Several:
    """What they say together, in the columns of the first."""

    white: NoisyNormalEquations
    features: FeatureMap
    label_range: tuple[float, float]


def together(releases: Sequence[Release]) -> Several:
    """Put them together, or say why that cannot be."""
    first, labels = releases[0], [release.meaning for release in releases]
    sums = [each for each in labels if isinstance(each, SumLabels)]
    for problem in _problems(releases, sums):
        raise InputError(f"the releases do not go together: {problem}")
    parts = [
        _moved(weighed(release, each), first.features, release.features)
        for release, each in zip(releases, sums, strict=True)
    ]
    white = pooled(parts)
    ends = np.array([release.certificate["label_range"] for release in releases])
    return Several(
        white,
        _widest([release.features for release in releases], white.rows),
        (float(ends[:, 0].min()), float(ends[:, 1].max())),
    )


def _problems(releases: Sequence[Release], sums: Sequence[SumLabels]) -> Iterator[str]:
    if len(sums) < len(releases):
        yield "one is not of sums with public weights, as those of shaped-flag are; fit it alone"
        return
    rows = [release.certificate["digests"]["feature_sums"] for release in releases]
    if len(set(rows)) < len(rows):
        yield "two are of the same rows, and their privacy adds up; fit one of them"
    labels = {release.certificate["labels"]["column"] for release in releases}
    if len(labels) > 1:
        yield f"they have different labels, {', '.join(map(repr, sorted(labels)))}"
    for release in releases[1:]:
        yield from _differences(releases[0].features, release.features)


def _differences(first: FeatureMap, other: FeatureMap) -> Iterator[str]:
    """Why the columns of one are not those of the other in other units."""
    if first.columns != other.columns or first.intercept != other.intercept:
        yield "they have different columns; plan them with the same `features`"
        return
    for one, two in zip(first.categorical, other.categorical, strict=True):
        if one != two:
            yield f"column {one.name!r} has different levels; plan them with the same levels"
    for number, twin in zip(first.numeric, other.numeric, strict=True):
        if not _same(number, twin):
            yield (
                f"column {number.name!r} has missing values or is a logarithm in one of them only; "
                "fill what is missing, and ask for the same logarithms"
            )


def _same(one: NumericColumn, two: NumericColumn) -> bool:
    alike = all(getattr(one, name) == getattr(two, name) for name in _ENCODING)
    filled = not one.indicator and (one.missing or two.missing)
    return alike and (not filled or one.imputed == two.imputed)


def _widest(maps: Sequence[FeatureMap], rows: int) -> FeatureMap:
    """The first map, where numbers are winsorised no nearer than in any."""
    numeric = tuple(
        replace(
            columns[0],
            low=min(column.low for column in columns),
            high=max(column.high for column in columns),
            winsorised=all(column.winsorised for column in columns),
        )
        for columns in zip(*(each.numeric for each in maps), strict=True)
    )
    return replace(maps[0], rows=rows, numeric=numeric)


def _moved(
    white: NoisyNormalEquations, first: FeatureMap, other: FeatureMap
) -> NoisyNormalEquations:
    """The same in the columns of the first map: predictions do not depend on the encoding."""
    ours, theirs = _in_raw_columns(first), _in_raw_columns(other)
    if ours.shape == theirs.shape and np.array_equal(ours, theirs):
        return white
    change = np.linalg.lstsq(theirs, ours)[0]
    scale = np.abs(ours).max(axis=0)
    if (np.abs(theirs @ change - ours) > _ROUNDING * scale).any():
        raise InputError(
            "the releases do not go together: they leave out different columns, because in one "
            "a column depends on others; plan them without it"
        )
    return replace(white, root=white.root @ change)


def _in_raw_columns(features: FeatureMap) -> NDArray[np.float64]:
    """Every design column as a combination of raw ones, in raw units.

    A number that is missing counts as 0 and as what its indicator adds. With a constant the first
    level of each category is what the others leave of it, so a map may leave out any one of them.
    """
    names, matrix = features.to_original_units()
    added = len(names) - len(features.names)
    raw = np.zeros((features.width, matrix.shape[1]))
    raw[[0] * added + list(features.kept_columns)] = matrix
    place = int(features.intercept)
    for column in features.numeric:
        if column.indicator:
            raw[place + 1] += column.imputed * raw[place]
        place += len(column.design_names)
    if not features.intercept:
        return raw
    for block in features.category_blocks:
        raw[0] += raw[block.start]
        raw[block.start + 1 : block.stop] -= raw[block.start]
    firsts = [block.start for block in features.category_blocks]
    return np.delete(raw, firsts, axis=0)
