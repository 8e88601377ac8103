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

**Sub-models** (§12). A design with curves holds smaller ones: linear ⊂ splines ⊂ all. Each is a
family of priors of its own, P = BWBᵀ or (BWBᵀ)^½ with W diagonal: 1 for linear columns, some
weight for those that a sub-model adds, 0 for those that it lacks. Every sub-model has the same
belief, so a basis that explains nothing is hardly used.

**Radial noise** in k dimensions is χ_{k+1}·N(0, I), so b̃ ~ N(b, uN) with u ~ χ²_{k+1}/(k+1): one
more thing to average over. Taken for normal, a large draw would look like a clear signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import gammainccinv, gammaincinv

Array = NDArray[np.float64]

SCALES = 40
"""How many τ are tried for each P."""
HIDDEN = 0.1
"""The smallest τ, over the noise in the direction where τ shows most."""
NOTHING = 0.2
"""The belief that features explain nothing."""
MODELS = ("linear", "splines", "all")
"""Sub-models, by the degree of the columns that each adds."""
_CURVE_WEIGHTS = (1.0, 0.1, 0.01)
_NOISE_SCALES, _LOWER_TAIL, _UPPER_TAIL = 12, 1e-4, 1e-12
"""How many u are tried, and the probabilities of smaller and of larger ones."""
_MANY_DIMENSIONS = 200
"""From here on u is known to a tenth, and radial noise counts as normal."""


@dataclass(frozen=True, eq=False)
class Prior:
    """One P."""

    name: str
    matrix: Array = field(repr=False)
    model: str = ""
    """The sub-model that it belongs to, if there are several."""
    belief: float = 1.0
    """Relative to the others'."""


def prior_family(
    root: Array, mean: Array | None, constant: int | None, degrees: Sequence[int] = ()
) -> list[Prior]:
    """Return the P for R = `root`, whose column `constant` is not shrunk.

    `mean` is q0; without one nothing is left free. `degrees` gives the sub-model in which each
    column comes first; if all are 0, there is one model.
    """
    columns = root if constant is None else np.delete(root, constant, axis=1)
    of_columns = np.array(degrees or [0] * root.shape[1])
    of_columns = of_columns if constant is None else np.delete(of_columns, constant)
    even = np.eye(len(root))
    if mean is not None:
        columns = columns - np.outer(mean, mean @ columns)
        even -= np.outer(mean, mean)
    curves = sorted(set(of_columns[of_columns > 0].tolist()))
    if not curves:
        priors = [Prior("even", even), *_column_priors(columns)]
    else:
        priors = []
        for degree in (0, *curves):
            added = [each for each in curves if each <= degree]
            diagonals = []  # of W
            for choice in product(_CURVE_WEIGHTS, repeat=len(added)):
                by_degree = np.zeros(len(MODELS))
                by_degree[[0, *added]] = 1.0, *choice
                diagonals.append(by_degree[of_columns])
            diagonals = [each for each in diagonals if each.any()]
            for diagonal in diagonals:
                belief = 1 / (2 * len(diagonals))
                priors += _column_priors(columns * np.sqrt(diagonal), MODELS[degree], belief)
    trace = len(root) - (mean is not None)
    sizes = [float(np.trace(prior.matrix)) for prior in priors]
    return [
        replace(prior, matrix=prior.matrix * (trace / size))
        for prior, size in zip(priors, sizes, strict=True)
        if size > 0.0
    ]


def _column_priors(columns: Array, model: str = "", belief: float = 1.0) -> list[Prior]:
    """Return BBᵀ and its root."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return [
        Prior("columns", (vectors * values**2) @ vectors.T, model, belief),
        Prior("square root", (vectors * values) @ vectors.T, model, belief),
    ]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the release says about b."""

    mean: Array
    covariance: Array = field(repr=False)
    smoother: Array = field(repr=False)
    """The linear map from b̃ to the mean, with the weights of the priors as they are; its trace is
    the number of directions that are kept, the mean among them."""
    signal: float
    """The probability that features explain anything."""
    prior: str
    """The likeliest kind of P."""
    models: dict[str, float]
    """The probability of every sub-model, if features explain anything."""


@dataclass(frozen=True, eq=False)
class _Component:
    """One u and one P with all τ.

    With N0 = uN + v0·q0q0ᵀ and VᵀN0V = I, VᵀPV = Λ, the entries of Vᵀb̃ are independent
    N(0, 1 + τλ), so one eigendecomposition serves all τ.
    """

    prior: Prior
    noise_scale: float
    vectors: Array
    precisions: Array
    """1/(1 + τλ), a row for every τ."""
    log_weights: Array
    """For every τ the log of belief times likelihood at b̃ = 0, up to a constant."""


