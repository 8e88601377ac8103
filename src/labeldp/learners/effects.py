"""How predictions move with one column while the others stay at typical values.

The rows are made up from the feature map, which is public: means of numbers, the commonest level
of every category. With D their design and F a root of the covariance of the coefficients, the
standard errors of predictions are the norms of the rows of D·F: from privacy alone, and with the
sampling of rows where the residual is known (theory §10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import arrow_numbers, arrow_words
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import is_number, is_text, list_of, optional
from labeldp.learners.protocol import Array, checked

if TYPE_CHECKING:
    from labeldp.learners.least_squares import Fit
    from labeldp.learners.rules import FitRule
    from labeldp.learners.whitened import NoisyNormalEquations

POINTS = 33
MOST_LEVELS = 40


@dataclass(frozen=True)
class Effect:
    """Predictions along one column, and their standard errors where they are known."""

    column: str
    values: tuple[Any, ...]
    """Numbers, or levels of a category as they are shown."""
    predictions: tuple[float, ...]
    privacy_errors: tuple[float, ...] | None = None
    total_errors: tuple[float, ...] | None = None

    @property
    def of_levels(self) -> bool:
        return isinstance(self.values[0], str)

    @classmethod
    def from_json(cls, entry: Any) -> Effect:
        """The effect of which this has the fields."""
        found = checked(entry, _FIELDS)
        lists = {n: tuple(v) for n, v in found.items() if n != "column" and v is not None}
        if len(set(map(len, lists.values()))) != 1:
            raise ValueError("an effect has lists of different lengths")
        return cls(**found | lists)


_FIELDS = {
    "column": is_text,
    "values": lambda value: list_of(is_number)(value) or list_of(is_text)(value),
    "predictions": list_of(is_number),
    "privacy_errors": optional(list_of(is_number)),
    "total_errors": optional(list_of(is_number)),
}


@dataclass(frozen=True, eq=False)
class Errors:
    """Roots of the covariances of coefficients: F with F·Fᵀ."""

    privacy: Array
    sampling: Array | None = None

    @classmethod
    def of_rule(cls, white: NoisyNormalEquations, rule: FitRule) -> Errors:
        """Of the coefficients that a rule predicts with; sampling if the residual is clear."""
        inverse = np.linalg.pinv(white.root)
        values, vectors = np.linalg.eigh(rule.covariance(white))
        privacy = inverse @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        variance = white.residual_variance
        sampling = None if variance is None else np.asarray(math.sqrt(variance) * inverse)
        return cls(privacy, sampling)

    @classmethod
    def of_fit(cls, fit: Fit) -> Errors | None:
        """As estimated with the fit; None if it is held back or has no degree of freedom."""
        if fit.multiplier > 0 or fit.dof < 1:
            return None
        return cls(math.sqrt(fit.residual_ms) * fit.covariance_factor)

    def of(self, design: Array) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
        """From privacy, and in all."""
        privacy = np.linalg.norm(design @ self.privacy, axis=1)
        if self.sampling is None:
            return tuple(privacy.tolist()), None
        total = np.hypot(privacy, np.linalg.norm(design @ self.sampling, axis=1))
        return tuple(privacy.tolist()), tuple(total.tolist())


def mean_row(white: NoisyNormalEquations, constant: int | None) -> Array | None:
    """Of the design rows: XᵀX has their sum in the row of the constant."""
    if constant is None:
        return None
    return np.asarray(white.root.T @ white.root[:, constant] / white.rows)


def effects(
    features: FeatureMap,
    coefficients: Array,
    errors: Errors | None = None,
    mean: Array | None = None,
) -> tuple[Effect, ...]:
    """Of every column; `mean` is that of the design rows, if it is known."""
    typical = {column.name: _mean_of(column) for column in features.numeric} | {
        column.name: _commonest(features, place, mean)
        for place, column in enumerate(features.categorical)
    }
    found = []
    for name, shown, raw in _places(features):
        design = features.design(_rows(features, typical, name, raw))
        privacy, total = (None, None) if errors is None else errors.of(design)
        predictions = tuple((design @ coefficients).tolist())
        found.append(Effect(name, shown, predictions, privacy, total))
    return tuple(found)


def _places(features: FeatureMap) -> Iterator[tuple[str, tuple[Any, ...], list[Any]]]:
    """Of every column: its name, the values to show and the same as raw values."""
    for column in features.numeric:
        values = _along(column)
        yield column.name, tuple(values), values
    for category in features.categorical:
        levels = category.levels[:MOST_LEVELS]
        if levels:
            yield category.name, category.labels[: len(levels)], list(levels)


def _along(column: NumericColumn) -> list[float]:
    """Places from its low to its high end, even in what enters the design."""
    low, high = (column.grid.entering(end) for end in (column.low, column.high))
    return [_outside(column, float(value)) for value in np.linspace(low, high, POINTS)]


def _outside(column: NumericColumn, entering: float) -> float:
    """The number whose logarithm enters, if it does."""
    return math.copysign(math.expm1(abs(entering)), entering) if column.log else entering


def _mean_of(column: NumericColumn) -> float:
    return _outside(column, column.imputed)


def _commonest(features: FeatureMap, place: int, mean: Array | None) -> str | None:
    """The level with most rows; a level without a column has what the others leave."""
    column: CategoricalColumn = features.categorical[place]
    if mean is None or not column.levels:
        return column.levels[0] if column.levels else None
    kept = features.kept_places[features.category_blocks[place]]
    shares = np.where(kept >= 0, mean[kept], np.nan)
    absent = np.isnan(shares)
    shares[absent] = (1 - np.nansum(shares)) / max(1, int(absent.sum()))
    return column.levels[int(np.argmax(shares[: len(column.levels)]))]


def _rows(features: FeatureMap, typical: dict[str, Any], name: str, raw: list[Any]) -> pa.Table:
    """Typical rows, but for one column."""
    columns = {each: [typical[each]] * len(raw) for each in features.columns} | {name: raw}
    numbers = {column.name for column in features.numeric}
    arrays = {
        each: arrow_numbers(np.array(values)) if each in numbers else _words(values)
        for each, values in columns.items()
    }
    return pa.table(arrays)


def _words(levels: list[Any]) -> pa.Array:
    """Levels as text; nulls if the category has none of its own."""
    if None in levels:
        return pa.nulls(len(levels), pa.string())
    return arrow_words(levels, pa.string())
