"""How coefficients for prediction are chosen from b̃ ~ N(b, N): all of it post-processing.

    least_squares   no shrinkage
    posterior_mean  the default where noise is public (theory §10)
    ridge, lasso    with a given penalty, or the one that comes nearest to the posterior mean
    norm_bound      least squares in a ball: the paper's class F_{B_r}

`choose_rule` takes the one that options ask for. A rule turns b̃ into b̂ = R·coefficients; A is its
(local) linear map. Stein's estimate of the error that it makes, ‖b̂ − b‖², is unbiased for a fixed
rule:

    ‖b̂ − b̃‖² + 2·tr(A·N) − tr N,

so a fit can be judged from the release alone. A rule that chooses by b̃ is not fixed: what its
choice adds to tr(A·N) is measured by moving b̃ a little, by noise of its own law, and refitting.

The constant is never penalised: columns and b̃ are taken without their part along q0, the
direction of the mean prediction, and the constant's coefficient follows from the others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.learners.models import LinearOptions
from labeldp.learners.normal_equations import NoisyNormalEquations, NoisyValue, truncated_svd
from labeldp.learners.shrinkage import PriorMixture, prior_family

Array = NDArray[np.float64]
Range = tuple[float, float]
Penalty = float | Literal["auto"]
CandidateT = TypeVar("CandidateT")

POSTERIOR_MEAN = "posterior mean"
_PROBES, _PROBE_STEP = 16, 0.3
_PENALTIES = np.geomspace(1e-8, 1e6, 60)
"""Ridge penalties that are tried, over the mean square of a singular value."""
_LASSO_SHARES = np.geomspace(1.0, 1e-6, 40)
"""Lasso penalties that are tried, of the smallest one that keeps no column."""


@dataclass(frozen=True, eq=False)
class FitRule:
    """The coefficients that a rule chose, and what is needed to judge them."""

    coefficients: Array = field(repr=False)
    smoother: Array = field(repr=False)
    """A."""
    info: dict[str, Any]
    """Its name under "rule", and what it chose."""
    refit: Callable[[Array], Array] | None = field(default=None, repr=False)
    """From another b̃ to its b̂, if the rule would choose again."""
    multiplier: float = 0.0
    """Of the penalty that holds the coefficients back, in units of the rows; 0 if none does."""
    posterior: Array | None = field(default=None, repr=False)
    """Covariance of b given b̃, if the rule has a prior."""

    def prediction(self, equations: NoisyNormalEquations) -> Array:
        """Return b̂."""
        return np.asarray(equations.root @ self.coefficients)

    def risk(self, equations: NoisyNormalEquations) -> NoisyValue:
        """Return Stein's estimate of ‖b̂ − b‖²; its error is what the choice of the rule adds."""
        estimate, spread = equations.estimate, equations.spread
        change, choice = self.prediction(equations) - estimate, 0.0
        if self.refit is not None:
            # How much larger than tr(A·N) the divergence is, because A is chosen by b̃.
            rng = np.random.default_rng(_PROBES)
            for _ in range(_PROBES):
                probe = spread @ rng.normal(size=spread.shape[1])
                up = self.refit(estimate + _PROBE_STEP * probe)
                down = self.refit(estimate - _PROBE_STEP * probe)
                moved = (up - down) / (2 * _PROBE_STEP) - self.smoother @ probe
                choice += float(probe @ moved)
            choice /= _PROBES
        fixed = np.sum((self.smoother @ spread) * spread)
        value = change @ change + 2 * (fixed + choice) - np.sum(spread**2)
        return NoisyValue(float(value), 2 * abs(choice))


class _CentredColumns:
    """The columns but for the constant, without their part along q0, and their SVD.

    Without a constant q0 is 0, and they are the columns themselves.
    """

    def __init__(self, equations: NoisyNormalEquations) -> None:
        root, mean = equations.root, equations.mean_direction
        self.place = None if mean is None else equations.constant
        self.mean = np.zeros(len(root)) if mean is None else mean
        self.others = root if self.place is None else np.delete(root, self.place, axis=1)
        self.columns = self.others - np.outer(self.mean, self.mean @ self.others)
        # Relative to the whole design: without the constant, rounding must not look large.
        lengths = np.linalg.norm(root, axis=0)
        self.left, self.values, self.right = truncated_svd(
            self.columns, equations.rank_tolerance, float(lengths.max(initial=0.0))
        )
        self.length = 1.0 if self.place is None else lengths[self.place]

    def insert_constant(self, slopes: Array, estimate: Array) -> Array:
        """Return slopes with the constant's coefficient; both may be matrices of columns."""
        if self.place is None:
            return slopes
        own = self.mean @ (estimate - self.others @ slopes) / self.length
        return np.insert(slopes, self.place, own, axis=0)


