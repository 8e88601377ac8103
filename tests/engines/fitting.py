"""Fit features wherever a source's rows are."""

from __future__ import annotations

from typing import Any

from labeldp.engines.local import engine_for
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.source.table import Source


def fitted(source: Source, **options: Any) -> FeatureMap:
    return fit_features(source, fold=engine_for(source).fold, **options)
