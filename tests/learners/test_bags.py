"""WeightedBags: rows, codes and weights arrive where they belong; what each label tells."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

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
from labeldp.learners.layers import Layers, row_products
from tests.drawn import bag_release_of, draw_release, pay_table
from tests.tables import table as make_table

ROWS = 300
TABLE = make_table(ROWS, seed=4).drop_columns(["label"])
FEATURES = fit_features(scan(TABLE, numeric=["score"]))
RANGE = (-2.0, 4.0)
KEPT = pytest.mark.parametrize("kept", [range(10), (0, 1, 3, 4, 6, 7, 9), (1, 2, 3)], ids=str)


def dense(bags: WeightedBags) -> np.ndarray:
    """The slow way: every row as its design columns, levels first."""
    blocks = [
        np.eye(size + 1)[:, :size][codes]  # −1 finds the row of zeros
        for size, codes in zip(bags.category_sizes, bags.categories.T, strict=True)
    ]
    return np.column_stack([*blocks, bags.numbers])


def kept_design(features: FeatureMap) -> np.ndarray:
    """The same columns by way of the feature map: levels, then numbers, no constant."""
    names = [name for name in features.names if name != "intercept"]
    order = sorted(range(len(names)), key=lambda i: "=" not in names[i])
    design = features.design(TABLE)[:, [features.names.index(name) for name in names]]
    return np.asarray(design[:, order])


@KEPT
def test_rows_are_the_kept_design(kept: tuple[int, ...]) -> None:
    features, labels = FEATURES.keep(kept), np.arange(float(ROWS))
    bags = WeightedBags.from_rows(features, features.batches(TABLE), labels)
    design = kept_design(features)
    np.testing.assert_allclose(dense(bags), design, rtol=1e-6, atol=1e-7)
    assert bags.bags == bags.rows == ROWS
    assert (bags.weights == 1).all()
    assert (bags.constants == 1).all()
    np.testing.assert_array_equal(bags.labels, labels)
    assert bags.row_norm == pytest.approx(np.linalg.norm(design, axis=1).max(), rel=1e-5)


@KEPT
@pytest.mark.parametrize("batch_rows", [7, 10_000])
def test_bags_from_a_source_gather_the_named_rows(kept: tuple[int, ...], batch_rows: int) -> None:
    """Rows in no order, bags interleaved; a row may stand in several bags."""
    features, rng = FEATURES.keep(kept), np.random.default_rng(0)
    bag, row = rng.permutation(np.repeat(np.arange(7), 11)), rng.integers(0, ROWS, 77)
    triples = pa.table({"bag": bag, "row": row, "weight": rng.normal(size=77)})
    source = scan(TABLE, batch_rows=batch_rows)
    bags = WeightedBags.from_source(features, source, triples, np.arange(7.0))
    X, rows = kept_design(features), dense(bags)
    for j in range(7):  # one bag at a time
        part = slice(bags.offsets[j], bags.offsets[j + 1])
        here = triples.filter(pa.array(bag == j))
        np.testing.assert_allclose(rows[part], X[here["row"].to_numpy()], rtol=1e-6, atol=1e-7)
        weights = here["weight"].to_numpy()
        np.testing.assert_array_equal(bags.weights[part], weights.astype(np.float32))
        assert bags.constants[j] == pytest.approx(weights.sum(), rel=1e-5)
    assert bags.categories.dtype == np.int32
    assert bags.numbers.dtype == bags.weights.dtype == np.float32


def test_aggregates_leave_the_constant_to_the_bias() -> None:
    release = draw_release(pay_table(), 30, 1)
    bags = WeightedBags.from_release(release, None)
    np.testing.assert_array_equal(bags.constants, release.design[:, 0])
    np.testing.assert_array_equal(bags.numbers, release.design[:, 1:].astype(np.float32))
    assert bags.aggregated
    assert bags.row_norm is None
    assert (bags.weights == 1).all()


def noisy_bags(count: int, size: int, seed: int, std: Any) -> WeightedBags:
    """Bags whose rows have labels of mean 1 and deviation 0.5, and noise on every label."""
    rng = np.random.default_rng(seed)
    numbers, weights = rng.normal(size=(count * size, 2)), rng.normal(size=count * size)
    starts = range(0, count * size, size)
    labels = np.add.reduceat(weights * rng.normal(1, 0.5, count * size), starts)
    return WeightedBags(
        np.empty((count * size, 0), dtype=np.int32),
        numbers.astype(np.float32),
        weights.astype(np.float32),
        np.arange(count + 1) * size,
        labels + std * rng.normal(size=count),
        (),
        np.add.reduceat(weights, starts),
    )


def test_units_are_the_best_constant_and_what_it_leaves() -> None:
    """5 standard errors: of the shift σ/√m, of the scale σ/√2m."""
    bags = noisy_bags(800, 50, 0, 0.0)
    units = bags.units()
    assert units.shift == pytest.approx(1.0, abs=5 * 0.5 / math.sqrt(800))
    assert units.scale == pytest.approx(0.5, rel=5 / math.sqrt(1600))
    assert units.energy == pytest.approx(40_000, rel=0.05)
    assert (bags.units(scaled=False).shift, bags.units(scaled=False).scale) == (0, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bag": [0, 0, 2]}, "count from 0 to 1"),
        ({"bag": [0, 0, -1]}, "count from 0"),
        ({"bag": [0, 0, 0]}, "bag 1 has no rows"),
        ({"row": [0, -4, 1]}, "rows from 0"),
        ({"row": [0, 1, ROWS]}, f"row {ROWS} but the data have only {ROWS} rows"),
        ({"row": [0.0, 1.0, 2.0]}, "whole numbers"),
        ({"weight": [1.0, None, 2.0]}, "'weight' without gaps"),
        ({"weight": [1.0, math.inf, 2.0]}, "that are not finite"),
    ],
    ids=str,
)
def test_wrong_bag_tables(change: dict[str, list[Any]], message: str) -> None:
    good: dict[str, list[Any]] = {"bag": [0, 0, 1], "row": [5, 6, 2], "weight": [1.0, 2.0, 3.0]}
    wrong = [(pa.table(good | change), message)]
    wrong += [(pa.table(good).drop_columns([name]), f"column '{name}'") for name in change]
    source, members = scan(TABLE, numeric=["score"]), [np.array(each) for each in good.values()]
    release = bag_release_of(FEATURES, (members[0], members[1], members[2]), np.array([0.0, 1.0]))
    for triples, words in wrong:
        with pytest.raises(InputError, match=words):
            WeightedBags.from_source(FEATURES, source, triples, [0.0, 1.0])
        with pytest.raises(InputError, match=words):
            LinearRegressor(penalty=1.0).fit(replace(release, files={"bags": triples}), source)


def test_another_source_and_wrong_shapes_are_refused() -> None:
    triples = pa.table({"bag": [0, 1], "row": [5, 2], "weight": [1.0, 3.0]})
    twice = scan(pa.concat_tables([TABLE, TABLE]))
    with pytest.raises(DataError, match=f"{2 * ROWS} rows but the release was made from {ROWS}"):
        WeightedBags.from_source(FEATURES, twice, triples, [0.0, 1.0])
    for numbers, labels, message in (
        (np.zeros(3), np.zeros(3), "two dimensions"),
        (np.zeros((0, 3)), np.zeros(0), "no bag"),
        (np.zeros((2, 3)), [0.0, np.nan], "labels holds"),
        (np.zeros((3, 3)), np.zeros(2), "has shape"),
    ):
        with pytest.raises(InputError, match=message):
            WeightedBags.from_arrays(numbers, labels)
    good = WeightedBags.from_rows(FEATURES, FEATURES.batches(TABLE), np.zeros(ROWS))
    fields = {name: getattr(good, name) for name in WeightedBags.__dataclass_fields__}
    wrong = {
        "categories": good.categories + 10,
        "offsets": good.offsets[::-1],
        "constants": np.zeros(2),
        "numbers": good.numbers[1:],
    }
    for name, value in wrong.items():
        with pytest.raises(InputError, match=name):
            WeightedBags(**{**fields, name: value})


# --- what a label tells ---


def test_misses_in_new_units_are_misses_over_their_deviation() -> None:
    std = np.geomspace(0.01, 100, 60)
    bags = noisy_bags(60, 3, 0, std)
    new, units = standardise_labels(bags, std, RANGE)
    g = np.random.default_rng(1).normal(size=bags.rows)
    starts = bags.offsets[:-1]
    misses = bags.labels - np.add.reduceat(bags.weights * (units.shift + units.scale * g), starts)
    energy = np.add.reduceat(bags.weights.astype(float) ** 2, starts)
    found = new.labels - np.add.reduceat(new.weights * g, starts)
    expected = misses / np.sqrt(std**2 + units.scale**2 * energy)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_constant_and_spread_are_found_behind_the_noise() -> None:
    """Every label has variance 1 then; a deviation that is 10 % off would show."""
    std = np.random.default_rng(2).uniform(0.5, 5, 20_000)
    new, units = standardise_labels(noisy_bags(20_000, 2, 3, std), std, RANGE)
    assert units.shift == pytest.approx(1, abs=0.05)
    assert units.scale == pytest.approx(0.5, abs=0.1)
    assert np.var(new.labels) == pytest.approx(1, abs=5 * np.sqrt(2 / 20_000))
    wrong, _ = standardise_labels(noisy_bags(20_000, 2, 3, 1.1 * std), std, RANGE)
    assert np.var(wrong.labels) > 1 + 5 * np.sqrt(2 / 20_000)
    # Labels that tell nothing leave the public range to speak.
    _, units = standardise_labels(noisy_bags(40, 1, 4, 1e6), np.full(40, 1e6), RANGE)
    assert (units.shift, units.scale) == pytest.approx((1, 6 / np.sqrt(12)), abs=1e-2)


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


def test_values_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    sizes, matrices = (3, 2), random_matrices(rng, 9, 6, 5, 1)
    codes = np.column_stack([rng.integers(-1, size, 50) for size in sizes]).astype(np.int32)
    numbers = rng.normal(size=(50, 4))
    values = Layers(sizes, matrices).values(codes, numbers)
    for i in range(50):
        x = np.zeros(9)
        for code, first in zip(codes[i], (0, 3), strict=True):
            if code >= 0:
                x[first + code] = 1.0
        x[5:] = numbers[i]
        for layer, W in enumerate(matrices):
            x = (np.maximum(x, 0) if layer else x) @ W[:-1] + W[-1]
        assert values[i] == pytest.approx(x[0], rel=1e-9)


@pytest.mark.parametrize("hidden", [(), (5,), (4, 4, 2)])
def test_networks_side_by_side_are_their_mean(hidden: tuple[int, ...]) -> None:
    rng, sizes = np.random.default_rng(5), (3, 2)
    networks = [random_matrices(rng, 9, *hidden, 1) for _ in range(3)]
    codes, numbers = rng.integers(-1, 2, (20, 2), dtype=np.int32), rng.normal(size=(20, 4))
    each = [Layers(sizes, matrices).values(codes, numbers) for matrices in networks]
    joint = Layers(sizes, average_networks(networks, 0.3)).values(codes, numbers)
    np.testing.assert_allclose(joint, 0.3 * np.mean(each, axis=0), rtol=1e-5, atol=1e-5)


def test_a_row_alone_is_predicted_as_among_many() -> None:
    """To the last bit, which BLAS changes with the number of rows."""
    rng = np.random.default_rng(6)
    rows, layers = rng.normal(size=(1500, 7)), Layers((), random_matrices(rng, 7, 40, 30, 1))
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
