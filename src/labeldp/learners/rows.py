"""Learning from a release of rows: every row has a label, with noise of a known deviation.

To fit t = y + noise by least squares is to fit y with noise on the coefficients: with RᵀR = XᵀX
and b̃ = R⁻ᵀXᵀt, b̃ − b is a projection of the noise, of variance Var(noise) in every direction. For
Gaussian noise it is normal, for Laplace's nearly so, unless a few rows decide a direction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from labeldp.features.encoder import Encoder
from labeldp.learners.bags import WeightedBags, singletons
from labeldp.learners.inputs import Inputs
from labeldp.learners.least_squares import compressed
from labeldp.learners.whitened import Measured, NoisyNormalEquations, possible
from labeldp.release.rows import labelled_rows

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.release.files import Release
    from labeldp.release.label_model import RowLabels

_BLOCK_NUMBERS = 1 << 22


def whitened_rows(
    release: Release, noise: RowLabels, source: Source | None
) -> NoisyNormalEquations:
    """R, b̃ and its noise, in one pass over the rows; labels of the source are not read."""
    features = release.features
    encode, columns = Encoder(features), len(features.names)
    step = max(columns + 1, _BLOCK_NUMBERS // columns)
    design, labels = np.empty((0, columns)), np.empty(0)
    for batch, some in labelled_rows(release, source):
        for start in range(0, len(some), step):
            block = features.integers(encode(batch.slice(start, step))) * features.kept_scales
            above, known = np.vstack([design, block]), np.append(labels, some[start : start + step])
            design, labels = compressed(above, known)
    return NoisyNormalEquations(
        design[:columns],
        labels[:columns],
        noise.std * np.eye(columns),
        features.rows,
        _residual(release, noise, float(np.sum(labels[columns:] ** 2))),
    )


def _residual(release: Release, noise: RowLabels, total: float) -> Measured | None:
    """σ² from the residual of the noisy labels, σ² + (n − d)·Var(noise) in expectation."""
    freedom, variance = release.features.rows - len(release.features.names), noise.std**2
    if freedom < 1:
        return None
    value = total - freedom * variance
    scatter = (noise.kurtosis - 1) * freedom * variance**2 + 4 * variance * max(0.0, value)
    return possible(release, Measured(value, math.sqrt(scatter)))


def single_rows(release: Release, source: Source | None) -> WeightedBags:
    """Every row as a bag of weight 1."""
    encode, inputs = Encoder(release.features), Inputs.of(release.features)
    parts = [(*inputs.rows(encode(batch)), some) for batch, some in labelled_rows(release, source)]
    codes, numbers, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    single = numbers.astype(np.float32)
    return singletons(codes, single, labels, inputs.sizes, release.features)
