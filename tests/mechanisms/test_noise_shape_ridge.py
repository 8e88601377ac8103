"""A ridge in the whitening: the same problem of other rows, feasible and certified as ever."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.noise_shape import (
    leverage_mixture,
    optimize_noise_shape,
    posterior_error,
    ridge_whitening,
    solve_dual,
)
from tests.mechanisms.test_noise_shape import Table, active, trace_of
from tests.oracles.best_shape import exact_square_length

Array = NDArray[np.float64]
SIZE = 0.3


def skewed(rows: int = 300, columns: int = 5) -> Table:
    random = np.random.default_rng(2)
    mixed = random.gamma(1.0, 1.0, (rows, columns)) @ random.normal(size=(columns, columns))
    return Table(pa.table({f"x{k}": mixed[:, k] for k in range(columns)}), basis="splines:3")


def rows_of(table: Table) -> Array:
    """The design in the feature map's units, which a penalty counts in."""
    return np.asarray(table.codes * table.features.keep(table.factor.kept).kept_scales)


def penalised(table: Table) -> tuple[Array, Array]:
    """XᵀX, and with the ridge, by its definition."""
    rows = rows_of(table)
    gram, slopes = rows.T @ rows, rows[:, 1:] - rows[:, 1:].mean(axis=0)
    penalty = SIZE * float(np.square(slopes).sum()) / slopes.shape[1]
    return gram, gram + np.diag([0.0] + [penalty] * slopes.shape[1])


def kept_noise(weights: Array, table: Table) -> float:
    """max ‖Cx‖²·tr((CᵀC)⁻¹(XᵀX + λI)⁻¹): the noise that the ridge leaves."""
    rows, (_, more) = rows_of(table), penalised(table)
    scaled = weights / table.features.keep(table.factor.kept).kept_scales
    largest = np.square(rows @ scaled.T).sum(axis=1).max()
    return float(largest * np.trace(np.linalg.inv(scaled.T @ scaled) @ np.linalg.inv(more)))


def test_it_whitens_the_sums_with_the_penalty() -> None:
    table = skewed()
    factor, second_moment = ridge_whitening(table.factor, table.features, SIZE)
    units = table.features.keep(table.factor.kept).kept_scales * 2.0**factor.exponents
    root = factor.lower * units[:, None]
    gram, more = penalised(table)
    assert np.allclose(root @ root.T, more, rtol=1e-9, atol=1e-9 * more.max())
    white = np.linalg.solve(root, rows_of(table).T)
    assert np.allclose(white @ white.T, second_moment, atol=1e-8)
    assert np.allclose(
        np.linalg.solve(root, np.linalg.solve(root, gram).T), second_moment, atol=1e-8
    )


def test_the_shape_is_certified_and_best_for_what_the_ridge_leaves() -> None:
    table = skewed()
    plain, shape = (
        table.shape(),
        optimize_noise_shape(table.factor, table.features, table.look, SIZE),
    )
    exact = max(exact_square_length(shape.weights.matrix, row) for row in table.codes)
    assert exact <= Fraction(shape.length) ** 2 <= exact * (1 + Fraction(1, 10**6))
    assert shape.objective == pytest.approx(kept_noise(shape.weights.matrix, table), rel=1e-5)
    assert shape.trace == pytest.approx(trace_of(shape, table.codes), rel=1e-5)
    assert shape.bound <= shape.objective <= 1.1 * shape.bound
    assert shape.ridge == SIZE
    assert shape.objective < kept_noise(plain.weights.matrix, table)
    assert shape.trace > plain.trace
    assert plain.trace == plain.objective


@pytest.mark.parametrize("seed", range(4))
def test_no_shape_that_serves_all_rows_is_below_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(40, 4)) * [1.0, 0.3, 0.1, 0.02]
    even = rows.T @ rows
    steps = {"steps": 60, "tolerance": 1e-3, "least_uniform": 1e-3}
    found = solve_dual(leverage_mixture(active(rows[:20]), 0.1), even / 40, **steps)  # type: ignore[arg-type]
    root = random.normal(size=(4, 4))
    for guess in (root @ root.T + 0.01 * np.eye(4), found.covariance):
        longest = np.einsum("ij,ij->i", rows @ np.linalg.inv(guess), rows).max()
        assert found.bound <= longest * np.trace(guess) * (1 + 1e-9)


def test_the_expected_error_is_that_of_the_posterior_mean() -> None:
    table, random = skewed(), np.random.default_rng(3)
    units = table.features.keep(table.factor.kept).kept_scales * 2.0**table.factor.exponents
    vectors, values, _ = np.linalg.svd((table.factor.lower.T * units)[1:, 1:])
    prior = np.zeros((table.factor.rank, table.factor.rank))
    prior[0, 0] = 30.0
    prior[1:, 1:] = (vectors * (7.0 * values / values.sum())) @ vectors.T
    root = np.tril(random.normal(size=prior.shape))
    truth = np.linalg.cholesky(prior) @ random.normal(size=(len(root), 20_000))
    seen = truth + root @ random.normal(size=truth.shape)
    together = prior + root @ root.T
    missed = prior @ np.linalg.solve(together, seen) - truth
    error = posterior_error(table.factor, table.features, root, explained=7.0, mean=30.0)
    assert error == pytest.approx(np.square(missed).sum(axis=0).mean(), rel=0.03)
