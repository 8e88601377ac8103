"""Training a network on weighted bags, in torch, on the processor. Imported only to fit.

The loss of bag j is (t_j − Σ_r w_jr g(x_jr))². Mini-batches hold whole bags; every bag has the same
weight whatever the batch it falls into. All randomness comes from one private generator, and every
operation used is deterministic on one thread of the processor, so a seed gives the same network
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.learners.bags import WeightedBags
from labeldp.learners.models import NETWORKS, Matrix, NetworkOptions

_BATCHES = 16
_FEW_ROWS, _MOST_ROWS = 64, 8192
"""Of a mini-batch, give or take a bag. Few rows make smaller ones: an epoch of one or two steps
would be too little to be judged by, and patience counts epochs. Nor are more rows taken forward at
once: their activations stay in the cache."""
_FINAL_RATE = 1e-6
_HELD_OUT = 0.1
"""The part of the bags that stops a network that is trained alone."""
_PRIOR_SHARE = 0.1
"""How much of its prior's precision a weight is held back by, as measured: at 1 networks learn too
little from labels with little noise, and at 0 too much from few with much of it."""

Indices = NDArray[np.int64]


def train(
    bags: WeightedBags,
    options: NetworkOptions,
    advance: Callable[[int], None],
    *,
    in_parts: bool = False,
) -> list[TrainedNetwork]:
    """Return the network of least loss, by Adam under a cosine schedule, with early stopping.

    Return one network or, if `in_parts`, one for each part of the bags, trained on the others. Such
    a network is stopped by the parts of the others, so that its own has no say in it and can judge
    it. Its mean over the rows is 0: the constant is estimated without it. Labels must then have
    noise of variance 1: weights are held back as much as a prior of the law that they start with
    would hold them, but for a factor (`_PRIOR_SHARE`).
    """
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # the steps are short, and gain little from more
        with torch.enable_grad():
            generator = torch.Generator(device="cpu").manual_seed(options.seed)
            parts: Sequence[Indices | None] = [None]
            if in_parts:
                order = torch.randperm(bags.bags, generator=generator, device="cpu").numpy()
                parts = np.array_split(order, min(NETWORKS, bags.bags))
            networks = [TrainedNetwork(bags, options, generator, part) for part in parts]
            for epoch in range(options.epochs):
                losses = [network.run_epoch(epoch) for network in networks]
                advance(len(networks))
                for network, loss in zip(networks, losses, strict=True):
                    network.keep_if_best(epoch, sum(losses) - loss if in_parts else loss)
                if epoch - max(network.best_epoch for network in networks) >= options.patience:
                    break
        for network in networks if in_parts else []:
            network.centre()
        return networks
    finally:
        torch.set_num_threads(threads)


def network_sums(
    bags: WeightedBags, matrices: Sequence[torch.Tensor], chosen: Indices
) -> torch.Tensor:
    """Return Σ_r w_jr g(x_jr) of the chosen bags."""
    lengths = bags.lengths[chosen]
    jumps = bags.offsets[chosen] - (np.cumsum(lengths) - lengths)
    rows = np.repeat(jumps, lengths) + np.arange(lengths.sum())
    members = torch.from_numpy(np.repeat(np.arange(len(chosen)), lengths))
    outputs = _outputs(bags, matrices, rows) * torch.from_numpy(bags.weights[rows])
    sums = torch.zeros(len(chosen), dtype=torch.float32, device="cpu").index_add(
        0, members, outputs
    )
    constants = torch.from_numpy(bags.constants[chosen].astype(np.float32))
    return sums + constants * matrices[-1][-1, 0]


def network_loss(
    bags: WeightedBags, matrices: Sequence[torch.Tensor], chosen: Indices
) -> torch.Tensor:
    """Return Σ (t_j − Σ_r w_jr g(x_jr))² over the chosen bags."""
    labels = torch.from_numpy(bags.labels[chosen].astype(np.float32))
    return torch.sum((labels - network_sums(bags, matrices, chosen)) ** 2)


def _outputs(bags: WeightedBags, matrices: Sequence[torch.Tensor], rows: Indices) -> torch.Tensor:
    """Return the network on these rows, without the output's bias, which bags count by Σ w."""
    inputs = bags.inputs[rows].tocoo()  # sparse: mostly levels of categories
    sparse = torch.sparse_coo_tensor(
        np.stack(inputs.coords), inputs.data, inputs.shape, is_coalesced=True,
        check_invariants=False, device="cpu",
    )  # fmt: skip
    hidden = torch.sparse.mm(sparse, matrices[0][:-1])
    for before, matrix in pairwise(matrices):
        hidden = torch.relu_(hidden.add_(before[-1])) @ matrix[:-1]
    return hidden[:, 0]


