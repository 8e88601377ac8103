"""scikit-learn's own estimator checks, on every way of fitting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp.learners.api import LinearRegressor

EXCEPTIONS: dict[str, str] = {}  # check name → reason; none is needed


@parametrize_with_checks(
    [
        LinearRegressor(),
        LinearRegressor(penalty=1.0),
        LinearRegressor(max_norm=1.0),
        LinearRegressor(fit_intercept=False),
    ],
    expected_failed_checks=lambda _: EXCEPTIONS,
)
def test_sklearn_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
