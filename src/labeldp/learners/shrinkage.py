"""Shrinkage of a linear fit whose noise covariance is public, by averaging priors (theory §10).

A release gives b̃ ~ N(b, N) in the coordinates b = Rβ̂, RᵀR = XᵀX, with N known. All that is
computed from b̃ alone is post-processing, so a choice among priors is free. They are Gaussian,

    b ~ N(0, v0·q0q0ᵀ + τP),   P one of  I − q0q0ᵀ,  BBᵀ,  (BBᵀ)^½,   B = (I − q0q0ᵀ)·R,

each P scaled to the trace of the first, q0 the direction of the mean prediction, which is left
almost free (v0 large), and R without the column of the constant. A fifth of our belief is that
features explain nothing (τ = 0), the rest is spread evenly over P and over τ in logarithm, from
where noise hides it to the variance of labels that are spread over their public range. Predict
with the posterior mean over all of these; for inference use b̃ itself, whose intervals are exact.

Theory §10 takes the one likeliest P and τ instead. Where noise dominates that follows the noise
now and then, and loses to the constant by far; the average hardly does, and is as good elsewhere.
The fifth and the range of τ were chosen after a look at three small tables and eleven others.

**Sub-models** (§12). A design with curves holds smaller ones: linear ⊂ splines ⊂ all. Which of them
the labels need is not known when a release is planned, and costs nothing to find out from it. Each
is a family of priors of its own, P = BWBᵀ or (BWBᵀ)^½ with W diagonal: 1 for linear columns; for
those that a sub-model adds, some weight, since a curve may be a small part of what is explained or
a large one; 0 for those that it lacks. Every sub-model has the same belief, and predictions are
the mean over all: a basis that says nothing is hardly used.

**Computation.** One generalised eigendecomposition per P serves all τ: with N0 = N + v0·q0q0ᵀ and
VᵀN0V = I, VᵀPV = Λ the entries of Vᵀb̃ are independent N(0, 1 + τλ).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import gammainccinv, gammaincinv

Array = NDArray[np.float64]

SCALES = 40
"""How many τ are tried for each P."""
HIDDEN = 0.1
"""Of the noise in the direction where τ shows most: less of it shows nowhere."""
NOTHING = 0.2
"""The belief that features explain nothing."""
MODELS = ("linear", "splines", "all")
"""Sub-models, by the degree of the columns that each adds."""
_CURVE_WEIGHTS = (1.0, 0.1, 0.01)


# --- priors ---


@dataclass(frozen=True, eq=False)
class Prior:
    """One P of the family."""

    name: str
    matrix: Array = field(repr=False)
    model: str = ""
    """The sub-model that it belongs to, if there are several."""
    belief: float = 1.0
    """Relative to the others'."""


def prior_family(
    root: Array, mean: Array | None, constant: int | None, degrees: Sequence[int] = ()
) -> tuple[Prior, ...]:
    """Return the P for R = `root`, whose column `constant` is not shrunk.

    `mean` is q0, a unit vector; without one nothing is left free. `degrees` says of each column
    in which sub-model it comes first; if all are linear, they are treated alike.
    """
    columns = root if constant is None else np.delete(root, constant, axis=1)
    if mean is not None:
        columns = columns - np.outer(mean, mean @ columns)
    if any(degrees):
        column_degrees = np.delete(np.array(degrees), [] if constant is None else constant)
        priors = _sub_model_priors(columns, column_degrees)
    else:
        even = np.eye(len(root)) if mean is None else np.eye(len(root)) - np.outer(mean, mean)
        priors = [Prior("even", even), *_column_priors(columns)]
    trace = len(root) - (mean is not None)
    return tuple(
        Prior(prior.name, prior.matrix * (trace / size), prior.model, prior.belief)
        for prior in priors
        if (size := float(np.trace(prior.matrix))) > 0.0
    )


