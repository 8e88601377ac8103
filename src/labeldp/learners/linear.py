"""Fit a linear model to one release, to several, or to plain rows.

    1. what the release says, as normal equations with noise          -> `normal_equations`
    2. the coefficients that predict, by the rule that options ask for -> `_choose_rule`
    3. the coefficients for inference, never shrunk, with intervals    -> `_coefficients`
    4. how good predictions are, and their course along each column    -> `quality`, `effects`

All of it is post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, ReleaseError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners import fit_rules
from labeldp.learners.effects import PredictionErrors, mean_row, trace_effects
from labeldp.learners.fit_rules import FitRule
from labeldp.learners.models import (
    RELEASE_FIELDS,
    Coefficient,
    LinearModel,
    LinearOptions,
    Quality,
)
from labeldp.learners.normal_equations import (
    Array,
    Columns,
    NoisyNormalEquations,
    bag_equations,
    plain_equations,
    row_equations,
    sketch_equations,
    sum_equations,
)
from labeldp.learners.quality import estimate_quality
from labeldp.learners.several import joint_equations
from labeldp.release.label_model import BagLabels, RowLabels, SumLabels

if TYPE_CHECKING:
    from labeldp.release.files import Release


@dataclass(frozen=True)
class _Task:
    """What is to be fitted: which columns of which feature map, and with which options."""

    features: FeatureMap
    """Of the columns that were asked for."""
    used: Columns
    """Which of these are fitted: all but the constant, if there is to be no intercept."""
    options: LinearOptions
    label_range: tuple[float, float]

    @classmethod
    def of(
        cls, features: FeatureMap, options: LinearOptions, label_range: tuple[float, float]
    ) -> tuple[_Task, Columns]:
        """Return the task, and which columns of the whole map it fits."""
        whole = np.ones(len(features.names), dtype=bool)
        if options.columns is not None:
            features, whole = features.select(options.columns)
        used = np.ones(len(features.names), dtype=bool)
        if features.constant is not None and not options.fit_intercept:
            used[features.constant] = False
        columns = whole.copy()
        columns[whole] = used
        return cls(features, used, options, label_range), columns

    @property
    def constant(self) -> int | None:
        """The place of the constant among the columns that are fitted."""
        return self.features.constant if self.options.fit_intercept else None

    @property
    def degrees(self) -> list[int]:
        """In which sub-model each of these columns comes first: 0 is linear."""
        pairs = zip(self.features.degrees, self.used, strict=True)
        return [degree for degree, is_used in pairs if is_used]


def fit_release(
    release: Release | Sequence[Release], source: Source | None, options: LinearOptions
) -> LinearModel:
    """Return the fit of a release, or of several of different rows.

    A release of labels alone names rows, whose features are read from the source.
    """
    options = options.checked()
    releases = tuple(release) if isinstance(release, Sequence) else (release,)
    if not releases:
        raise InputError("there is no release to fit; give one or more")
    with refuse_contradictions():
        facts = tuple(map(_release_facts, releases))
        ends = np.array([each.certificate["label_range"] for each in releases], dtype=np.float64)
        label_range = float(ends[:, 0].min()), float(ends[:, 1].max())
        if len(releases) > 1:
            equations, features = joint_equations(releases)
            task, columns = _Task.of(features, options, label_range)
            equations = equations.select(columns)
        else:
            task, columns = _Task.of(releases[0].features, options, label_range)
            equations = _release_equations(releases[0], source, columns, options)
        return _fit(task, equations, facts)


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


def _release_facts(release: Release) -> dict[str, Any]:
    """Return what a summary says of a release, if its certificate holds numbers there."""
    facts = {name: release.certificate.get(name) for name in RELEASE_FIELDS}
    for name, value in facts.items():  # nobody may have verified the release
        kind = str if name == "mechanism" else Real
        if value is not None and not isinstance(value, kind):
            raise ReleaseError(f"certificate: {name} is malformed; get the release anew")
    return facts


def _release_equations(
    release: Release, source: Source | None, columns: Columns, options: LinearOptions
) -> NoisyNormalEquations:
    """Return the normal equations of one release for these columns."""
    labels = release.label_model
    if not (release.aggregates_features or isinstance(labels, RowLabels | BagLabels)):
        raise InputError(
            "the release has aggregates of other columns than its feature map; "
            "they do not belong together"
        )
    if isinstance(labels, RowLabels):
        return row_equations(release, labels, source).select(columns)
    if isinstance(labels, SumLabels):
        return sum_equations(release, labels).select(columns)
    if options.shrink:
        raise InputError(
            "`shrink=True` needs a release whose noise is public and known, as of shaped-flag; "
            "leave it out"
        )
    chooses = options.lasso != 0 or options.penalty == "auto"
    if isinstance(labels, BagLabels):
        if chooses:
            raise InputError(
                '`lasso` and `penalty="auto"` need a release of aggregated features, as of '
                "shaped-flag and wtd-flag; leave them out"
            )
        equations = bag_equations(release, labels, source, columns)
    else:
        equations = sketch_equations(release, labels, columns)
    if not equations.knows_noise and chooses:
        raise InputError(
            "as many aggregates as columns do not show how noisy they are; publish more `bags`"
        )
    if not (equations.knows_noise or options.is_penalised):
        raise InputError(
            f"least squares needs more aggregates than columns: {release.bags} for "
            f"{len(equations.estimate)} independent columns; publish more, or set a penalty or a "
            "norm bound"
        )
    return equations


def _fit(
    task: _Task, equations: NoisyNormalEquations, releases: tuple[dict[str, Any], ...]
) -> LinearModel:
    """Return the model of normal equations."""
    features, options = task.features, task.options
    rule = _choose_rule(task, equations)
    names, to_original = features.to_original_units()
    errors = PredictionErrors.of(equations, rule) if equations.knows_noise else None
    fitted_map = features.keep([features.kept_columns[i] for i in np.flatnonzero(task.used)])
    coef, intercept = np.zeros(len(task.used)), 0.0
    coef[task.used] = rule.coefficients
    if task.constant is not None:  # predictions are design @ coef + intercept
        intercept, coef[task.constant] = float(coef[task.constant]), 0.0
    residual_ms, dof = _residual(equations, rule)
    return LinearModel(
        options=options,
        coef=coef,
        intercept=intercept,
        coefficients=_coefficients(
            equations, rule, task.constant, names, to_original[:, task.used], options.confidence
        ),
        residual_ms=residual_ms,
        dof=dof,
        multiplier=rule.multiplier,
        features=features,
        feature_names=features.names,
        rule=rule.info,
        label_range=task.label_range,
        quality=estimate_quality(equations, rule, task.constant),
        releases=releases,
        effects=trace_effects(
            fitted_map, rule.coefficients, errors, mean_row(equations, task.constant)
        ),
    )


def _choose_rule(task: _Task, equations: NoisyNormalEquations) -> FitRule:
    """Return the coefficients that predict, by the rule that the options ask for."""
    options, constant = task.options, task.constant
    if options.lasso == "auto":
        return fit_rules.best_lasso(equations, constant, task.label_range)
    if options.lasso > 0:
        return fit_rules.lasso(equations, constant, options.lasso)
    if options.penalty == "auto":
        return fit_rules.best_ridge(equations, constant, task.label_range)
    if options.penalty > 0:
        return fit_rules.ridge(equations, constant, options.penalty)
    if options.max_norm is not None:
        return fit_rules.norm_bound(equations, options.max_norm)
    if options.shrink is False or equations.noise_estimate is not None:
        return fit_rules.least_squares(equations, constant)
    return fit_rules.posterior_mean(equations, constant, task.label_range, task.degrees)


def _coefficients(
    equations: NoisyNormalEquations,
    rule: FitRule,
    constant: int | None,
    names: Sequence[str],
    transform: Array,
    confidence: float,
) -> tuple[Coefficient, ...]:
    """Return the coefficients in original units, with intervals and errors where they are exact.

    Where nothing but shrinkage to the posterior mean holds coefficients back, they are those of
    least squares. On a sketch of iid aggregates each interval holds its coefficient of β̂ with
    probability exactly `confidence`, whatever the law of the labels (theory §5). Errors from
    sampling are those of the fit with all labels, σ²(XᵀX)⁻¹ (theory §10).
    """
    if rule.multiplier != 0 or not equations.knows_noise:
        values = transform @ rule.coefficients
        return tuple(
            Coefficient(name, float(value), None, None)
            for name, value in zip(names, values, strict=True)
        )
    solve = transform @ fit_rules.solution_map(equations, constant)
    privacy = np.linalg.norm(solve @ equations.spread, axis=1)
    sampling, variance = None, equations.residual_variance
    if variance is not None:
        sampling = math.sqrt(variance) * np.linalg.norm(solve, axis=1)
    reach = equations.deviations(confidence) * privacy
    entries = []
    for place, (name, number) in enumerate(zip(names, solve @ equations.estimate, strict=True)):
        value, by = float(number), float(reach[place])
        privacy_error = sampling_error = total_error = None
        if equations.rows is not None:  # else the scatter about the fit is not privacy's alone
            privacy_error = float(privacy[place])
        if sampling is not None:
            sampling_error = float(sampling[place])
            total_error = math.hypot(privacy[place], sampling[place])
        entries.append(
            Coefficient(
                name, value, value - by, value + by, privacy_error, sampling_error, total_error
            )
        )
    return tuple(entries)


def _residual(equations: NoisyNormalEquations, rule: FitRule) -> tuple[float, float]:
    """Return the residual mean square of the fit and its degrees of freedom.

    Where noise is public that is the residual sum of squares on all rows, as far as it was
    published, and no degree of freedom counts.
    """
    noise = equations.noise_estimate
    if noise is None:
        residual = equations.residual_ss
        return (math.nan if residual is None else max(0.0, residual.value)), 0.0
    left_over = equations.estimate - rule.prediction(equations)
    outside = noise.variance * noise.dof if noise.dof >= 1 else 0.0
    dof = noise.dof + len(equations.estimate) - float(np.trace(rule.smoother))
    if rule.multiplier == 0:
        dof = float(noise.dof)
    total = outside + noise.unit * float(left_over @ left_over)
    return (total / dof if dof > 0 else math.nan), dof


def fit_rows(
    rows: Array, labels: Array, options: LinearOptions, names: tuple[str, ...] | None
) -> LinearModel:
    """Return the fit of plain rows, as of any regression; columns without names are x0, x1, …."""
    options = options.checked()
    only_releases = {
        "`shrink=True`": options.shrink,
        "`lasso`": options.lasso != 0,
        '`penalty="auto"`': options.penalty == "auto",
        "`columns`": options.columns is not None,
    }
    for name, is_set in only_releases.items():
        if is_set:
            raise InputError(
                f"{name} needs a release whose noise is known; leave it out on plain rows"
            )
    constant = 0 if options.fit_intercept else None
    added = int(options.fit_intercept)
    equations = plain_equations(np.hstack([np.ones((len(rows), added)), rows]), labels)
    if options.max_norm is not None:
        rule = fit_rules.norm_bound(equations, options.max_norm)
    elif options.penalty != 0:
        rule = fit_rules.ridge(equations, constant, float(options.penalty))
    else:
        rule = fit_rules.least_squares(equations, constant)
    columns = names or tuple(f"x{column}" for column in range(rows.shape[1]))
    shown, transform = ("intercept",) * added + columns, np.eye(added + len(columns))
    residual_ms, dof = _residual(equations, rule)
    return LinearModel(
        options=options,
        coef=rule.coefficients[added:],
        intercept=float(rule.coefficients[0]) if added else 0.0,
        coefficients=_coefficients(equations, rule, constant, shown, transform, options.confidence),
        residual_ms=residual_ms,
        dof=dof,
        multiplier=rule.multiplier,
        features=None,
        feature_names=names,
        rule=rule.info,
        label_range=None,
    )


MAX_COLUMNS = 1000
"""With more columns a fit takes long, and a release says nothing of its own use."""


def release_quality(release: Release, source: Source | None = None) -> Quality | None:
    """Return how good the default fit of a release is, from the release alone.

    This is what `labeldp release` prints. It fits no model: it needs the normal equations (one
    reading of the release; of the table's features too, if the release holds only labels of its
    rows) and a few products of small matrices. None where the release does not show its noise or
    has very many columns.
    """
    shows_noise = release.aggregates_features or release.holds_rows
    if not shows_noise or len(release.features.names) > MAX_COLUMNS:
        return None
    low, high = release.certificate["label_range"]
    options = LinearOptions()
    task, columns = _Task.of(release.features, options, (float(low), float(high)))
    try:
        equations = _release_equations(release, source, columns, options)
    except InputError:  # too few aggregates for a fit
        return None
    rule = _choose_rule(task, equations)
    return estimate_quality(equations, rule, task.constant)
