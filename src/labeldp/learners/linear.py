"""Fit a linear model to one release, to several, or to plain rows.

    1. what the release says, as normal equations with noise           -> `normal_equations`
    2. the coefficients that predict, by the rule that options ask for -> `fit_rules.choose_rule`
    3. the coefficients for inference, never shrunk, with intervals    -> `_coefficients`
    4. how good predictions are                                        -> `estimate_quality`
    5. how predictions move with each column                           -> `column_effects`

All of it is post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from labeldp.arrow_util import arrow_numbers, arrow_words
from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, ReleaseError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.fit_rules import FitRule, choose_rule, solution_map
from labeldp.learners.models import (
    Coefficient,
    Effect,
    GeneralizedOptions,
    LinearModel,
    LinearOptions,
    PredictionErrors,
    Quality,
)
from labeldp.learners.normal_equations import (
    Array,
    NoisyNormalEquations,
    NoisyValue,
    joint_equations,
    plain_equations,
    quadratic_error,
    release_equations,
    square_norm,
    triangle,
)

if TYPE_CHECKING:
    from labeldp.releases.files import Release

MAX_COLUMNS = 1000
"""With more columns a fit takes long, and `release_quality` returns nothing."""
POINTS = 33
"""Values of a number at which predictions are shown."""
MAX_LEVELS = 40
_RELEASE_FIELDS = ("mechanism", "epsilon", "delta", "rows", "bags")


def fit_release(
    releases: Sequence[Release], source: Source | None, options: LinearOptions
) -> LinearModel:
    """Return the fit of a release, or of several of different rows.

    A release of labels alone names rows, whose features are read from the source.
    """
    if not releases:
        raise InputError("there is no release to fit; give one or more")
    if not options.fit_intercept:
        raise InputError(
            "`fit_intercept` is for plain rows: whether a release has a constant its plan said; "
            "leave it out"
        )
    with refuse_contradictions():
        facts = release_facts(releases)
        equations, rule, features, label_range = _fit(releases, source, options)
        model = linear_model(equations, rule, options, *features.to_original_units())
        return replace(
            model,
            features=features,
            feature_names=features.names,
            label_range=label_range,
            quality=estimate_quality(equations, rule),
            releases=facts,
            effects=column_effects(features, equations, rule),
            prediction_errors=prediction_errors(equations, rule),
        )


def release_facts(releases: Sequence[Release]) -> tuple[dict[str, Any], ...]:
    """Return what a model records of releases."""
    facts = [{name: each.certificate.get(name) for name in _RELEASE_FIELDS} for each in releases]
    # A certificate that nobody verified may hold anything; these numbers are shown and saved.
    for name in _RELEASE_FIELDS[1:]:
        if not all(isinstance(fact[name], int | float | None) for fact in facts):
            raise TypeError(f"{name} is no number")
    return tuple(facts)


def fit_rows(
    rows: Array, labels: Array, names: tuple[str, ...] | None, options: LinearOptions
) -> LinearModel:
    """Return the fit of plain rows, as of any regression; columns without names are x0, x1, …."""
    if options.columns is not None:
        raise InputError("`columns` chooses among those of a release; leave it out on plain rows")
    added = int(options.fit_intercept)
    design = np.hstack([np.ones((len(rows), added)), rows])
    equations = plain_equations(design, labels, 0 if added else None)
    rule = choose_rule(equations, options, (-math.inf, math.inf))
    shown = ("intercept",) * added + (names or tuple(f"x{k}" for k in range(rows.shape[1])))
    model = linear_model(equations, rule, options, shown, np.eye(len(shown)))
    return replace(model, coef=model.coef[added:], feature_names=names)


def linear_model(
    equations: NoisyNormalEquations,
    rule: FitRule,
    options: LinearOptions | GeneralizedOptions,
    names: Sequence[str],
    to_original: Array,
) -> LinearModel:
    """Return the model that equations and a rule make; predictions are design @ coef + intercept.

    `to_original` turns coefficients into those of `names`, in original units.
    """
    coef, intercept = rule.coefficients.copy(), 0.0
    if equations.constant is not None:
        intercept, coef[equations.constant] = float(coef[equations.constant]), 0.0
    return LinearModel(
        options=options,
        coef=coef,
        intercept=intercept,
        coefficients=_coefficients(equations, rule, names, to_original, options.confidence),
        multiplier=rule.multiplier,
        rule=rule.info,
    )


def release_quality(release: Release, source: Source | None = None) -> Quality | None:
    """Return how good the default fit of a release is, from the release alone.

    This is what `labeldp release` prints. It needs the normal equations (one reading of the
    release; of the table's features too, if the release holds only labels of its rows) and a few
    products of small matrices. None where the release does not show its noise or has very many
    columns.
    """
    shows_noise = release.aggregates_features or release.holds_rows
    if not shows_noise or len(release.features.names) > MAX_COLUMNS:
        return None
    try:
        equations, rule, *_ = _fit([release], source, LinearOptions())
    except InputError:  # too few aggregates for a fit
        return None
    return estimate_quality(equations, rule)


@contextmanager
def refuse_contradictions() -> Iterator[None]:
    """Turn whatever an altered certificate or table brings about into one line."""
    try:
        yield
    except LabelDPError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
        raise ReleaseError(
            "the release contradicts itself, so nothing can be learnt from it; verify it, and get "
            "the original"
        ) from problem


def _fit(
    releases: Sequence[Release], source: Source | None, options: LinearOptions
) -> tuple[NoisyNormalEquations, FitRule, FeatureMap, tuple[float, float]]:
    """Return equations, rule, the map of the columns asked for, and the label range."""
    joint, features = None, releases[0].features
    if len(releases) > 1:
        joint, features = joint_equations(releases)
    columns = np.ones(len(features.names), dtype=bool)
    if options.columns is not None:
        features, columns = features.select(options.columns)
    if joint is not None:
        equations = joint.select(columns)
    else:
        equations = release_equations(releases[0], source, columns)
    has_limit = options.max_norm is not None or options.penalty != 0
    if not equations.knows_noise and not has_limit:
        raise InputError(
            f"the fit needs more aggregates than columns: {releases[0].bags} for "
            f"{len(equations.estimate)} independent columns; publish more, or set a penalty or a "
            "norm bound"
        )
    ends = np.array([each.certificate["label_range"] for each in releases], dtype=np.float64)
    label_range = float(ends[:, 0].min()), float(ends[:, 1].max())
    rule = choose_rule(equations, options, label_range, features.degrees)
    return equations, rule, features, label_range


# --- inference ---


def _coefficients(
    equations: NoisyNormalEquations,
    rule: FitRule,
    names: Sequence[str],
    transform: Array,
    confidence: float,
) -> tuple[Coefficient, ...]:
    """Return the coefficients in original units, with intervals and errors where they are exact.

    `transform` turns the coefficients of the fitted columns into those in original units.

    Where nothing but shrinkage to the posterior mean holds coefficients back, they are those of
    least squares. On a sketch of iid aggregates each interval holds its coefficient of β̂ with
    probability exactly `confidence`, whatever the law of the labels (theory §5). Errors from
    sampling are those of the fit with all labels, σ²(XᵀX)⁻¹ (theory §10).
    """
    low = high = errors = sampling = total = [None] * len(names)
    if rule.multiplier != 0 or not equations.knows_noise:
        values = transform @ rule.coefficients
    else:
        solve = transform @ solution_map(equations)
        values = solve @ equations.estimate
        privacy = np.linalg.norm(solve @ equations.spread, axis=1)
        reach = equations.deviations(confidence) * privacy
        low, high = (values - reach).tolist(), (values + reach).tolist()
        if equations.rows is not None:  # else the scatter about the fit is not privacy's alone
            errors = privacy.tolist()
        if (variance := residual_variance(equations, rule)) is not None:
            deviations = math.sqrt(variance) * np.linalg.norm(solve, axis=1)
            sampling, total = deviations.tolist(), np.hypot(privacy, deviations).tolist()
    entries = zip(names, values.tolist(), low, high, errors, sampling, total, strict=True)
    return tuple(Coefficient(*entry) for entry in entries)


# --- quality ---


def explained_ss(equations: NoisyNormalEquations, rule: FitRule) -> NoisyValue:
    """Return what the fit with all labels explains: ‖b‖², less (q0·b)² if there is a constant.

    Where predictions are the posterior mean b̂ it is that of the posterior: ‖b̂‖² + tr V, which is
    much less noisy than an unbiased estimate where most directions hold noise alone.
    """
    mean = equations.mean_direction
    others = np.eye(len(equations.estimate)) - (0 if mean is None else np.outer(mean, mean))
    if rule.posterior is None:
        return square_norm(others @ equations.estimate, others @ equations.spread)
    slopes, covariance = others @ rule.prediction(equations), others @ rule.posterior @ others
    value = float(slopes @ slopes + np.trace(covariance))
    variance = 4 * slopes @ covariance @ slopes + 2 * np.sum(covariance**2)
    return NoisyValue(value, math.sqrt(variance))


def residual_ss(equations: NoisyNormalEquations, rule: FitRule) -> NoisyValue | None:
    """Return ‖y − Xβ̂‖² of the fit with all labels; None if the release does not tell."""
    total = equations.total_ss
    if total is None:
        return equations.residual_ss
    return total.less(explained_ss(equations, rule))


def _clear(equations: NoisyNormalEquations) -> float:
    """Return how many deviations a sum of squares must have to be shown.

    Intervals that rest on a residual of one deviation still hold about as often as they say. The
    square of a noisy root, which earlier releases have, is told with two.
    """
    return 2.0 if equations.total_ss is None else 1.0


def residual_variance(equations: NoisyNormalEquations, rule: FitRule) -> float | None:
    """Return σ² per row, for the degrees of freedom that it has; None if it is hardly known."""
    residual = residual_ss(equations, rule)
    if residual is None or equations.rows is None or not residual.exceeds(_clear(equations)):
        return None
    return residual.value / max(1, equations.rows - len(equations.estimate))


def estimate_quality(equations: NoisyNormalEquations, rule: FitRule) -> Quality | None:
    """Return the quality of a rule's predictions for the rows of the release.

    The constant predictor (the mean of all labels) misses ‖b‖² − (q0·b)² more than the fit with all
    labels, and predictions b̂ miss ‖b̂ − b‖² more. Both have unbiased estimates (the choice of a
    rule makes the second a little too small), and their difference says how much better the
    predictions are than the constant, whatever the residual is. Where a second moment was
    published it also tells R², and the gain is that of the posterior: ‖b̂‖² less its part along q0
    (theory §15). Releases of earlier versions may have the residual's root instead (§6.2).

    It is None if no column is the constant, or if the release does not show its noise or says
    nothing of all rows.
    """
    mean, rows = equations.mean_direction, equations.rows
    if mean is None or rows is None or not equations.knows_noise:
        return None
    estimate, spread = equations.estimate, equations.spread
    slopes = estimate - mean * (mean @ estimate)
    slope_spread = spread - np.outer(mean, mean @ spread)
    explained = square_norm(slopes, slope_spread)
    # ‖b‖² − (q0·b)² − ‖b̂ − b‖² is a quadratic form of b̃; its half gradient and matrix give the
    # error, to which the choice of the rule adds its own.
    prediction = rule.prediction(equations)
    rest = np.eye(len(mean)) - rule.smoother
    gradient = slopes - rest.T @ (estimate - prediction)
    form = slope_spread.T @ slope_spread - (rest @ spread).T @ (rest @ spread)
    risk, error = rule.risk(equations), quadratic_error(spread.T @ gradient, form)
    gain = NoisyValue(explained.value - risk.value, math.hypot(error, risk.error))
    quality = Quality(gain.value / rows, gain.error / rows)
    if rule.posterior is not None:
        # The probability that 2·b̂·b < ‖b̂‖², both without their means, by the posterior of b
        # about b̂: then ‖b̂ − b‖² is more than ‖b‖², which the constant misses.
        slopes = prediction - mean * (mean @ prediction)
        deviation = math.sqrt(max(0.0, float(slopes @ rule.posterior @ slopes)))
        worse = float(ndtr(-0.5 * float(slopes @ slopes) / deviation)) if deviation else 0.5
        quality = replace(quality, worse=worse)
        if equations.total_ss is not None:
            gain = NoisyValue(float(slopes @ slopes), 2 * deviation)
            quality = replace(quality, gain=gain.value / rows, gain_error=gain.error / rows)
    residual, total = residual_ss(equations, rule), equations.total_ss
    clear = _clear(equations)
    if total is None and residual is not None and residual.exceeds(clear):
        value = residual.value + max(0.0, explained.value, gain.value)
        total = NoisyValue(value, math.hypot(residual.error, explained.error))
    if residual is None or total is None or not total.exceeds(clear):
        return quality
    r2 = min(1.0, gain.value / total.value)
    quality = replace(
        quality,
        r2=r2,
        r2_error=math.hypot(gain.error, r2 * total.error) / total.value,
        all_labels_r2=min(1.0, 1 - residual.value / total.value),
    )
    if not residual.exceeds(clear):
        return quality
    dof = max(1, rows - len(estimate))
    residual_std = math.sqrt(residual.value / dof)
    error = residual.error / (2 * residual_std * dof)
    return replace(quality, residual_std=residual_std, residual_std_error=error)


# --- errors of predictions ---


def prediction_errors(equations: NoisyNormalEquations, rule: FitRule) -> PredictionErrors | None:
    """Return what predictions miss; None where the residual is not known, or a penalty set."""
    variance = residual_variance(equations, rule)
    if variance is None or rule.multiplier != 0 or not equations.knows_noise:
        return None
    privacy, inverse = _covariance_roots(equations, rule)
    roots = np.hstack([privacy, math.sqrt(variance) * inverse])
    return PredictionErrors.of(triangle([roots.T], len(roots)), variance)


def _covariance_roots(equations: NoisyNormalEquations, rule: FitRule) -> tuple[Array, Array]:
    """Return roots of the covariance of the coefficients that predict: from privacy, and R⁻¹.

    The second is for the sampling of rows, and for residuals of variance 1.
    """
    inverse, covariance = np.linalg.pinv(equations.root), rule.posterior
    if covariance is None:
        noise = equations.spread @ equations.spread.T
        covariance = rule.smoother @ noise @ rule.smoother.T
    values, vectors = np.linalg.eigh(covariance)
    privacy = inverse @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return np.asarray(privacy), np.asarray(inverse)


# --- effects ---


def column_effects(
    features: FeatureMap, equations: NoisyNormalEquations, rule: FitRule
) -> tuple[Effect, ...]:
    """Return how predictions move with each column while the others stay at typical values.

    The rows are made up from the feature map, which is public: means of numbers, the base level of
    every category. With D their design and F a root of the covariance of the coefficients,
    the standard errors of predictions are the norms of the rows of D·F: from privacy alone, and
    with the sampling of rows where the residual is known (theory §10).
    """
    grids, rows = _effect_rows(features)
    design = features.design(rows)
    columns: list[Array | None] = [design @ rule.coefficients, None, None]
    if equations.knows_noise:
        root, inverse = _covariance_roots(equations, rule)
        columns[1] = privacy = np.linalg.norm(design @ root, axis=1)
        if (variance := residual_variance(equations, rule)) is not None:
            sampling = np.linalg.norm(design @ inverse, axis=1)
            columns[2] = np.hypot(privacy, math.sqrt(variance) * sampling)
    effects, start = [], 0
    for name, shown in grids.items():
        part = slice(start, start := start + len(shown))
        parts: list[Any] = [None if column is None else column[part].tolist() for column in columns]
        effects.append(Effect(name, shown, *parts))
    return tuple(effects)


def _effect_rows(features: FeatureMap) -> tuple[dict[str, list[Any]], pa.Table]:
    """Return the values shown of each column, and the raw rows that hold them in this order."""
    typical: dict[str, Any] = {}
    grids: dict[str, list[Any]] = {}
    for number in features.numeric:  # evenly spaced in what enters the design
        entering = np.append(number.imputed, np.linspace(*number.entering_range, POINTS))
        if number.log:  # of the number itself
            entering = np.copysign(np.expm1(np.abs(entering)), entering)
        typical[number.name], *grids[number.name] = entering.tolist()
    for place, category in enumerate(features.categorical):
        if category.levels:
            typical[category.name] = category.levels[features.base_level(place)]
            grids[category.name] = list(category.levels[:MAX_LEVELS])
    count, start, arrays = sum(map(len, grids.values())), 0, {}
    for name, values in grids.items():
        entries = [typical[name]] * count
        entries[start : start + len(values)] = values
        start += len(values)
        # Not pa.array of a list, which imports pandas.
        is_number = isinstance(typical[name], float)
        arrays[name] = (
            arrow_numbers(np.array(entries)) if is_number else arrow_words(entries, pa.string())
        )
    for name in set(features.columns) - set(arrays):  # categories without levels of their own
        arrays[name] = pa.nulls(count, pa.string())
    return grids, pa.table(arrays)
