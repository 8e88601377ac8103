"""Several releases of the same columns, of rows that are all different, as one (theory §9)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from labeldp.errors import InputError
from labeldp.features.columns import NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.normal_equations import (
    Array,
    NoisyNormalEquations,
    NoisyValue,
    square_norm,
    sum_equations,
)
from labeldp.release.label_model import SumLabels

if TYPE_CHECKING:
    from labeldp.release.files import Release

_ENCODING = ("name", "indicator", "log")
"""What two encodings of a number must share: then each is an affine map of the other, but for rows
that are winsorised at other ends."""
_ROUNDING = 1e-9


def joint_equations(releases: Sequence[Release]) -> tuple[NoisyNormalEquations, FeatureMap]:
    """Return what releases say together, in the columns of the first, and its feature map.

    Raise InputError where they do not belong together.
    """
    first, models = releases[0], [release.label_model for release in releases]
    sums = [model for model in models if isinstance(model, SumLabels)]
    for problem in _problems(releases, len(sums)):
        raise InputError(f"the releases do not go together: {problem}")
    equations = pool(
        [
            _in_columns_of(first.features, release.features, sum_equations(release, model))
            for release, model in zip(releases, sums, strict=True)
        ]
    )
    maps, rows = [release.features for release in releases], equations.rows
    assert rows is not None
    return equations, _widest_map(maps, rows)


def pool(parts: Sequence[NoisyNormalEquations]) -> NoisyNormalEquations:
    """Return the equations of several tables of the same columns, with different rows.

    The XᵀX add. The coefficients are the mean of the tables' own, each weighed by how well it is
    known: by its noise and, where residuals are published, the sampling of its rows. If the tables
    differ in their coefficients, that mean is what is estimated, and the covariance is exactly its.
    Noise of several that is radial is taken for normal, which a sum of it nearly is.
    """
    if len(parts) == 1:
        return parts[0]
    stacked = np.concatenate([part.root for part in parts])
    estimate = np.concatenate([part.estimate for part in parts])
    spread = np.asarray(block_diag(*(part.spread for part in parts)), dtype=np.float64)
    root = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
    rows = sum(part.rows or 0 for part in parts)
    residuals = [part.residual_ss for part in parts if part.residual_ss is not None]
    all_known = len(residuals) == len(parts)
    within = sum(residual.value for residual in residuals)
    sampling = max(0.0, within) / max(1, rows - len(estimate)) if all_known else 0.0
    precision = np.linalg.inv(spread @ spread.T + sampling * np.eye(len(estimate)))
    weighted = stacked.T @ precision
    solve = np.linalg.solve(weighted @ stacked, weighted)  # b̃ of all parts → coefficients
    residual = None
    if all_known:
        outside = np.eye(len(estimate)) - stacked @ solve
        between = square_norm(outside @ estimate, outside @ spread)
        errors = [each.error for each in (*residuals, between)]
        residual = NoisyValue(within + between.value, math.hypot(*errors))
    together = root @ solve
    return NoisyNormalEquations(root, together @ estimate, together @ spread, rows, residual)


def _problems(releases: Sequence[Release], of_sums: int) -> Iterator[str]:
    """Yield why releases cannot be fitted together."""
    if of_sums < len(releases):
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
    """Yield why the columns of one are not those of the other in other units."""
    if first.columns != other.columns or first.intercept != other.intercept:
        yield "they have different columns; plan them with the same `features`"
        return
    for one, two in zip(first.categorical, other.categorical, strict=True):
        if one != two:
            yield f"column {one.name!r} has different levels; plan them with the same levels"
    for number, twin in zip(first.numeric, other.numeric, strict=True):
        if not _same_encoding(number, twin):
            yield (
                f"column {number.name!r} has missing values or is a logarithm in one of them only; "
                "fill what is missing, and ask for the same logarithms"
            )


def _same_encoding(one: NumericColumn, two: NumericColumn) -> bool:
    alike = all(getattr(one, name) == getattr(two, name) for name in _ENCODING)
    is_filled = not one.indicator and (one.missing or two.missing)
    return alike and (not is_filled or one.imputed == two.imputed)


def _widest_map(maps: Sequence[FeatureMap], rows: int) -> FeatureMap:
    """Return the first map, with numbers winsorised no nearer than in any."""
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


def _in_columns_of(
    first: FeatureMap, other: FeatureMap, equations: NoisyNormalEquations
) -> NoisyNormalEquations:
    """Return equations in the columns of the first map; predictions are the same."""
    ours, theirs = _raw_combinations(first), _raw_combinations(other)
    if ours.shape == theirs.shape and np.array_equal(ours, theirs):
        return equations
    change = np.linalg.lstsq(theirs, ours)[0]
    scale = np.abs(ours).max(axis=0)
    if (np.abs(theirs @ change - ours) > _ROUNDING * scale).any():
        raise InputError(
            "the releases do not go together: they leave out different columns, because in one "
            "a column depends on others; plan them without it"
        )
    return replace(equations, root=equations.root @ change)


def _raw_combinations(features: FeatureMap) -> Array:
    """Return every design column as a combination of raw ones, in raw units.

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
        place += len(column.design_columns)
    if not features.intercept:
        return raw
    for block in features.category_blocks:
        raw[0] += raw[block.start]
        raw[block.start + 1 : block.stop] -= raw[block.start]
    firsts = [block.start for block in features.category_blocks]
    return np.delete(raw, firsts, axis=0)
