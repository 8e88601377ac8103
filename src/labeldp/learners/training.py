"""Training a network on weighted bags, in torch, on the processor. Imported only to fit.

The loss of bag j is (t_j − Σ_r w_jr g(x_jr))². Mini-batches hold whole bags; every bag has the same
weight whatever the batch it falls into. One-hot columns are sums of rows of the first matrix, never
a dense matrix. All randomness comes from one private generator, and every operation used is
deterministic on the processor, so a seed (and a number of threads) gives the same network again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.learners.bags import LabelUnits, WeightedBags
from labeldp.learners.layers import Matrix
from labeldp.learners.models import NetworkOptions

_PART_ROWS = 4096
"""Rows taken forward and back at once: their activations stay in the cache."""
_BATCHES = 16
_FEW_ROWS = 64
"""Few rows make smaller mini-batches: an epoch of one or two steps would be too little to be
judged by, and patience counts epochs."""
_PRIOR_SHARE = 0.1
"""How much of its prior's precision a weight is held back by, as measured: at 1 networks learn too
little from labels with little noise, and at 0 too much from few with much of it."""

Indices = NDArray[np.int64]


def train(
    bags: WeightedBags,
    units: LabelUnits,
    options: NetworkOptions,
    advance: Callable[[int], None],
    *,
    in_parts: bool = False,
) -> list[TrainedNetwork]:
    """Return the network of least loss, by Adam under a cosine schedule, with early stopping.

    Return one network or, if `in_parts`, one for each of `folds` parts of the bags, trained on the
    others. Such a network is stopped by the parts of the others, so that its own has no say in it
    and can judge it. Its mean over the rows is 0: the constant is estimated without it. Labels must
    then have noise of variance 1: weights are held back as much as a prior of the law that they
    start with would hold them, but for a factor (`_PRIOR_SHARE`).
    """
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(options.threads or 1)
        with torch.enable_grad():
            generator = torch.Generator(device="cpu").manual_seed(options.seed)
            rows = BagTensors(bags, units, options)
            parts: Sequence[Indices | None] = [None]
            if in_parts:
                order = torch.randperm(bags.bags, generator=generator, device="cpu").numpy()
                parts = np.array_split(order, min(options.folds, bags.bags))
            networks = [TrainedNetwork(rows, options, generator, part) for part in parts]
            for epoch in range(options.epochs):
                losses = [network.run_epoch(epoch) for network in networks]
                advance(len(networks))
                for network, loss in zip(networks, losses, strict=True):
                    network.keep_if_best(epoch, sum(losses) - loss if in_parts else loss)
                if epoch - max(network.best_epoch for network in networks) >= options.patience:
                    break
        for network in networks:
            network.finish(centred=in_parts)
        return networks
    finally:
        torch.set_num_threads(threads)


class BagTensors:
    """The bags as tensors; a subset of bags is gathered at a time."""

    def __init__(self, bags: WeightedBags, units: LabelUnits, options: NetworkOptions) -> None:
        sizes, self.bags = bags.category_sizes, bags.bags
        self.inputs = sum(sizes) + bags.numbers.shape[1]
        self.active = len(sizes) + bags.numbers.shape[1]
        """Inputs of a row that are not zero."""
        self.per_bag = units.energy / bags.bags
        codes = bags.categories + np.cumsum((0, *sizes), dtype=np.int32)[: len(sizes)]
        is_pruned = bags.categories < 0
        self.has_pruned = bool(is_pruned.any())
        codes[is_pruned] = self.inputs  # the bias row, which the sum skips
        self.codes = torch.from_numpy(codes)
        # What multiplies the bias. The output's own bias enters by way of `constants`.
        bias = np.full((bags.rows, 1), 1.0 if options.hidden else 0.0, dtype=np.float32)
        self.numbers = torch.from_numpy(np.concatenate([bags.numbers, bias], axis=1))
        self.weights = torch.tensor(bags.weights)
        targets = (bags.labels - units.shift * bags.constants) / units.scale
        self.targets = torch.tensor(targets, dtype=torch.float32)
        self.constants = torch.tensor(bags.constants, dtype=torch.float32)
        self.offsets, self.lengths = bags.offsets, bags.lengths

    def loss(self, matrices: Sequence[torch.Tensor], chosen: Indices) -> torch.Tensor:
        """Return Σ (t_j − Σ_r w_jr g(x_jr))² over the chosen bags."""
        targets = self.targets[torch.from_numpy(chosen)]
        return torch.sum((targets - self.sums(matrices, chosen)) ** 2)

    def sums(self, matrices: Sequence[torch.Tensor], chosen: Indices) -> torch.Tensor:
        """Return Σ_r w_jr g(x_jr) of the chosen bags."""
        lengths = self.lengths[chosen]
        jumps = self.offsets[chosen] - (np.cumsum(lengths) - lengths)
        rows = torch.from_numpy(np.repeat(jumps, lengths) + np.arange(lengths.sum()))
        members = torch.from_numpy(np.repeat(np.arange(len(chosen)), lengths))
        outputs = self._outputs(matrices, self.codes[rows], self.numbers[rows])
        sums = torch.zeros(len(chosen), dtype=torch.float32, device="cpu")
        sums = sums.index_add(0, members, outputs * self.weights[rows])
        return sums + self.constants[torch.from_numpy(chosen)] * matrices[-1][-1, 0]

    def mean(self, matrices: Sequence[torch.Tensor]) -> float:
        """Return the mean of g over all rows."""
        parts = zip(self.codes.split(_PART_ROWS), self.numbers.split(_PART_ROWS), strict=True)
        total = sum(float(self._outputs(matrices, *part).double().sum()) for part in parts)
        return total / len(self.numbers) + float(matrices[-1][-1, 0])

    def cut(self, chosen: Indices, rows: int) -> list[Indices]:
        """Return runs of whole bags that begin in the same stretch of `rows` rows."""
        lengths = self.lengths[chosen]
        stretch = (np.cumsum(lengths) - lengths) // rows
        return np.split(chosen, np.flatnonzero(np.diff(stretch)) + 1) if len(chosen) else []

    def _outputs(
        self, matrices: Sequence[torch.Tensor], codes: torch.Tensor, numbers: torch.Tensor
    ) -> torch.Tensor:
        """Return the network on rows, without the output's bias."""
        hidden = FirstLayer.apply(codes, numbers, matrices[0], self.has_pruned)
        for matrix in matrices[1:-1]:
            hidden = torch.addmm(matrix[-1], torch.relu_(hidden), matrix[:-1])
        if len(matrices) > 1:
            return torch.mv(torch.relu_(hidden), matrices[-1][:-1, 0])
        return hidden[:, 0]


