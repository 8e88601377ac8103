"""`LinearModel`: a regression on a release's aggregates, over `least_squares`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError, at_least, in_range, positive
from labeldp.features import FeatureMap
from labeldp.files import is_flag, is_number, is_text, list_of, optional
from labeldp.learners.bags import bag_members
from labeldp.learners.least_squares import Fit, bounded_norm, intervals, require_freedom, ridge
from labeldp.learners.protocol import (
    Array,
    Arrays,
    Coefficient,
    Document,
    Learner,
    bag_source,
    checked,
    write,
)
from labeldp.learners.rules import shrunken
from labeldp.learners.whitened import RANK_TOLERANCE, Whitened, whitened
from labeldp.source import Source, take_rows

if TYPE_CHECKING:
    from labeldp.engines import Progress
    from labeldp.release import Release


@dataclass(frozen=True)
class LinearOptions:
    """The parameters of `LinearRegressor`; see there."""

    penalty: float = 0.0
    max_norm: float | None = None
    fit_intercept: bool = True
    confidence: float = 0.95
    shrink: bool = False

    def checked(self) -> LinearOptions:
        """The same in plain numbers; refuse what cannot be meant, naming it."""
        at_least(0, penalty=self.penalty)
        in_range(0, 1, confidence=self.confidence)
        if self.max_norm is not None:
            positive(max_norm=self.max_norm)
            if self.penalty > 0:
                raise InputError("set `penalty` or `max_norm`, not both: each is the other's price")
        if self.shrink and (self.penalty > 0 or self.max_norm is not None):
            raise InputError("`shrink` chooses its own penalty; leave `penalty` and `max_norm` out")
        return LinearOptions(
            float(self.penalty),
            None if self.max_norm is None else float(self.max_norm),
            bool(self.fit_intercept),
            float(self.confidence),
            bool(self.shrink),
        )


@dataclass(frozen=True, eq=False)
class LinearModel:
    """All of a fitted linear model; what the fields are stands at `LinearRegressor`."""

    options: LinearOptions
    coef: Array = field(repr=False)
    intercept: float
    coefficients: tuple[Coefficient, ...] = field(repr=False)
    residual_ms: float
    dof: float
    multiplier: float
    features: FeatureMap | None = field(repr=False)
    feature_names: tuple[str, ...] | None = field(repr=False)

    @property
    def width(self) -> int:
        return len(self.coef)

    @property
    def takes_array(self) -> bool:
        return self.features is None

    def predict(self, rows: Any) -> Array:
        """Predictions for raw rows or, without a feature map, for an array."""
        design = rows if self.features is None else self.features.design(rows)
        return np.asarray(design @ self.coef + self.intercept)

    def summary(self, bags: int) -> str:
        """One line for people."""
        return f"a linear model was fitted on {bags:,} bags"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one JSON file."""
        document = {
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "coefficients": [asdict(coefficient) for coefficient in self.coefficients],
            "residual_ms": None if math.isnan(self.residual_ms) else self.residual_ms,
            "dof": self.dof,
            "multiplier": self.multiplier,
            "feature_names": self.feature_names,
        }
        write(path, LEARNER, self, document)


def fit_release(
    release: Release,
    source: Source | None,
    options: LinearOptions,
    progress: Progress | None = None,  # noqa: ARG001  a solution takes no steps to count
) -> LinearModel:
    """Fit a release; one of labels alone names the rows of its bags, which the source holds.

    The labels of the latter have noise of different, public deviations and are weighed by them.
    """
    options = options.checked()
    if not release.aggregates_features and release.bag_table is None:
        raise InputError(
            "the release has aggregates of other columns than its feature map; "
            "they do not belong together"
        )
    if release.aggregates_features:
        if release.weights is not None:
            return _fit_whitened(release, whitened(release), options)
        _refuse_shrinkage(options)
        return _fit_aggregates(release, release.design, release.labels, options)
    _refuse_shrinkage(options)
    design = weighted_design(release, bag_source(source)) / release.noise[:, None]
    return _fit_aggregates(release, design, release.labels / release.noise, options)


