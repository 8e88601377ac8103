"""WeightedBags: rows, codes and weights arrive where they belong; what each label tells."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from labeldp import LinearRegressor
from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.learners.bags import (
    WeightedBags,
    average_networks,
    score_held_out,
    standardise_labels,
)
from labeldp.learners.models import network_outputs
from tests.drawn import bag_release_of, draw_release, pay_table
from tests.tables import table as make_table

ROWS = 300
TABLE = make_table(ROWS, seed=4).drop_columns(["label"])
FEATURES = fit_features(scan(TABLE, numeric=["score"]))
RANGE = (-2.0, 4.0)
KEPT = pytest.mark.parametrize("kept", [range(10), (0, 1, 3, 4, 6, 7, 9), (1, 2, 3)], ids=str)


def kept_design(features: FeatureMap) -> np.ndarray:
    """What a network sees of the rows: levels, then numbers, no constant."""
    names = [name for name in features.names if name != "intercept"]
    order = sorted(range(len(names)), key=lambda i: "=" not in names[i])
    design = features.design(TABLE)[:, [features.names.index(name) for name in names]]
    return np.asarray(design[:, order])


@KEPT
@pytest.mark.parametrize("batch_rows", [7, 10_000])
def test_bags_from_a_source_gather_the_named_rows(kept: tuple[int, ...], batch_rows: int) -> None:
    """Rows in no order, bags interleaved; a row may stand in several bags."""
    features, rng = FEATURES.keep(kept), np.random.default_rng(0)
    bag, row = rng.permutation(np.repeat(np.arange(7), 11)), rng.integers(0, ROWS, 77)
    weight = rng.normal(size=77)
    release = bag_release_of(features, (bag, row, weight), np.arange(7.0))
    bags = WeightedBags.from_release(release, scan(TABLE, batch_rows=batch_rows))
    X, rows = kept_design(features), bags.inputs.toarray()
    for j in range(7):  # one bag at a time
        part, here = slice(bags.offsets[j], bags.offsets[j + 1]), bag == j
        np.testing.assert_allclose(rows[part], X[row[here]], rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(bags.weights[part], weight[here].astype(np.float32))
        assert bags.constants[j] == pytest.approx(weight[here].sum(), rel=1e-5)
        assert bags.energies[j] == pytest.approx(np.sum(weight[here] ** 2), rel=1e-5)
    assert bags.inputs.dtype == bags.weights.dtype == np.float32


def noisy_bags(count: int, size: int, seed: int, std: Any) -> WeightedBags:
    """Bags whose rows have labels of mean 1 and deviation 0.5, and noise on every label."""
    rng = np.random.default_rng(seed)
    numbers, weights = rng.normal(size=(count * size, 2)), rng.normal(size=count * size)
    starts = range(0, count * size, size)
    labels = np.add.reduceat(weights * rng.normal(1, 0.5, count * size), starts)
    return WeightedBags(
        csr_array(numbers.astype(np.float32)),
        weights.astype(np.float32),
        np.arange(count + 1) * size,
        labels + std * rng.normal(size=count),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"bag": [0, 0, 2]},
        {"bag": [0, 0, -1]},
        {"bag": [0, 0, 0]},
        {"row": [0, -4, 1]},
        {"row": [0, 1, ROWS]},
        {"row": [0.0, 1.0, 2.0]},
        {"weight": [1.0, None, 2.0]},
        {"weight": [1.0, math.inf, 2.0]},
    ],
    ids=str,
)
def test_wrong_bag_tables(change: dict[str, list[Any]]) -> None:
    good: dict[str, list[Any]] = {"bag": [0, 0, 1], "row": [5, 6, 2], "weight": [1.0, 2.0, 3.0]}
    wrong = [pa.table(good | change), *(pa.table(good).drop_columns([name]) for name in change)]
    source, members = scan(TABLE, numeric=["score"]), [np.array(each) for each in good.values()]
    release = bag_release_of(FEATURES, (members[0], members[1], members[2]), np.array([0.0, 1.0]))
    words = f"there is no row {ROWS};|the bag table must have"
    for triples in wrong:
        with pytest.raises(InputError, match=words):
            WeightedBags.from_release(replace(release, files={"bags": triples}), source)
        with pytest.raises(InputError, match=words):
            LinearRegressor(penalty=1.0).fit(replace(release, files={"bags": triples}), source)


def test_another_source_and_sums_are_refused() -> None:
    members = np.array([0, 1]), np.array([5, 2]), np.array([1.0, 3.0])
    release = bag_release_of(FEATURES, members, np.array([0.0, 1.0]))
    twice = scan(pa.concat_tables([TABLE, TABLE]))
    with pytest.raises(DataError, match=f"{2 * ROWS} rows but the release was made from {ROWS}"):
        WeightedBags.from_release(release, twice)
    sums = draw_release(pay_table(), 30, 1)
    with pytest.raises(InputError, match=r"f\(Σ w x\) is not Σ w f\(x\)"):
        WeightedBags.from_release(sums, None)


# --- what a label tells ---


def test_misses_in_new_units_are_misses_over_their_deviation() -> None:
    std = np.geomspace(0.01, 100, 60)
    bags = noisy_bags(60, 3, 0, std)
    new, shift, scale = standardise_labels(bags, std, RANGE)
    g = np.random.default_rng(1).normal(size=bags.rows)
    starts = bags.offsets[:-1]
    misses = bags.labels - np.add.reduceat(bags.weights * (shift + scale * g), starts)
    energy = np.add.reduceat(bags.weights.astype(float) ** 2, starts)
    found = new.labels - np.add.reduceat(new.weights * g, starts)
    expected = misses / np.sqrt(std**2 + scale**2 * energy)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_constant_and_spread_are_found_behind_the_noise() -> None:
    """Every label has variance 1 then; a deviation that is 10 % off would show."""
    std = np.random.default_rng(2).uniform(0.5, 5, 20_000)
    new, shift, scale = standardise_labels(noisy_bags(20_000, 2, 3, std), std, RANGE)
    assert shift == pytest.approx(1, abs=0.05)
    assert scale == pytest.approx(0.5, abs=0.1)
    assert np.var(new.labels) == pytest.approx(1, abs=5 * np.sqrt(2 / 20_000))
    wrong, *_ = standardise_labels(noisy_bags(20_000, 2, 3, 1.1 * std), std, RANGE)
    assert np.var(wrong.labels) > 1 + 5 * np.sqrt(2 / 20_000)
    # Labels that tell nothing leave the public range to speak.
    _, *units = standardise_labels(noisy_bags(40, 1, 4, 1e6), np.full(40, 1e6), RANGE)
    assert units == pytest.approx([1, 6 / np.sqrt(12)], abs=1e-2)


@pytest.mark.parametrize(("truth", "size"), [(0.7, 300), (1.0, 2000), (3.0, 50)])
def test_the_share_is_what_labels_support_less_their_doubt(truth: float, size: int) -> None:
    rng = np.random.default_rng(size)
    outputs = rng.normal(0.5, 0.2, size)
    labels = truth * outputs + 0.3 * rng.normal(size=size)
    best = labels @ outputs / (outputs @ outputs)
    z = best * np.linalg.norm(outputs)
    share, gain, error = score_held_out(labels, outputs)
    assert share == pytest.approx(min(best, 1) * (1 - 9 / z**2), rel=1e-9)
    assert gain == pytest.approx(labels @ labels - np.sum((labels - share * outputs) ** 2))
    assert error == pytest.approx(2 * share * np.linalg.norm(outputs))


def test_the_constant_is_kept_where_labels_say_too_little_or_no() -> None:
    outputs = np.linspace(-1, 1, 9)
    unit = outputs / np.linalg.norm(outputs)
    for labels, values in ((-9 * outputs, outputs), (outputs, 0 * outputs), (2.99 * unit, outputs)):
        assert score_held_out(labels, values) == (0, 0, 0)
    assert 0 < score_held_out(3.01 * unit, outputs)[0] < 0.01
    assert score_held_out(1e3 * unit, 1e3 * unit)[0] == pytest.approx(1, abs=1e-4)


# --- the network as matrices ---


def random_matrices(rng: np.random.Generator, *widths: int) -> tuple[np.ndarray, ...]:
    return tuple(rng.normal(size=(a + 1, b)).astype(np.float32) for a, b in pairwise(widths))


def test_outputs_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    matrices, inputs = random_matrices(rng, 9, 6, 5, 1), rng.normal(size=(50, 9))
    for x, value in zip(inputs, network_outputs(matrices, inputs), strict=True):
        for layer, W in enumerate(matrices):
            x = (np.maximum(x, 0) if layer else x) @ W[:-1] + W[-1]
        assert value == pytest.approx(x[0], rel=1e-9)


@pytest.mark.parametrize("hidden", [(), (5,), (4, 4, 2)])
def test_networks_side_by_side_are_their_mean(hidden: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    networks = [random_matrices(rng, 9, *hidden, 1) for _ in range(3)]
    inputs = rng.normal(size=(20, 9))
    each = [network_outputs(matrices, inputs) for matrices in networks]
    joint = network_outputs(average_networks(networks, 0.3), inputs)
    np.testing.assert_allclose(joint, 0.3 * np.mean(each, axis=0), rtol=1e-5, atol=1e-5)