class FirstLayer(torch.autograd.Function):  # type: ignore[misc]
    """One-hot codes and numbers times a matrix, whose gradient is a sum by code as well.

    torch's own gradient of an embedding bag takes several times as long.
    """

    @staticmethod
    def forward(
        ctx: Any, codes: torch.Tensor, numbers: torch.Tensor, matrix: torch.Tensor, skips: bool
    ) -> torch.Tensor:
        ctx.save_for_backward(codes, numbers)
        ctx.levels = len(matrix) - numbers.shape[1]
        if codes.shape[1] == 0:
            return numbers @ matrix
        skip = len(matrix) - 1 if skips else None
        hidden = torch.nn.functional.embedding_bag(codes, matrix, mode="sum", padding_idx=skip)
        return hidden.addmm_(numbers, matrix[ctx.levels :])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None, torch.Tensor, None]:
        codes, numbers = ctx.saved_tensors
        dense = numbers.T @ gradient
        if ctx.levels == 0:
            return None, None, dense, None
        flat = codes.numpy().ravel()
        counts = np.bincount(flat, minlength=ctx.levels)[: ctx.levels]
        ends = np.cumsum(counts)
        # Rows in the order of their codes; those of pruned levels come last and are left out.
        # NumPy sorts 16 bits by radix, ten times as fast as anything wider.
        short = flat.astype(np.uint16) if ctx.levels + len(dense) <= 2**16 else flat
        rows = np.argsort(short, kind="stable")[: ends[-1]] // codes.shape[1]
        sums = torch.nn.functional.embedding_bag(
            torch.from_numpy(rows), gradient, torch.from_numpy(ends - counts), mode="sum"
        )
        return None, None, torch.cat([sums, dense]), None


