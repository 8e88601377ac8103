"""Shrinkage of a linear fit whose noise covariance is public, by averaging priors (theory §10).

A shaped release gives b̃ ~ N(b, N) in whitened coordinates b = Rβ̂, RᵀR = XᵀX, with N known. All
that is computed from b̃ alone is post-processing, so a choice among priors is free. They are
Gaussian,

    b ~ N(0, v0·q0q0ᵀ + τP),   P one of  I − q0q0ᵀ,  BBᵀ,  (BBᵀ)^½,   B = (I − q0q0ᵀ)·R,

each P scaled to the trace of the first, q0 the direction of the mean prediction, which is left
almost free (v0 large), and R without the column of the constant. A fifth of our belief is that
features explain nothing (τ = 0), the rest is spread evenly over P and over τ in logarithm, from
where noise hides it to the variance of labels that are spread over their public range. Predict
with the posterior mean over all of these; for inference use b̃ itself, whose intervals are exact.

Theory §10 takes the one likeliest P and τ instead. Where noise dominates that follows the noise
now and then, and loses to the constant by far; the average hardly does, and is as good elsewhere.
The fifth and the range of τ were chosen after a look at three small tables and eleven others.

One generalised eigendecomposition per P serves all τ: with N0 = N + v0·q0q0ᵀ and
VᵀN0V = I, VᵀPV = Λ the entries of Vᵀb̃ are independent N(0, 1 + τλ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

SCALES = 40
HIDDEN = 0.1
"""Of the noise in the direction where τ shows most: less of it shows nowhere."""
NOTHING = 0.2
"""The belief that features explain nothing."""


@dataclass(frozen=True, eq=False)
class Prior:
    """One P of the family."""

    name: str
    matrix: Array = field(repr=False)
    model: str = ""
    """The sub-model that it belongs to (`submodels.py`), if there are several."""
    belief: float = 1.0
    """Relative to the others'."""

    def believed(self, belief: float) -> Prior:
        return replace(self, belief=belief)

    def with_trace(self, trace: float) -> Prior:
        return replace(self, matrix=self.matrix * (trace / float(np.trace(self.matrix))))


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the release says about b."""

    mean: Array
    covariance: Array = field(repr=False)
    smoother: Array = field(repr=False)
    """The linear map from b̃ to the mean, as the priors are weighed."""
    signal: float
    """The probability that features explain anything."""
    prior: str
    """Name of the likeliest P."""
    log_likelihood: float
    """Of the release, over all priors."""
    kept: float
    """Directions that were kept, the mean among them: the trace of the map from b̃ to the mean."""
    models: dict[str, float]
    """The probability of every sub-model, if features explain anything."""


def prior_family(root: Array, mean: Array | None, constant: int | None) -> tuple[Prior, ...]:
    """The three P for R = `root`, whose column `constant` is not shrunk.

    `mean` is q0, a unit vector; without one nothing is left free.
    """
    width = len(root)
    plain = np.eye(width) if mean is None else np.eye(width) - np.outer(mean, mean)
    columns = without_constant(root, mean, constant)
    trace = width - (mean is not None)
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    family = [
        Prior("even", plain),
        Prior("columns", (vectors * values**2) @ vectors.T),
        Prior("square root", (vectors * values) @ vectors.T),
    ]
    return tuple(
        Prior(prior.name, prior.matrix * (trace / size))
        for prior in family
        if (size := float(np.trace(prior.matrix))) > 0.0
    )


def without_constant(root: Array, mean: Array | None, constant: int | None) -> Array:
    """B: the columns of R but for the constant's, less what is along q0."""
    columns = root if constant is None else np.delete(root, constant, axis=1)
    return columns if mean is None else columns - np.outer(mean, mean @ columns)


