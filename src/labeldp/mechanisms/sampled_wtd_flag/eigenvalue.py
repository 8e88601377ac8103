"""Theorem 2's promise about the whole table, checked on the data: σ_min([X|y])² ≥ nλ*."""

from __future__ import annotations

import math

import numpy as np

from labeldp.engines import Engine
from labeldp.errors import PlanError
from labeldp.features import FeatureMap
from labeldp.source import Source
from labeldp.statistics import FeatureGram, GramSum, LabelGrid, LabelMoments, MomentSum

_ROUNDING = 1e-11
"""Of eigenvalues, relative to the trace; far above what doubles lose."""


def check_eigenvalue(
    least: float, features: FeatureMap, labels: LabelGrid, source: Source, engine: Engine
) -> None:
    """Refuse a table that breaks the promise. Labels count from the middle of their range."""
    gram, moments = engine.fold(
        "label sums", source, GramSum(features), MomentSum(features, labels)
    )
    if smallest_eigenvalue(gram, moments, features, labels) >= gram.rows * least:
        return
    raise PlanError(
        "the promised smallest eigenvalue does not hold for these labels and features; promise "
        "less, or use the accountant exact (this refusal tells one bit about the labels)"
    )


def smallest_eigenvalue(
    gram: FeatureGram, moments: LabelMoments, features: FeatureMap, labels: LabelGrid
) -> float:
    """A lower bound of σ_min([X|y])² in design and label units, but for rounding."""
    kept = list(features.kept_columns)
    scales = np.append(features.kept_scales, math.ldexp(1.0, labels.exponent))
    matrix = np.empty((len(scales), len(scales)))
    matrix[:-1, :-1] = gram.exact(kept).astype(np.float64)
    matrix[-1, :-1] = matrix[:-1, -1] = moments.cross[kept].astype(np.float64)
    matrix[-1, -1] = float(moments.square)
    matrix *= np.outer(scales, scales)
    return float(np.linalg.eigvalsh(matrix)[0] - _ROUNDING * np.trace(matrix))