class PriorMixture:
    """The posterior over all priors; what does not depend on b̃ is computed once."""

    def __init__(
        self,
        noise: Array,
        priors: Sequence[Prior],
        mean: Array | None = None,
        mean_variance: float = 0.0,
        *,
        largest: float,
        radial: int | None = None,
    ) -> None:
        """noise: N;  mean: q0;  mean_variance: v0;  largest: of τ;  radial: k, None if normal."""
        self._noise = noise
        self._components: list[_Component] = []
        none = Prior("none", np.zeros_like(noise), belief=NOTHING if priors else 1.0)
        beliefs = math.fsum(prior.belief for prior in priors)
        for noise_scale, log_probability in _noise_scales(radial):
            covariance = noise_scale * noise
            if mean is not None:
                covariance = covariance + mean_variance * np.outer(mean, mean)
            lower = cholesky(covariance, lower=True)
            start = log_probability - float(np.log(np.diag(lower)).sum())
            for prior in (none, *priors):
                half = solve_triangular(lower, prior.matrix, lower=True)
                whitened = solve_triangular(lower, half.T, lower=True)
                values, vectors = eigh((whitened + whitened.T) / 2)  # Λ, and V by the factor
                vectors = solve_triangular(lower, vectors, lower=True, trans="T")
                scales, visible = np.zeros(1), float(values.max(initial=0.0))
                if visible > 0.0:  # evenly spaced in logarithm
                    scales = np.geomspace(min(largest / 10, HIDDEN / visible), largest, SCALES)
                precisions = 1 / (1 + scales[:, None] * np.maximum(values, 0.0))
                share = 1.0 if prior is none else (1 - NOTHING) / beliefs / len(scales)
                log_weights = start + math.log(share * prior.belief)
                log_weights = log_weights + 0.5 * np.log(precisions).sum(axis=1)
                self._components.append(
                    _Component(prior, noise_scale, vectors, precisions, log_weights)
                )

    def mean(self, estimate: Array) -> Array:
        """Return the posterior mean alone, without products of matrices."""
        return self._average(estimate)[0]

    def posterior(self, estimate: Array) -> Posterior:
        """Return all that is known about b."""
        (mean, weights), noise = self._average(estimate), self._noise
        within, pulled, between = np.zeros((3, *noise.shape))
        names: dict[str, float] = {}
        models: dict[str, float] = {}
        for part, weight in zip(self._components, weights, strict=True):
            scale, total = part.noise_scale, float(weight.sum())
            # Σ w(N0 + τP)⁻¹ over τ
            precision = (part.vectors * (weight @ part.precisions)) @ part.vectors.T
            pulled += scale * precision
            within += total * scale * noise - noise @ (scale**2 * precision) @ noise
            solved = (part.precisions * (part.vectors.T @ estimate)) @ part.vectors.T
            apart = (estimate - mean) - scale * solved @ noise  # of every τ
            between += (apart.T * weight) @ apart
            names[part.prior.name] = names.get(part.prior.name, 0.0) + total
            if part.prior.name != "none":
                models[part.prior.model] = models.get(part.prior.model, 0.0) + total
        signal = math.fsum(models.values())
        return Posterior(
            mean=mean,
            covariance=within + between,
            smoother=np.eye(len(estimate)) - noise @ pulled,
            signal=signal,
            prior=max(names, key=lambda name: names[name]),
            models={name: share / (signal or 1.0) for name, share in models.items()},
        )

    def _average(self, estimate: Array) -> tuple[Array, list[Array]]:
        """Return b̃ − N·Σ w·u·(N0 + τP)⁻¹b̃, and the probability w of every τ of every component."""
        parts = [(part, part.vectors.T @ estimate) for part in self._components]
        logs = [
            part.log_weights - 0.5 * (part.precisions @ np.square(turned)) for part, turned in parts
        ]
        largest = max(float(log.max()) for log in logs)  # so that exp cannot underflow for all
        weights = [np.exp(log - largest) for log in logs]
        total = math.fsum(float(weight.sum()) for weight in weights)
        weights = [weight / total for weight in weights]
        solved = [
            part.vectors @ (part.noise_scale * (weight @ part.precisions) * turned)
            for (part, turned), weight in zip(parts, weights, strict=True)
        ]
        return np.asarray(estimate - self._noise @ np.sum(solved, axis=0)), weights


def _noise_scales(radial: int | None) -> list[tuple[float, float]]:
    """Return the u to average over with the logs of their probabilities."""
    if radial is None or radial > _MANY_DIMENSIONS:
        return [(1.0, 0.0)]
    half = (radial + 1) / 2
    ends = float(gammaincinv(half, _LOWER_TAIL)), float(gammainccinv(half, _UPPER_TAIL))
    values = np.geomspace(*ends, _NOISE_SCALES)
    logs = half * np.log(values) - values  # the density of the logarithm, at even steps
    logs -= logs.max() + math.log(np.exp(logs - logs.max()).sum())
    return list(zip((values / half).tolist(), logs.tolist(), strict=True))
