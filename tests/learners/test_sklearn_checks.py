"""scikit-learn's own estimator checks, on every way of fitting; none needs an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp.learners.api import BagRegressor, LinearRegressor
from tests.extras import extra


@parametrize_with_checks(
    [
        LinearRegressor(),
        LinearRegressor(penalty=1.0),
        LinearRegressor(max_norm=1.0),
        LinearRegressor(fit_intercept=False),
    ]
)
def test_linear(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@parametrize_with_checks(
    [
        BagRegressor(),
        BagRegressor(hidden=(), epochs=40, learning_rate=0.1),  # 1e-3 suits networks
        BagRegressor(
            hidden=(8,), max_norm=9.0, validation_fraction=0.0, epochs=20, learning_rate=0.1
        ),
    ]
)
def test_network(estimator: Any, check: Callable[[Any], None]) -> None:
    extra("torch")
    check(estimator)
