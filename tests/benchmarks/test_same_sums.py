"""Ours and the alternatives compute the same: the ratios compare like with like."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from labeldp.accounting import contour
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine
from tests.oracles.quadrature import by_contour

Program = Callable[[str], Any]
ROWS = 4000


@pytest.fixture(params=["census", "criteo", "dense-5"])
def table(request: pytest.FixtureRequest, program: Program, tmp_path: Path) -> tuple[Any, Path]:
    made = program("synthetic").table_named(request.param)
    made.write(tmp_path / "t.parquet", ROWS)
    return made, tmp_path / "t.parquet"


def our_gram(table: Any, path: Path) -> tuple[FeatureMap, NDArray[np.float64]]:
    source, engine = table.source(path), LocalEngine()
    features = fit_features(source, run_pass=engine.run_pass)
    grid = LabelGrid.for_range(table.label_range, intercept=True)
    gram, _ = engine.run_pass(
        "label sums", source, GramAccumulator(features), LabelCrossProducts(features, grid)
    )
    return features, gram.exact(range(gram.width)).astype(float)


def test_gram_matrices_agree(table: tuple[Any, Path], program: Program) -> None:
    features, expected = our_gram(*table)
    grams = program("grams")
    rows = grams.encoded_rows(table[0].source(table[1]), features, ROWS)
    np.testing.assert_array_equal(grams.dense_gram(rows), expected)
    ours = grams.our_gram(rows, features)()
    np.testing.assert_array_equal(ours.exact(range(ours.width)).astype(float), expected)
    np.testing.assert_allclose(grams.scipy_gram(rows)().toarray(), expected, rtol=1e-12)
    by_tabmat = grams.tabmat_gram(rows)
    if by_tabmat is None:
        pytest.skip("tabmat is not installed; pip install 'labeldp[bench]'")
    np.testing.assert_allclose(by_tabmat(), expected, rtol=1e-12)


def test_tabmat_sums_the_raw_columns_and_the_labels(
    table: tuple[Any, Path], program: Program
) -> None:
    made, path = table
    features, _ = our_gram(made, path)
    run = program("grams").tabmat_sums(path, features, made.label)
    if run is None:
        pytest.skip("tabmat is not installed; pip install 'labeldp[bench]'")
    gram, cross = run()
    raw = pq.read_table(path)
    names = [column.name for column in features.numeric]
    numbers = [np.nan_to_num(raw.column(name).to_numpy().astype(float)) for name in names]
    design = np.column_stack([np.ones(ROWS), *numbers])
    labels = raw.column(made.label).to_numpy().astype(float)
    size = design.shape[1]
    np.testing.assert_allclose(gram[:size, :size], design.T @ design)
    np.testing.assert_allclose(cross[:size], design.T @ labels)
    categories = len(features.categorical)
    assert np.trace(gram[size:, size:]) == pytest.approx(ROWS * categories)
    assert cross[size:].sum() == pytest.approx(categories * labels.sum())


def test_part_of_the_rows_is_their_beginning(table: tuple[Any, Path], program: Program) -> None:
    features, _ = our_gram(*table)
    grams = program("grams")
    rows = grams.encoded_rows(table[0].source(table[1]), features, 700)
    assert len(rows) == 700
    assert grams.dense_gram(rows)[0, 0] == 700


def test_duckdb_counts_every_pair(table: tuple[Any, Path], program: Program) -> None:
    """Each grouping set counts all rows, and the label adds up to its sum."""
    made, path = table
    pytest.importorskip("duckdb")
    features, _ = our_gram(made, path)
    answer = program("grams").duckdb_sums(path, features, made.label)()
    raw = pq.read_table(path)
    numbers = [column.name for column in features.numeric] + [made.label]
    for place, name in enumerate(numbers):
        values = raw.column(name).to_numpy().astype(float)
        assert answer[0][0][place] == pytest.approx(np.nansum(values))
    categories = [column.name for column in features.categorical]
    if not categories:
        assert len(answer) == 1
        return
    sets = len(categories) + len(list(combinations(categories, 2)))
    assert sum(row[len(categories)] for row in answer[1]) == sets * ROWS
    labels = raw.column(made.label).to_numpy().astype(float)
    assert sum(row[-1] for row in answer[1]) == pytest.approx(sets * labels.sum())


@pytest.mark.filterwarnings("ignore:The number of components is higher")
@pytest.mark.parametrize("way", ["loop", "blocked", "sklearn"])
def test_drawn_aggregates_have_the_covariance_of_the_table(way: str, program: Program) -> None:
    """20,000 bags: the mean of z·zᵀ is AᵀA within five deviations of √(2/20000) = 1 %."""
    matrix = np.random.default_rng(1).normal([0.0, 1.0, 3.0], size=(60, 3))
    drawn = program("draw").WAYS[way](matrix, 20_000)
    assert drawn.shape == (20_000, 3)
    root = np.linalg.cholesky(np.linalg.inv(matrix.T @ matrix))
    np.testing.assert_allclose(root.T @ (drawn.T @ drawn / 20_000) @ root, np.eye(3), atol=0.05)


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.2), (0.01, 0.3), (0.004, 0.003)])
def test_the_one_bag_curve_is_that_of_our_accountant(
    alpha: float, beta: float, program: Program
) -> None:
    """So what dp_accounting composes is the right loss."""
    epsilons = np.array([-20.0, -3.0, -0.5, 0.0, 0.4, 2.0, 9.0]) * alpha
    loss = contour.joint_loss([(1, alpha, beta)])
    expected = [by_contour(loss, float(epsilon)).estimate for epsilon in epsilons]
    found = program("accountant").one_bag(alpha, beta, epsilons)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
