"""Gradient-boosted trees on noisy rows, sized by the noise, which is public."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from labeldp import Release

ROWS_FOR_NOISE = 60
"""A leaf has so many rows for every time that the noise has the variance of labels."""
MOST_LEVELS = 254
"""That scikit-learn's trees know of a category; others count as missing."""


def least_rows(release: Release) -> int:
    """Of a leaf: enough to average the noise out to a sixtieth of the labels' variance."""
    noise = float(release.certificate["row_noise"]["std"]) ** 2
    low, high = release.certificate["label_range"]
    variance = max(float(np.var(release.labels)) - noise, (high - low) ** 2 / 400)
    rows = ROWS_FOR_NOISE * noise / variance
    return int(np.clip(rows, 20, release.bags / 8))


def trees(release: Release, data: Any) -> Callable[[Any], np.ndarray[Any, np.dtype[np.float64]]]:
    """Predictions by trees that stop growing by noisy labels held back."""
    X, y = release.training_frame(data)
    levels = {each.name: each.levels[:MOST_LEVELS] for each in release.features.categorical}
    kinds = {name: pd.CategoricalDtype(list(known)) for name, known in levels.items()}
    model = HistGradientBoostingRegressor(
        learning_rate=0.05,
        max_iter=300,
        max_leaf_nodes=15,
        min_samples_leaf=least_rows(release),
        early_stopping=True,
        validation_fraction=0.2,
        n_iter_no_change=20,
        categorical_features="from_dtype",
        random_state=0,
    ).fit(X.astype(kinds), y)

    def predict(rows: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        found = model.predict(release.feature_frame(rows).astype(kinds))
        return np.clip(found, *release.certificate["label_range"])

    return predict
