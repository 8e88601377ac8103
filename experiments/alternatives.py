"""What one could do instead of labeldp: peers that are (ε, δ)-label-DP with public features.

Each gives coefficients; where the expected excess Σ(x·β̃ − x·β̂)² of its fit is known exactly, it
says that too. Floating-point noise is good enough for a comparison and not for a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from experiments.least_squares import BINS, Array, Blocks, Fit, nearest
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.learners import fit_rules
from labeldp.learners.normal_equations import NoisyNormalEquations


@dataclass(frozen=True)
class Budget:
    """(ε, δ)."""

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        """Of the Gaussian mechanism that it allows."""
        return calibrate(GaussianProfile(1.0), "mu", self.epsilon, self.delta)


@dataclass(frozen=True, eq=False)
class Trial:
    """What a peer is given."""

    fit: Fit
    blocks: Blocks
    budget: Budget
    stream: np.random.Generator
    repeats: int


@dataclass(frozen=True)
class Peer:
    """One way to a private linear fit."""

    name: str
    draw: Callable[[Trial], Array]
    """Coefficients, one column for each repetition."""
    excess: Callable[[Fit, Budget], float] | None = None
    """The expected excess over all rows, where it is exact."""
    variance: Callable[[Fit, Budget], float] | None = None
    """Of the noise in every whitened direction, for peers whose noise is the same in all."""


def _whitened(trial: Trial, variance: float) -> Array:
    """β̂ with normal noise of one variance in every whitened direction."""
    fit = trial.fit
    noise = trial.stream.normal(scale=math.sqrt(variance), size=(fit.columns, trial.repeats))
    return _moved(fit, noise)


def _moved(fit: Fit, noise: Array) -> Array:
    """β̂ and noise that is in whitened coordinates."""
    return np.asarray(fit.coefficients[:, None] + solve_triangular(fit.root, noise))


def gaussian_variance(fit: Fit, budget: Budget) -> float:
    """(Δ/μ)²."""
    return (fit.width / budget.mu) ** 2


def laplace_variance(fit: Fit, budget: Budget) -> float:
    """2(Δ/ε)²."""
    return 2 * (fit.width / budget.epsilon) ** 2


def isotropic_variance(fit: Fit, budget: Budget) -> float:
    """h_max times (Δ/μ)² or (d + 1)(Δ/ε)²: one label moves Rβ̂ by at most Δ√h_max.

    The second is the K-norm mechanism's, pure ε, and is less for few columns.
    """
    return fit.largest_leverage * min(gaussian_variance(fit, budget), _radial(fit, budget))


def _radial(fit: Fit, budget: Budget) -> float:
    return (fit.columns + 1) * (fit.width / budget.epsilon) ** 2


def gaussian_rows(trial: Trial) -> Array:
    """y + N(0, (Δ/μ)²) on every row and least squares: by linearity, noise on β̂."""
    return _whitened(trial, gaussian_variance(trial.fit, trial.budget))


def isotropic(trial: Trial) -> Array:
    """β̂ with noise that hides the row of largest leverage."""
    fit, budget = trial.fit, trial.budget
    if gaussian_variance(fit, budget) <= _radial(fit, budget):
        return _whitened(trial, isotropic_variance(fit, budget))
    normal = trial.stream.normal(size=(fit.columns, trial.repeats))
    scale = fit.width * math.sqrt(fit.largest_leverage) / budget.epsilon
    radius = trial.stream.gamma(fit.columns, scale, size=trial.repeats)
    return _moved(fit, radius * normal / np.linalg.norm(normal, axis=0))


def laplace_rows(trial: Trial) -> Array:
    """y + Lap(Δ/ε) on every row and least squares."""
    fit, scale = trial.fit, trial.fit.width / trial.budget.epsilon
    noise = np.zeros((fit.columns, trial.repeats))
    for design, labels in trial.blocks:
        noise += design.T @ trial.stream.laplace(scale=scale, size=(len(labels), trial.repeats))
    return fit.solve(fit.moments[:, None] + noise)


_FOLDS = 10
_PENALTIES = np.logspace(-4, 4, 33)
"""In units of the mean square of a column."""


def laplace_rows_ridge(trial: Trial) -> Array:
    """y + Lap(Δ/ε) on every row, and the ridge that cross-validation on these labels prefers.

    Of each fold only its sums are kept: they tell the squared error of any coefficients on it.
    """
    fit, scale = trial.fit, trial.fit.width / trial.budget.epsilon
    d, repeats = fit.columns, trial.repeats
    grams, moments = np.zeros((_FOLDS, d, d)), np.zeros((_FOLDS, d, repeats))
    for design, labels in trial.blocks:
        size = (len(labels), repeats)
        noisy = (labels - fit.middle)[:, None] + trial.stream.laplace(scale=scale, size=size)
        folds = trial.stream.integers(_FOLDS, size=len(labels))
        for fold in range(_FOLDS):
            rows = design[folds == fold]
            grams[fold] += rows.T @ rows
            moments[fold] += rows.T @ noisy[folds == fold]
    gram, sums = grams.sum(axis=0), moments.sum(axis=0)
    shape = np.eye(d) * np.trace(gram) / d
    shape[0, 0] = 0.0  # the constant is free

    def missed(penalty: float) -> Array:
        """Squared errors on all folds, less what no coefficients change."""
        total = np.zeros(repeats)
        for held_gram, held in zip(grams, moments, strict=True):
            found = np.linalg.solve(gram - held_gram + penalty * shape, sums - held)
            total += (found * (held_gram @ found - 2 * held)).sum(axis=0)
        return total

    best = _PENALTIES[np.argmin([missed(penalty) for penalty in _PENALTIES], axis=0)]
    fits = [np.linalg.solve(gram + p * shape, each) for p, each in zip(best, sums.T, strict=True)]
    coefficients = np.column_stack(fits)
    coefficients[0] += fit.middle
    return coefficients


def ada_ssp(trial: Trial) -> Array:
    """AdaSSP with XᵀX public, for labels that count from the middle of their range: noise on Xᵀy
    alone, and a ridge for it, which draws predictions to that middle."""
    return trial.fit.solve(*_ada_ssp(trial, trial.fit.moments))


def ada_ssp_as_published(trial: Trial) -> Array:
    """The same for labels as they are: the ridge draws predictions to 0."""
    fit = trial.fit
    found = fit.solve(*_ada_ssp(trial, fit.moments + fit.middle * fit.gram[:, 0]))
    found[0] -= fit.middle
    return found


def _ada_ssp(trial: Trial, moments: Array) -> tuple[Array, float]:
    """Noisy moments and the ridge."""
    fit, budget = trial.fit, trial.budget
    d, reach = fit.columns, fit.largest_norm
    noise = fit.width * reach / budget.mu * trial.stream.normal(size=(d, trial.repeats))
    wanted = math.sqrt(d * math.log(6 / budget.delta) * math.log(2 * d**2 / 0.05))
    smallest = float(np.linalg.eigvalsh(fit.gram)[0])
    ridge = max(0.0, wanted * reach**2 / budget.epsilon - smallest)
    return moments[:, None] + noise, ridge


def constant(trial: Trial) -> Array:
    """The mean of all labels, with Laplace noise."""
    fit = trial.fit
    scale = fit.width / (fit.rows * trial.budget.epsilon)
    means = np.zeros((fit.columns, trial.repeats))
    means[0] = fit.middle + fit.sum / fit.rows
    means[0] += trial.stream.laplace(scale=scale, size=trial.repeats)
    return means


def constant_excess(fit: Fit, budget: Budget) -> float:
    """Σ(y − ȳ)² − opt, and the noise."""
    noise = laplace_variance(fit, budget) / fit.rows
    return fit.constant_ss - fit.residual_ss + noise


@dataclass(frozen=True, eq=False)
class Randomiser:
    """RR-on-bins: a label's bin is told with probability e^ε/(e^ε + q − 1), else another one."""

    bin_of: NDArray[np.intp]
    """Of each grid value."""
    told: Array
    """The value that stands for a bin."""
    keep: float

    def __call__(self, places: NDArray[np.intp], stream: np.random.Generator) -> Array:
        """Randomised labels of rows whose labels are these grid values."""
        own, count = self.bin_of[places], len(self.told)
        if count == 1:
            return np.asarray(self.told[own])
        other = (own + stream.integers(1, count, size=len(own))) % count
        return np.asarray(self.told[np.where(stream.random(len(own)) < self.keep, own, other)])


