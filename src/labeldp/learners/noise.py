"""Bags whose labels have noise of known deviation: how much each tells, and what a fit is worth.

Bag j has the label t_j = Σ w f(x) + residuals + noise. With noise of deviation s_j, which is
public, and a residual variance v per row, its variance is s_j² + v·Σw². Divided by its root, every
label has variance 1 and least squares weighs it by what it tells: the deviations of
sampled-noisy-wtd-LAg differ by a factor of a thousand. All of it is post-processing of a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.bags import WeightedBags

Array = NDArray[np.float64]

_ROUNDS = 10
_SCATTER = 5.0
"""Var r²/(E r²)² of Laplace noise; of Gaussian noise it is 2."""
_LEAST = 1 / 400
"""Of the squared range, the smallest variance that labels are thought to have; 1/4 is the most."""


_DOUBT = 3.0
"""Deviations. Of releases that say next to nothing about a hundredth goes beyond."""


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """What is public of the labels of bags."""

    std: Array = field(repr=False)
    """Of each bag's noise."""
    label_range: tuple[float, float]
    """Of the labels of rows."""


@dataclass(frozen=True, eq=False)
class Standardised:
    """f = shift + scale·g, and bags for g whose labels have variance 1."""

    bags: WeightedBags
    shift: float
    """The best constant."""
    scale: float
    """The deviation of single labels about it, without noise."""


def standardised(bags: WeightedBags, noise: LabelNoise) -> Standardised:
    """Bags in which every label counts for what it tells."""
    shift, variance = _moments(bags, noise)
    scale, spread = math.sqrt(variance), np.sqrt(noise.std**2 + variance * _energy(bags))
    weights = bags.weights * (scale / np.repeat(spread, bags.lengths))
    return Standardised(
        replace(
            bags,
            weights=weights.astype(np.float32),
            labels=(bags.labels - shift * bags.constants) / spread,
            constants=bags.constants * scale / spread,
        ),
        shift,
        scale,
    )


def _energy(bags: WeightedBags) -> Array:
    """Σw² of each bag."""
    squares = np.square(bags.weights, dtype=np.float64)
    return np.asarray(np.add.reduceat(squares, bags.offsets[:-1]))


def _moments(bags: WeightedBags, noise: LabelNoise) -> tuple[float, float]:
    """The best constant and the variance of labels about it, each with the range as its prior.

    Labels spread evenly have the middle as mean and Δ²/12 as variance: few noisy labels move
    neither far from there.
    """
    (low, high), energy = noise.label_range, _energy(bags)
    middle, prior = (low + high) / 2, (high - low) ** 2 / 12
    about_middle = bags.labels - middle * bags.constants
    shift, variance = middle, prior
    for _ in range(_ROUNDS):
        precision = 1 / (noise.std**2 + variance * energy)
        weights = precision * bags.constants
        told_mean = float(weights @ bags.constants)
        shift = middle + float(weights @ about_middle) / (told_mean + 1 / prior)
        above = (bags.labels - shift * bags.constants) ** 2 - noise.std**2
        told = float(np.sum((precision * energy) ** 2))  # E above = variance·energy
        found = float((precision**2 * energy) @ above) / told
        variance = (found * told / _SCATTER + 1 / prior) / (told / _SCATTER + 1 / prior**2)
        variance = float(np.clip(variance, _LEAST * (high - low) ** 2, (high - low) ** 2 / 4))
    return shift, variance


@dataclass(frozen=True)
class Judged:
    """What labels that a network has not seen say of it, against the constant."""

    share: float
    """How much of its predictions to keep, between 0 (the constant) and 1."""
    gain: float
    """By how much the sum of squares, in units of its noise, is less than the constant's."""
    gain_error: float


def judged(labels: Array, outputs: Array) -> Judged:
    """The share α to keep, for labels = α·outputs + noise of variance 1: James and Stein's.

    z is by how many deviations the labels speak for the network. Those of one part taught the
    networks that the others judge, so that noise which several parts happen to share speaks for
    them as well: z has a longer tail than a normal number, and up to `_DOUBT` nothing is kept.
    """
    length = math.sqrt(float(outputs @ outputs))
    z = float(labels @ outputs) / length if length > 0 else 0.0
    if z <= _DOUBT:
        return Judged(0.0, 0.0, 0.0)
    share = min(1.0, z / length) * (1 - (_DOUBT / z) ** 2)
    gain = share * (2 * z - share * length) * length
    return Judged(share, gain, 2 * share * length)
