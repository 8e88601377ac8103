"""The paper's training: Adam, the rate falling along a cosine from 1e-3 to 1e-6 over the epochs.

A linear model sees aggregated rows, without an intercept: blocks of levels hold the constant. The
batch of 1,024 (Criteo) or 8,192 (census) is read as a number of ROWS, so batch/k bags a step. That
is an inference: only so do errors fall with the bag size as the paper's do. Numbers enter as they
are, weights start uniform as Keras has them. The paper also stops early with a patience of 3
epochs, without saying on what; that is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCH_ROWS = {"criteo": 1024, "census": 8192}
EPOCHS, RATE, LAST_RATE = 200, 1e-3, 1e-6
_FIRST, _SECOND, _SMALL = 0.9, 0.999, 1e-7
Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Cosine:
    """The learning rate of every step."""

    steps: int
    rate: float = RATE
    last: float = LAST_RATE

    def at(self, step: int) -> float:
        """Step 0 has the first rate, step `steps` the last."""
        return self.last + (self.rate - self.last) * 0.5 * (
            1 + math.cos(math.pi * step / self.steps)
        )


def start_weights(random: np.random.Generator, shape: tuple[int, ...]) -> Singles:
    """Glorot's uniform law for layers of shape (…, inputs, outputs)."""
    limit = math.sqrt(6 / (shape[-2] + shape[-1]))
    return random.uniform(-limit, limit, shape).astype(np.float32)


def bags_a_step(batch_rows: int, bag_size: int) -> int:
    return max(1, batch_rows // bag_size)


def train_linear(
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    batch: int,
    random: np.random.Generator,
    epochs: int = EPOCHS,
) -> NDArray[np.float64]:
    """Weights of several linear models, trained at once.

    `sums` (models, bags, columns) are aggregated rows, `totals` (models, bags) aggregate labels,
    `batch` the bags of a step.
    """
    models, bags, columns = sums.shape
    features, labels = sums.astype(np.float32), totals.astype(np.float32)
    weights = start_weights(random, (models, columns, 1))[:, :, 0]
    adam = _Adam(weights, Cosine(math.ceil(bags / batch) * epochs))
    which = np.arange(models)[:, None]
    for _ in range(epochs):
        order = np.argsort(random.random((models, bags)), axis=1)
        seen, wanted = features[which, order], labels[which, order]
        for start in range(0, bags, batch):
            part = seen[:, start : start + batch]
            error = np.matmul(part, weights[:, :, None])[:, :, 0] - wanted[:, start : start + batch]
            adam.step(np.matmul(error[:, None, :], part)[:, 0] * np.float32(2 / part.shape[1]))
    return weights.astype(float)


class _Adam:
    """In place, on one array."""

    def __init__(self, weights: Singles, rates: Cosine) -> None:
        self.weights, self.rates, self.done = weights, rates, 0
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, gradient: Singles) -> None:
        rate = self.rates.at(self.done)
        self.done += 1
        rate *= math.sqrt(1 - _SECOND**self.done) / (1 - _FIRST**self.done)
        self.mean += np.float32(1 - _FIRST) * (gradient - self.mean)
        self.square += np.float32(1 - _SECOND) * (gradient * gradient - self.square)
        self.weights -= np.float32(rate) * self.mean / (np.sqrt(self.square) + np.float32(_SMALL))