def best_bins(prior: Array, grid: Array, epsilon: float) -> Randomiser:
    """The bins of least expected squared error under a prior, by dynamic programming.

    A[i, j] is the least Σ_b Σ_y p_y·e^{ε·1[y ∈ b]}·(v_b − y)² of the first i values in j bins;
    with q bins the expected error is A[K, q]/(q − 1 + e^ε).
    """
    loss, value = _bin_losses(prior, grid, epsilon)
    size = len(grid)
    best = np.full((size + 1, size + 1), np.inf)
    start = np.zeros((size + 1, size + 1), dtype=int)
    best[0, 0] = 0.0
    for bins in range(1, size + 1):
        tried = best[:size, bins - 1][:, None] + loss
        start[1:, bins] = tried.argmin(axis=0)
        best[1:, bins] = tried.min(axis=0)
    weight = np.arange(size) + math.exp(epsilon)
    count = 1 + int(np.argmin(best[size, 1:] / weight))
    edges = [size]
    for bins in range(count, 0, -1):
        edges.append(int(start[edges[-1], bins]))
    edges.reverse()
    told = np.array([value[a, b - 1] for a, b in pairwise(edges)])
    bin_of = np.repeat(np.arange(count), np.diff(edges))
    return Randomiser(bin_of, told, math.exp(epsilon) / (math.exp(epsilon) + count - 1))