@dataclass(frozen=True, eq=False)
class Bayes:
    """All that does not depend on b̃."""

    noise: Array
    lower: Array
    """Cholesky factor of N0."""
    bases: tuple[_Basis, ...]
    """One for each P, after that of no P at all."""

    @cached_property
    def size(self) -> float:
        """Half the logarithm of the determinant of 2πN0."""
        logs = np.log(np.diag(self.lower))
        return len(logs) * math.log(2 * math.pi) / 2 + float(logs.sum())

    @classmethod
    def of(
        cls,
        noise: Array,
        family: Sequence[Prior],
        mean: Array | None = None,
        mean_variance: float = 0.0,
        *,
        largest: float,
    ) -> Bayes:
        """noise: N;  mean: q0;  mean_variance: v0, nΔ²/12 for a label range Δ;  largest: τ."""
        from scipy.linalg import cholesky  # late: a model predicts without it

        free = noise if mean is None else noise + mean_variance * np.outer(mean, mean)
        lower = cholesky(free, lower=True)
        nothing = _Basis.of(Prior("none", np.zeros_like(noise)), 0.0, lower)
        return cls(noise, lower, (nothing, *(_Basis.of(each, largest, lower) for each in family)))

    def mean(self, estimate: Array) -> tuple[Array, float]:
        """The posterior mean alone, which takes no product of matrices, and the log-likelihood."""
        weights, likelihood = self._weights(estimate)
        return self._average(estimate, weights), likelihood

    def posterior(self, estimate: Array) -> Posterior:
        """With all that is known about it."""
        weights, likelihood = self._weights(estimate)
        mean = self._average(estimate, weights)
        pulled = self._precision(weights) @ self.noise
        shares = [float(each.sum()) for each in weights]
        return Posterior(
            mean=mean,
            covariance=self.noise - self.noise @ pulled + self._between(estimate, weights, mean),
            smoother=np.eye(len(estimate)) - pulled.T,
            signal=math.fsum(shares[1:]),
            prior=self.bases[int(np.argmax(shares))].name,
            log_likelihood=likelihood,
            kept=len(estimate) - float(np.trace(pulled)),
            models=self._models(shares),
        )

    def _models(self, shares: Sequence[float]) -> dict[str, float]:
        total, models = math.fsum(shares[1:]), dict[str, float]()
        for basis, share in zip(self.bases[1:], shares[1:], strict=True):
            models[basis.model] = models.get(basis.model, 0.0) + (share / total if total else 0.0)
        return models

    def _weights(self, estimate: Array) -> tuple[list[Array], float]:
        """The probability of every τ of every basis, and the likelihood that they share."""
        logs = [basis.log_likelihoods(estimate) for basis in self.bases]
        others = math.fsum(basis.belief for basis in self.bases[1:])
        for log, basis in zip(logs[1:], self.bases[1:], strict=True):
            log += math.log((1 - NOTHING) * basis.belief / (others * len(log)))
        logs[0] += math.log(NOTHING) if others else 0.0
        most = max(float(log.max()) for log in logs)
        parts = [np.exp(log - most) for log in logs]
        total = math.fsum(float(part.sum()) for part in parts)
        return [part / total for part in parts], most + math.log(total) - self.size

    def _average(self, estimate: Array, weights: Sequence[Array]) -> Array:
        """b̃ − N·Σ w(N0 + τP)⁻¹b̃."""
        pairs = zip(self.bases, weights, strict=True)
        solved = [basis.solved(estimate, weight @ basis.precisions) for basis, weight in pairs]
        return np.asarray(estimate - self.noise @ np.sum(solved, axis=0))

    def _precision(self, weights: Sequence[Array]) -> Array:
        """Σ w(N0 + τP)⁻¹: with it N·Σ… is I less the map from b̃ to the mean."""
        pairs = zip(self.bases, weights, strict=True)
        parts = [(b.vectors * (weight @ b.precisions)) @ b.vectors.T for b, weight in pairs]
        return np.asarray(np.sum(parts, axis=0))

    def _between(self, estimate: Array, weights: Sequence[Array], mean: Array) -> Array:
        """How much the means of the priors differ."""
        total = np.zeros_like(self.noise)
        for basis, weight in zip(self.bases, weights, strict=True):
            solved = (basis.precisions * (basis.vectors.T @ estimate)) @ basis.vectors.T
            apart = (estimate - mean) - solved @ self.noise
            total += (apart.T * weight) @ apart
        return total


@dataclass(frozen=True, eq=False)
class _Basis:
    """V and Λ of one P."""

    name: str
    vectors: Array
    precisions: Array
    """Of the entries of Vᵀb̃, a row for every τ."""
    sizes: Array
    """Half the logarithm of their product."""
    model: str
    belief: float

    @classmethod
    def of(cls, prior: Prior, largest: float, lower: Array) -> _Basis:
        from scipy.linalg import eigh, solve_triangular

        half = solve_triangular(lower, prior.matrix, lower=True)
        whitened = solve_triangular(lower, half.T, lower=True)
        values, vectors = eigh((whitened + whitened.T) / 2)
        vectors = solve_triangular(lower, vectors, lower=True, trans="T")
        scales = _scales(float(values.max(initial=0.0)), largest)
        precisions = 1 / (1 + scales[:, None] * np.maximum(values, 0.0))
        sizes = 0.5 * np.log(precisions).sum(axis=1)
        return cls(prior.name, vectors, precisions, sizes, prior.model, prior.belief)

    def log_likelihoods(self, estimate: Array) -> Array:
        """Of every τ, but for what is the same for all bases."""
        squares = np.square(self.vectors.T @ estimate)
        return np.asarray(self.sizes - 0.5 * (self.precisions @ squares))

    def solved(self, estimate: Array, precision: Array) -> Array:
        """V·diag(precision)·Vᵀb̃."""
        return np.asarray(self.vectors @ (precision * (self.vectors.T @ estimate)))


def _scales(shown: float, largest: float) -> Array:
    """τ evenly spaced in logarithm, if the largest eigenvalue is this."""
    if largest == 0.0 or shown <= 0.0:
        return np.zeros(1)
    return np.geomspace(min(largest / 10, HIDDEN / shown), largest, SCALES)