class Adam:
    """Adam with torch's defaults; torch.optim would import its compiler, which takes seconds."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self._parameters = parameters
        self._means = [torch.zeros_like(parameter) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in parameters]
        self._steps = 0

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, rate: float) -> None:
        """Move against the gradients, and drop them."""
        self._steps += 1
        first, second = 1 - 0.9**self._steps, 1 - 0.999**self._steps
        state = zip(self._parameters, self._means, self._squares, strict=True)
        for parameter, mean, square in state:
            mean.lerp_(parameter.grad, 0.1)
            square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
            size = square.sqrt().div_(math.sqrt(second)).add_(1e-8)
            parameter.addcdiv_(mean, size, value=-rate / first)
            parameter.grad = None


class TrainedNetwork:
    """A network in training, and the best that it has been."""

    def __init__(
        self,
        rows: BagTensors,
        options: NetworkOptions,
        generator: torch.Generator,
        held_out: Indices | None,
    ) -> None:
        """Stop by `held_out`, and hold weights back by their prior; by default by a random part."""
        self._options, self._rows, self._generator = options, rows, generator
        self._weights: list[torch.Tensor] = []
        # The inputs of a row that are not zero, not all levels, set the scale of the first layer.
        fans = (max(1, rows.active), *options.hidden)
        widths = pairwise((rows.inputs, *options.hidden, 1))
        for layer, (fan, (here, there)) in enumerate(zip(fans, widths, strict=True)):
            matrix = torch.zeros((here + 1, there), dtype=torch.float32, device="cpu")
            if layer < len(options.hidden):
                # He-uniform without bias. The output stays zero: the best constant.
                limit = math.sqrt(6.0 / fan)
                matrix[:-1].uniform_(-limit, limit, generator=generator)
            self._weights.append(matrix)
        self._project()
        for matrix in self._weights:
            matrix.requires_grad_()
        self._optimizer = Adam(self._weights)
        everything, share = np.arange(rows.bags), 0.0
        if held_out is None:
            count = min(rows.bags - 1, math.ceil(options.validation_fraction * rows.bags))
            held_out, self._used = np.split(self._permute(everything), [count])
        else:
            self._used = np.setdiff1d(everything, held_out)
            share = _PRIOR_SHARE / (len(self._used) * rows.per_bag)
        rows_per_batch = int(rows.lengths[self._used].sum()) // _BATCHES
        self._batch_rows = min(options.batch_rows, max(_FEW_ROWS, rows_per_batch))
        # The precision of the law that weights start with; of the output, that which makes the
        # variance of g one, as of the labels without noise.
        self._decays = [*(share * fan / 2 for fan in fans[:-1]), share * fans[-1]]
        self.held_out: Indices = held_out
        """The bags that it is not trained on."""
        self.losses: list[float] = []
        """After every epoch, in squared units of g per row."""
        self.validation_losses: list[float] = []
        self._best_loss, self.best_epoch = math.inf, 0
        self.matrices: tuple[Matrix, ...] = ()
        """The best so far."""

    def run_epoch(self, epoch: int) -> float:
        """Train one epoch; return the loss on the part that is held out.

        If there is none, the loss falls from epoch to epoch, so that the last network is kept.
        """
        options, rows, count = self._options, self._rows, len(self._used) * self._rows.per_bag
        turn = math.pi * epoch / max(1, options.epochs - 1)
        rate = options.final_rate + (options.learning_rate - options.final_rate) * (
            (1 + math.cos(turn)) / 2
        )
        batches = rows.cut(self._permute(self._used), self._batch_rows)
        weight = len(batches) / count  # the mean over all the bags
        self.losses.append(sum(self._step(batch, weight, rate) for batch in batches) / count)
        if len(self.held_out):
            self.validation_losses.append(self._validation())
        latest = (self.validation_losses or self.losses)[-1]
        if not math.isfinite(latest):
            raise InputError("training diverged; lower `learning_rate`, or set `max_norm`")
        return latest if len(self.held_out) else -float(epoch)

    def keep_if_best(self, epoch: int, loss: float) -> None:
        """Keep the network of this epoch if by this loss it is the best so far."""
        if loss < self._best_loss:
            self._best_loss, self.best_epoch = loss, epoch
            self.matrices = tuple(matrix.detach().numpy().copy() for matrix in self._weights)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def finish(self, *, centred: bool) -> None:
        """Compute Σ w g of the bags that were held out as `outputs`, by the best network.

        If `centred`, its mean over all rows is subtracted.
        """
        tensors = [torch.from_numpy(matrix) for matrix in self.matrices]  # the same memory
        if centred:
            self.matrices[-1][-1, 0] -= self._rows.mean(tensors)
        parts = self._rows.cut(self.held_out, _PART_ROWS)
        sums = [self._rows.sums(tensors, part).double().numpy() for part in parts]
        self.outputs: NDArray[np.float64] = np.concatenate([np.empty(0), *sums])

    def _step(self, batch: Indices, weight: float, rate: float) -> float:
        """Take one step by the loss of a batch; return that loss."""
        total = 0.0
        for part in self._rows.cut(batch, _PART_ROWS):
            loss = self._rows.loss(self._weights, part)
            (loss * weight).backward()
            total += float(loss.detach())
        for matrix, decay in zip(self._weights, self._decays, strict=True):
            if decay:  # the gradient of the penalty, which leaves biases free
                matrix.grad[:-1].add_(matrix.detach()[:-1], alpha=2 * decay)
        self._optimizer.step(rate)
        self._project()
        return total

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _validation(self) -> float:
        parts = self._rows.cut(self.held_out, _PART_ROWS)
        total = sum(float(self._rows.loss(self._weights, part)) for part in parts)
        return total / (len(self.held_out) * self._rows.per_bag)

    def _project(self) -> None:
        """Move every layer to the nearest point of the Frobenius ball."""
        radius = math.inf if self._options.max_norm is None else self._options.max_norm
        for matrix in self._weights:
            norm = float(torch.linalg.vector_norm(matrix.detach(), dtype=torch.float64))
            if norm > radius:
                # A hair inside, so that rounding to float32 cannot lead out again.
                matrix.detach().mul_(radius / norm * (1 - 1e-7))

    def _permute(self, bags: Indices) -> Indices:
        order = torch.randperm(len(bags), generator=self._generator, device="cpu")
        return np.asarray(bags[order.numpy()])