def _bin_losses(prior: Array, grid: Array, epsilon: float) -> tuple[Array, Array]:
    """L[r, i] of a bin from value r to value i, and the value that it tells; ∞ if r > i."""
    more = math.expm1(epsilon)
    sums = [np.append(0.0, np.cumsum(prior * grid**power)) for power in (0, 1, 2)]
    mass, first, second = (each[-1] + more * (each[None, 1:] - each[:-1, None]) for each in sums)
    value = first / mass
    loss = second - first * value
    below = np.tri(len(grid), k=-1, dtype=bool)
    return np.where(below, np.inf, loss), value


def private_prior(counts: Array, epsilon: float, stream: np.random.Generator) -> Array:
    """A histogram with Laplace noise: a changed label moves two counts by one."""
    noisy = np.maximum(counts + stream.laplace(scale=2 / epsilon, size=len(counts)), 0.0)
    total = noisy.sum()
    return noisy / total if total else np.full(len(counts), 1 / len(counts))


def rr_on_bins(trial: Trial) -> Array:
    """Half of ε for the prior, half for the labels; then least squares on what is told."""
    fit, stream, half = trial.fit, trial.stream, trial.budget.epsilon / 2
    grid = np.linspace(*fit.label_range, BINS) - fit.middle
    priors = [private_prior(fit.counts, half, stream) for _ in range(trial.repeats)]
    randomisers = [best_bins(prior, grid, half) for prior in priors]
    moments = np.zeros((fit.columns, trial.repeats))
    for design, labels in trial.blocks:
        places = nearest(labels, fit.label_range)
        told = [randomise(places, stream) for randomise in randomisers]
        moments += design.T @ np.column_stack(told)
    return fit.solve(moments)


def _in_every_direction(
    variance: Callable[[Fit, Budget], float],
) -> Callable[[Fit, Budget], float]:
    return lambda fit, budget: fit.columns * variance(fit, budget)


PEERS = (
    Peer(
        "Gaussian noise on rows",
        gaussian_rows,
        _in_every_direction(gaussian_variance),
        gaussian_variance,
    ),
    Peer(
        "Laplace noise on rows",
        laplace_rows,
        _in_every_direction(laplace_variance),
        laplace_variance,
    ),
    Peer(
        "isotropic output perturbation",
        isotropic,
        _in_every_direction(isotropic_variance),
        isotropic_variance,
    ),
    Peer("AdaSSP, public features", ada_ssp_as_published),
    Peer("AdaSSP, public features, centred labels", ada_ssp),
    Peer("RR-on-bins, private prior", rr_on_bins),
    Peer("Laplace noise on rows, ridge by cross-validation", laplace_rows_ridge),
    Peer("constant", constant, constant_excess),
)


def strongest(fit: Fit, budget: Budget) -> Peer:
    """Of the peers with the same noise in every whitened direction, the one with least."""
    return min(
        (peer for peer in PEERS if peer.variance),
        key=lambda peer: peer.variance(fit, budget) if peer.variance else math.inf,
    )


def shrunken(trial: Trial) -> Array:
    """The strongest of them with what labeldp's learner does for free: its shrinkage."""
    fit, peer = trial.fit, strongest(trial.fit, trial.budget)
    assert peer.variance is not None
    spread = math.sqrt(peer.variance(fit, trial.budget)) * np.eye(fit.columns)
    fits = [
        fit_rules.posterior_mean(
            NoisyNormalEquations(fit.root, fit.root @ each, spread, 0, fit.rows),
            fit.label_range,
        )
        for each in peer.draw(trial).T
    ]
    return np.column_stack([rule.coefficients for rule in fits])
