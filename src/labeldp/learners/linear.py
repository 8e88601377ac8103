"""LinearRegressor: a scikit-learn estimator over `least_squares`, for a release or plain rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import getattr_static
from os import PathLike
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp._check import at_least, in_range, positive
from labeldp.errors import InputError
from labeldp.learners import model_file
from labeldp.learners.aggregation import weighted_design
from labeldp.learners.least_squares import (
    Array,
    Fit,
    bounded_norm,
    intervals,
    require_freedom,
    ridge,
)

_RELEASE_RANK_TOLERANCE = 1e-9
"""Features are quantised to about 20 bits, so a true direction stands far above this, while the
float noise of an exactly collinear one (one-hot levels and a constant) stays far below."""


class FeatureMapLike(Protocol):
    """What a learner asks of a feature map."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def intercept(self) -> bool: ...
    def design(self, rows: Any, /) -> NDArray[np.float64]: ...
    def to_original_units(self) -> tuple[Any, NDArray[np.float64]]: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Coefficient:
    """One coefficient in original units; `low` and `high` are None where no interval is exact."""

    name: str
    value: float
    low: float | None
    high: float | None


class LinearRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression on a release's aggregates: least squares, ridge or bounded norm.

    `fit(release)` learns from the m aggregates; `predict` and `score` then take raw rows.
    `fit(X, y)` learns from plain rows, as any scikit-learn regressor, for baselines and pipelines.

    Parameters
    ----------
    penalty : float
        Ridge penalty, in the units of the rows: `Ridge(alpha=penalty)` on all the rows is what the
        fit on a release estimates (on m aggregates it is scaled by m). The intercept is free.
    max_norm : float or None
        Bound on the Euclidean norm of the design coefficients, the intercept's included: the
        paper's class F_{B_r}. "Design" means the release's own columns (scaled, encoded), not
        original units. At most one of `penalty` and `max_norm` may be set.
    fit_intercept : bool
        On plain rows, add a constant. On a release the constant is already a column, if its feature
        map has one: False then holds its design coefficient at zero (original units may still show
        an intercept, from columns that the feature map centred). True cannot add one.
    confidence : float
        Level of the intervals in `coefficients_`.

    Attributes
    ----------
    coef_ : ndarray (p,)
        Coefficients of the design columns (of X on plain rows). The constant column of a release
        has 0 here and its coefficient in `intercept_`: predictions are design @ coef_ + intercept_.
    intercept_ : float
    coefficients_ : tuple of Coefficient
        In original units. Intervals are given if `penalty` is 0, the norm bound did not bind, and
        a degree of freedom is left. On a release of wtd-FLAg each holds the coefficient of the fit
        on all the rows with probability exactly `confidence` (if a norm bound was set: as long as
        it had no real chance to bind); on sampled bags, whose covariances differ, approximately.
        On plain rows they are the classical ones, right for iid normal errors.
    residual_ms_ : float
        Residual mean square of what was fitted. On a release it estimates the residual *sum* of
        squares on all the rows plus any added floor variance, not a variance per row.
    dof_ : float
        Residual degrees of freedom (effective, if shrunk).
    multiplier_ : float
        Lagrange multiplier of the penalty or norm bound, in units of the rows; 0 if nothing bound.
    features_ : feature map of the release, None after a fit on plain rows
    n_features_in_, feature_names_in_ :
        Number and names of the columns of `coef_` (names on plain rows only if X has them).
    """

    def __init__(
        self,
        penalty: float = 0.0,
        max_norm: float | None = None,
        fit_intercept: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self.penalty = penalty
        self.max_norm = max_norm
        self.fit_intercept = fit_intercept
        self.confidence = confidence

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit `(release)`, `(release, source)` of labels aggregated alone, or plain rows `(X, y)`.

        A release of labels alone names the rows of its bags; their features are read from the
        source. Its aggregates have noise of different, public deviations and are weighed by them.
        """
        self._check_parameters()
        if _is_release(X) and not getattr(X, "aggregates_features", True):
            return self._fit_labels_alone(X, y)
        if y is None and _is_release(X):
            bags = getattr(X, "bags", len(X.labels))
            return self._fit_release(X.features, X.design, X.labels, bags)
        if y is None:
            raise InputError(
                "LinearRegressor requires y to be passed, but the target y is None; "
                "only a release carries its own labels"
            )
        return self._fit_rows(X, y)

    def predict(self, X: Any) -> Array:
        """Predictions for raw rows (after `fit(release)`) or for an array like the one fitted."""
        check_is_fitted(self)
        if self.features_ is None:
            design = validate_data(self, X, reset=False, dtype=np.float64)
        else:
            design = np.asarray(self.features_.design(X), dtype=np.float64)
        return np.asarray(design @ self.coef_ + self.intercept_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions for rows `X` with labels `y` (any array: numpy, Arrow, Series)."""
        return float(r2_score(np.asarray(y), self.predict(X), sample_weight=sample_weight))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model as one JSON file, atomically; floats survive to the last bit."""
        check_is_fitted(self)
        model_file.write(path, model_file.document_of(self))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model written by `save`."""
        model = model_file.parse(model_file.read(path), path)
        learner = cls(**model.parameters)
        learner._remember(
            model.coef,
            model.intercept,
            tuple(Coefficient(*entry) for entry in model.coefficients),
            features=model.features,
        )
        learner.residual_ms_, learner.dof_ = model.residual_ms, model.dof
        learner.multiplier_ = model.multiplier
        if model.feature_names is not None:
            learner.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return learner

    def _check_parameters(self) -> None:
        at_least(0, penalty=self.penalty)
        in_range(0, 1, confidence=self.confidence)
        if self.max_norm is not None:
            positive(max_norm=self.max_norm)
            if self.penalty > 0:
                raise InputError("set penalty or max_norm, not both: each is the other's price")

    def _fit_labels_alone(self, release: Any, source: Any) -> Self:
        design = weighted_design(release.features, source, release.bag_table, release.bags)
        noise = release.noise
        labels, bags = release.labels / noise, release.bags
        return self._fit_release(release.features, design / noise[:, None], labels, bags)

    def _fit_release(
        self, features: FeatureMapLike, aggregates: Array, labels: Array, bags: int
    ) -> Self:
        """Fit `bags` aggregates, or fewer rows that stand for them (a compact release)."""
        constant = constant_column(features)
        design = np.asarray(aggregates, dtype=np.float64)
        if design.ndim != 2 or design.shape[1] != len(features.names):
            raise InputError(
                f"the release has a design of shape {design.shape} but a feature map of "
                f"{len(features.names)} columns; they do not belong together"
            )
        used = np.ones(design.shape[1], dtype=bool)
        if constant is not None and not self.fit_intercept:
            used[constant], constant = False, None
        fit = self._solve(
            design[:, used],
            labels,
            constant,
            scale=bags,
            rank_tolerance=_RELEASE_RANK_TOLERANCE,
        )
        fit = replace(fit, dof=fit.dof + bags - len(design))
        if self.penalty == 0 and self.max_norm is None:
            require_freedom(fit)
        coef = np.zeros(design.shape[1])
        coef[used] = fit.coefficients
        names, T = features.to_original_units()
        coefficients = self._coefficients(fit, tuple(names), np.asarray(T)[:, used])
        intercept = 0.0
        if constant is not None:
            intercept, coef[constant] = float(coef[constant]), 0.0
        self._remember(coef, intercept, coefficients, features=features)
        self._remember_quality(fit, scale=bags)
        self.feature_names_in_ = np.array(features.names, dtype=object)
        return self

    def _fit_rows(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        columns = X.shape[1]
        names = tuple(getattr(self, "feature_names_in_", [f"x{j}" for j in range(columns)]))
        if self.fit_intercept:
            fit = self._solve(np.column_stack([np.ones(len(X)), X]), y, 0)
            names, coef, intercept = (
                ("intercept", *names),
                fit.coefficients[1:],
                float(fit.coefficients[0]),
            )
        else:
            fit = self._solve(X, y, None)
            coef, intercept = fit.coefficients, 0.0
        self._remember(coef, intercept, self._coefficients(fit, names, None), features=None)
        self._remember_quality(fit, scale=1)
        return self

    def _solve(
        self,
        design: Array,
        labels: Array,
        constant: int | None,
        *,
        scale: int = 1,
        rank_tolerance: float | None = None,
    ) -> Fit:
        if self.max_norm is not None:
            return bounded_norm(design, labels, self.max_norm, rank_tolerance=rank_tolerance)
        return ridge(
            design, labels, scale * self.penalty, intercept=constant, rank_tolerance=rank_tolerance
        )

    def _coefficients(
        self, fit: Fit, names: tuple[str, ...], T: Array | None
    ) -> tuple[Coefficient, ...]:
        if fit.multiplier > 0 or fit.dof < 1:
            values = fit.coefficients if T is None else T @ fit.coefficients
            return tuple(
                Coefficient(str(name), float(value), None, None)
                for name, value in zip(names, values, strict=True)
            )
        bounds = intervals(fit, T, confidence=self.confidence)
        return tuple(
            Coefficient(str(name), float(value), float(low), float(high))
            for name, value, low, high in zip(names, *bounds, strict=True)
        )

    def _remember(
        self,
        coef: Array,
        intercept: float,
        coefficients: tuple[Coefficient, ...],
        *,
        features: FeatureMapLike | None,
    ) -> None:
        self.coef_ = coef
        self.intercept_ = intercept
        self.coefficients_ = coefficients
        self.features_ = features
        self.n_features_in_ = len(coef)

    def _remember_quality(self, fit: Fit, *, scale: int) -> None:
        self.residual_ms_ = fit.residual_ms
        self.dof_ = fit.dof
        self.multiplier_ = fit.multiplier / scale


def _is_release(value: Any) -> bool:
    """Has it the attributes of a release? Looked up without computing them: they may be large."""
    absent = object()
    return all(
        getattr_static(value, name, absent) is not absent
        for name in ("design", "labels", "features")
    )


def constant_column(features: FeatureMapLike) -> int | None:
    """Index of the aggregated constant among the design columns, None if there is none.

    A map may have an intercept and yet not keep its column, where other columns span it.
    """
    if not features.intercept or "intercept" not in features.names:
        return None
    return features.names.index("intercept")
