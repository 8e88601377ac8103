"""How predictions move with one column while the others stay at typical values.

The rows are made up from the feature map, which is public: means of numbers, the commonest level
of every category. With D their design and F a root of the covariance of the coefficients, the
standard errors of predictions are the norms of the rows of D·F: from privacy alone, and with the
sampling of rows where the residual is known (theory §10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.arrow_util import arrow_numbers, arrow_words
from labeldp.features.columns import NumericColumn
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.fit_rules import FitRule
from labeldp.learners.models import Effect
from labeldp.learners.normal_equations import Array, NoisyNormalEquations

POINTS = 33
"""Values of a number at which predictions are shown."""
MAX_LEVELS = 40


@dataclass(frozen=True, eq=False)
class PredictionErrors:
    """Roots of the covariances of coefficients: F with F·Fᵀ."""

    privacy: Array
    sampling: Array | None

    @classmethod
    def of(cls, equations: NoisyNormalEquations, rule: FitRule) -> PredictionErrors:
        """Return those of the coefficients that a rule predicts with."""
        inverse = np.linalg.pinv(equations.root)
        values, vectors = np.linalg.eigh(rule.covariance(equations))
        privacy = inverse @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        variance = equations.residual_variance
        sampling = None if variance is None else np.asarray(math.sqrt(variance) * inverse)
        return cls(privacy, sampling)

    def at(self, design: Array) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
        """Return standard errors of predictions: from privacy, and in all if that is known."""
        privacy = np.linalg.norm(design @ self.privacy, axis=1)
        if self.sampling is None:
            return tuple(privacy.tolist()), None
        total = np.hypot(privacy, np.linalg.norm(design @ self.sampling, axis=1))
        return tuple(privacy.tolist()), tuple(total.tolist())


def mean_row(equations: NoisyNormalEquations, constant: int | None) -> Array | None:
    """Return the mean design row: XᵀX has the sum of rows in the row of the constant."""
    if constant is None or equations.rows is None:
        return None
    return np.asarray(equations.root.T @ equations.root[:, constant] / equations.rows)


def trace_effects(
    features: FeatureMap,
    coefficients: Array,
    errors: PredictionErrors | None = None,
    mean: Array | None = None,
) -> tuple[Effect, ...]:
    """Return the effect of every column; `mean` is the mean design row, if it is known."""
    typical: dict[str, Any] = {
        column.name: _raw_value(column, column.imputed) for column in features.numeric
    }
    for place, category in enumerate(features.categorical):
        typical[category.name] = _commonest_level(features, place, mean)
    effects = []

    def add(name: str, shown: tuple[Any, ...], raw: list[Any]) -> None:
        design = features.design(_typical_rows(features, typical, name, raw))
        privacy, total = (None, None) if errors is None else errors.at(design)
        predictions = tuple((design @ coefficients).tolist())
        effects.append(Effect(name, shown, predictions, privacy, total))

    for column in features.numeric:  # evenly spaced in what enters the design
        low, high = column.entering_range
        values = [_raw_value(column, float(value)) for value in np.linspace(low, high, POINTS)]
        add(column.name, tuple(values), values)
    for category in features.categorical:
        levels = category.levels[:MAX_LEVELS]
        if levels:
            add(category.name, category.labels[: len(levels)], list(levels))
    return tuple(effects)


def _raw_value(column: NumericColumn, entering: float) -> float:
    """Return the number itself, of which the logarithm may enter the design."""
    return math.copysign(math.expm1(abs(entering)), entering) if column.log else entering


def _commonest_level(features: FeatureMap, place: int, mean: Array | None) -> str | None:
    """Return the level with most rows, or the first if the mean row is not known."""
    column = features.categorical[place]
    if mean is None or not column.levels:
        return column.levels[0] if column.levels else None
    kept = features.kept_places[features.category_blocks[place]]
    shares = np.where(kept >= 0, mean[kept], np.nan)
    pruned = np.isnan(shares)  # a level without a column has what the others leave
    shares[pruned] = (1 - np.nansum(shares)) / max(1, int(pruned.sum()))
    return column.levels[int(np.argmax(shares[: len(column.levels)]))]


def _typical_rows(
    features: FeatureMap, typical: dict[str, Any], name: str, raw: list[Any]
) -> pa.Table:
    """Return typical rows, one for each of these values of one column."""
    numbers = {column.name for column in features.numeric}
    arrays = {}
    for column in features.columns:
        values = raw if column == name else [typical[column]] * len(raw)
        if column in numbers:
            arrays[column] = arrow_numbers(np.array(values))
        elif None in values:  # a category without levels of its own
            arrays[column] = pa.nulls(len(values), pa.string())
        else:
            arrays[column] = arrow_words(values, pa.string())
    return pa.table(arrays)
