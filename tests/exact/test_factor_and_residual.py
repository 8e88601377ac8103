"""Rank, leverage and residual against exact rational twins."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx, fmpq_mat, fmpz
from hypothesis import given, settings, strategies as st

from labeldp.data.source import Source, scan
from labeldp.exact import cholesky as module
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import ExactLeastSquares, LabelCrossProducts, LabelGrid, LabelMoments
from labeldp.exact.quadratic_form import LeverageScan
from labeldp.features.fit import fit_features
from labeldp.passes.engine import LocalEngine
from tests.exact.test_exact_sums import dense_codes
from tests.tables import RANGE, source

ENGINE = LocalEngine(1)


def solved(data: Source) -> tuple[VerifiedCholesky, LabelMoments, ExactLeastSquares]:
    features = fit_features(data)
    assert data.label_range is not None
    grid = LabelGrid.for_range(data.label_range, intercept=True)
    gram, moments = ENGINE.run_pass(
        "label sums", data, GramAccumulator(features), LabelCrossProducts(features, grid)
    )
    factor = verified_cholesky(gram, features)
    return factor, moments, ExactLeastSquares(factor, moments)


def exact_solution(
    factor: VerifiedCholesky, moments: LabelMoments
) -> tuple[list[Fraction], Fraction]:
    """β̂ and σ² as exact rationals."""
    size = factor.rank
    gram = fmpq_mat(size, size, [fmpz(int(entry)) for entry in factor.gram.ravel()])
    cross = [int(moments.cross[column]) for column in factor.kept]
    answer = gram.solve(fmpq_mat(size, 1, [fmpz(entry) for entry in cross]))
    beta = [Fraction(int(answer[k, 0].p), int(answer[k, 0].q)) for k in range(size)]
    return beta, moments.square - sum(b * c for b, c in zip(beta, cross, strict=True))


def regression(rows: int, noise: float, seed: int, collinear: float = 0.0) -> Source:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    x[:, 2] = x[:, 0] + x[:, 1] + collinear * x[:, 2] if collinear else x[:, 2]
    y = np.clip(x @ [1.0, -2.0, 0.5] + noise * rng.standard_t(3, rows), -20, 20)
    columns = {f"x{k}": x[:, k] for k in range(3)}
    return scan(pa.table({**columns, "y": y}), label="y", label_range=(-20, 20))


@given(
    rows=st.integers(8, 120),
    noise=st.sampled_from([0.0, 1e-9, 1e-4, 1.0, 10.0]),
    collinear=st.sampled_from([0.0, 1e-3, 1.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
def test_enclosures_contain_the_exact_rationals(
    rows: int, noise: float, collinear: float, seed: int
) -> None:
    factor, moments, residual = solved(regression(rows, noise, seed, collinear))
    beta, square = exact_solution(factor, moments)
    assert residual.square_low <= square <= residual.square_high
    if square:
        assert residual.square_high - residual.square_low <= square / 2**50 + Fraction(1, 2**60)
    for shown, error, truth in zip(
        residual.coefficients(), residual.coefficient_errors(), beta, strict=True
    ):
        assert abs(Fraction(float(shown)) - truth) <= Fraction(float(error))
    weights = np.random.default_rng(seed).normal(size=factor.rank)
    truth = sum(Fraction(float(w)) * b for w, b in zip(weights, beta, strict=True))
    saved = ctx.prec
    try:
        ctx.prec = 200
        ball = residual.linear(weights)
        exact = arb(fmpz(truth.numerator)) / arb(fmpz(truth.denominator))
        assert ball.overlaps(exact)
        assert float(ball.rad()) <= 1e-15 * (1 + abs(float(truth)))
    finally:
        ctx.prec = saved


@pytest.mark.parametrize("bits", [900, 1074, 1120, 3000])
def test_enclosures_hold_beyond_the_smallest_double(bits: int) -> None:
    """2**-bits underflows as a double; 1,120 is the most that exact rounding ever asks for."""
    factor, moments, residual = solved(regression(60, 1.0, 3))
    beta, square = exact_solution(factor, moments)
    residual.refine(bits)
    assert residual.square_low <= square <= residual.square_high
    for shown, error, truth in zip(
        residual.coefficients(), residual.coefficient_errors(), beta, strict=True
    ):
        assert abs(Fraction(float(shown)) - truth) <= Fraction(float(error))
    weights = np.array([1.0, 0.3, -2.0, 0.7])
    truth = sum(Fraction(float(w)) * b for w, b in zip(weights, beta, strict=True))
    saved = ctx.prec
    try:
        ctx.prec = 2 * bits + 400
        ball = residual.linear(weights)
        assert ball.overlaps(arb(fmpz(truth.numerator)) / arb(fmpz(truth.denominator)))
        assert 0 < ball.rad() < arb(2) ** (40 - bits)
    finally:
        ctx.prec = saved


def test_labels_in_the_span_have_residual_zero_where_floats_say_otherwise() -> None:
    x = np.arange(200.0)
    y = 3.0 * x + 5.0
    data = scan(pa.table({"x": x, "y": y}), label="y", label_range=(0, 1000))
    factor, moments, residual = solved(data)
    _, square = exact_solution(factor, moments)
    assert square == 0
    assert residual.square_low == 0
    assert residual.square_high < Fraction(1, 2**60)


def test_rank_is_exact_and_the_most_frequent_level_is_the_baseline() -> None:
    data = source(1000)
    features = fit_features(data)
    gram = ENGINE.run_pass("feature sums", data, GramAccumulator(features))
    factor = verified_cholesky(gram, features)
    dense = dense_codes(features, data).astype(float)
    assert factor.rank == np.linalg.matrix_rank(dense)
    dropped = {features.all_names[k] for k in range(len(features.all_names))} - {
        features.all_names[k] for k in factor.kept
    }
    assert "colour=red" in dropped
    assert len(dropped) == 2
    assert sum(name.startswith("town=") for name in dropped) == 1


@given(
    levels=st.lists(st.integers(1, 5), max_size=4),
    nested=st.booleans(),
    numbers=st.integers(0, 2),
    intercept=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80)
def test_columns_kept_are_those_of_exact_elimination(
    levels: list[int], nested: bool, numbers: int, intercept: bool, seed: int
) -> None:
    """With the quick proof and without it, of categories with and without all their levels."""
    rng = np.random.default_rng(seed)
    columns = {f"c{k}": rng.integers(0, size, 60).astype(str) for k, size in enumerate(levels)}
    if nested and levels:
        columns["part"] = np.char.add(columns["c0"], rng.integers(0, 2, 60).astype(str))
    columns |= {f"x{k}": rng.normal(size=60) for k in range(numbers)} | {"last": np.arange(60.0)}
    data = scan(pa.table(columns))
    features = fit_features(data, intercept=intercept, min_count=1)
    gram = ENGINE.run_pass("feature sums", data, GramAccumulator(features))
    for kept in (None, tuple(sorted(rng.permutation(features.width)[: 1 + seed % features.width]))):
        chosen = features if kept is None else features.keep([int(column) for column in kept])
        order, _ = module.preferred_columns(gram, chosen)
        exact = tuple(sorted(module.independent_columns(gram, order)))
        assert verified_cholesky(gram, chosen).kept == exact


def test_exact_elimination_is_spared_where_the_sums_show_what_is_dependent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = source(1000)
    monkeypatch.setattr(module, "independent_columns", None)
    for intercept in (True, False):
        features = fit_features(data, intercept=intercept)
        gram = ENGINE.run_pass("feature sums", data, GramAccumulator(features))
        kept = verified_cholesky(gram, features).kept
        assert len(kept) == features.width - 1 - intercept
        assert verified_cholesky(gram, features.keep(kept)).kept == kept


def test_a_category_that_some_row_lacks_keeps_all_its_levels() -> None:
    """No encoder makes such rows, but it is the sums that say so, not the encoder."""
    data = source(400)
    for intercept in (True, False):
        features = fit_features(data, intercept=intercept)
        dense = dense_codes(features, data).astype(np.int64)
        lacking = slice(features.category_offsets[-1], features.width)
        dense[::9, lacking] = 0
        numbers = features.number_columns
        whole = dense.T @ dense
        products = whole[np.ix_(numbers, numbers)].astype(object)
        gram = FeatureGram(len(dense), whole, products, numbers)
        kept = verified_cholesky(gram, features).kept
        assert len(kept) == np.linalg.matrix_rank(dense.astype(float))
        assert set(range(lacking.start, lacking.stop)) <= set(kept)


def test_columns_that_differ_by_rounding_alone_are_left_out() -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 1, 5000)
    data = scan(pa.table({"a": a, "b": rng.normal(size=5000), "c": a * (1 + 1e-9)}))
    features = fit_features(data)
    factor = verified_cholesky(
        ENGINE.run_pass("feature sums", data, GramAccumulator(features)), features
    )
    assert [features.all_names[k] for k in factor.kept] == ["intercept", "a", "b"]
    assert factor.error_bound < 1e-10


def test_the_error_bound_bounds_the_true_error_of_the_factor() -> None:
    factor, _, _ = solved(regression(100, 1.0, 5, collinear=1e-4))
    scaled = np.array(
        [
            [
                Fraction(int(factor.gram[i, j]))
                / Fraction(2) ** int(factor.exponents[i] + factor.exponents[j])
                for j in range(factor.rank)
            ]
            for i in range(factor.rank)
        ],
        dtype=object,
    )
    inverse = np.array([[Fraction(float(v)) for v in row] for row in factor.inverse], dtype=object)
    error = inverse @ scaled @ inverse.T - np.eye(factor.rank, dtype=int).astype(object)
    norm = float(np.linalg.norm(error.astype(float)))
    assert norm <= factor.error_bound < 1e-3
    assert factor.error_bound > 0


@pytest.mark.parametrize(("batch_rows", "threads"), [(65536, 1), (97, 2)])
def test_leverage_is_an_upper_bound_of_the_dense_one_and_names_the_rows(
    batch_rows: int, threads: int
) -> None:
    data = source(700, batch_rows=batch_rows)
    features = fit_features(data)
    factor = verified_cholesky(
        ENGINE.run_pass("feature sums", data, GramAccumulator(features)), features
    )
    leverage = LocalEngine(threads).run_pass("leverages", data, LeverageScan(features, factor))
    x = features.keep(factor.kept).design(pa.Table.from_batches(data.feature_batches()))
    hat = np.einsum("ij,ji->i", x, np.linalg.pinv(x))
    assert hat.sum() == pytest.approx(factor.rank)
    assert leverage.maximum >= hat.max() * (1 - 1e-12)
    assert leverage.maximum == pytest.approx(hat.max(), rel=1e-8)
    assert leverage.row == int(np.argmax(hat))
    single = ENGINE.run_pass("leverages", source(700), LeverageScan(features, factor))
    assert leverage.maximum == single.maximum  # the same bytes for any batching


def test_the_costliest_row_is_blamed_on_the_right_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    x[123] = 500.0
    data = scan(pa.table({"quiet": rng.normal(size=1000), "loud": x}))
    features = fit_features(data, winsor=0)
    factor = verified_cholesky(
        ENGINE.run_pass("feature sums", data, GramAccumulator(features)), features
    )
    worst = ENGINE.run_pass("leverages", data, LeverageScan(features, factor))
    assert (worst.row, worst.column) == (123, "loud")


def test_range_is_public_so_labels_do_not_move_the_grid() -> None:
    grid = LabelGrid.for_range(RANGE, intercept=True)
    assert grid == LabelGrid.for_range(RANGE, intercept=True)
    assert np.array_equal(grid.codes(np.array([5.0])), [0.0])


def test_a_factor_knows_the_sums_that_it_was_made_from() -> None:
    """Sums of other rows, or of more of them, are not those."""
    data, other = source(300), source(300, 9)
    features = fit_features(data)
    gram = ENGINE.run_pass("sums", data, GramAccumulator(features))
    factor = verified_cholesky(gram, features)
    assert factor.is_of(gram)
    assert not factor.is_of(replace(gram, rows=301))
    assert not factor.is_of(ENGINE.run_pass("sums", other, GramAccumulator(features)))
