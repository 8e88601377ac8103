"""How a `LinearModel` is learnt: from a release, or from plain rows.

Where the noise of a release is known, it is turned back into a regression on all rows
(`whitened`), and a rule (`rules`) chooses the coefficients that predict; those of least squares,
which are for inference, keep exact intervals. Secret weights leave a regression on m aggregates
(`least_squares`), whose noise is estimated with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.batches import take_rows
from labeldp.data.source import Source
from labeldp.errors import InputError, ReleaseError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners import rules
from labeldp.learners.bags import bag_members
from labeldp.learners.coefficients import bare, estimated, measured, sampling_errors, with_errors
from labeldp.learners.effects import Effect, Errors, effects, mean_row
from labeldp.learners.least_squares import Fit, bounded_norm, require_freedom, ridge
from labeldp.learners.linear import RELEASE, LinearModel, LinearOptions
from labeldp.learners.protocol import Array, bag_source, checked, sound
from labeldp.learners.quality import quality
from labeldp.learners.rows import whitened_rows
from labeldp.learners.several import together
from labeldp.learners.whitened import RANK_TOLERANCE, NoisyNormalEquations, sketched, weighed
from labeldp.release.label_model import BagLabels, RowLabels, SketchedLabels, SumLabels

if TYPE_CHECKING:
    from labeldp.release.files import Release

Used = NDArray[np.bool_]


@dataclass(frozen=True)
class _Taken:
    """What a model keeps of where it was learnt, and what it was asked."""

    features: FeatureMap
    options: LinearOptions
    label_range: tuple[float, float]
    releases: tuple[dict[str, Any], ...]

    @cached_property
    def used(self) -> Used:
        """The columns to fit."""
        used = np.ones(len(self.features.names), dtype=bool)
        if self.features.constant is not None and not self.options.fit_intercept:
            used[self.features.constant] = False
        return used

    @property
    def degrees(self) -> list[int]:
        """In which sub-model each of them comes first: 0 is linear."""
        return [d for d, used in zip(self.features.degrees, self.used, strict=True) if used]

    @property
    def constant(self) -> int | None:
        """Which of them is the constant."""
        return self.features.constant if self.options.fit_intercept else None

    @property
    def units(self) -> tuple[tuple[str, ...], Array]:
        """Names in original units, and what turns their coefficients into those."""
        names, to_original = self.features.to_original_units()
        return names, to_original[:, self.used]


def fit_release(
    release: Release | Sequence[Release], source: Source | None, options: LinearOptions
) -> LinearModel:
    """Fit a release, or several of different rows; one of labels alone names rows, which the source
    holds.

    Sums of labels over bags have noise of different, public deviations and are weighed by them.
    """
    options = options.checked()
    releases = tuple(release) if isinstance(release, Sequence) else (release,)
    if not releases:
        raise InputError("there is no release to fit; give one or more")
    with sound():
        return _fit_all(releases, source, options)


def _fit_all(
    releases: tuple[Release, ...], source: Source | None, options: LinearOptions
) -> LinearModel:
    told = tuple(map(_facts, releases))
    if len(releases) > 1:
        all_of_them = together(releases)
        features, columns = _chosen(all_of_them.features, options)
        taken = _Taken(features, options, all_of_them.label_range, told)
        return _fit_white(taken, all_of_them.white.of(columns), known=True)
    return _fit_one(releases[0], source, options, told)


def _fit_one(
    release: Release,
    source: Source | None,
    options: LinearOptions,
    told: tuple[dict[str, Any], ...],
) -> LinearModel:
    meaning = release.meaning
    if not (release.aggregates_features or isinstance(meaning, RowLabels | BagLabels)):
        raise InputError(
            "the release has aggregates of other columns than its feature map; "
            "they do not belong together"
        )
    features, columns = _chosen(release.features, options)
    low, high = release.certificate["label_range"]
    taken = _Taken(features, options, (float(low), float(high)), told)
    if isinstance(meaning, RowLabels):
        return _fit_white(taken, whitened_rows(release, meaning, source).of(columns), known=True)
    if isinstance(meaning, SumLabels):
        return _fit_white(taken, weighed(release, meaning).of(columns), known=True)
    if options.shrink:
        raise InputError(
            "`shrink=True` needs a release whose noise is public and known, as of shaped-flag; "
            "leave it out"
        )
    if isinstance(meaning, BagLabels):
        return _fit_bags(taken, release, meaning, bag_source(source))
    return _fit_sketch(taken, release, meaning, columns)


def _fit_sketch(
    taken: _Taken, release: Release, sketch: SketchedLabels, columns: Used
) -> LinearModel:
    """Fit aggregates with secret weights; a penalty that they choose needs their noise first."""
    if taken.options.lasso != 0 or taken.options.penalty == "auto":
        return _fit_white(taken, sketched(release, sketch).of(columns), known=False)
    design, labels = release.design[:, columns], release.labels
    model, fit = _fit_aggregates(taken, design, labels, release.bags)
    if fit.rank >= release.bags:  # nothing shows how noisy they are
        return model
    return _judged(taken, model, fit, sketched(release, sketch).of(columns))


def _facts(release: Release) -> dict[str, Any]:
    """What a summary says of a release."""
    told = {name: release.certificate.get(name) for name in RELEASE}
    try:
        return checked(told, RELEASE)
    except ValueError as problem:  # of a release that nobody verified
        raise ReleaseError(f"certificate: {problem}; get the release anew") from None


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
        coefficients=estimated(fit, ("intercept",) * added + shown, options.confidence),
        residual_ms=fit.residual_ms,
        dof=fit.dof,
        multiplier=fit.multiplier,
        features=None,
        feature_names=names,
        rule=_told(fit, options),
        label_range=None,
    )


def weighted_design(labels: BagLabels, source: Source, features: FeatureMap) -> Array:
    """Σ w·x of every bag, in one pass over the source; labels are not read."""
    bag, row, weight = bag_members(labels.bags)
    order = np.argsort(row, kind="stable")
    bag, row, weight = bag[order], row[order], weight[order]
    total = np.zeros((len(labels.std), len(features.names)))
    for places, batch in take_rows(source.feature_batches(features.columns), row, features.rows):
        design = features.integers(features.encode(batch)) * features.kept_scales
        np.add.at(total, bag[places], weight[places, None] * design)
    return total


def _chosen(features: FeatureMap, options: LinearOptions) -> tuple[FeatureMap, Used]:
    """The feature map of the columns that are asked for, and which columns of the whole it has."""
    if options.columns is None:
        return features, np.ones(len(features.names), dtype=bool)
    return features.select(options.columns)


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


def _fit_white(taken: _Taken, white: NoisyNormalEquations, *, known: bool) -> LinearModel:
    """Fit what stands for all rows, its noise known: the intervals are exact."""
    white, options = white.of(taken.used), taken.options
    rule = _rule(taken, white, known=known)
    names, transform = taken.units
    coefficients = (
        bare(names, transform @ rule.coefficients)
        if options.penalised and rule.multiplier != 0
        else measured(white, names, transform, options.confidence)
    )
    left = white.residual_ss
    return _release_model(
        taken,
        rule.coefficients,
        coefficients=coefficients,
        residual_ms=math.nan if left is None else max(0.0, left.value),
        dof=0.0,
        multiplier=rule.multiplier,
        rule=rule.told,
        quality=quality(white, rule, taken.constant),
        effects=_effects(
            taken, rule.coefficients, Errors.of_rule(white, rule), mean_row(white, taken.constant)
        ),
    )


def _effects(
    taken: _Taken, fitted: Array, errors: Errors | None = None, mean: Array | None = None
) -> tuple[Effect, ...]:
    """Of the columns that were fitted."""
    small = taken.features.keep(
        [taken.features.kept_columns[i] for i in np.flatnonzero(taken.used)]
    )
    return effects(small, fitted, errors, mean)


def _rule(taken: _Taken, white: NoisyNormalEquations, *, known: bool) -> rules.FitRule:
    """How the coefficients that predict are chosen."""
    options, constant = taken.options, taken.constant
    if options.lasso == "auto":
        return rules.best_lasso(white, constant, taken.label_range)
    if options.lasso > 0:
        return rules.lasso(white, constant, options.lasso)
    if options.penalty == "auto":
        return rules.best_ridge(white, constant, taken.label_range)
    if options.penalty > 0:
        return rules.ridge(white, constant, options.penalty)
    if options.max_norm is not None:
        return rules.bounded(white, options.max_norm)
    if options.shrink is False or not known:
        return rules.plain(white)
    return rules.shrunken(white, constant, taken.label_range, taken.degrees)


# --- noise that is estimated with the fit ---


def _fit_bags(taken: _Taken, release: Release, labels: BagLabels, source: Source) -> LinearModel:
    """Labels aggregated alone, over the rows that the source holds."""
    if taken.options.lasso != 0 or taken.options.penalty == "auto":
        raise InputError(
            '`lasso` and `penalty="auto"` need a release of aggregated features, as of shaped-flag '
            "and wtd-flag; leave them out"
        )
    design = weighted_design(labels, source, taken.features) / labels.std[:, None]
    return _fit_aggregates(taken, design, release.labels / labels.std, release.bags)[0]


def _fit_aggregates(
    taken: _Taken, design: Array, labels: Array, bags: int
) -> tuple[LinearModel, Fit]:
    """Fit `bags` aggregates, or fewer rows that stand for them (a compact release)."""
    options = taken.options
    fit = _solve(
        design[:, taken.used],
        labels,
        options,
        taken.constant,
        scale=bags,
        rank_tolerance=RANK_TOLERANCE,
    )
    fit = replace(fit, dof=fit.dof + bags - len(design))
    if not options.penalised:
        require_freedom(fit)
    names, transform = taken.units
    model = _release_model(
        taken,
        fit.coefficients,
        coefficients=estimated(fit, names, options.confidence, transform),
        residual_ms=fit.residual_ms,
        dof=fit.dof,
        multiplier=fit.multiplier / bags,
        rule=_told(fit, options),
        effects=_effects(taken, fit.coefficients, Errors.of_fit(fit)),
    )
    return model, fit


def _judged(
    taken: _Taken, model: LinearModel, fit: Fit, white: NoisyNormalEquations
) -> LinearModel:
    """The model with what aggregates of all columns tell besides: quality and standard errors."""
    white = white.of(taken.used)
    found = quality(white, _rule(taken, white, known=False), taken.constant)
    if fit.multiplier > 0:
        return replace(model, quality=found)
    _, transform = taken.units
    privacy = math.sqrt(fit.residual_ms) * np.linalg.norm(transform @ fit.covariance_factor, axis=1)
    errors = with_errors(model.coefficients, privacy, sampling_errors(white, transform))
    return replace(model, quality=found, coefficients=errors)


def _release_model(taken: _Taken, fitted: Array, **learnt: Any) -> LinearModel:
    """A model of all columns of the map, those that were not fitted at zero."""
    coef, intercept = np.zeros(len(taken.used)), 0.0
    coef[taken.used] = fitted
    if taken.constant is not None:
        intercept, coef[taken.constant] = float(coef[taken.constant]), 0.0
    return LinearModel(
        options=taken.options,
        coef=coef,
        intercept=intercept,
        features=taken.features,
        feature_names=taken.features.names,
        label_range=taken.label_range,
        releases=taken.releases,
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
