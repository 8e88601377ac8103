"""Training: loss and gradient against an obvious twin, schedule, stopping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp.errors import InputError
from labeldp.learners.bags import WeightedBags
from labeldp.learners.models import NetworkOptions
from tests.extras import extra

torch = extra("torch")

from labeldp.learners import training  # noqa: E402
from labeldp.learners.training import network_loss, train  # noqa: E402

SETTINGS = NetworkOptions(hidden=(12,), epochs=12, learning_rate=0.01)


def random_bags(seed: int = 0, bags: int = 40) -> WeightedBags:
    """Bags of 1 to 9 rows, two categories whose levels may be left out, three numbers."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 10, bags))])
    rows, levels = int(offsets[-1]), [np.eye(size + 1)[:, :size] for size in (4, 3)]
    blocks = [table[rng.integers(0, len(table), rows)] for table in levels]
    inputs = np.column_stack([*blocks, rng.normal(size=(rows, 3))])
    weights = rng.normal(size=rows).astype(np.float32)
    return WeightedBags(
        csr_array(inputs, dtype=np.float32), weights, offsets, rng.normal(0.0, 3.0, bags)
    )


def twin(bags: WeightedBags, matrices: list[np.ndarray]) -> float:
    """The loss by the book: one bag and one row at a time."""
    total, inputs = 0.0, bags.inputs.toarray().astype(np.float64)
    for j in range(bags.bags):
        prediction = 0.0
        for r in range(bags.offsets[j], bags.offsets[j + 1]):
            h = inputs[r]
            for layer, W in enumerate(matrices):
                h = np.append(np.maximum(h, 0) if layer else h, 1.0) @ W
            prediction += bags.weights[r] * h[0]
        total += (bags.labels[j] - prediction) ** 2
    return total


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)], ids=str)
def test_loss_and_gradient_against_the_twin(hidden: tuple[int, ...]) -> None:
    bags, rng = random_bags(bags=12), np.random.default_rng(3)
    widths = (10, *hidden, 1)
    plain = [rng.normal(size=(widths[i] + 1, widths[i + 1])) for i in range(len(widths) - 1)]
    plain = [matrix.astype(np.float32).astype(np.float64) for matrix in plain]
    tensors = [torch.tensor(W, dtype=torch.float32, requires_grad=True) for W in plain]
    order = np.random.default_rng(4).permutation(bags.bags)
    loss = network_loss(bags, tensors, order)
    assert loss.item() == pytest.approx(twin(bags, plain), rel=1e-4)
    loss.backward()
    for W, tensor in zip(plain, tensors, strict=True):
        size = float(tensor.grad.abs().max())
        for at in np.ndindex(W.shape):
            W[at] += 1e-6
            up = twin(bags, plain)
            W[at] -= 2e-6
            down = twin(bags, plain)
            W[at] += 1e-6
            slope = (up - down) / 2e-6
            assert float(tensor.grad[at]) == pytest.approx(slope, rel=2e-3, abs=2e-4 * size)


class Recorder:
    """Stands in for a network's steps: remembers rates and batches, trains nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, validation: list[float]) -> None:
        self.rates: list[float] = []
        self.batches: list[list[int]] = []
        losses = iter(validation)

        def step(network: Any, batch: Any, _weight: float) -> float:
            self.rates.append(network._optimizer.param_groups[0]["lr"])
            self.batches.append(batch.tolist())
            with torch.no_grad():
                network._weights[-1][-1, 0] = float(len(self.rates))  # a mark of the step
            return 1.0

        monkeypatch.setattr(training.TrainedNetwork, "_step", step)
        monkeypatch.setattr(training.TrainedNetwork, "_validation", lambda _: next(losses))


def run(bags: WeightedBags, **changes: Any) -> Any:
    settings = replace(SETTINGS, **changes)
    return train(bags, settings, lambda _: None)[0]


def test_the_best_network_is_kept_for_real() -> None:
    """Its loss on the bags held out, computed afresh, is the smallest of the curve."""
    bags = random_bags(bags=60)
    trained = run(bags, epochs=60, learning_rate=0.05)
    assert len(trained.losses) < 60
    assert trained.validation_losses[trained.best_epoch] == min(trained.validation_losses)
    assert len(trained.losses) == trained.best_epoch + 1 + SETTINGS.patience
    held = trained.held_out
    loss = network_loss(bags, [torch.tensor(W) for W in trained.matrices], held).item()
    assert min(trained.validation_losses) == pytest.approx(loss / len(held) / bags.energy_per_bag)
    misses = bags.labels[held] - trained.held_out_sums()
    assert misses @ misses == pytest.approx(loss, rel=1e-4)


def test_rates_fall_along_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch, [float(-i) for i in range(9)])
    run(random_bags(bags=10), epochs=9, learning_rate=1e-2)
    half = (1 + np.cos(np.pi * np.arange(9) / 8)) / 2
    np.testing.assert_allclose(recorder.rates, 1e-6 + (1e-2 - 1e-6) * half)


def test_batches_hold_whole_bags_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    bags = random_bags(bags=900)
    monkeypatch.setattr(training, "_MOST_ROWS", 200)
    recorder = Recorder(monkeypatch, [2.0, 1.0])
    run(bags, epochs=2)
    order = [bag for batch in recorder.batches for bag in batch]
    epochs = order[: len(order) // 2], order[len(order) // 2 :]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(set(order))
    assert len(epochs[0]) == 810  # the others are held out
    assert epochs[0] != epochs[1]
    for batch in recorder.batches:
        assert bags.lengths[batch].sum() <= 200 + 9
    assert np.mean([bags.lengths[batch].sum() for batch in recorder.batches]) > 180


def test_divergence_is_said() -> None:
    with pytest.raises(InputError, match="diverged"):
        run(random_bags(), learning_rate=1e30, epochs=5)


def test_nothing_global_changes() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state().clone(), torch.get_num_threads()
    state = np.random.get_state()[1].copy()
    default = torch.get_default_dtype()
    expected = run(random_bags())
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            found = run(random_bags())
    finally:
        torch.set_default_dtype(default)
    for a, b in zip(expected.matrices, found.matrices, strict=True):
        np.testing.assert_array_equal(a, b)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert (np.random.get_state()[1] == state).all()
    assert not torch.are_deterministic_algorithms_enabled()
