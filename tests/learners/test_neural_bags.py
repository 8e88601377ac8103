"""WeightedBags: rows, codes and weights arrive where they belong, whatever they come from."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp.learners
from labeldp.data.source import Source, scan
from labeldp.errors import DataError, InputError, MissingExtraError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.learners.api import BagRegressor
from labeldp.learners.bags import WeightedBags
from labeldp.learners.layers import Layers, lipschitz_constant, output_bound
from tests.tables import table as make_table

ROWS = 300


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table(ROWS, seed=4).drop_columns(["label"])


@pytest.fixture(scope="module")
def features(table: pa.Table) -> FeatureMap:
    return fit_features(scan(table, numeric=["score"]))


def bag_table(seed: int = 0, bags: int = 7, size: int = 11) -> pa.Table:
    """Disjoint bags; rows in no order, bags interleaved."""
    rng = np.random.default_rng(seed)
    bag = rng.permutation(np.repeat(np.arange(bags), size))
    row = rng.permutation(ROWS)[: len(bag)]
    return pa.table({"bag": bag, "row": row, "weight": rng.normal(size=len(bag))})


def dense(bags: WeightedBags) -> np.ndarray:
    """The slow way: every row as its design columns, levels first."""
    blocks = [
        np.eye(size + 1)[:, :size][codes]  # −1 finds the row of zeros
        for size, codes in zip(bags.category_sizes, bags.categories.T, strict=True)
    ]
    return np.column_stack([*blocks, bags.numbers])


def kept_design(features: FeatureMap, table: pa.Table) -> np.ndarray:
    """The same columns by way of the feature map: levels, then numbers, no constant."""
    names = [name for name in features.names if name != "intercept"]
    order = sorted(range(len(names)), key=lambda i: "=" not in names[i])
    design = features.design(table)[:, [features.names.index(name) for name in names]]
    return np.asarray(design[:, order])


KEPT = pytest.mark.parametrize("kept", [None, (0, 1, 3, 4, 6, 7, 9), (1, 2, 3)], ids=str)


@KEPT
def test_rows_are_the_kept_design(
    features: FeatureMap, table: pa.Table, kept: tuple[int, ...] | None
) -> None:
    if kept is not None:
        features = features.keep(kept)
    labels = np.arange(float(ROWS))
    bags = WeightedBags.from_rows(features, table, labels)
    np.testing.assert_allclose(dense(bags), kept_design(features, table), rtol=1e-6, atol=1e-7)
    assert bags.bags == bags.rows == ROWS
    assert (bags.weights == 1).all()
    assert (bags.constants == 1).all()
    np.testing.assert_array_equal(bags.labels, labels)
    norms = np.linalg.norm(kept_design(features, table), axis=1)
    assert bags.row_norm == pytest.approx(norms.max(), rel=1e-5)


@KEPT
@pytest.mark.parametrize("batch_rows", [1, 7, 10_000])
def test_bags_from_a_source_gather_the_named_rows(
    features: FeatureMap, table: pa.Table, kept: tuple[int, ...] | None, batch_rows: int
) -> None:
    if kept is not None:
        features = features.keep(kept)
    triples, labels = bag_table(), np.arange(7.0)
    source = scan(table, batch_rows=batch_rows)
    bags = WeightedBags.from_source(features, source, triples, labels)
    X = kept_design(features, table)
    rows = dense(bags)
    for j in range(7):  # one bag at a time
        part = slice(bags.offsets[j], bags.offsets[j + 1])
        here = triples.filter(pa.array(triples["bag"].to_numpy() == j))
        np.testing.assert_allclose(rows[part], X[here["row"].to_numpy()], rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(
            bags.weights[part], here["weight"].to_numpy().astype(np.float32)
        )
        assert bags.constants[j] == pytest.approx(here["weight"].to_numpy().sum(), rel=1e-5)
    encoded = features.encode(table.combine_chunks().to_batches()[0])
    columns = (triples[name].to_numpy() for name in ("bag", "row", "weight"))
    other = WeightedBags.from_bags(features, encoded, *columns, labels)
    for name in ("categories", "numbers", "weights", "offsets", "labels", "constants"):
        np.testing.assert_array_equal(getattr(bags, name), getattr(other, name))
    assert bags.categories.dtype == np.int32
    assert bags.numbers.dtype == bags.weights.dtype == np.float32


def test_rows_may_stand_in_several_bags(features: FeatureMap, table: pa.Table) -> None:
    triples = pa.table({"bag": [0, 1, 1], "row": [5, 5, 2], "weight": [1.0, 2.0, 3.0]})
    bags = WeightedBags.from_source(features, scan(table), triples, [0.0, 1.0])
    np.testing.assert_array_equal(bags.categories[0], bags.categories[1])
    assert bags.lengths.tolist() == [1, 2]


def test_aggregates_leave_the_constant_to_the_bias(make_release: Any) -> None:
    rows = make_table(400)
    table = pa.table(
        {"age": rows["height"], "hours": rows["score"], "job": ["cook", "smith"] * 200}
    ).append_column("pay", rows["label"])
    release = make_release(table, 30, 1)
    bags = WeightedBags.from_aggregates(release.design, release.labels, release.features)
    np.testing.assert_array_equal(bags.constants, release.design[:, 0])
    np.testing.assert_array_equal(bags.numbers, release.design[:, 1:].astype(np.float32))
    assert bags.aggregated
    assert bags.row_norm is None
    assert (bags.weights == 1).all()


def test_units_are_the_best_constant_and_what_it_leaves() -> None:
    rng = np.random.default_rng(0)
    n, k, m = 40_000, 50, 800
    y = rng.normal(300.0, 4.0, n)
    w = rng.normal(size=n).astype(np.float32)
    offsets = np.arange(0, n + 1, k)
    labels = np.add.reduceat(w * y, offsets[:-1])
    bags = WeightedBags(
        np.empty((n, 0), dtype=np.int32),
        np.empty((n, 0), dtype=np.float32),
        w,
        offsets,
        labels,
        (),
        np.add.reduceat(w.astype(float), offsets[:-1]),
    )
    units = bags.units()
    assert units.shift == pytest.approx(300.0, abs=5 * 4 / math.sqrt(m))
    assert units.scale == pytest.approx(4.0, rel=0.15)  # standard error 1/√(2m) = 2.5 %
    assert units.energy == pytest.approx(n, rel=0.05)
    assert bags.units(scaled=False).shift == 0
    assert bags.units(scaled=False).scale == 1


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
        ({"weight": [1.0, math.inf, 2.0]}, "weights holds values that are not finite"),
    ],
    ids=str,
)
def test_wrong_bag_tables(
    features: FeatureMap, table: pa.Table, change: dict[str, list[Any]], message: str
) -> None:
    good: dict[str, list[Any]] = {"bag": [0, 0, 1], "row": [5, 6, 2], "weight": [1.0, 2.0, 3.0]}
    with pytest.raises(InputError, match=message):
        WeightedBags.from_source(features, scan(table), pa.table(good | change), [0.0, 1.0])
    for name in good:
        with pytest.raises(DataError, match=f"column '{name}'"):
            WeightedBags.from_source(
                features, scan(table), pa.table(good).drop_columns([name]), [0.0, 1.0]
            )


def test_another_source_is_refused(features: FeatureMap, table: pa.Table) -> None:
    source: Source = scan(pa.concat_tables([table, table]))
    with pytest.raises(DataError, match=f"{2 * ROWS} rows but the release was made from {ROWS}"):
        WeightedBags.from_source(features, source, bag_table(), np.arange(7.0))


def test_wrong_shapes(features: FeatureMap, table: pa.Table) -> None:
    with pytest.raises(InputError, match="vector of 300"):
        WeightedBags.from_rows(features, table, np.zeros(3))
    with pytest.raises(DataError, match="lack the feature columns 'town'"):
        WeightedBags.from_rows(features, table.drop_columns(["town"]), np.zeros(ROWS))
    with pytest.raises(InputError, match="two dimensions"):
        WeightedBags.from_arrays(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="no bag"):
        WeightedBags.from_arrays(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(InputError, match="labels holds"):
        WeightedBags.from_arrays(np.zeros((2, 3)), [0.0, np.nan])
    with pytest.raises(InputError, match="columns of the feature map"):
        WeightedBags.from_aggregates(np.zeros((5, 3)), np.zeros(5), features)
    good = WeightedBags.from_rows(features, table, np.zeros(ROWS))
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


# --- the network as matrices ---


def test_values_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    sizes, widths = (3, 2), (3 + 2 + 4, 6, 5, 1)
    matrices = tuple(
        rng.normal(size=(a + 1, b)).astype(np.float32) for a, b in itertools.pairwise(widths)
    )
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


def test_bounds_are_the_formulas() -> None:
    for K in (0.5, 1.5, 3.0, 20.0):
        for l0 in (1, 2, 3):
            ratio = (K ** (2 * l0 + 2) - 1) / (K**2 - 1)
            assert output_bound(K, l0) == pytest.approx(K * math.sqrt(ratio))
            assert lipschitz_constant(K, l0) == pytest.approx(max(math.sqrt(l0 * ratio), l0))
    assert output_bound(1.0, 2) == pytest.approx(math.sqrt(3))  # the limit K → 1
    assert output_bound(1e200, 3) == math.inf


# --- without torch ---


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "labeldp.learners.training", raising=False)
    monkeypatch.delattr(labeldp.learners, "training", raising=False)
    with pytest.raises(MissingExtraError, match=r"the neural learner.*labeldp\[torch\]"):
        BagRegressor().fit(np.zeros((4, 2)), np.arange(4.0))


def test_importing_does_not_import_torch() -> None:
    code = (
        "import sys, labeldp; labeldp.BagRegressor(); assert 'torch' not in sys.modules;"
        "assert 'labeldp.learners.network' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
