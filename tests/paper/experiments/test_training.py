"""The paper's training: rates, batches, units, and networks against a slow obvious twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp_paper.datasets.reading import Progress
from labeldp_paper.experiments.agreement import against, falls, nearness
from labeldp_paper.experiments.design import Design
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.training import Cosine, bags_a_step, start_weights, train_linear
from tests.extras import extra


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory, quiet: Progress) -> Design:
    run = Run(tmp_path_factory.mktemp("design"), quiet, small=True)
    return Design.read(run.data("criteo", 2_000))


def test_the_rate_falls_along_a_cosine_to_a_thousandth() -> None:
    rates = Cosine(200)
    assert rates.at(0) == 1e-3
    assert rates.at(100) == pytest.approx((1e-3 + 1e-6) / 2)
    assert rates.at(200) == pytest.approx(1e-6)


def test_a_batch_counts_rows() -> None:
    assert [bags_a_step(1024, size) for size in (32, 256, 4096)] == [32, 4, 1]


def test_linear_training_is_adam() -> None:
    """Against the formulas of the optimiser, a step and a model at a time."""
    random = np.random.default_rng(1)
    sums, totals = random.normal(size=(2, 6, 3)), random.normal(size=(2, 6))
    found = train_linear(sums, totals, 2, np.random.default_rng(7), epochs=5)
    draw = np.random.default_rng(7)
    weights = start_weights(draw, (2, 3, 1))[:, :, 0].astype(float)
    mean, square, rates, step = np.zeros((2, 3)), np.zeros((2, 3)), Cosine(15), 0
    for _ in range(5):
        order = np.argsort(draw.random((2, 6)), axis=1)
        for start in (0, 2, 4):
            step += 1
            for model in range(2):
                chosen = order[model, start : start + 2]
                x, y = sums[model, chosen], totals[model, chosen]
                slope = 2 / 2 * x.T @ (x @ weights[model] - y)
                mean[model] = 0.9 * mean[model] + 0.1 * slope
                square[model] = 0.999 * square[model] + 0.001 * slope**2
                rate = rates.at(step - 1) * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                weights[model] -= rate * mean[model] / (np.sqrt(square[model]) + 1e-7)
    np.testing.assert_allclose(found, weights, rtol=1e-4, atol=1e-6)


def test_plain_rows_are_the_table_and_weights_come_back(design: Design) -> None:
    rows, weights = np.arange(60, dtype=np.int32).reshape(3, 20), np.ones((3, 20))
    sums, _ = design.aggregated(rows, weights)
    plain = design.plain(sums)
    slopes, offsets = design.units
    numbers = design.numbers[rows.ravel()] * slopes + offsets
    assert numbers.min() >= 0, "numbers of the table, not centred ones"
    places = np.array(design.features.number_columns) - 1
    np.testing.assert_allclose(plain[:, places], numbers.reshape(3, 20, -1).sum(axis=1), rtol=1e-4)
    beta = np.random.default_rng(2).normal(size=plain.shape[1])
    np.testing.assert_allclose(sums @ design.from_plain(beta), plain @ beta, rtol=1e-6, atol=1e-6)


def test_networks_learn_bags_and_do_not_mix(design: Design) -> None:
    """Two networks with the same labels and start differ from two with others: none sees another's.

    Values against dense layers written out.
    """
    extra("torch")
    import torch

    from labeldp_paper.experiments.networks import Bags, Lesson, Networks, one_hot, train

    rows = np.arange(64, dtype=np.int32).reshape(16, 4)
    labels = np.random.default_rng(3).normal(size=(2, 16)).astype(np.float32)
    weights = np.ones((16, 4), np.float32)
    lesson = Lesson(16, 2)
    both = train(design, Bags(rows, weights, labels), lesson, np.random.default_rng(4))
    other = labels.copy()
    other[1] += 100
    again = train(design, Bags(rows, weights, other), lesson, np.random.default_rng(4))
    some = np.arange(100, dtype=np.int32)
    assert both.test_mse(design, some)[0] == again.test_mse(design, some)[0]
    assert both.test_mse(design, some)[1] != again.test_mse(design, some)[1]
    x = torch.from_numpy(one_hot(design, some).toarray())
    assert x.shape == (100, design.width - 1)
    first, b1, second, b2, third, b3 = both.layers
    hidden = torch.relu(x @ first.reshape(-1, 2, 128)[:, 1] + b1[1])
    hidden = torch.relu(hidden @ second[1] + b2[1])
    want = (hidden @ third[1] + b3[1])[:, 0]
    np.testing.assert_allclose(
        both(one_hot(design, some))[1].detach(), want.detach(), rtol=1e-4, atol=1e-4
    )
    start = Networks.start(1, design.width - 1, np.random.default_rng(4))
    loss = start(one_hot(design, some)).square().sum()
    loss.backward()
    dense = start.layers[0].detach().clone().requires_grad_(True)
    hidden = torch.relu(x @ dense + start.layers[1][0])
    hidden = torch.relu(hidden @ start.layers[2][0] + start.layers[3][0])
    (hidden @ start.layers[4][0] + start.layers[5][0]).square().sum().backward()
    torch.testing.assert_close(start.layers[0].grad, dense.grad, rtol=1e-3, atol=1e-2)


ROWS = [
    {"bags": m, "bag_size": k, "mse": e, "mse_std": 1.0, "paper_mse": p, "paper_mse_std": 4.0}
    for m, k, e, p in ((1, 1, 100.0, 105.0), (1, 2, 90.0, 120.0), (2, 1, 95.0, 95.0))
]


def test_agreement_in_a_picture_and_in_words() -> None:
    picture = against("it", "title", ROWS, lambda row: f"k = {row['bag_size']}")
    diagonal, *curves = picture.curves
    assert diagonal.x == diagonal.y
    assert min(diagonal.x) < 90 < 120 < max(diagonal.x)
    assert [curve.reach for curve in curves] == [(4.0, 4.0), (4.0,)]
    text = nearness(ROWS)
    assert "0.75 to 1.00" in text
    assert "2 of 3 within 10 %, 2 within two" in text
    assert falls(ROWS, "bags", "bag_size") == "1 of 1"
    assert falls(ROWS, "bag_size", "bags") == "1 of 1"
    risen = [*ROWS[:1], {**ROWS[1], "mse": 100.25}]
    assert falls(risen, "bag_size", "bags") == (
        "0 of 1 (a rise of 0.25 at most, with a standard deviation of 1.00)"
    )
