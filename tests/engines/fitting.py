"""Fit features wherever a source's rows are."""

from __future__ import annotations

from typing import Any

from labeldp.engines import engine_for
from labeldp.features import FeatureMap, fit_features
from labeldp.source import Source


def fitted(source: Source, **options: Any) -> FeatureMap:
    return fit_features(source, fold=engine_for(source).fold, **options)
