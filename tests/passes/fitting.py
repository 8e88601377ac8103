"""Fit features wherever a source's rows are."""

from __future__ import annotations

from typing import Any

from labeldp.data.source import Source
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.spark.engine import engine_for


def fitted(source: Source, **options: Any) -> FeatureMap:
    return fit_features(source, run_pass=engine_for(source).run_pass, **options)
