"""How coefficients for prediction are chosen from b̃ ~ N(b, N), N known: all of it post-processing.

A rule turns b̃ into b̂ = R·coefficients; A is its (local) linear map. Stein's estimate of the error
that it makes, ‖b̂ − b‖², is unbiased for a fixed rule:

    ‖b̂ − b̃‖² + 2·tr(A·N) − tr N,

so a fit can be judged from the release alone. A rule that chooses by b̃ is not fixed: what its
choice adds to tr(A·N) is measured by changing b̃ a little, by noise of its own law, and choosing
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labeldp.learners.lasso import path as lasso_path, solve as solve_lasso
from labeldp.learners.least_squares import Array, bounded_norm
from labeldp.learners.radial import NoiseSizes
from labeldp.learners.shrinkage import Bayes, Prior, prior_family
from labeldp.learners.submodels import sub_models
from labeldp.learners.whitened import RANK_TOLERANCE, Measured, NoisyNormalEquations

POSTERIOR_MEAN = "posterior mean"
_PROBES, _STEP = 16, 0.3
_PENALTIES = 60
_SMALLEST, _LARGEST = 1e-8, 1e6
"""Of the penalty over the mean square of a singular value."""
_SHARES, _LEAST_SHARE = 40, 1e-6
"""Of the smallest lasso penalty that keeps no column."""


@dataclass(frozen=True, eq=False)
class FitRule:
    """What was chosen."""

    coefficients: Array = field(repr=False)
    smoother: Array = field(repr=False)
    """A."""
    told: dict[str, Any]
    """Its name under "rule", and what it chose."""
    again: Callable[[Array], Array] | None = field(default=None, repr=False)
    """From another b̃ to its b̂, if the rule would choose again."""
    multiplier: float = 0.0
    """Of the penalty that holds the coefficients back, in units of the rows; 0 if none does."""
    signal: float | None = None
    """The probability that features explain anything, if the rule weighs that."""
    posterior: Array | None = field(default=None, repr=False)
    """Covariance of b given b̃, if the rule has a prior."""

    def covariance(self, white: NoisyNormalEquations) -> Array:
        """Of b̂ about b: the posterior's, or what the noise makes of it."""
        if self.posterior is not None:
            return self.posterior
        return np.asarray(self.smoother @ white.noise @ self.smoother.T)

    def prediction(self, white: NoisyNormalEquations) -> Array:
        """b̂."""
        return np.asarray(white.root @ self.coefficients)

    def risk(self, white: NoisyNormalEquations) -> Measured:
        """Stein's estimate of ‖b̂ − b‖², and what the choice of the rule is part of it."""
        left, spread = self.prediction(white) - white.estimate, white.spread
        fixed, chosen = np.sum((self.smoother @ spread) * spread), self._choice(white)
        value = left @ left + 2 * (fixed + chosen) - np.sum(spread**2)
        return Measured(float(value), 2 * abs(chosen))

    def _choice(self, white: NoisyNormalEquations) -> float:
        """What the divergence has more than tr(A·N), because A is chosen."""
        if self.again is None:
            return 0.0
        total, random = 0.0, np.random.default_rng(_PROBES)
        for _ in range(_PROBES):
            probe = white.spread @ random.normal(size=white.spread.shape[1])
            up, down = (self.again(white.estimate + by * probe) for by in (_STEP, -_STEP))
            moved = (up - down) / (2 * _STEP) - self.smoother @ probe
            total += float(probe @ moved)
        return total / _PROBES


def mean_direction(white: NoisyNormalEquations, constant: int | None) -> Array | None:
    """q0 = R·e/√n, e the constant's coefficient: b·q0/√n is the mean prediction."""
    if constant is None:
        return None
    along = white.root[:, constant]
    return np.asarray(along / np.linalg.norm(along))


def plain(white: NoisyNormalEquations) -> FitRule:
    """Least squares."""
    inverse = np.linalg.pinv(white.root)
    return FitRule(inverse @ white.estimate, white.root @ inverse, {"rule": "least squares"})


def bounded(white: NoisyNormalEquations, radius: float) -> FitRule:
    """Least squares among coefficients of norm `radius` at most, the constant's included."""
    fit = bounded_norm(white.root, white.estimate, radius, rank_tolerance=RANK_TOLERANCE)
    if fit.multiplier == 0:
        return plain(white)
    damped = white.root.T @ white.root + fit.multiplier * np.eye(white.root.shape[1])
    smoother = white.root @ np.linalg.solve(damped, white.root.T)
    told = {"rule": "norm bound", "max_norm": radius}

    def again(other: Array) -> Array:
        return np.asarray(white.root @ bounded_norm(white.root, other, radius).coefficients)

    return FitRule(fit.coefficients, smoother, told, again, fit.multiplier)


