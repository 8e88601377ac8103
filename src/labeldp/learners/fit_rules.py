"""How coefficients for prediction are chosen from b̃ ~ N(b, N): all of it post-processing.

    ridge           with a given penalty; least squares without one
    lasso           with a given penalty
    norm_bound      least squares in a ball: the paper's class F_{B_r}
    posterior_mean  the default where noise is public (theory §10)

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.learners.models import LinearOptions
from labeldp.learners.normal_equations import NoisyNormalEquations, NoisyValue, truncated_svd
from labeldp.learners.shrinkage import PriorMixture, prior_family

Array = NDArray[np.float64]
Range = tuple[float, float]

POSTERIOR_MEAN = "posterior mean"
_PROBES, _PROBE_STEP = 16, 0.3


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
    if options.lasso != 0:
        return lasso(equations, options.lasso)
    if options.max_norm is not None:
        return norm_bound(equations, options.max_norm)
    if options.penalty != 0 or options.shrink is False or equations.dof is not None:
        return ridge(equations, options.penalty)
    return posterior_mean(equations, label_range, degrees)


# --- least squares and ridge ---


def solution_map(equations: NoisyNormalEquations, penalty: float = 0.0) -> Array:
    """Return the matrix that turns b̃ into the coefficients of a ridge.

    Without a penalty, where these are not unique, they have the least norm, which does not count
    the constant's.
    """
    centred = _CentredColumns(equations)
    gains = 1 / (centred.values + penalty / centred.values)
    slopes = (centred.right.T * gains) @ centred.left.T
    return centred.insert_constant(slopes, np.eye(len(equations.estimate)))


def ridge(equations: NoisyNormalEquations, penalty: float = 0.0) -> FitRule:
    """Return argmin ‖b̃ − R·r‖² + penalty·‖r‖², the constant free: `Ridge` on all rows."""
    solve = solution_map(equations, penalty)
    info = {"rule": "ridge", "penalty": penalty} if penalty else {"rule": "least squares"}
    smoother = equations.root @ solve
    return FitRule(solve @ equations.estimate, smoother, info, multiplier=penalty)


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

    The root is at most ‖s·c‖/radius, because ‖r(λ)‖ ≤ ‖s·c‖/λ.
    """
    from scipy.optimize import brentq  # late: it is slow to import, and few fits have a bound

    def norm(multiplier: float) -> float:
        return float(np.linalg.norm(coordinates / (values + multiplier / values)))

    if norm(0.0) <= radius:  # an empty spectrum has norm 0
        return 0.0
    high = float(np.linalg.norm(values * coordinates)) / radius
    if not math.isfinite(high):
        raise InputError(f"`max_norm` {radius} is too small for double precision")
    # 1/‖r(λ)‖ is nearly linear in λ, so that interpolation takes few steps. The end is moved a
    # little: rounding may have put it before the root.
    root = brentq(
        lambda multiplier: 1.0 - radius / norm(multiplier),
        0.0,
        high * (1 + 1e-12),
        xtol=1e-300,
        rtol=1e-15,
        maxiter=1000,
    )
    return float(root)


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


def lasso(equations: NoisyNormalEquations, penalty: float) -> FitRule:
    """Return argmin ‖b̃ − R·r‖²/2n + penalty·‖r‖₁, the constant free: `Lasso` on all rows."""
    if equations.rows is None:
        raise InputError(
            "`lasso` needs a release of aggregated features, as of shaped-flag and wtd-flag; leave "
            "it out on bags and plain rows"
        )
    centred, estimate = _CentredColumns(equations), equations.estimate
    slopes = _lasso_slopes(centred.columns, estimate, equations.rows, penalty)
    # Where b̂ is smooth it moves as least squares on the columns that are kept.
    basis = np.linalg.qr(centred.columns[:, slopes != 0])[0]
    smoother = basis @ basis.T + np.outer(centred.mean, centred.mean)
    kept = int(np.count_nonzero(slopes))
    info = {"rule": "lasso", "penalty": penalty, "columns_kept": kept}
    coefficients = centred.insert_constant(slopes, estimate)
    return FitRule(coefficients, smoother, info, multiplier=penalty)


def _lasso_slopes(columns: Array, estimate: Array, rows: int, penalty: float) -> Array:
    """Return argmin ‖b̃ − B·r‖²/2n + λ‖r‖₁."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso  # late: it is slow to import, few fits need it

    if not columns.shape[1]:
        return np.zeros(0)
    # scikit-learn divides by the number of rows of its X; here these are directions, not rows.
    scale = math.sqrt(len(columns) / rows)
    solver = Lasso(penalty, fit_intercept=False, precompute=True, tol=1e-10, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # checked below
        slopes = np.array(solver.fit(scale * columns, scale * estimate).coef_)
    # Coordinate descent stops near the optimum. Given the columns that are kept and their signs,
    # the optimum is the solution of a linear system.
    gram, moment = columns.T @ columns / rows, columns.T @ estimate / rows
    kept, signs = slopes != 0, np.sign(slopes)
    exact = np.linalg.lstsq(gram[np.ix_(kept, kept)], (moment - penalty * signs)[kept])[0]
    if np.array_equal(np.sign(exact), signs[kept]):
        slopes[kept] = exact
    # At the optimum no column has a gradient above the penalty.
    gradient, slack = np.abs(moment - gram @ slopes), 1e-6 * np.abs(moment).max()
    if gradient.max() > penalty + slack:
        raise InputError("the lasso does not settle: columns are too nearly dependent; use a ridge")
    return slopes
