"""The appendix's network, 128-64-1, on simulated bags; it needs the extra "torch".

All ρ are trained at once: networks differ in the noise of their labels only and share rows, so
that one sparse product serves the first layer of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeldp_paper.experiments.design import Design
from labeldp_paper.experiments.training import RATE, Cosine, Singles, bags_a_step, start_weights

if TYPE_CHECKING:
    import torch

HIDDEN = (128, 64)
_SMALL = 1e-7
_BLOCK = 20_000


def has_torch() -> bool:
    """Whether networks can be trained here."""
    return find_spec("torch") is not None


@dataclass(frozen=True)
class Lesson:
    """How long and how fast."""

    batch_rows: int
    epochs: int
    rate: float = RATE


@dataclass(frozen=True, eq=False)
class Bags:
    """Rows of a table in bags (bags, size), their public weights, and labels (networks, bags)."""

    rows: NDArray[np.int32]
    weights: Singles
    labels: Singles


def train(design: Design, bags: Bags, lesson: Lesson, random: np.random.Generator) -> Networks:
    """As many networks as `bags.labels` has lines, on squared errors of whole bags."""
    import torch

    count, size = bags.rows.shape
    batch = bags_a_step(lesson.batch_rows, size)
    steps = -(-count // batch) * lesson.epochs
    made = Networks.start(len(bags.labels), design.width - 1, random)
    optimiser = torch.optim.Adam(made.layers, lr=lesson.rate, eps=_SMALL)
    rates = Cosine(steps, lesson.rate, lesson.rate / 1000)
    for step, chosen in enumerate(_batches(count, batch, lesson.epochs, random)):
        for group in optimiser.param_groups:
            group["lr"] = rates.at(step)
        weights = torch.from_numpy(bags.weights[chosen].reshape(-1))
        wanted = torch.from_numpy(np.ascontiguousarray(bags.labels[:, chosen]))
        fitted = made(one_hot(design, bags.rows[chosen].ravel())) * weights
        error = fitted.reshape(len(wanted), len(chosen), size).sum(dim=2) - wanted
        optimiser.zero_grad()
        error.square().mean(dim=1).sum().backward()
        optimiser.step()
    return made


def _batches(
    count: int, batch: int, epochs: int, random: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    for _ in range(epochs):
        order = random.permutation(count)
        yield from (order[start : start + batch] for start in range(0, count, batch))


def one_hot(design: Design, rows: NDArray[np.int32]) -> sparse.csr_matrix:
    """Rows as the table has them, a column for each level, in single precision."""
    slopes, offsets = design.units
    codes, numbers = design.codes[rows], (design.numbers[rows] * slopes + offsets).astype("f4")
    places = np.asarray(design.features.number_columns, dtype=np.int32)
    columns = np.concatenate([np.broadcast_to(places, (len(rows), len(places))), codes], axis=1) - 1
    values = np.concatenate([numbers, np.ones(codes.shape, np.float32)], axis=1)
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    shape = (len(rows), design.width - 1)
    return sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=shape)


@dataclass(frozen=True, eq=False)
class Networks:
    """Networks side by side: weights and biases of their three layers."""

    layers: list[torch.Tensor]
    count: int

    @classmethod
    def start(cls, count: int, inputs: int, random: np.random.Generator) -> Networks:
        import torch

        sizes = (inputs, *HIDDEN, 1)
        layers = []
        for before, after in pairwise(sizes):
            weights = start_weights(random, (count, before, after))
            if before == inputs:  # one matrix for all, since all see the same rows
                weights = np.ascontiguousarray(weights.transpose(1, 0, 2)).reshape(inputs, -1)
            layers += [torch.from_numpy(weights), torch.zeros(count, 1, after)]
        for layer in layers:
            layer.requires_grad_(True)
        return cls(layers, count)

    def __call__(self, rows: sparse.csr_matrix) -> torch.Tensor:
        """What each network says of each row: (networks, rows)."""
        import torch

        first, *rest = self.layers
        width = HIDDEN[0]
        made = _product()(first, rows).reshape(rows.shape[0], self.count, width).transpose(0, 1)
        hidden = torch.relu(made + rest[0])
        hidden = torch.relu(torch.baddbmm(rest[2], hidden, rest[1]))
        return torch.baddbmm(rest[4], hidden, rest[3])[:, :, 0]

    def test_mse(self, design: Design, rows: NDArray[np.int32]) -> list[float]:
        """Mean squared error of each network on single rows."""
        import torch

        total = np.zeros(self.count)
        with torch.no_grad():
            for start in range(0, len(rows), _BLOCK):
                part = rows[start : start + _BLOCK]
                error = self(one_hot(design, part)).numpy() - design.labels[part]
                total += np.square(error, dtype=float).sum(axis=1)
        return [float(value) for value in total / len(rows)]


def _product() -> Any:
    """Sparse rows times dense weights, with a gradient for the weights."""
    import torch

    class Product(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, weights: torch.Tensor, rows: sparse.csr_matrix) -> torch.Tensor:
            ctx.rows = rows
            return torch.from_numpy(rows @ weights.detach().numpy())

        @staticmethod
        def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:
            (slope,) = slopes
            return torch.from_numpy(ctx.rows.T.tocsr() @ slope.contiguous().numpy()), None

    return Product.apply
