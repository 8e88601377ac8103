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
from scipy.linalg import cholesky, eigh, solve_triangular

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
    free = noise if mean is None else noise + mean_variance * np.outer(mean, mean)
    lower = cholesky(free, lower=True)
    white = solve_triangular(lower, estimate, lower=True)
    constant = -0.5 * len(estimate) * math.log(2 * math.pi) - float(np.log(np.diag(lower)).sum())
    choices = [_Choice.of(prior, lower, white) for prior in family]
    if not choices:
        choices = [_Choice.of(Prior("none", np.zeros_like(noise)), lower, white)]
    best = max(choices, key=lambda choice: choice.log_likelihood)
    # (N0 + τP)⁻¹N, and with it Π(N + Π)⁻¹ = I − N(N0 + τP)⁻¹
    vectors = solve_triangular(lower, best.vectors, lower=True, trans="T")
    pulled = (vectors / (1 + best.scale * best.values)) @ (vectors.T @ noise)
    covariance = noise - noise @ pulled
    return Posterior(
        mean=estimate - pulled.T @ estimate,
        covariance=(covariance + covariance.T) / 2,
        prior=best.name,
        scale=best.scale,
        log_likelihood=best.log_likelihood + constant,
        kept=len(estimate) - float(np.trace(pulled)),
    )


@dataclass(frozen=True, eq=False)
class _Choice:
    """The best τ of one P."""

    name: str
    scale: float
    log_likelihood: float
    """But for what is the same for every prior."""
    values: Array
    vectors: Array

    @classmethod
    def of(cls, prior: Prior, lower: Array, white: Array) -> _Choice:
        half = solve_triangular(lower, prior.matrix, lower=True)
        whitened = solve_triangular(lower, half.T, lower=True)
        values, vectors = eigh((whitened + whitened.T) / 2)
        values = np.maximum(values, 0.0)
        squares = np.square(vectors.T @ white)
        scales = _scales(float(values.max()))
        variances = 1 + scales[:, None] * values
        likelihoods = -0.5 * (np.log(variances) + squares / variances).sum(axis=1)
        place = int(np.argmax(likelihoods))
        return cls(prior.name, float(scales[place]), float(likelihoods[place]), values, vectors)


def _scales(largest: float) -> Array:
    """0 and τ evenly spaced in logarithm, relative to the largest eigenvalue."""
    if largest == 0.0:
        return np.zeros(1)
    return np.append(0.0, np.geomspace(_SMALLEST, _LARGEST, SCALES) / largest)
