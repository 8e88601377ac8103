"""Training: loss and gradient against an obvious twin, Adam, schedule, stopping, projection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.learners.bags import LabelUnits, WeightedBags
from labeldp.learners.models import NetworkOptions
from tests.extras import extra

torch = extra("torch")

from labeldp.learners.training import (  # noqa: E402
    Adam,
    BagTensors,
    FirstLayer,
    train,
)

SETTINGS = NetworkOptions(
    hidden=(12,),
    epochs=12,
    learning_rate=0.01,
    final_rate=1e-5,
    batch_rows=200,
    validation_fraction=0.2,
)


def random_bags(seed: int = 0, bags: int = 40, pruned: bool = True) -> WeightedBags:
    """Bags of 1 to 9 rows, two categories, three numbers; codes −1 if `pruned`."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 10, bags))])
    rows, sizes = int(offsets[-1]), (4, 3)
    codes = [rng.integers(-1 if pruned else 0, size, rows) for size in sizes]
    weights = rng.normal(size=rows).astype(np.float32)
    return WeightedBags(
        np.column_stack(codes).astype(np.int32),
        rng.normal(size=(rows, 3)).astype(np.float32),
        weights,
        offsets,
        rng.normal(5.0, 3.0, bags),
        sizes,
        np.add.reduceat(weights.astype(np.float64), offsets[:-1]),
    )


def twin(bags: WeightedBags, units: LabelUnits, matrices: list[np.ndarray]) -> float:
    """The loss by the book: dense one-hot rows, one bag and one row at a time."""
    total = 0.0
    for j in range(bags.bags):
        prediction = 0.0
        for r in range(bags.offsets[j], bags.offsets[j + 1]):
            x = np.zeros(sum(bags.category_sizes))
            first = 0
            for code, size in zip(bags.categories[r], bags.category_sizes, strict=True):
                if code >= 0:
                    x[first + code] = 1.0
                first += size
            h = np.concatenate([x, bags.numbers[r]])
            for layer, W in enumerate(matrices):
                h = np.append(np.maximum(h, 0) if layer else h, 1.0) @ W
            prediction += bags.weights[r] * (units.shift + units.scale * h[0])
        total += ((bags.labels[j] - prediction) / units.scale) ** 2
    return total


@pytest.mark.parametrize(
    ("hidden", "pruned", "scaled"),
    [((), True, True), ((5,), False, False), ((6, 4), True, True)],
    ids=str,
)
def test_loss_and_gradient_against_the_twin(
    hidden: tuple[int, ...], pruned: bool, scaled: bool
) -> None:
    bags = random_bags(bags=12, pruned=pruned)
    units = bags.units(scaled=scaled)
    rng = np.random.default_rng(3)
    widths = (10, *hidden, 1)
    plain = [rng.normal(size=(widths[i] + 1, widths[i + 1])) for i in range(len(widths) - 1)]
    plain = [matrix.astype(np.float32).astype(np.float64) for matrix in plain]
    tensors = [torch.tensor(W, dtype=torch.float32, requires_grad=True) for W in plain]
    order = np.random.default_rng(4).permutation(bags.bags)
    loss = BagTensors(bags, units, NetworkOptions(hidden=hidden)).loss(tensors, order)
    assert loss.item() == pytest.approx(twin(bags, units, plain), rel=1e-4)
    loss.backward()
    for W, tensor in zip(plain, tensors, strict=True):
        size = float(tensor.grad.abs().max())
        for at in np.ndindex(W.shape):
            W[at] += 1e-6
            up = twin(bags, units, plain)
            W[at] -= 2e-6
            down = twin(bags, units, plain)
            W[at] += 1e-6
            slope = (up - down) / 2e-6
            assert float(tensor.grad[at]) == pytest.approx(slope, rel=2e-3, abs=2e-4 * size)


@pytest.mark.parametrize("levels", [3, 70_000])
@pytest.mark.parametrize("all_pruned", [True, False])
def test_first_layer_gradient_is_that_of_the_dense_product(levels: int, all_pruned: bool) -> None:
    """Also beyond 16 bits, and where no row has a level at all."""
    random = torch.Generator().manual_seed(0)
    codes = torch.randint(0, levels, (20, 2), generator=random, dtype=torch.int32)
    codes[3, 1] = levels + 2  # pruned: the bias row
    if all_pruned:
        codes[:] = levels + 2
    numbers = torch.randn(20, 3, generator=random)
    matrix = torch.randn(levels + 3, 4, generator=random).requires_grad_()
    upstream = torch.randn(20, 4, generator=random)
    values = FirstLayer.apply(codes, numbers, matrix, True)
    (values * upstream).sum().backward()
    dense = torch.zeros(20, levels + 3)
    for row in range(20):
        for code in codes[row].tolist():
            if code < levels:
                dense[row, code] += 1.0
    dense[:, levels:] = numbers
    np.testing.assert_allclose(values.detach(), (dense @ matrix).detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(matrix.grad, dense.T @ upstream, rtol=1e-4, atol=1e-5)


def test_adam_is_adam() -> None:
    random = torch.Generator().manual_seed(0)
    ours = [torch.randn(4, 3, generator=random).requires_grad_() for _ in range(2)]
    theirs = [parameter.detach().clone().requires_grad_() for parameter in ours]
    adam, other = Adam(ours), torch.optim.Adam(theirs)
    for step in range(1, 30):
        gradients = [torch.randn(4, 3, generator=random) * 10 ** (step % 5 - 4) for _ in ours]
        for parameters in (ours, theirs):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
        other.param_groups[0]["lr"] = 0.1 / step
        adam.step(0.1 / step)
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6)