def shrunken(
    white: NoisyNormalEquations,
    constant: int | None,
    label_range: tuple[float, float],
    degrees: Sequence[int] = (),
) -> FitRule:
    """The posterior mean (theory §10).

    Labels count from the middle of their range, where the constant can shift them. The mean
    prediction is left free up to that range, and features explain no more than the variance of
    labels that are spread over it. With curves among the columns, `degrees` says which they are.
    """
    low, high = label_range
    mean, shift = mean_direction(white, constant), np.zeros(white.root.shape[1])
    squares = white.rows * (high - low) ** 2
    if constant is not None:
        shift[constant] = (low + high) / 2
    priors = _priors(white, mean, constant, degrees)
    largest = squares / 12 / max(1, len(white.root) - (mean is not None))
    bayes = NoiseSizes.of(
        white.radial,
        lambda size: Bayes.of(size * white.noise, priors, mean, squares / 12, largest=largest),
    )
    middle = white.root @ shift
    found = bayes.posterior(white.estimate - middle)
    told = {
        "rule": POSTERIOR_MEAN,
        "prior": found.prior,
        "signal": found.signal,
        "kept_directions": found.kept,
        **_supported(found.models),
    }
    return FitRule(
        np.linalg.lstsq(white.root, found.mean)[0] + shift,
        found.smoother,
        told,
        lambda other: bayes.mean(other - middle) + middle,
        signal=found.signal,
        posterior=found.covariance,
    )


def _priors(
    white: NoisyNormalEquations, mean: Array | None, constant: int | None, degrees: Sequence[int]
) -> tuple[Prior, ...]:
    """Of all columns alike and, where some are curves, of the sub-models without them."""
    if not any(degrees):
        return prior_family(white.root, mean, constant)
    return sub_models(white.root, mean, constant, degrees)


def _supported(models: dict[str, float]) -> dict[str, Any]:
    """Which sub-model the release supports, and how likely each is."""
    if len(models) < 2:
        return {}
    return {"supported": max(models, key=lambda name: models[name]), **models}


def ridge(white: NoisyNormalEquations, constant: int | None, penalty: float) -> FitRule:
    """‖b̃ − R·r‖² + penalty·‖r‖², the constant free."""
    return _Spectrum.of(white, constant).rule(penalty)


def best_ridge(
    white: NoisyNormalEquations, constant: int | None, label_range: tuple[float, float]
) -> FitRule:
    """The ridge whose predictions come nearest to the posterior mean.

    Under the prior of `shrunken` that is the penalty of least expected error. Least estimated risk
    is a worse guide: where noise dominates it is now and then far too low by chance.
    """
    spectrum, aim = _Spectrum.of(white, constant), _posterior_mean(white, constant, label_range)

    def again(other: Array) -> Array:
        return np.asarray(spectrum.predictions(other)[spectrum.nearest(other, aim(other))])

    place = spectrum.nearest(white.estimate, aim(white.estimate))
    return replace(spectrum.rule(float(spectrum.tried[place])), again=again)


def _posterior_mean(
    white: NoisyNormalEquations, constant: int | None, label_range: tuple[float, float]
) -> Callable[[Array], Array]:
    again = shrunken(white, constant, label_range).again
    assert again is not None
    return again


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """The columns but for the constant, without their means, by singular values."""

    white: NoisyNormalEquations
    constant: int | None
    left: Array
    values: Array
    right: Array

    @classmethod
    def of(cls, white: NoisyNormalEquations, constant: int | None) -> _Spectrum:
        columns, _ = without_mean(white, constant)
        left, values, right = np.linalg.svd(columns, full_matrices=False)
        kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
        return cls(white, constant, left[:, kept], values[kept], right[kept])

    @property
    def tried(self) -> Array:
        """None, and a range of penalties."""
        unit = float(np.mean(self.values**2)) if len(self.values) else 1.0
        return np.append(0.0, np.geomspace(_SMALLEST, _LARGEST, _PENALTIES) * unit)

    def predictions(self, estimate: Array) -> Array:
        """b̂ from another b̃, a row for every penalty."""
        kept = self.values**2 / (self.values**2 + self.tried[:, None])
        slopes = (kept * (self.left.T @ estimate)) @ self.left.T
        return np.asarray(slopes + along_mean(self.white, self.constant, estimate))

    def nearest(self, estimate: Array, aim: Array) -> int:
        return int(np.argmin(np.square(self.predictions(estimate) - aim).sum(axis=1)))

    def rule(self, penalty: float) -> FitRule:
        kept = self.values**2 / (self.values**2 + penalty)
        smoother = (self.left * kept) @ self.left.T
        slopes = (self.right.T * (kept / self.values)) @ (self.left.T @ self.white.estimate)
        told = {"rule": "ridge", "penalty": penalty}
        rule = with_mean(self.white, self.constant, slopes, smoother, told)
        return replace(rule, multiplier=penalty)


