"""How coefficients for prediction are chosen from b̃ ~ N(b, N), N known: all of it post-processing.

A rule turns b̃ into b̂ = R·coefficients; A is its (local) linear map. Stein's estimate of the error
that it makes, ‖b̂ − b‖², is unbiased for a fixed rule:

    ‖b̂ − b̃‖² + 2·tr(A·N) − tr N,

so a penalty can be chosen, and a fit be judged, from the release alone. A rule that chooses by b̃
is not fixed: what its choice adds to tr(A·N) is measured by changing b̃ a little, by noise of its
own law, and choosing again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labeldp.learners.lasso import path as lasso_path
from labeldp.learners.lasso import solve as solve_lasso
from labeldp.learners.least_squares import bounded_norm
from labeldp.learners.protocol import Array
from labeldp.learners.shrinkage import Bayes, prior_family
from labeldp.learners.whitened import RANK_TOLERANCE, Measured, Whitened

_PROBES, _STEP = 16, 0.3
_PENALTIES = 60
_SMALLEST, _LARGEST = 1e-8, 1e4
"""Of the penalty over the mean square of a singular value."""
_SHARES, _LEAST_SHARE = 30, 1e-4
"""Of the smallest lasso penalty that keeps no column."""


@dataclass(frozen=True, eq=False)
class Rule:
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

    def prediction(self, white: Whitened) -> Array:
        """b̂."""
        return np.asarray(white.root @ self.coefficients)

    def risk(self, white: Whitened) -> Measured:
        """Stein's estimate of ‖b̂ − b‖², and what the choice of the rule is part of it."""
        left, spread = self.prediction(white) - white.estimate, white.spread
        fixed, chosen = np.sum((self.smoother @ spread) * spread), self._choice(white)
        value = left @ left + 2 * (fixed + chosen) - np.sum(spread**2)
        return Measured(float(value), 2 * abs(chosen))

    def _choice(self, white: Whitened) -> float:
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


def mean_direction(white: Whitened, constant: int | None) -> Array | None:
    """q0 = R·e/√n, e the constant's coefficient: b·q0/√n is the mean prediction."""
    if constant is None:
        return None
    along = white.root[:, constant]
    return np.asarray(along / np.linalg.norm(along))


def plain(white: Whitened) -> Rule:
    """Least squares."""
    inverse = np.linalg.pinv(white.root)
    return Rule(inverse @ white.estimate, white.root @ inverse, {"rule": "least squares"})


def bounded(white: Whitened, radius: float) -> Rule:
    """Least squares among coefficients of norm `radius` at most, the constant's included."""
    fit = bounded_norm(white.root, white.estimate, radius, rank_tolerance=RANK_TOLERANCE)
    if fit.multiplier == 0:
        return plain(white)
    damped = white.root.T @ white.root + fit.multiplier * np.eye(white.root.shape[1])
    smoother = white.root @ np.linalg.solve(damped, white.root.T)
    told = {"rule": "norm bound", "max_norm": radius}

    def again(other: Array) -> Array:
        return np.asarray(white.root @ bounded_norm(white.root, other, radius).coefficients)

    return Rule(fit.coefficients, smoother, told, again, fit.multiplier)


def shrunken(white: Whitened, constant: int | None, label_range: tuple[float, float]) -> Rule:
    """The posterior mean (theory §10).

    Labels count from the middle of their range, where the constant can shift them. The mean
    prediction is left free up to that range.
    """
    low, high = label_range
    mean, shift = mean_direction(white, constant), np.zeros(white.root.shape[1])
    free = 0.0
    if constant is not None:
        along = white.root[:, constant]
        free, shift[constant] = float(along @ along) * (high - low) ** 2 / 12.0, (low + high) / 2
    family = prior_family(white.root, mean, constant)
    bayes, middle = Bayes.of(white.noise, family, mean, free), white.root @ shift
    found = bayes.posterior(white.estimate - middle)
    coefficients = np.linalg.lstsq(white.root, found.mean)[0] + shift
    told = {
        "rule": "empirical Bayes",
        "prior": found.prior,
        "scale": found.scale,
        "kept_directions": found.kept,
    }
    return Rule(
        coefficients, found.smoother, told, lambda other: bayes.mean(other - middle) + middle
    )