class Recorder:
    """Stands in for a network's steps: remembers rates and batches, trains nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, validation: list[float]) -> None:
        from labeldp.learners import training

        self.rates: list[float] = []
        self.batches: list[list[int]] = []
        losses = iter(validation)

        def step(training: Any, batch: Any, _weight: float, rate: float) -> float:
            self.rates.append(rate)
            self.batches.append(batch.tolist())
            with torch.no_grad():
                training._weights[-1][-1, 0] = float(len(self.rates))  # a mark of the step
            return 1.0

        monkeypatch.setattr(training.TrainedNetwork, "_step", step)
        monkeypatch.setattr(training.TrainedNetwork, "_validation", lambda _: next(losses))


def run(bags: WeightedBags, **changes: Any) -> Any:
    settings = replace(SETTINGS, **changes)
    return train(bags, bags.units(), settings, lambda _: None)[0]


def test_the_best_network_is_kept_for_real() -> None:
    """Its loss on the bags held out, computed afresh, is the smallest of the curve."""
    bags = random_bags(bags=60)
    trained = run(bags, epochs=60, learning_rate=0.05)
    assert len(trained.losses) < 60
    assert trained.validation_losses[trained.best_epoch] == min(trained.validation_losses)
    assert len(trained.losses) == trained.best_epoch + 1 + SETTINGS.patience
    held = trained.held_out
    rows = BagTensors(bags, bags.units(), SETTINGS)
    loss = rows.loss([torch.tensor(W) for W in trained.matrices], held).item()
    per_bag = bags.units().energy / bags.bags
    assert min(trained.validation_losses) == pytest.approx(loss / len(held) / per_bag)
    misses = bags.labels[held] - bags.units().shift * bags.constants[held]
    misses = misses / bags.units().scale - trained.outputs
    assert misses @ misses == pytest.approx(loss, rel=1e-4)


def test_rates_fall_along_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch, [float(-i) for i in range(9)])
    run(random_bags(bags=10), epochs=9, learning_rate=1e-2, final_rate=1e-4)
    half = (1 + np.cos(np.pi * np.arange(9) / 8)) / 2
    np.testing.assert_allclose(recorder.rates, 1e-4 + (1e-2 - 1e-4) * half)


def test_batches_hold_whole_bags_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    bags = random_bags(bags=900)
    recorder = Recorder(monkeypatch, [2.0, 1.0])
    run(bags, epochs=2)
    half = len(recorder.batches) // 2
    epochs = recorder.batches[:half], recorder.batches[half:]
    seen = [sorted(bag for batch in epoch for bag in batch) for epoch in epochs]
    assert seen[0] == seen[1] == sorted(set(seen[0]))
    assert len(seen[0]) == 720  # the others are held out
    assert epochs[0] != epochs[1]
    for batch in recorder.batches:
        assert bags.lengths[batch].sum() <= 200 + 9
    assert np.mean([bags.lengths[batch].sum() for batch in recorder.batches]) > 180


@pytest.mark.parametrize("hidden", [(), (12,), (12, 5)], ids=str)
def test_projection_holds_to_the_last_bit(hidden: tuple[int, ...]) -> None:
    trained = run(
        random_bags(bags=200), hidden=hidden, max_norm=0.3, learning_rate=0.3, patience=99
    )
    norms = [np.linalg.norm(matrix.astype(np.float64)) for matrix in trained.matrices]
    assert max(norms) <= 0.3
    assert max(norms) > 0.29


def test_divergence_is_said() -> None:
    with pytest.raises(InputError, match="diverged"):
        run(random_bags(), learning_rate=1e30, epochs=5)


def test_nothing_global_changes() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state().clone(), torch.get_num_threads()
    state = np.random.get_state()[1].copy()
    default = torch.get_default_dtype()
    expected = run(random_bags(), threads=2)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            found = run(random_bags(), threads=2)
    finally:
        torch.set_default_dtype(default)
    for a, b in zip(expected.matrices, found.matrices, strict=True):
        np.testing.assert_array_equal(a, b)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert (np.random.get_state()[1] == state).all()
    assert not torch.are_deterministic_algorithms_enabled()
