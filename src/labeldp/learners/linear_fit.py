"""How a `LinearModel` is learnt: from a release, or from plain rows.

Where the noise of a release is known, it is turned back into a regression on all rows
(`whitened`), and a rule (`rules`) chooses the coefficients that predict; those of least squares,
which are for inference, keep exact intervals. Secret weights leave a regression on m aggregates
(`least_squares`), whose noise is estimated with it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.features import FeatureMap
from labeldp.learners import rules
from labeldp.learners.bags import bag_members
from labeldp.learners.least_squares import Fit, bounded_norm, intervals, require_freedom, ridge
from labeldp.learners.linear import LinearModel, LinearOptions
from labeldp.learners.protocol import Array, Coefficient, bag_source
from labeldp.learners.rows import whitened_rows
from labeldp.learners.rules import Rule
from labeldp.learners.whitened import RANK_TOLERANCE, Whitened, knows_noise, whitened
from labeldp.source import Source, take_rows

if TYPE_CHECKING:
    from labeldp.release import Release

Used = NDArray[np.bool_]


def fit_release(release: Release, source: Source | None, options: LinearOptions) -> LinearModel:
    """Fit a release; one of labels alone names rows, which the source holds.

    Sums of labels over bags have noise of different, public deviations and are weighed by them.
    """
    options = options.checked()
    features, columns = _chosen(release.features, options)
    if release.holds_rows:
        return _fit_white(release, whitened_rows(release, source).of(columns), features, options)
    if not release.aggregates_features and release.bag_table is None:
        raise InputError(
            "the release has aggregates of other columns than its feature map; "
            "they do not belong together"
        )
    if knows_noise(release):
        return _fit_white(release, whitened(release).of(columns), features, options)
    if options.shrink:
        raise InputError(
            "`shrink=True` needs a release whose noise is public and known, as of shaped-flag; "
            "leave it out"
        )
    if not release.aggregates_features:
        return _fit_bags(release, bag_source(source), features, options)
    if options.lasso != 0 or options.penalty == "auto":
        return _fit_white(release, whitened(release).of(columns), features, options)
    return _fit_aggregates(release, release.design[:, columns], release.labels, features, options)


def fit_rows(
    rows: Array, labels: Array, options: LinearOptions, names: tuple[str, ...] | None
) -> LinearModel:
    """Fit plain rows, as any regression does; columns without names are x0, x1, …."""
    options = options.checked()
    _refuse_on_rows(options)
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
        rule=_told(fit, options),
        label_range=None,
    )


def weighted_design(release: Release, source: Source, features: FeatureMap) -> Array:
    """Σ w·x of every bag, in one pass over the source; labels are not read."""
    bag, row, weight = bag_members(release.bag_table)
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    total = np.zeros((release.bags, len(features.names)))
    for places, batch in take_rows(source.feature_batches(features.columns), row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(total, bag[places], weight[places, None] * design)
    return total


def _chosen(features: FeatureMap, options: LinearOptions) -> tuple[FeatureMap, Used]:
    """The feature map of the columns that are asked for, and which columns of the whole it has."""
    if options.columns is None:
        return features, np.ones(len(features.names), dtype=bool)
    return features.select(options.columns)


def _used(features: FeatureMap, options: LinearOptions) -> tuple[Used, int | None]:
    """The columns to fit, and which of them is the constant."""
    used, constant = np.ones(len(features.names), dtype=bool), features.constant
    if constant is not None and not options.fit_intercept:
        used[constant], constant = False, None
    return used, constant


def _refuse_on_rows(options: LinearOptions) -> None:
    """What only a release has."""
    asked = {
        "`shrink=True`": options.shrink,
        "`lasso`": options.lasso != 0,
        '`penalty="auto"`': options.penalty == "auto",
        "`columns`": options.columns is not None,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise InputError(
                f"{name} needs a release whose noise is known; leave it out on plain rows"
            )


# --- noise that is known, or all that is to be known of it ---


def _fit_white(
    release: Release, white: Whitened, features: FeatureMap, options: LinearOptions
) -> LinearModel:
    """Fit what stands for all rows, its noise known: the intervals are exact, for normal noise."""
    used, constant = _used(features, options)
    white = white.of(used)
    rule = _rule(white, constant, options, release)
    names, to_original = features.to_original_units()
    transform = to_original[:, used]
    penalised = options.penalised and rule.multiplier != 0
    coefficients = (
        _values(names, transform @ rule.coefficients)
        if penalised
        else _measured(white, names, transform, options.confidence)
    )
    left = white.residual_ss
    return _release_model(
        release,
        features,
        (used, constant),
        rule.coefficients,
        options=options,
        coefficients=coefficients,
        residual_ms=math.nan if left is None else max(0.0, left.value),
        dof=0.0,
        multiplier=rule.multiplier,
        rule=rule.told,
    )


def _rule(white: Whitened, constant: int | None, options: LinearOptions, release: Release) -> Rule:
    """How the coefficients that predict are chosen."""
    if options.lasso != 0:
        return rules.lasso(white, constant, None if options.lasso == "auto" else options.lasso)
    if options.penalty != 0:
        return rules.ridge(white, constant, None if options.penalty == "auto" else options.penalty)
    if options.max_norm is not None:
        return rules.bounded(white, options.max_norm)
    if options.shrink is False or not knows_noise(release):
        return rules.plain(white)
    low, high = release.certificate["label_range"]
    return rules.shrunken(white, constant, (low, high))


def _measured(
    white: Whitened, names: tuple[str, ...], transform: Array, confidence: float
) -> tuple[Coefficient, ...]:
    """Least squares, with intervals for deviations that are known."""
    from scipy.special import ndtri

    inverse = transform @ np.linalg.pinv(white.root)
    reach = float(ndtri((1 + confidence) / 2)) * np.linalg.norm(inverse @ white.spread, axis=1)
    return tuple(
        replace(entry, low=entry.value - float(by), high=entry.value + float(by))
        for entry, by in zip(_values(names, inverse @ white.estimate), reach, strict=True)
    )


# --- noise that is estimated with the fit ---


def _fit_bags(
    release: Release, source: Source, features: FeatureMap, options: LinearOptions
) -> LinearModel:
    """Labels aggregated alone, over the rows that the source holds."""
    if options.lasso != 0 or options.penalty == "auto":
        raise InputError(
            '`lasso` and `penalty="auto"` need a release of aggregated features, as of shaped-flag '
            "and wtd-flag; leave them out"
        )
    design = weighted_design(release, source, features) / release.noise[:, None]
    return _fit_aggregates(release, design, release.labels / release.noise, features, options)


def _fit_aggregates(
    release: Release, design: Array, labels: Array, features: FeatureMap, options: LinearOptions
) -> LinearModel:
    """Fit `bags` aggregates, or fewer rows that stand for them (a compact release)."""
    bags = release.bags
    used, constant = _used(features, options)
    fit = _solve(
        design[:, used],
        labels,
        options,
        constant,
        scale=bags,
        rank_tolerance=RANK_TOLERANCE,
    )
    fit = replace(fit, dof=fit.dof + bags - len(design))
    if not options.penalised:
        require_freedom(fit)
    names, to_original = features.to_original_units()
    return _release_model(
        release,
        features,
        (used, constant),
        fit.coefficients,
        options=options,
        coefficients=_coefficients(fit, names, options, to_original[:, used]),
        residual_ms=fit.residual_ms,
        dof=fit.dof,
        multiplier=fit.multiplier / bags,
        rule=_told(fit, options),
    )


def _release_model(
    release: Release,
    features: FeatureMap,
    fitted: tuple[Used, int | None],
    coefficients_used: Array,
    **learnt: Any,
) -> LinearModel:
    """A model of all columns of the map, those that were not fitted at zero."""
    used, constant = fitted
    coef, intercept = np.zeros(len(used)), 0.0
    coef[used] = coefficients_used
    if constant is not None:
        intercept, coef[constant] = float(coef[constant]), 0.0
    bounds = release.certificate.get("label_range")
    return LinearModel(
        coef=coef,
        intercept=intercept,
        features=features,
        feature_names=features.names,
        label_range=None if bounds is None else (float(bounds[0]), float(bounds[1])),
        **learnt,
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
    penalty = scale * float(options.penalty)
    return ridge(design, labels, penalty, intercept=constant, rank_tolerance=rank_tolerance)


def _told(fit: Fit, options: LinearOptions) -> dict[str, Any]:
    """The rule by which the coefficients were found."""
    if fit.multiplier == 0:
        return {"rule": "least squares"}
    if options.max_norm is not None:
        return {"rule": "norm bound", "max_norm": options.max_norm}
    return {"rule": "ridge", "penalty": float(options.penalty)}


def _coefficients(
    fit: Fit, names: tuple[str, ...], options: LinearOptions, transform: Array | None = None
) -> tuple[Coefficient, ...]:
    if fit.multiplier > 0 or fit.dof < 1:
        values = fit.coefficients if transform is None else transform @ fit.coefficients
        return _values(names, values)
    bounds = intervals(fit, transform, confidence=options.confidence)
    return tuple(
        Coefficient(name, float(value), float(low), float(high))
        for name, value, low, high in zip(names, *bounds, strict=True)
    )


def _values(names: tuple[str, ...], values: Array) -> tuple[Coefficient, ...]:
    pairs = zip(names, values, strict=True)
    return tuple(Coefficient(name, float(value), None, None) for name, value in pairs)
