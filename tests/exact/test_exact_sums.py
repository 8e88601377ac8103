"""Exact sums against dense integer twins, and the same bytes for any way of cutting the rows."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.source import Source, scan
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.features.encoder import ChosenRows
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine
from tests.tables import RANGE, source, table


def dense_codes(features: FeatureMap, data: Source) -> np.ndarray:
    """The slow obvious twin: a dense matrix of Python integers."""
    rows = []
    for batch in data.feature_batches():
        encoded = features.encode(batch)
        for i in range(encoded.rows):
            row = [0] * len(features.all_names)
            if features.intercept:
                row[0] = 1
            for place, column in enumerate(features.number_columns):
                row[column] = int(encoded.numbers[i, place])
            for codes, offset in zip(encoded.categories, features.category_offsets, strict=True):
                row[offset + int(codes[i])] = 1
            rows.append(row)
    return np.array(rows, dtype=object)


@pytest.mark.parametrize("intercept", [True, False])
def test_gram_and_moments_equal_the_dense_twin(intercept: bool) -> None:
    data = source(300)
    features = fit_features(data, intercept=intercept)
    grid = LabelGrid.for_range(RANGE, intercept=intercept)
    gram, moments = LocalEngine(1).run_pass(
        "label sums", data, GramAccumulator(features), LabelCrossProducts(features, grid)
    )
    x = dense_codes(features, data)
    labels = np.concatenate([y for _, y in data.labelled_batches()])
    y = np.array([int(code) for code in grid.codes(labels)], dtype=object)
    assert (gram.exact(range(x.shape[1])) == x.T @ x).all()
    assert (moments.cross == x.T @ y).all()
    assert moments.square == y @ y
    assert moments.total == y.sum()
    assert gram.rows == moments.rows == 300


def test_row_order_does_not_change_the_sums_but_a_changed_cell_does() -> None:
    data = table(400)
    shuffled = data.take(pa.array(np.random.default_rng(1).permutation(400)))
    features = fit_features(scan(data, label="label"))
    engine = LocalEngine(2)

    def digest_of(rows: pa.Table) -> str:
        sums = GramAccumulator(features)
        return engine.run_pass("feature sums", scan(rows, label="label"), sums).digest()

    digest = digest_of(data)
    assert digest_of(shuffled) == digest
    scores = data["score"].to_numpy().copy()
    scores[17] += 1 if scores[17] < 500 else -1
    changed = data.set_column(1, "score", pa.array(scores))
    assert digest_of(changed) != digest


def test_sums_stay_exact_beyond_two_to_the_63() -> None:
    extreme = np.tile([-1e9, 1e9], 1500)
    data = scan(pa.table({"x": extreme, "z": extreme[::-1].copy()}))
    features = fit_features(data)
    batch = features.encode(next(iter(data.feature_batches())))
    sums = GramAccumulator(features)
    sums.add(batch)
    total = one = sums.result()
    for _ in range(20):  # 2**20 copies of 3000 rows of codes near 2**18
        total = total + total
    x = list(features.number_columns)
    assert total.exact(x)[0, 0] == (1 << 20) * one.exact(x)[0, 0] > 2**64
    copy = total + one
    assert copy.digest() != total.digest()


def test_label_accumulators_are_pickled_only_while_they_are_empty() -> None:
    data = scan(table(50), label="label", label_range=RANGE)
    features = fit_features(data)
    grid = LabelGrid.for_range(RANGE, intercept=True)
    empty = pickle.loads(pickle.dumps(LabelCrossProducts(features, grid)))
    batch, labels = next(iter(data.labelled_batches()))
    empty.add(features.encode(batch), labels)
    merged = empty.new()
    merged.merge(empty.state())
    for accumulator in (empty, merged, ChosenRows(features, np.arange(3), labels=True)):
        with pytest.raises(TypeError, match="private"):
            pickle.dumps(accumulator)


def test_integer_labels_are_exact() -> None:
    grid = LabelGrid.for_range((0, 52), intercept=True)
    weeks = np.arange(53.0)
    assert np.array_equal((grid.codes(weeks) + grid.centre) * 2.0**grid.exponent, weeks)
    assert grid.range == (0.0, 52.0)
