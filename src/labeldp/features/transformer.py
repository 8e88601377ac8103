"""The public encoding as a scikit-learn transformer, so that a baseline sees the same columns.

Only `FeatureMap.transformer` imports this module: scikit-learn is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from labeldp.features.encoder import UnseenValues

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap


class FeatureTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns raw rows into the design columns of a feature map, without the constant."""

    def __init__(self, features: FeatureMap) -> None:
        self.features = features

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Return itself: the encoding was fitted when the release was planned."""
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the design columns of raw rows; unknown levels count as the base level."""
        return self.features.design(X, UnseenValues())[:, self._chosen]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the columns that `transform` makes."""
        return np.array(self.features.names, dtype=object)[self._chosen]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def _chosen(self) -> slice:
        """Which kept columns: models of scikit-learn have a constant of their own."""
        return slice(0 if self.features.constant is None else 1, None)
