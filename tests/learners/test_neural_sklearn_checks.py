"""scikit-learn's own estimator checks, on networks and the linear model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp.learners.api import BagRegressor
from tests.extras import extra

extra("torch")

EXCEPTIONS: dict[str, str] = {}  # check name → reason; none is needed


@parametrize_with_checks(
    [
        BagRegressor(),
        BagRegressor(hidden=(), epochs=40, learning_rate=0.1),  # 1e-3 suits networks
        BagRegressor(
            hidden=(8,), max_norm=9.0, validation_fraction=0.0, epochs=20, learning_rate=0.1
        ),
    ],
    expected_failed_checks=lambda _: EXCEPTIONS,
)
def test_sklearn_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