def fit_rows(
    rows: Array, labels: Array, options: LinearOptions, names: tuple[str, ...] | None
) -> LinearModel:
    """Fit plain rows, as any regression does; columns without names are x0, x1, …."""
    options = options.checked()
    _refuse_shrinkage(options)
    added = int(options.fit_intercept)
    ones = np.ones((len(rows), added))
    fit = _solve(np.hstack([ones, rows]), labels, options, 0 if added else None)
    shown = names or tuple(f"x{column}" for column in range(rows.shape[1]))
    return LinearModel(
        options=options,
        coef=fit.coefficients[added:],
        intercept=float(fit.coefficients[0]) if added else 0.0,
        coefficients=_coefficients(fit, ("intercept",) * added + shown, options),
        residual_ms=fit.residual_ms,
        dof=fit.dof,
        multiplier=fit.multiplier,
        features=None,
        feature_names=names,
    )


def weighted_design(release: Release, source: Source) -> Array:
    """Σ w·x of every bag, in one pass over the source; labels are not read."""
    features = release.features
    bag, row, weight = bag_members(release.bag_table)
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    total = np.zeros((release.bags, len(features.names)))
    for places, batch in take_rows(source.feature_batches(features.columns), row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(total, bag[places], weight[places, None] * design)
    return total


def _fit_aggregates(
    release: Release, design: Array, labels: Array, options: LinearOptions
) -> LinearModel:
    """Fit `bags` aggregates, or fewer rows that stand for them (a compact release)."""
    bags = release.bags
    used, constant = _columns(release.features, options)
    fit = _solve(
        design[:, used],
        labels,
        options,
        constant,
        scale=bags,
        rank_tolerance=RANK_TOLERANCE,
    )
    fit = replace(fit, dof=fit.dof + bags - len(design))
    if options.penalty == 0 and options.max_norm is None:
        require_freedom(fit)
    names, to_original = release.features.to_original_units()
    coefficients = _coefficients(fit, names, options, to_original[:, used])
    learnt = replace(fit, multiplier=fit.multiplier / bags)
    return _release_model(release.features, learnt, options, used, constant, coefficients)


def _fit_whitened(release: Release, white: Whitened, options: LinearOptions) -> LinearModel:
    """Fit what stands for all rows, its noise known: the intervals are exact, for normal noise."""
    used, constant = _columns(release.features, options)
    root = white.root[:, used]
    fit = _solve(root, white.estimate, options, constant, rank_tolerance=RANK_TOLERANCE)
    names, to_original = release.features.to_original_units()
    transform = to_original[:, used]
    coefficients = _coefficients(replace(fit, dof=0.0), names, options, transform)
    if fit.multiplier == 0:
        spread = np.linalg.norm(transform @ np.linalg.pinv(root) @ white.spread, axis=1)
        coefficients = _with_intervals(coefficients, spread, options.confidence)
    residual = release.certificate.get("residual_root")
    square = math.nan if residual is None else max(0.0, residual) ** 2
    if options.shrink:
        low, high = release.certificate["label_range"]
        rule = shrunken(white.of(used), constant, (low, high))
        fit = replace(fit, coefficients=rule.coefficients)
    model = _release_model(release.features, fit, options, used, constant, coefficients)
    return replace(model, residual_ms=square, dof=0.0)


def _refuse_shrinkage(options: LinearOptions) -> None:
    if options.shrink:
        raise InputError(
            "`shrink` needs a release whose noise is public and known, as of shaped-flag; "
            "leave it out"
        )


def _with_intervals(
    coefficients: tuple[Coefficient, ...], spread: Array, confidence: float
) -> tuple[Coefficient, ...]:
    """Intervals for deviations that are known."""
    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * spread
    return tuple(
        replace(entry, low=entry.value - float(by), high=entry.value + float(by))
        for entry, by in zip(coefficients, reach, strict=True)
    )


def _columns(features: FeatureMap, options: LinearOptions) -> tuple[NDArray[np.bool_], int | None]:
    """The columns to fit, and which of them is the constant."""
    used, constant = np.ones(len(features.names), dtype=bool), features.constant
    if constant is not None and not options.fit_intercept:
        used[constant], constant = False, None
    return used, constant


def _release_model(
    features: FeatureMap,
    fit: Fit,
    options: LinearOptions,
    used: NDArray[np.bool_],
    constant: int | None,
    coefficients: tuple[Coefficient, ...],
) -> LinearModel:
    coef, intercept = np.zeros(len(used)), 0.0
    coef[used] = fit.coefficients
    if constant is not None:
        intercept, coef[constant] = float(coef[constant]), 0.0
    return LinearModel(
        options=options,
        coef=coef,
        intercept=intercept,
        coefficients=coefficients,
        residual_ms=fit.residual_ms,
        dof=fit.dof,
        multiplier=fit.multiplier,
        features=features,
        feature_names=features.names,
    )


def _solve(
    design: Array,
    labels: Array,
    options: LinearOptions,
    constant: int | None,
    *,
    scale: int = 1,
    rank_tolerance: float | None = None,
) -> Fit:
    if options.max_norm is not None:
        return bounded_norm(design, labels, options.max_norm, rank_tolerance=rank_tolerance)
    return ridge(
        design, labels, scale * options.penalty, intercept=constant, rank_tolerance=rank_tolerance
    )


def _coefficients(
    fit: Fit, names: tuple[str, ...], options: LinearOptions, transform: Array | None = None
) -> tuple[Coefficient, ...]:
    if fit.multiplier > 0 or fit.dof < 1:
        values = fit.coefficients if transform is None else transform @ fit.coefficients
        pairs = zip(names, values, strict=True)
        return tuple(Coefficient(name, float(value), None, None) for name, value in pairs)
    bounds = intervals(fit, transform, confidence=options.confidence)
    return tuple(
        Coefficient(name, float(value), float(low), float(high))
        for name, value, low, high in zip(names, *bounds, strict=True)
    )


_OPTIONS = {
    "penalty": is_number,
    "max_norm": optional(is_number),
    "fit_intercept": is_flag,
    "confidence": is_number,
    "shrink": is_flag,
}
_COEFFICIENT = {
    "name": is_text,
    "value": is_number,
    "low": optional(is_number),
    "high": optional(is_number),
}
_FIELDS = {
    "coef": list_of(is_number),
    "intercept": is_number,
    "coefficients": lambda value: isinstance(value, list),
    "residual_ms": optional(is_number),
    "dof": is_number,
    "multiplier": is_number,
    "feature_names": optional(list_of(is_text)),
}


def _read(document: Document, features: FeatureMap | None, _arrays: Arrays) -> LinearModel:
    options = LinearOptions(**checked({"shrink": False} | document["parameters"], _OPTIONS))
    values = checked(document, _FIELDS)
    coef, names = np.array(values["coef"], dtype=np.float64), values["feature_names"]
    if names is not None and len(coef) != len(names):
        raise ValueError("coef and feature_names differ in length")
    if features is not None and features.names != tuple(names or ()):
        raise ValueError("features and feature_names differ")
    entries = (checked(entry, _COEFFICIENT) for entry in values["coefficients"])
    learnt = {
        "coef": coef,
        "coefficients": tuple(Coefficient(**entry) for entry in entries),
        "residual_ms": math.nan if values["residual_ms"] is None else values["residual_ms"],
        "feature_names": None if names is None else tuple(names),
    }
    return LinearModel(options=options, features=features, **values | learnt)


LEARNER = Learner(
    name="linear",
    format="labeldp.linear-regressor",
    options=LinearOptions,
    fit=fit_release,
    read=_read,
)
