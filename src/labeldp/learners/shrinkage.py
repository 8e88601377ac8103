"""Empirical Bayes for a linear fit whose noise covariance is public (theory §10).

A shaped release gives b̃ ~ N(b, N) in whitened coordinates b = Rβ̂, RᵀR = XᵀX, with N known. All
that is computed from b̃ alone is post-processing, so the choice of a prior is free. The prior is
Gaussian,

    b ~ N(0, v0·q0q0ᵀ + τP),   P one of  I − q0q0ᵀ,  BBᵀ,  (BBᵀ)^½,   B = (I − q0q0ᵀ)·R,

each P scaled to the trace of the first, q0 the direction of the mean prediction, which is left
almost free (v0 large), and R without the column of the constant. P and τ are those under which b̃
is likeliest. Predict with the posterior mean; for inference use b̃ itself, whose intervals are
exact.

One generalised eigendecomposition per P serves all τ: with N0 = N + v0·q0q0ᵀ and
VᵀN0V = I, VᵀPV = Λ the entries of Vᵀb̃ are independent N(0, 1 + τλ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

SCALES = 60
_SMALLEST, _LARGEST = 1e-2, 1e12
"""Of τ·λ_max: from a prior that says b = 0 to one that says nothing."""


@dataclass(frozen=True, eq=False)
class Prior:
    """One P of the family."""

    name: str
    matrix: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the release says about b once the prior is chosen."""

    mean: Array
    covariance: Array = field(repr=False)
    smoother: Array = field(repr=False)
    """The linear map from b̃ to the mean."""
    prior: str
    """Name of P."""
    scale: float
    """τ; 0 is the constant predictor."""
    log_likelihood: float
    """Of the release under the chosen prior."""
    kept: float
    """Directions that were kept, the mean among them: the trace of the map from b̃ to the mean."""


def prior_family(root: Array, mean: Array | None, constant: int | None) -> tuple[Prior, ...]:
    """The three P for R = `root`, whose column `constant` is not shrunk.

    `mean` is q0, a unit vector; without one nothing is left free.
    """
    width = len(root)
    plain = np.eye(width) if mean is None else np.eye(width) - np.outer(mean, mean)
    columns = root if constant is None else np.delete(root, constant, axis=1)
    columns = columns if mean is None else columns - np.outer(mean, mean @ columns)
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


def empirical_bayes(
    estimate: Array,
    noise: Array,
    family: Sequence[Prior],
    mean: Array | None = None,
    mean_variance: float = 0.0,
) -> Posterior:
    """The posterior under the likeliest prior of the family.

    estimate: b̃;  noise: N;  mean: q0;  mean_variance: v0, nΔ²/12 for a label range Δ.
    """
    return Bayes.of(noise, family, mean, mean_variance).posterior(estimate)


@dataclass(frozen=True, eq=False)
class Bayes:
    """All that does not depend on b̃."""

    noise: Array
    lower: Array
    """Cholesky factor of N0."""
    bases: tuple[_Basis, ...]

    @classmethod
    def of(
        cls, noise: Array, family: Sequence[Prior], mean: Array | None, mean_variance: float
    ) -> Bayes:
        from scipy.linalg import cholesky  # late: a model predicts without it

        free = noise if mean is None else noise + mean_variance * np.outer(mean, mean)
        lower = cholesky(free, lower=True)
        priors = family or [Prior("none", np.zeros_like(noise))]
        return cls(noise, lower, tuple(_Basis.of(prior, lower) for prior in priors))

    def mean(self, estimate: Array) -> Array:
        """The posterior mean alone, which takes no product of matrices."""
        return self._choose(estimate)[1]

    def posterior(self, estimate: Array) -> Posterior:
        """With all that is known about it."""
        (basis, scale, likelihood), mean = self._choose(estimate)
        # (N0 + τP)⁻¹N, and with it Π(N + Π)⁻¹ = I − N(N0 + τP)⁻¹
        pulled = (basis.vectors / (1 + scale * basis.values)) @ (basis.vectors.T @ self.noise)
        covariance = self.noise - self.noise @ pulled
        size = len(estimate) * math.log(2 * math.pi) / 2 + float(np.log(np.diag(self.lower)).sum())
        return Posterior(
            mean=mean,
            covariance=(covariance + covariance.T) / 2,
            smoother=np.eye(len(estimate)) - pulled.T,
            prior=basis.name,
            scale=scale,
            log_likelihood=likelihood - size,
            kept=len(estimate) - float(np.trace(pulled)),
        )

    def _choose(self, estimate: Array) -> tuple[tuple[_Basis, float, float], Array]:
        """The likeliest prior, its τ and likelihood, and b̃ − N(N0 + τP)⁻¹b̃."""
        choices = [(basis, *basis.likeliest(estimate)) for basis in self.bases]
        best = max(choices, key=lambda choice: choice[2])
        basis, scale, _ = best
        part = (basis.vectors.T @ estimate) / (1 + scale * basis.values)
        return best, estimate - self.noise @ (basis.vectors @ part)


@dataclass(frozen=True, eq=False)
class _Basis:
    """V and Λ of one P."""

    name: str
    values: Array
    vectors: Array
    scales: Array
    """Every τ."""
    precisions: Array
    """Of the entries of Vᵀb̃, for every τ."""
    sizes: Array
    """Half the logarithm of their product."""

    @classmethod
    def of(cls, prior: Prior, lower: Array) -> _Basis:
        from scipy.linalg import eigh, solve_triangular

        half = solve_triangular(lower, prior.matrix, lower=True)
        whitened = solve_triangular(lower, half.T, lower=True)
        values, vectors = eigh((whitened + whitened.T) / 2)
        values = np.maximum(values, 0.0)
        vectors = solve_triangular(lower, vectors, lower=True, trans="T")
        scales = _scales(float(values.max()))
        precisions = 1 / (1 + scales[:, None] * values)
        sizes = 0.5 * np.log(precisions).sum(axis=1)
        return cls(prior.name, values, vectors, scales, precisions, sizes)

    def likeliest(self, estimate: Array) -> tuple[float, float]:
        """τ, and its log-likelihood but for what is the same for every prior."""
        likelihoods = self.sizes - 0.5 * (self.precisions @ np.square(self.vectors.T @ estimate))
        place = int(np.argmax(likelihoods))
        return float(self.scales[place]), float(likelihoods[place])


def _scales(largest: float) -> Array:
    """0 and τ evenly spaced in logarithm, relative to the largest eigenvalue."""
    if largest == 0.0:
        return np.zeros(1)
    return np.append(0.0, np.geomspace(_SMALLEST, _LARGEST, SCALES) / largest)