def choose_rule(
    equations: NoisyNormalEquations,
    options: LinearOptions,
    label_range: Range,
    degrees: Sequence[int] = (),
) -> FitRule:
    """Return the coefficients that predict, by the rule that the options ask for.

    `degrees` says which columns are curves. Refuse a rule that these equations cannot serve.
    """
    if options.shrink and equations.dof is not None:
        raise InputError(
            "`shrink=True` needs a release whose noise is public and known, as of shaped-flag; "
            "leave it out"
        )
    if equations.rows is None and (options.lasso != 0 or options.penalty == "auto"):
        raise InputError(
            '`lasso` and `penalty="auto"` need a release of aggregated features, as of shaped-flag '
            "and wtd-flag; leave them out on bags and plain rows"
        )
    if options.lasso != 0:
        return lasso(equations, options.lasso, label_range)
    if options.penalty != 0:
        return ridge(equations, options.penalty, label_range)
    if options.max_norm is not None:
        return norm_bound(equations, options.max_norm)
    if options.shrink is False or equations.dof is not None:
        return least_squares(equations)
    return posterior_mean(equations, label_range, degrees)


# --- least squares and ridge ---


def solution_map(equations: NoisyNormalEquations, penalty: float = 0.0) -> Array:
    """Return the matrix that turns b̃ into the coefficients of a ridge.

    Without a penalty, where these are not unique, they have the least norm, which does not count
    the constant's.
    """
    centred = _CentredColumns(equations)
    gains = centred.values / (centred.values**2 + penalty) if penalty else 1 / centred.values
    slopes = (centred.right.T * gains) @ centred.left.T
    return centred.insert_constant(slopes, np.eye(len(equations.estimate)))


def least_squares(equations: NoisyNormalEquations) -> FitRule:
    """Return the fit that nothing holds back."""
    solve = solution_map(equations)
    info = {"rule": "least squares"}
    return FitRule(solve @ equations.estimate, equations.root @ solve, info)


def ridge(equations: NoisyNormalEquations, penalty: Penalty, label_range: Range) -> FitRule:
    """Return argmin ‖b̃ − R·r‖² + penalty·‖r‖², the constant free: `Ridge` on all rows."""
    refit = None
    if penalty == "auto":
        centred = _CentredColumns(equations)
        values, left = centred.values, centred.left
        unit = float(np.mean(values**2)) if len(values) else 1.0
        penalties = np.append(0.0, _PENALTIES * unit)
        kept = values**2 / (values**2 + penalties[:, None])

        def path(estimate: Array) -> tuple[list[float], Array]:
            return penalties.tolist(), (kept * (left.T @ estimate)) @ left.T

        nearest = _nearest(equations, label_range, centred, path)
        penalty, refit = nearest
    solve = solution_map(equations, penalty)
    info = {"rule": "ridge", "penalty": penalty}
    smoother = equations.root @ solve
    return FitRule(solve @ equations.estimate, smoother, info, refit, multiplier=penalty)


def _nearest(
    equations: NoisyNormalEquations,
    label_range: Range,
    centred: _CentredColumns,
    path: Callable[[Array], tuple[Sequence[CandidateT], Array]],
) -> tuple[CandidateT, Callable[[Array], Array]]:
    """Return the candidate whose predictions are nearest to the posterior mean, and its refit.

    `path` gives the candidates from b̃, and what their slopes predict, a row each. Under the prior
    of `posterior_mean` the nearest is that of least expected error. Least estimated risk is a worse
    guide: where noise dominates it is now and then far too low by chance.
    """
    target = posterior_mean(equations, label_range).refit
    assert target is not None

    def nearest(estimate: Array) -> tuple[CandidateT, Array]:
        candidates, predictions = path(estimate)
        predictions = predictions + centred.mean * (centred.mean @ estimate)
        place = int(np.argmin(np.square(predictions - target(estimate)).sum(axis=1)))
        return candidates[place], predictions[place]

    return nearest(equations.estimate)[0], lambda other: nearest(other)[1]


