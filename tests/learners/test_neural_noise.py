"""Networks on labels whose noise is known: what each label tells, and what the fit is worth."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import plan
from labeldp.data.source import Source, scan
from labeldp.errors import InputError
from labeldp.learners.api import BagRegressor, LinearRegressor
from labeldp.learners.bags import WeightedBags
from labeldp.learners.layers import Layers, average_networks, row_products
from labeldp.learners.models import NetworkOptions
from labeldp.learners.network import LabelNoise, score_held_out, standardise_labels
from labeldp.sampling.streams import Randomness
from tests.console import labeldp
from tests.extras import extra

RANGE = (-2.0, 4.0)
QUICK: dict[str, Any] = {"hidden": (24, 12), "epochs": 25, "learning_rate": 0.004}


def bags_of(count: int, size: int, seed: int, std: np.ndarray) -> WeightedBags:
    """Bags whose rows have labels of mean 1 and deviation 0.5, and noise on every label."""
    rng = np.random.default_rng(seed)
    numbers, weights = rng.normal(size=(count * size, 2)), rng.normal(size=count * size)
    labels = np.add.reduceat(
        weights * rng.normal(1, 0.5, count * size), range(0, count * size, size)
    )
    return WeightedBags(
        np.empty((count * size, 0), dtype=np.int32),
        numbers.astype(np.float32),
        weights.astype(np.float32),
        np.arange(count + 1) * size,
        labels + std * rng.normal(size=count),
        (),
        np.add.reduceat(weights, range(0, count * size, size)),
    )


# --- what a label tells ---


def test_misses_in_new_units_are_misses_over_their_deviation() -> None:
    std = np.geomspace(0.01, 100, 60)
    bags = bags_of(60, 3, 0, std)
    found = standardise_labels(bags, LabelNoise(std, RANGE))
    g = np.random.default_rng(1).normal(size=bags.rows)
    f = found.shift + found.scale * g
    starts = bags.offsets[:-1]
    misses = bags.labels - np.add.reduceat(bags.weights * f, starts)
    energy = np.add.reduceat(bags.weights.astype(float) ** 2, starts)
    expected = misses / np.sqrt(std**2 + found.scale**2 * energy)
    new = found.bags.labels - np.add.reduceat(found.bags.weights * g, starts)
    np.testing.assert_allclose(new, expected, rtol=2e-5, atol=2e-5)


def test_constant_and_spread_are_found_behind_the_noise() -> None:
    std = np.random.default_rng(2).uniform(0.5, 5, 20_000)
    found = standardise_labels(bags_of(20_000, 2, 3, std), LabelNoise(std, RANGE))
    assert found.shift == pytest.approx(1, abs=0.05)
    assert found.scale == pytest.approx(0.5, abs=0.1)
    # Every label has variance 1 then; a deviation that is 10 % off would show.
    assert np.var(found.bags.labels) == pytest.approx(1, abs=5 * np.sqrt(2 / 20_000))
    wrong = standardise_labels(bags_of(20_000, 2, 3, 1.1 * std), LabelNoise(std, RANGE))
    assert np.var(wrong.bags.labels) > 1 + 5 * np.sqrt(2 / 20_000)


def test_labels_that_tell_nothing_leave_the_range_to_speak() -> None:
    std = np.full(40, 1e6)
    found = standardise_labels(bags_of(40, 1, 4, std), LabelNoise(std, RANGE))
    assert found.shift == pytest.approx(1, abs=1e-2)  # the middle
    assert found.scale == pytest.approx(6 / np.sqrt(12), abs=1e-2)


# --- what a fit is worth ---


@pytest.mark.parametrize(("truth", "size"), [(0.7, 300), (0.4, 900), (1.0, 2000), (3.0, 50)])
def test_the_share_is_what_labels_support_less_their_doubt(truth: float, size: int) -> None:
    rng = np.random.default_rng(size)
    outputs = rng.normal(0.5, 0.2, size)
    labels = truth * outputs + 0.3 * rng.normal(size=size)
    best = labels @ outputs / (outputs @ outputs)
    z = best * np.linalg.norm(outputs)
    found = score_held_out(labels, outputs)
    assert found.share == pytest.approx(min(best, 1) * (1 - 9 / z**2), rel=1e-9)
    spared = labels @ labels - np.sum((labels - found.share * outputs) ** 2)
    assert found.gain == pytest.approx(spared)
    assert found.gain_error == pytest.approx(2 * found.share * np.linalg.norm(outputs))


def test_the_constant_is_kept_where_labels_say_too_little_or_no() -> None:
    outputs = np.linspace(-1, 1, 9)
    assert score_held_out(-9 * outputs, outputs).share == 0
    assert score_held_out(outputs, np.zeros(9)).share == 0
    unit = outputs / np.linalg.norm(outputs)
    assert score_held_out(2.99 * unit, outputs).share == 0
    assert 0 < score_held_out(3.01 * unit, outputs).share < 0.01
    assert score_held_out(1e3 * unit, 1e3 * unit).share == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("hidden", [(), (6,)])
def test_networks_are_stopped_by_the_parts_of_the_others_and_have_mean_0(
    hidden: tuple[int, ...],
) -> None:
    extra("torch")
    from labeldp.learners.training import train_parts

    std = np.full(400, 0.5)
    bags = standardise_labels(bags_of(400, 2, 6, std), LabelNoise(std, RANGE)).bags
    options = NetworkOptions(hidden=hidden, epochs=9, learning_rate=0.05, folds=4)
    networks = train_parts(bags, bags.units(scaled=False), options, lambda _: None)
    assert sorted(np.concatenate([each.held_out for each in networks])) == list(range(400))
    losses = np.array([each.validation_losses for each in networks])
    for place, each in enumerate(networks):
        assert each.best_epoch == np.argmin(np.delete(losses, place, axis=0).sum(axis=0))
        values = Layers((), each.matrices).of_numbers(bags.numbers.astype(float))
        assert np.mean(values) == pytest.approx(0, abs=1e-6)
        sums = np.add.reduceat(bags.weights * values, bags.offsets[:-1])
        np.testing.assert_allclose(each.outputs, sums[each.held_out], atol=1e-5)
    assert len({each.best_epoch for each in networks}) > 1  # or the test says nothing


@pytest.mark.parametrize("hidden", [(), (5,), (5, 3), (4, 4, 2)])
def test_networks_side_by_side_are_their_mean(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    sizes, widths = (3, 2), (5 + 4, *hidden, 1)
    networks = [
        tuple(
            rng.normal(size=(here + 1, there)).astype(np.float32)
            for here, there in pairwise(widths)
        )
        for _ in range(3)
    ]
    codes, numbers = rng.integers(-1, 2, (20, 2), dtype=np.int32), rng.normal(size=(20, 4))
    each = [Layers(sizes, matrices).values(codes, numbers) for matrices in networks]
    together = Layers(sizes, average_networks(networks, 0.3)).values(codes, numbers)
    np.testing.assert_allclose(together, 0.3 * np.mean(each, axis=0), rtol=1e-5, atol=1e-5)


def test_a_row_alone_is_predicted_as_among_many() -> None:
    """To the last bit, which BLAS changes with the number of rows."""
    rng = np.random.default_rng(6)
    matrices = [rng.normal(size=size).astype(np.float32) for size in ((8, 40), (41, 30), (31, 1))]
    rows, layers = rng.normal(size=(1500, 7)), Layers((), tuple(matrices))
    many = layers.of_numbers(rows)
    for start, count in ((0, 1), (3, 1), (511, 2), (700, 40), (1499, 1)):
        some = slice(start, start + count)
        np.testing.assert_array_equal(layers.of_numbers(rows[some]), many[some])
    slopes, wide = rng.normal(size=333), rng.normal(size=(5000, 333))
    expected = row_products(wide, slopes)
    np.testing.assert_allclose(expected, wide @ slopes, atol=1e-12)
    for place in (0, 1, 17, 4095, 4096, 4999):
        assert row_products(wide[place : place + 1], slopes)[0] == expected[place]
        assert row_products(np.asfortranarray(wide[place:]), slopes)[0] == expected[place]


# --- learning ---


def curved(rows: int, seed: int) -> pa.Table:
    """What no line can follow."""
    rng = np.random.default_rng(seed)
    x, kind = rng.uniform(-1, 1, rows), rng.choice(["a", "b"], rows)
    y = (np.abs(x) - 0.5) * np.where(kind == "a", 3.0, -1.0) + 0.1 * rng.normal(size=rows)
    return pa.table({"x": x, "kind": kind, "y": y.clip(*RANGE)})


def source_of(table: pa.Table) -> Source:
    return scan(table, label="y", label_range=RANGE)


def released(table: pa.Table, epsilon: float, mechanism: str = "noisy-rows", seed: int = 0) -> Any:
    source = source_of(table)
    made = plan(source, epsilon=epsilon, delta=1e-6, mechanism=mechanism, force=True)
    return made.release(source, randomness=Randomness.experiment(seed))


def test_noisy_rows_teach_a_curve(tmp_path: Path) -> None:
    extra("torch")
    table, test = curved(5000, 0), curved(2000, 1)
    release = released(table, 10)
    model = BagRegressor(**QUICK).fit(release, source_of(table))
    line = LinearRegressor().fit(release, source_of(table))
    assert model.score(test, test["y"]) > 0.8 > 0.2 + line.score(test, test["y"])
    variance = float(np.var(test["y"].to_numpy()))
    found = model.quality_
    assert found.gain == pytest.approx(variance, abs=5 * found.gain_error)
    assert found.gain > 5 * found.gain_error
    assert found.r2 == pytest.approx(model.score(test, test["y"]), abs=0.1)
    assert 0.9 < model.share_ <= 1
    assert model.label_range_ == RANGE
    model.save(tmp_path / "net")
    again = BagRegressor.load(tmp_path / "net")
    np.testing.assert_array_equal(again.predict(test), model.predict(test))
    twin = BagRegressor(**QUICK).fit(release, source_of(table))
    np.testing.assert_array_equal(twin.predict(test), model.predict(test))


def test_bags_count_for_what_they_tell() -> None:
    """Nine of ten bags with far more noise do little harm if it is known which."""
    extra("torch")
    table, test = curved(8000, 2), curved(2000, 3)
    release, rng = released(table, 200, "sampled-noisy-wtd-lag"), np.random.default_rng(4)
    spoilt = rng.random(release.bags) < 0.9
    names = release.table.column_names
    columns = {name: release.table[name] for name in names}
    more = np.where(spoilt, 50.0, 0.0)
    columns[names[-1]] = pa.array(release.labels + more * rng.normal(size=release.bags))
    std = np.hypot(release.noise, more)
    scores = []
    for told in (std, np.full(len(std), np.sqrt(np.mean(std**2)))):
        columns["noise_std"] = pa.array(told)
        noisy = replace(release, table=pa.table(columns))
        model = BagRegressor(**QUICK).fit(noisy, source_of(table))
        scores.append(model.score(test, test["y"]))
    assert scores[0] > 0.5
    assert scores[0] > scores[1] + 0.3


@pytest.mark.parametrize("mechanism", ["noisy-rows", "sampled-noisy-wtd-lag"])
def test_where_noise_drowns_all_the_constant_is_kept(mechanism: str) -> None:
    """Against the constant of the same release, which is what its labels have for the mean."""
    extra("torch")
    table, test = curved(1000, 5), curved(2000, 6)
    y, lost = test["y"].to_numpy(), []
    for seed in range(6):
        release = released(table, 0.5, mechanism, seed)
        model = BagRegressor(**QUICK).fit(release, source_of(table))
        misses = [np.mean((f - y) ** 2) for f in (model.predict(test), model.shift_)]
        lost.append((misses[0] - misses[1]) / np.var(y))
    assert np.mean(lost) < 0.01
    assert max(lost) < 0.05


def test_no_gain_is_said() -> None:
    extra("torch")
    table = curved(300, 7)
    shuffled = table.set_column(2, "y", pa.array(np.random.default_rng(8).permutation(table["y"])))
    model = BagRegressor(**QUICK).fit(released(shuffled, 1), source_of(shuffled))
    assert model.share_ == 0
    assert "no gain over the constant" in model._model().describe(300)
    np.testing.assert_array_equal(model.predict(table), model.shift_)
    told = BagRegressor(**QUICK).fit(released(curved(300, 7), 100), source_of(table))
    assert told.share_ > 0.5
    assert "no gain" not in told._model().describe(300)


def test_the_command_learns_from_rows(tmp_path: Path) -> None:
    extra("torch")
    data, test = tmp_path / "data.parquet", tmp_path / "test.parquet"
    pq.write_table(curved(4000, 9), data)
    pq.write_table(curved(500, 10), test)
    made = labeldp(
        "release", data, "--label", "y", "--label-range", -2, 4, "--epsilon", 8, "--delta", 0,
        "--use", "any-model", "--anyway", "--out", tmp_path / "r",
    )  # fmt: skip
    assert made.code == 0, made
    fit = ("fit", tmp_path / "r", "--data", data, "--model", "neural", "--epochs", 15)
    shown = labeldp(*fit, "--test", test, "--label", "y")
    assert "by labels held back" in shown.out
    found = labeldp(*fit, "--test", test, "--label", "y", "--json").json
    assert found["test_r2"] > 0.3
    assert found["quality"]["gain"] > found["quality"]["gain_error"] > 0
    alone = labeldp(*fit, "--no-shrink", "--json").json
    assert alone["quality"] is None


# --- refusals ---


def test_what_shrinking_cannot_be_asked_with() -> None:
    extra("torch")
    table = curved(200, 11)
    release = released(table, 4)
    for choice in ({"max_norm": 2.0}, {"scale_labels": False}, {"validation_fraction": 0.0}):
        with pytest.raises(InputError, match="averages networks"):
            BagRegressor(**QUICK, **choice, shrink=True).fit(release, source_of(table))
        alone = BagRegressor(**QUICK | {"epochs": 1}, **choice).fit(release, source_of(table))
        assert alone.share_ is None
    with pytest.raises(InputError, match="`folds` must be at least 2"):
        BagRegressor(folds=1).fit(release, source_of(table))
    sums = plan(source_of(table), epsilon=4, delta=1e-6, mechanism="wtd-flag", force=True)
    with pytest.raises(InputError, match="not aggregates"):
        BagRegressor(hidden=(), shrink=True).fit(sums.release(source_of(table)))