def _column_priors(columns: Array, model: str = "", belief: float = 1.0) -> list[Prior]:
    """Return BBᵀ and its root."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return [
        Prior("columns", (vectors * values**2) @ vectors.T, model, belief),
        Prior("square root", (vectors * values) @ vectors.T, model, belief),
    ]


def _sub_model_priors(columns: Array, degrees: NDArray[np.int64]) -> list[Prior]:
    """Return the priors of every sub-model; those of one share a belief of 1."""
    priors: list[Prior] = []
    for degree in sorted(set(degrees.tolist()) | {0}):
        weights = [weight for weight in _column_weights(degrees, degree) if weight.any()]
        belief = 1 / (2 * len(weights)) if weights else 0.0
        for weight in weights:
            priors += _column_priors(columns * np.sqrt(weight), MODELS[degree], belief)
    return priors


def _column_weights(degrees: NDArray[np.int64], largest: int) -> Iterator[Array]:
    """Yield the ways to weigh columns up to a degree."""
    curves = sorted({int(degree) for degree in degrees if 0 < degree <= largest})
    for weights in product(_CURVE_WEIGHTS, repeat=len(curves)):
        weight = np.where(degrees == 0, 1.0, 0.0)
        for degree, by in zip(curves, weights, strict=True):
            weight[degrees == degree] = by
        yield weight


# --- posterior ---


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


@dataclass(frozen=True, eq=False)
class _Basis:
    """V and Λ of one P, for all τ."""

    prior: Prior
    vectors: Array
    precisions: Array
    """1/(1 + τλ): of the entries of Vᵀb̃, a row for every τ."""
    log_sizes: Array
    """Half the logarithm of their product."""

    @classmethod
    def of(cls, prior: Prior, largest: float, lower: Array) -> _Basis:
        """Decompose P for the Cholesky factor of N0 and τ up to `largest`."""
        half = solve_triangular(lower, prior.matrix, lower=True)
        whitened = solve_triangular(lower, half.T, lower=True)
        values, vectors = eigh((whitened + whitened.T) / 2)
        vectors = solve_triangular(lower, vectors, lower=True, trans="T")
        visible = float(values.max(initial=0.0))
        if largest == 0.0 or visible <= 0.0:
            scales = np.zeros(1)
        else:  # evenly spaced in logarithm
            scales = np.geomspace(min(largest / 10, HIDDEN / visible), largest, SCALES)
        precisions = 1 / (1 + scales[:, None] * np.maximum(values, 0.0))
        return cls(prior, vectors, precisions, 0.5 * np.log(precisions).sum(axis=1))

    def log_likelihoods(self, estimate: Array) -> Array:
        """Return that of every τ, but for what is the same for all bases."""
        squares = np.square(self.vectors.T @ estimate)
        return np.asarray(self.log_sizes - 0.5 * (self.precisions @ squares))


@dataclass(frozen=True, eq=False)
class PriorMixture:
    """The posterior over all priors: what does not depend on b̃ is computed once."""

    noise: Array
    bases: tuple[_Basis, ...]
    """One for each P, after that of no P at all."""
    log_size: float
    """Half the logarithm of the determinant of 2πN0."""

    @classmethod
    def of(
        cls,
        noise: Array,
        family: Sequence[Prior],
        mean: Array | None = None,
        mean_variance: float = 0.0,
        *,
        largest: float,
    ) -> PriorMixture:
        """Return the mixture; noise: N;  mean: q0;  mean_variance: v0;  largest: of τ."""
        free = noise if mean is None else noise + mean_variance * np.outer(mean, mean)
        lower = cholesky(free, lower=True)
        logs = np.log(np.diag(lower))
        nothing = _Basis.of(Prior("none", np.zeros_like(noise)), 0.0, lower)
        return cls(
            noise,
            (nothing, *(_Basis.of(prior, largest, lower) for prior in family)),
            len(logs) * math.log(2 * math.pi) / 2 + float(logs.sum()),
        )

    def mean(self, estimate: Array) -> tuple[Array, float]:
        """Return the posterior mean alone, without products of matrices, and the log-likelihood."""
        weights, likelihood = self._weights(estimate)
        return self._mean(estimate, weights), likelihood

    def posterior(self, estimate: Array) -> Posterior:
        """Return all that is known about b."""
        weights, likelihood = self._weights(estimate)
        mean = self._mean(estimate, weights)
        between = np.zeros_like(self.noise)  # how much the means of the priors differ
        precisions = []  # w(N0 + τP)⁻¹, summed over τ
        for basis, weight in zip(self.bases, weights, strict=True):
            precisions.append((basis.vectors * (weight @ basis.precisions)) @ basis.vectors.T)
            solved = (basis.precisions * (basis.vectors.T @ estimate)) @ basis.vectors.T
            apart = (estimate - mean) - solved @ self.noise
            between += (apart.T * weight) @ apart
        pulled = (
            np.sum(precisions, axis=0) @ self.noise
        )  # its transpose is I less the map from b̃ to the mean
        shares = [float(weight.sum()) for weight in weights]
        signal = math.fsum(shares[1:])
        models: dict[str, float] = {}
        for basis, share in zip(self.bases[1:], shares[1:], strict=True):
            model = basis.prior.model
            models[model] = models.get(model, 0.0) + (share / signal if signal else 0.0)
        return Posterior(
            mean=mean,
            covariance=self.noise - self.noise @ pulled + between,
            smoother=np.eye(len(estimate)) - pulled.T,
            signal=signal,
            prior=self.bases[int(np.argmax(shares))].prior.name,
            log_likelihood=likelihood,
            kept=len(estimate) - float(np.trace(pulled)),
            models=models,
        )

    def _weights(self, estimate: Array) -> tuple[list[Array], float]:
        """Return the probability of every τ of every basis, and the log-likelihood of b̃."""
        logs = [basis.log_likelihoods(estimate) for basis in self.bases]
        beliefs = math.fsum(basis.prior.belief for basis in self.bases[1:])
        for log, basis in zip(logs[1:], self.bases[1:], strict=True):
            log += math.log((1 - NOTHING) * basis.prior.belief / (beliefs * len(log)))
        logs[0] += math.log(NOTHING) if beliefs else 0.0
        largest = max(float(log.max()) for log in logs)  # so that exp cannot underflow for all
        parts = [np.exp(log - largest) for log in logs]
        total = math.fsum(float(part.sum()) for part in parts)
        return [part / total for part in parts], largest + math.log(total) - self.log_size

    def _mean(self, estimate: Array, weights: Sequence[Array]) -> Array:
        """Return b̃ − N·Σ w(N0 + τP)⁻¹b̃."""
        solved = [
            basis.vectors @ ((weight @ basis.precisions) * (basis.vectors.T @ estimate))
            for basis, weight in zip(self.bases, weights, strict=True)
        ]
        return np.asarray(estimate - self.noise @ np.sum(solved, axis=0))


# --- radial noise ---

_NOISE_SCALES, _LOWER_TAIL, _UPPER_TAIL = 12, 1e-4, 1e-12
"""How many scales of the noise are tried, and the chances of smaller and of larger ones."""
_MANY_DIMENSIONS = 200
"""Here the scale is known to a tenth: such noise is taken for normal."""


@dataclass(frozen=True, eq=False)
class NoiseScaleMixture:
    """The posterior where noise is radial: normal noise of a scale that nobody knows.

    Radial noise in k dimensions is χ_{k+1}·N(0, I), so b̃ ~ N(b, uN) with u ~ χ²_{k+1}/(k+1), which
    is one more thing to average over. Taken for normal, a large draw would look like a signal that
    is beyond doubt.
    """

    parts: tuple[PriorMixture, ...]
    """One for every scale u."""
    log_chances: Array

    @classmethod
    def of(
        cls, dimensions: int | None, mixture: Callable[[float], PriorMixture]
    ) -> NoiseScaleMixture:
        """Return that of noise which is radial in so many dimensions, or normal (None)."""
        if dimensions is None or dimensions > _MANY_DIMENSIONS:
            return cls((mixture(1.0),), np.zeros(1))
        half = (dimensions + 1) / 2
        ends = float(gammaincinv(half, _LOWER_TAIL)), float(gammainccinv(half, _UPPER_TAIL))
        values = np.geomspace(*ends, _NOISE_SCALES)
        logs = half * np.log(values) - values  # the density of the logarithm, at even steps
        logs -= logs.max()
        chances = logs - math.log(np.exp(logs).sum())
        return cls(tuple(mixture(float(value)) for value in values / half), chances)

    def mean(self, estimate: Array) -> Array:
        """Return the posterior mean alone."""
        means, likelihoods = zip(*(part.mean(estimate) for part in self.parts), strict=True)
        return np.asarray(self._weights(likelihoods)[0] @ np.array(means))

    def posterior(self, estimate: Array) -> Posterior:
        """Return all that is known about b."""
        parts = [part.posterior(estimate) for part in self.parts]
        weights, likelihood = self._weights([part.log_likelihood for part in parts])
        means = np.array([part.mean for part in parts])
        mean = weights @ means
        apart = means - mean
        likeliest = parts[int(np.argmax(weights))]
        return Posterior(
            mean=mean,
            covariance=np.tensordot(weights, [part.covariance for part in parts], 1)
            + (apart.T * weights) @ apart,
            smoother=np.tensordot(weights, [part.smoother for part in parts], 1),
            signal=float(weights @ [part.signal for part in parts]),
            prior=likeliest.prior,
            log_likelihood=likelihood,
            kept=float(weights @ [part.kept for part in parts]),
            models={
                name: float(weights @ [part.models[name] for part in parts])
                for name in likeliest.models
            },
        )

    def _weights(self, likelihoods: Sequence[float]) -> tuple[Array, float]:
        """Return the probability of every scale, and the log-likelihood that they share."""
        logs = self.log_chances + np.array(likelihoods)
        parts = np.exp(logs - logs.max())
        return parts / parts.sum(), float(logs.max()) + math.log(parts.sum())
