"""How good predictions are, estimated from the release alone: post-processing, free of privacy.

With b̃ ~ N(b, N) and q0 the direction of the mean, the constant predictor (the mean of all labels)
misses ‖b‖² − (q0·b)² more than the fit with all labels, and predictions b̂ miss ‖b̂ − b‖² more.
Both have unbiased estimates (`fit_rules`; the choice of a rule makes the second a little too
small), and their difference says how much better the predictions are than the constant, whatever
the residual is. R² needs that too: a release may publish it with noise (theory §6.2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from labeldp.learners.fit_rules import Array, FitRule
from labeldp.learners.models import Quality
from labeldp.learners.normal_equations import (
    NoisyNormalEquations,
    NoisyValue,
    quadratic_error,
    square_norm,
)


def estimate_quality(
    equations: NoisyNormalEquations, rule: FitRule, constant: int | None
) -> Quality | None:
    """Return the quality of a rule's predictions for the rows of the release.

    It is None if no column is the constant, which predictions are compared with, or if the release
    does not show its noise or says nothing of all rows.
    """
    mean, rows = equations.mean_direction(constant), equations.rows
    if mean is None or rows is None or not equations.knows_noise:
        return None
    estimate, spread = equations.estimate, equations.spread
    slopes = estimate - mean * (mean @ estimate)
    slope_spread = spread - np.outer(mean, mean @ spread)
    explained = square_norm(slopes, slope_spread)
    # ‖b‖² − (q0·b)² − ‖b̂ − b‖² is a quadratic form of b̃; its half gradient and matrix give the
    # error, to which the choice of the rule adds its own.
    rest = np.eye(len(mean)) - rule.smoother
    gradient = slopes - rest.T @ (estimate - rule.prediction(equations))
    form = slope_spread.T @ slope_spread - (rest @ spread).T @ (rest @ spread)
    risk, error = rule.risk(equations), quadratic_error(spread.T @ gradient, form)
    gain = NoisyValue(explained.value - risk.value, math.hypot(error, risk.error))
    quality = Quality(
        gain.value / rows,
        gain.error / rows,
        signal=rule.signal,
        worse=_chance_of_loss(equations, rule, mean),
    )
    residual = equations.residual_ss
    if residual is None or not residual.is_clear:
        return quality
    return _with_residual(quality, gain, explained, residual, rows, spread)


def _chance_of_loss(equations: NoisyNormalEquations, rule: FitRule, mean: Array) -> float | None:
    """Return the probability that 2·b̂·b is below ‖b̂‖², by the posterior of b about b̂.

    Both count without their means. Then ‖b̂ − b‖² is more than ‖b‖², which the constant misses.
    """
    if rule.posterior is None:
        return None
    prediction = rule.prediction(equations)
    slopes = prediction - mean * (mean @ prediction)
    deviation = math.sqrt(max(0.0, float(slopes @ rule.posterior @ slopes)))
    return float(ndtr(-0.5 * float(slopes @ slopes) / deviation)) if deviation else 0.5


def _with_residual(
    quality: Quality,
    gain: NoisyValue,
    explained: NoisyValue,
    residual: NoisyValue,
    rows: int,
    spread: Array,
) -> Quality:
    """Return the quality with R² and the residual spread, whose sum of squares is known."""
    total = residual.value + max(0.0, explained.value, gain.value)
    total_error = math.hypot(residual.error, explained.error)
    r2, columns = gain.value / total, len(spread)
    dof = max(1, rows - columns)
    residual_std = math.sqrt(residual.value / dof)
    excess = float(np.sum(spread**2)) / residual.value
    return replace(
        quality,
        r2=r2,
        r2_error=math.hypot(gain.error, r2 * total_error) / total,
        all_labels_r2=1 - residual.value / total,
        residual_std=residual_std,
        residual_std_error=residual.error / (2 * residual_std * dof),
        privacy_ratio=math.sqrt(excess * dof / columns),  # τ_stat of theory §10
    )