def _cut(bags: WeightedBags, chosen: Indices, rows: int) -> list[Indices]:
    """Return runs of whole bags that begin in the same stretch of `rows` rows."""
    lengths = bags.lengths[chosen]
    stretch = (np.cumsum(lengths) - lengths) // rows
    return np.split(chosen, np.flatnonzero(np.diff(stretch)) + 1) if len(chosen) else []


class TrainedNetwork:
    """A network in training, and the best that it has been."""

    def __init__(
        self,
        bags: WeightedBags,
        options: NetworkOptions,
        generator: torch.Generator,
        held_out: Indices | None,
    ) -> None:
        """Stop by `held_out`, and hold weights back by their prior; by default by a random part."""
        self._options, self._bags, self._generator = options, bags, generator
        self._weights: list[torch.Tensor] = []
        # The inputs of a row that are not zero, not all levels, set the scale of the first layer.
        fans = (int(np.diff(bags.inputs.indptr).max(initial=1)), *options.hidden)
        widths = (bags.inputs.shape[1], *options.hidden, 1)
        for layer, (here, there) in enumerate(pairwise(widths)):
            matrix = torch.zeros((here + 1, there), dtype=torch.float32, device="cpu")
            if layer < len(options.hidden):
                # He-uniform without bias. The output stays zero: the best constant.
                limit = math.sqrt(6.0 / fans[layer])
                matrix[:-1].uniform_(-limit, limit, generator=generator)
            self._weights.append(matrix.requires_grad_())
        self._optimizer = torch.optim.Adam(self._weights)
        everything, share = np.arange(bags.bags), 0.0
        if held_out is None:
            count = min(bags.bags - 1, math.ceil(_HELD_OUT * bags.bags))
            held_out, self._used = np.split(self._permute(everything), [count])
        else:
            self._used = np.setdiff1d(everything, held_out)
            share = _PRIOR_SHARE / (len(self._used) * bags.energy_per_bag)
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
        options, bags = self._options, self._bags
        high = (1 + math.cos(math.pi * epoch / max(1, options.epochs - 1))) / 2
        rate = _FINAL_RATE + (options.learning_rate - _FINAL_RATE) * high
        self._optimizer.param_groups[0]["lr"] = rate
        rows_per_batch = int(bags.lengths[self._used].sum()) // _BATCHES
        most = min(_MOST_ROWS, max(_FEW_ROWS, rows_per_batch))
        batches = _cut(bags, self._permute(self._used), most)
        count = len(self._used) * bags.energy_per_bag
        weight = len(batches) / count  # the mean over all the bags
        self.losses.append(sum(self._step(batch, weight) for batch in batches) / count)
        if len(self.held_out):
            self.validation_losses.append(self._validation())
        latest = (self.validation_losses or self.losses)[-1]
        if not math.isfinite(latest):
            raise InputError("training diverged; lower `learning_rate`")
        return latest if len(self.held_out) else -float(epoch)

    def keep_if_best(self, epoch: int, loss: float) -> None:
        """Keep the network of this epoch if by this loss it is the best so far."""
        if loss < self._best_loss:
            self._best_loss, self.best_epoch = loss, epoch
            self.matrices = tuple(matrix.detach().numpy().copy() for matrix in self._weights)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def centre(self) -> None:
        """Make the mean of the best network over all rows 0, by its bias."""
        tensors, total = list(map(torch.from_numpy, self.matrices)), 0.0
        for part in np.split(rows := np.arange(self._bags.rows), rows[::_MOST_ROWS][1:]):
            total += float(_outputs(self._bags, tensors, part).double().sum())
        self.matrices[-1][-1, 0] = -total / self._bags.rows

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def held_out_sums(self) -> NDArray[np.float64]:
        """Return Σ w g of the bags that were held out, by the best network."""
        tensors, bags = list(map(torch.from_numpy, self.matrices)), self._bags
        parts = _cut(bags, self.held_out, _MOST_ROWS)
        return np.concatenate([network_sums(bags, tensors, part).double() for part in parts])

    def _step(self, batch: Indices, weight: float) -> float:
        """Take one step by the loss of a batch; return that loss."""
        self._optimizer.zero_grad()
        loss = network_loss(self._bags, self._weights, batch)
        (loss * weight).backward()
        for matrix, decay in zip(self._weights, self._decays, strict=True):
            if decay:  # the gradient of the penalty, which leaves biases free
                assert matrix.grad is not None
                matrix.grad[:-1].add_(matrix.detach()[:-1], alpha=2 * decay)
        self._optimizer.step()
        return float(loss.detach())

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _validation(self) -> float:
        parts = _cut(self._bags, self.held_out, _MOST_ROWS)
        total = sum(float(network_loss(self._bags, self._weights, part)) for part in parts)
        return total / (len(self.held_out) * self._bags.energy_per_bag)

    def _permute(self, bags: Indices) -> Indices:
        order = torch.randperm(len(bags), generator=self._generator, device="cpu")
        return np.asarray(bags[order.numpy()])