def ridge(white: Whitened, constant: int | None, penalty: float | None = None) -> Rule:
    """‖b̃ − R·r‖² + penalty·‖r‖², the constant free; by default the penalty of least risk."""
    spectrum = _Spectrum.of(white, constant)
    if penalty is not None:
        return spectrum.rule(penalty)
    rule = spectrum.rule(spectrum.best_penalty(white.estimate))
    return replace(rule, again=spectrum.refit)


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """The columns but for the constant, without their means, by singular values."""

    white: Whitened
    constant: int | None
    left: Array
    values: Array
    right: Array

    @classmethod
    def of(cls, white: Whitened, constant: int | None) -> _Spectrum:
        columns, _ = without_mean(white, constant)
        left, values, right = np.linalg.svd(columns, full_matrices=False)
        kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
        return cls(white, constant, left[:, kept], values[kept], right[kept])

    def best_penalty(self, estimate: Array) -> float:
        """Of 0 and a range, the one of least estimated risk."""
        squares = np.square(self.left.T @ estimate)
        noise = np.square(self.left.T @ self.white.spread).sum(axis=1)
        unit = float(np.mean(self.values**2)) if len(self.values) else 1.0
        tried = np.append(0.0, np.geomspace(_SMALLEST, _LARGEST, _PENALTIES) * unit)
        kept = self.values**2 / (self.values**2 + tried[:, None])
        risks = ((1 - kept) ** 2 * squares + 2 * kept * noise).sum(axis=1)
        return float(tried[int(np.argmin(risks))])

    def refit(self, estimate: Array) -> Array:
        """b̂ with the penalty that is best for another b̃."""
        kept = self.values**2 / (self.values**2 + self.best_penalty(estimate))
        mean = mean_direction(self.white, self.constant)
        free = 0.0 if mean is None else mean * (mean @ estimate)
        return np.asarray(self.left @ (kept * (self.left.T @ estimate)) + free)

    def rule(self, penalty: float) -> Rule:
        kept = self.values**2 / (self.values**2 + penalty)
        smoother = (self.left * kept) @ self.left.T
        slopes = (self.right.T * (kept / self.values)) @ (self.left.T @ self.white.estimate)
        told = {"rule": "ridge", "penalty": penalty}
        rule = with_mean(self.white, self.constant, slopes, smoother, told)
        return replace(rule, multiplier=penalty)


def lasso(white: Whitened, constant: int | None, penalty: float | None = None) -> Rule:
    """‖b̃ − R·r‖²/2n + penalty·‖r‖₁, the constant free: scikit-learn's `Lasso` on all rows.

    By default the penalty of least estimated risk. Where b̂ is smooth it moves as least squares on
    the columns that are kept.
    """
    sparse = _Sparse.of(white, constant)
    if penalty is not None:
        return sparse.rule(penalty, sparse.slopes(white.estimate, penalty))
    return replace(sparse.rule(*sparse.best(white.estimate)), again=sparse.refit)


@dataclass(frozen=True, eq=False)
class _Sparse:
    """The columns but for the constant, without their means, and their products."""

    white: Whitened
    constant: int | None
    columns: Array
    gram: Array

    @classmethod
    def of(cls, white: Whitened, constant: int | None) -> _Sparse:
        columns, _ = without_mean(white, constant)
        return cls(white, constant, columns, columns.T @ columns / white.rows)

    def slopes(self, estimate: Array, penalty: float) -> Array:
        return solve_lasso(self.gram, self.columns.T @ estimate / self.white.rows, penalty)

    def best(self, estimate: Array) -> tuple[float, Array]:
        """Of a range of penalties the one of least estimated risk, and its slopes."""
        moment = self.columns.T @ estimate / self.white.rows
        most = float(np.abs(moment).max(initial=0.0))
        tried = [most * share for share in np.geomspace(1.0, _LEAST_SHARE, _SHARES)]
        found = list(lasso_path(self.gram, moment, tried))
        risks = [self._risk(estimate, slopes) for slopes in found]
        place = int(np.argmin(risks))
        return tried[place], found[place]

    def _risk(self, estimate: Array, slopes: Array) -> float:
        """Stein's estimate, but for what is the same for every penalty."""
        left = estimate - self.columns @ slopes
        noise = self._basis(slopes).T @ self.white.spread
        return float(left @ left + 2 * np.sum(noise**2))

    def _basis(self, slopes: Array) -> Array:
        return np.asarray(np.linalg.qr(self.columns[:, slopes != 0])[0])

    def refit(self, estimate: Array) -> Array:
        """b̂ with the penalty that is best for another b̃."""
        mean = mean_direction(self.white, self.constant)
        free = 0.0 if mean is None else mean * (mean @ estimate)
        return np.asarray(self.columns @ self.best(estimate - free)[1] + free)

    def rule(self, penalty: float, slopes: Array) -> Rule:
        basis, kept = self._basis(slopes), int(np.count_nonzero(slopes))
        told = {"rule": "lasso", "penalty": penalty, "columns_kept": kept}
        rule = with_mean(self.white, self.constant, slopes, basis @ basis.T, told)
        return replace(rule, multiplier=penalty)


def without_mean(white: Whitened, constant: int | None) -> tuple[Array, Array]:
    """The columns but for the constant, and b̃, both without what the constant explains."""
    mean = mean_direction(white, constant)
    if mean is None:
        return white.root, white.estimate
    columns = np.delete(white.root, constant or 0, axis=1)
    return columns - np.outer(mean, mean @ columns), white.estimate - mean * (mean @ white.estimate)


def with_mean(
    white: Whitened, constant: int | None, slopes: Array, smoother: Array, told: dict[str, Any]
) -> Rule:
    """A rule for the columns without their means, and the constant that goes with it."""
    mean = mean_direction(white, constant)
    if mean is None or constant is None:
        return Rule(slopes, smoother, told)
    along, columns = white.root[:, constant], np.delete(white.root, constant, axis=1)
    own = mean @ (white.estimate - columns @ slopes) / np.linalg.norm(along)
    return Rule(np.insert(slopes, constant, own), smoother + np.outer(mean, mean), told)