def lasso(white: NoisyNormalEquations, constant: int | None, penalty: float) -> FitRule:
    """‖b̃ − R·r‖²/2n + penalty·‖r‖₁, the constant free: scikit-learn's `Lasso` on all rows.

    Where b̂ is smooth it moves as least squares on the columns that are kept.
    """
    sparse = _Sparse.of(white, constant)
    return sparse.rule(penalty, solve_lasso(sparse.gram, sparse.moment(white.estimate), penalty))


def best_lasso(
    white: NoisyNormalEquations, constant: int | None, label_range: tuple[float, float]
) -> FitRule:
    """The lasso whose predictions come nearest to the posterior mean; see `best_ridge`."""
    sparse, aim = _Sparse.of(white, constant), _posterior_mean(white, constant, label_range)

    def again(other: Array) -> Array:
        free = along_mean(white, constant, other)
        return np.asarray(sparse.columns @ sparse.nearest(other, aim(other))[1] + free)

    return replace(sparse.rule(*sparse.nearest(white.estimate, aim(white.estimate))), again=again)


@dataclass(frozen=True, eq=False)
class _Sparse:
    """The columns but for the constant, without their means, and their products."""

    white: NoisyNormalEquations
    constant: int | None
    columns: Array
    gram: Array

    @classmethod
    def of(cls, white: NoisyNormalEquations, constant: int | None) -> _Sparse:
        columns, _ = without_mean(white, constant)
        return cls(white, constant, columns, columns.T @ columns / white.rows)

    def moment(self, estimate: Array) -> Array:
        return np.asarray(self.columns.T @ estimate / self.white.rows)

    def nearest(self, estimate: Array, aim: Array) -> tuple[float, Array]:
        """The penalty whose predictions come nearest, and its slopes."""
        moment = self.moment(estimate)
        most = float(np.abs(moment).max(initial=0.0))
        tried = [most * float(share) for share in np.geomspace(1.0, _LEAST_SHARE, _SHARES)]
        found = list(lasso_path(self.gram, moment, tried))
        left = aim - along_mean(self.white, self.constant, estimate)
        misses = [float(np.sum((self.columns @ slopes - left) ** 2)) for slopes in found]
        place = int(np.argmin(misses))
        return tried[place], found[place]

    def rule(self, penalty: float, slopes: Array) -> FitRule:
        basis = np.linalg.qr(self.columns[:, slopes != 0])[0]
        kept = int(np.count_nonzero(slopes))
        told = {"rule": "lasso", "penalty": penalty, "columns_kept": kept}
        rule = with_mean(self.white, self.constant, slopes, basis @ basis.T, told)
        return replace(rule, multiplier=penalty)


def along_mean(white: NoisyNormalEquations, constant: int | None, estimate: Array) -> Array:
    """The part of b̃ that the constant explains."""
    mean = mean_direction(white, constant)
    return np.zeros(len(estimate)) if mean is None else np.asarray(mean * (mean @ estimate))


def without_mean(white: NoisyNormalEquations, constant: int | None) -> tuple[Array, Array]:
    """The columns but for the constant, and b̃, both without what the constant explains."""
    mean = mean_direction(white, constant)
    if mean is None:
        return white.root, white.estimate
    columns = np.delete(white.root, constant or 0, axis=1)
    return columns - np.outer(mean, mean @ columns), white.estimate - mean * (mean @ white.estimate)


def with_mean(
    white: NoisyNormalEquations,
    constant: int | None,
    slopes: Array,
    smoother: Array,
    told: dict[str, Any],
) -> FitRule:
    """A rule for the columns without their means, and the constant that goes with it."""
    mean = mean_direction(white, constant)
    if mean is None or constant is None:
        return FitRule(slopes, smoother, told)
    along, columns = white.root[:, constant], np.delete(white.root, constant, axis=1)
    own = mean @ (white.estimate - columns @ slopes) / np.linalg.norm(along)
    return FitRule(np.insert(slopes, constant, own), smoother + np.outer(mean, mean), told)