# --- bounded norm ---


def norm_bound(equations: NoisyNormalEquations, radius: float) -> FitRule:
    """Return least squares subject to ‖r‖₂ ≤ radius: the paper's class F_{B_r}, B_r = `radius`.

    The norm is over *all* coefficients as they are, the constant's included. If the solution of
    least norm is within the bound, it is the answer; else r = (RᵀR + λI)⁻¹Rᵀb̃ with the one λ > 0
    at which ‖r‖ = radius (theory §5).
    """
    left, values, right = truncated_svd(equations.root, equations.rank_tolerance)

    def solve(estimate: Array) -> tuple[Array, float]:
        coordinates = left.T @ estimate
        multiplier = _secular_root(values, coordinates, radius)
        # (s² + λ)/s is written so that s² cannot underflow.
        coefficients = right.T @ (coordinates / (values + multiplier / values))
        norm = float(np.linalg.norm(coefficients))
        if norm > radius:  # by rounding alone: the root is good to a few units in the last place
            coefficients = coefficients * (radius / norm)
        return np.asarray(coefficients), multiplier

    coefficients, multiplier = solve(equations.estimate)
    smoother = (left * (values / (values + multiplier / values))) @ left.T
    if multiplier == 0:
        return FitRule(coefficients, smoother, {"rule": "least squares"})
    return FitRule(
        coefficients,
        smoother,
        {"rule": "norm bound", "max_norm": radius},
        refit=lambda other: np.asarray(equations.root @ solve(other)[0]),
        multiplier=multiplier,
    )


def _secular_root(values: Array, coordinates: Array, radius: float) -> float:
    """Return λ ≥ 0 with ‖r(λ)‖ = radius for r = c·s/(s² + λ); 0 if ‖r(0)‖ is within it already.

    From ‖s·c‖/(s₁² + λ) ≤ ‖r(λ)‖ ≤ ‖s·c‖/λ the root is in [‖s·c‖/radius − s₁², ‖s·c‖/radius].
    """
    from scipy.optimize import brentq  # late: it is slow to import, and few fits have a bound

    if float(np.linalg.norm(coordinates / values)) <= radius:  # an empty spectrum has norm 0
        return 0.0
    top, size = float(values[0]), float(np.linalg.norm(coordinates))
    s, c = values / top, coordinates / size  # units in which s₁ = ‖c‖ = 1
    bound = radius / size * top
    high = float(np.linalg.norm(s * c)) / bound if bound > 0 else math.inf
    if not math.isfinite(high):
        raise InputError(f"`max_norm` {radius} is too small for double precision")

    def excess(multiplier: float) -> float:
        # 1/‖r(λ)‖ is nearly linear in λ, so that interpolation takes few steps.
        return 1.0 - bound / float(np.linalg.norm(c / (s + multiplier / s)))

    # The bracket is widened a little: rounding may have moved its ends past the root.
    low = max(0.0, (high - 1.0) * (1 - 1e-12))
    if excess(low) <= 0.0:  # in these units, rounding may put the norm within the bound already
        return low * top * top
    root = brentq(excess, low, high * (1 + 1e-12), xtol=1e-300, rtol=1e-15, maxiter=1000)
    return float(root) * top * top


# --- the posterior mean ---


def posterior_mean(
    equations: NoisyNormalEquations, label_range: Range, degrees: Sequence[int] = ()
) -> FitRule:
    """Return the posterior mean of theory §10.

    Labels count from the middle of their range, where the constant can shift them. The mean
    prediction is left free up to that range, and features explain no more than the variance of
    labels that are spread over it. With curves among the columns, `degrees` says which they are.
    """
    assert equations.rows is not None
    low, high = label_range
    mean, constant = equations.mean_direction, equations.constant
    variance = equations.rows * (high - low) ** 2 / 12
    mixture = PriorMixture(
        equations.spread @ equations.spread.T,
        prior_family(equations.root, mean, constant, degrees),
        mean,
        variance,
        largest=variance / max(1, len(equations.root) - (mean is not None)),
        radial=equations.radial,
    )
    shift = np.zeros(equations.root.shape[1])
    if constant is not None:
        shift[constant] = (low + high) / 2
    middle = equations.root @ shift
    posterior = mixture.posterior(equations.estimate - middle)
    info = {
        "rule": POSTERIOR_MEAN,
        "prior": posterior.prior,
        "signal": posterior.signal,
        "kept_directions": float(np.trace(posterior.smoother)),
    }
    models = posterior.models
    if len(models) > 1:
        info |= {"supported": max(models, key=lambda name: models[name]), **models}
    return FitRule(
        np.linalg.lstsq(equations.root, posterior.mean)[0] + shift,
        posterior.smoother,
        info,
        refit=lambda other: mixture.mean(other - middle) + middle,
        posterior=posterior.covariance,
    )


# --- lasso ---


def lasso(equations: NoisyNormalEquations, penalty: Penalty, label_range: Range) -> FitRule:
    """Return argmin ‖b̃ − R·r‖²/2n + penalty·‖r‖₁, the constant free: `Lasso` on all rows."""
    centred, estimate, rows = _CentredColumns(equations), equations.estimate, equations.rows or 1
    columns, refit = centred.columns, None

    def largest_gradient(misses: Array) -> float:
        return float(np.abs(columns.T @ misses / rows).max(initial=0.0))

    if penalty == "auto":

        def path(estimate: Array) -> tuple[list[tuple[float, Array]], Array]:
            penalties = largest_gradient(estimate) * _LASSO_SHARES
            slopes = _lasso_path(columns, estimate, rows, penalties)
            return list(zip(penalties.tolist(), slopes, strict=True)), slopes @ columns.T

        (penalty, slopes), refit = _nearest(equations, label_range, centred, path)
    else:
        slopes = _lasso_path(columns, estimate, rows, np.array([penalty]), 100_000)[0]
        # At the optimum no column has a gradient above the penalty.
        slack = 1e-6 * largest_gradient(estimate)
        if largest_gradient(estimate - columns @ slopes) > penalty + slack:
            raise InputError(
                "the lasso does not settle: columns are too nearly dependent; use a ridge"
            )
    # Where b̂ is smooth it moves as least squares on the columns that are kept.
    basis = np.linalg.qr(columns[:, slopes != 0])[0]
    smoother = basis @ basis.T + np.outer(centred.mean, centred.mean)
    kept = int(np.count_nonzero(slopes))
    info = {"rule": "lasso", "penalty": penalty, "columns_kept": kept}
    coefficients = centred.insert_constant(slopes, estimate)
    return FitRule(coefficients, smoother, info, refit, multiplier=penalty)


def _lasso_path(
    columns: Array, estimate: Array, rows: int, penalties: Array, max_iter: int = 1000
) -> Array:
    """Return the slopes for falling penalties, a row each: argmin ‖b̃ − B·r‖²/2n + λ‖r‖₁."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lasso_path  # late: it is slow to import, few fits need it

    if not columns.shape[1]:
        return np.zeros((len(penalties), 0))
    gram, moment = columns.T @ columns / rows, columns.T @ estimate / rows
    # scikit-learn divides by the number of rows of its X; here these are directions, not rows.
    scale = math.sqrt(len(columns) / rows)
    with warnings.catch_warnings():
        # Columns that nearly depend on each other settle slowly at the smallest penalties, which
        # are tried and seldom chosen; the step below finishes what is near its optimum.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, slopes, _ = lasso_path(
            scale * columns, scale * estimate, alphas=penalties, precompute=gram * len(columns),
            Xy=moment * len(columns), tol=1e-10, max_iter=max_iter,
        )  # fmt: skip
    path = np.array(slopes.T)
    for row, penalty in zip(path, penalties, strict=True):
        # Coordinate descent stops near the optimum. Given the columns that are kept and their
        # signs, the optimum is the solution of a linear system.
        kept = row != 0
        signs = np.sign(row[kept])
        exact = np.linalg.lstsq(gram[np.ix_(kept, kept)], moment[kept] - penalty * signs)[0]
        if np.array_equal(np.sign(exact), signs):
            row[kept] = exact
    return path
