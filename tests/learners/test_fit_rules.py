"""Least squares, ridge, norm bound and lasso: each against a slow obvious one, and its laws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.stats import t as student
from sklearn.linear_model import Lasso, LinearRegression, Ridge

from labeldp.errors import InputError
from labeldp.learners import fit_rules, normal_equations
from labeldp.learners.fit_rules import FitRule, norm_bound
from labeldp.learners.linear import fit_rows
from labeldp.learners.models import LinearModel, LinearOptions
from labeldp.learners.normal_equations import NoisyNormalEquations, plain_equations, triangle


def normals(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


Z = normals(40, 5) * [1.0, 3.0, 0.1, 20.0, 1.0]
T = Z @ [1.0, -2.0, 5.0, 0.3, 0.0] + normals(40, seed=8)


def fitted(design: np.ndarray, labels: np.ndarray, **options: Any) -> LinearModel:
    """Return the fit of plain rows; without an intercept unless one is asked for."""
    return fit_rows(
        np.asarray(design, float),
        np.asarray(labels, float),
        None,
        LinearOptions(**{"fit_intercept": False} | options),
    )


# --- the triangular factor ---


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = normals(1000, 5)
    whole = triangle([rows], 5)
    np.testing.assert_allclose(whole.T @ whole, rows.T @ rows, rtol=1e-12, atol=1e-11)
    assert (np.diagonal(whole) > 0).all()
    monkeypatch.setattr(normal_equations, "_BLOCK_NUMBERS", 100)
    for blocks in ([rows], [rows[:3], rows[3:700], rows[700:]]):
        np.testing.assert_allclose(triangle(blocks, 5), whole, rtol=1e-11, atol=1e-13)


def test_columns_of_large_numbers_do_not_blur_others() -> None:
    X = normals(60, 3) * [1.0, 0.01, 1e3] + [1e6, 1.0, 0.0]
    y = normals(60, seed=9)
    model, expected = fitted(X, y, fit_intercept=True), LinearRegression().fit(X - X.mean(0), y)
    np.testing.assert_allclose(model.coef, expected.coef_, rtol=1e-6)


# --- least squares ---


def test_least_squares_is_numpy_lstsq() -> None:
    expected, residual, _, _ = np.linalg.lstsq(Z, T, rcond=None)
    model = fitted(Z, T)
    np.testing.assert_allclose(model.coef, expected, rtol=1e-12)
    equations = plain_equations(Z, T, None)
    assert (equations.dof, model.multiplier) == (35, 0.0)
    np.testing.assert_allclose(equations.label_variance * 35, residual[0], rtol=1e-12)


def test_rank_deficient_columns_give_the_least_norm_solution() -> None:
    doubled = np.column_stack([Z, Z[:, 0] + Z[:, 1], np.zeros(len(Z))])
    model = fitted(doubled, T)
    np.testing.assert_allclose(model.coef, np.linalg.pinv(doubled) @ T, rtol=1e-9, atol=1e-12)
    all_of_them, some = plain_equations(doubled, T, None), plain_equations(Z, T, None)
    assert all_of_them.dof == 35
    np.testing.assert_allclose(all_of_them.label_variance, some.label_variance, rtol=1e-10)


def test_rank_deficient_columns_with_an_intercept_are_sklearn() -> None:
    levels = np.eye(3)[np.arange(40) % 7 % 3]
    model, other = fitted(levels, T, fit_intercept=True), LinearRegression().fit(levels, T)
    np.testing.assert_allclose(model.coef, other.coef_, atol=1e-12)
    assert model.intercept == pytest.approx(other.intercept_)
    assert plain_equations(np.column_stack([np.ones(40), levels]), T, 0).dof == 37


def test_intervals_are_the_textbook_ones() -> None:
    model = fitted(Z, T, confidence=0.9)
    inverse = np.linalg.inv(Z.T @ Z)
    beta = inverse @ Z.T @ T
    deviations = np.sqrt(np.sum((T - Z @ beta) ** 2) / 35 * np.diag(inverse))
    for entry, value, deviation in zip(model.coefficients, beta, deviations, strict=True):
        reach = student.ppf(0.95, 35) * deviation
        assert entry.low is not None
        assert entry.high is not None
        assert (entry.value, entry.low, entry.high) == pytest.approx(
            (value, value - reach, value + reach), rel=1e-9
        )


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_without_degrees_of_freedom_there_are_no_intervals(rows: int) -> None:
    model = fitted(Z[:rows], T[:rows])
    assert {entry.low for entry in model.coefficients} == {None}
    assert fitted(Z[:6], T[:6]).coefficients[0].low is not None


# --- ridge ---


@pytest.mark.parametrize("penalty", [1e-6, 50.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_sklearn_ridge(penalty: float, intercept: bool) -> None:
    model = fitted(Z, T, penalty=penalty, fit_intercept=intercept)
    other = Ridge(alpha=penalty, fit_intercept=intercept, solver="svd").fit(Z, T)
    np.testing.assert_allclose(model.coef, other.coef_, rtol=1e-9)
    assert model.intercept == pytest.approx(other.intercept_)
    assert {entry.low for entry in model.coefficients} == {None}


@pytest.mark.parametrize("constant", [None, 0, 3])
def test_the_smoother_is_that_of_the_linear_map(constant: int | None) -> None:
    weights = np.ones(5)
    if constant is not None:
        weights[constant] = 0.0
    solve = np.linalg.solve(Z.T @ Z + 7.0 * np.diag(weights), Z.T)  # coefficients = solve @ T
    equations = plain_equations(Z, T, constant)
    rule = fit_rules.ridge(equations, 7.0)
    np.testing.assert_allclose(rule.coefficients, solve @ T, rtol=1e-9)
    inside = Z @ np.linalg.inv(equations.root)  # from b̃ to rows
    np.testing.assert_allclose(inside @ rule.smoother @ inside.T, Z @ solve, atol=1e-10)


# --- norm bound ---


def bounded(design: np.ndarray, labels: np.ndarray, radius: float) -> FitRule:
    return norm_bound(plain_equations(np.asarray(design, float), np.asarray(labels), None), radius)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """Small problems: any rank, columns on scales 2⁻²⁰…2²⁰, labels zero or orthogonal at times."""
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    entries = st.integers(-3, 3)
    design = np.array(
        draw(st.lists(st.lists(entries, min_size=columns, max_size=columns),
                      min_size=rows, max_size=rows)), dtype=float,
    )  # fmt: skip
    scales = draw(st.lists(st.integers(-20, 20), min_size=columns, max_size=columns))
    labels = np.array(draw(st.lists(entries, min_size=rows, max_size=rows)), dtype=float)
    radius = 2.0 ** draw(st.floats(-30, 30))
    return design * 2.0 ** np.array(scales), labels * 2.0 ** draw(st.integers(-20, 20)), radius


@given(problems())
@example((np.array([[3.0], [1.0]]), np.array([3.0, 1.0]), 1.0))  # on the bound, but for rounding
@settings(max_examples=300)
def test_norm_bound_meets_kkt(problem: tuple[np.ndarray, np.ndarray, float]) -> None:
    design, labels, radius = problem
    rule = bounded(design, labels, radius)
    r, multiplier = rule.coefficients, rule.multiplier
    norm, top = float(np.linalg.norm(r)), float(np.linalg.norm(design, 2))
    assert np.isfinite(r).all()
    assert 0 <= multiplier < np.inf
    assert norm <= radius * (1 + 1e-14)  # feasible
    if multiplier > 0:
        assert norm == pytest.approx(radius, rel=1e-9)  # complementary
    gradient = design.T @ (labels - design @ r) - multiplier * r  # stationary
    size = top * float(np.linalg.norm(labels)) + (top**2 + multiplier) * norm
    assert np.linalg.norm(gradient) <= 1e-12 * size


def test_a_wide_ball_is_the_least_norm_solution() -> None:
    doubled = np.column_stack([Z, Z[:, :2]])
    least = fitted(doubled, T)
    wide = fitted(doubled, T, max_norm=float(np.linalg.norm(least.coef)) * 1.0001)
    assert wide.multiplier == 0
    np.testing.assert_allclose(wide.coef, least.coef, rtol=1e-9, atol=1e-12)
    assert wide.coefficients[0].low is not None


@pytest.mark.parametrize(
    ("design", "labels"),
    [(Z, np.zeros(40)), (np.zeros((40, 2)), T), (Z[:3], np.zeros(3)), ([[1.0], [0.0]], [0.0, 5.0])],
)
def test_nothing_to_explain_gives_zero(design: np.ndarray, labels: np.ndarray) -> None:
    for options in ({}, {"max_norm": 1.0}, {"penalty": 1.0}):
        model = fitted(design, labels, **options)
        np.testing.assert_array_equal(model.coef, 0.0)
    equations = plain_equations(np.asarray(design, float), np.asarray(labels), None)
    if equations.dof:
        total = float(np.sum(np.square(labels)))
        assert equations.label_variance * equations.dof == pytest.approx(total)


def test_a_bound_below_double_precision_is_refused() -> None:
    with pytest.raises(InputError, match="max_norm"):
        fitted(Z, T, max_norm=5e-324)


# --- lasso ---


def lasso_problem(seed: int, columns: int, correlated: float = 0.0) -> tuple[np.ndarray, Any]:
    """Return a design and the equations of all its rows, without noise."""
    random = np.random.default_rng(seed)
    design = random.normal(size=(60, columns)) + correlated * random.normal(size=(60, 1))
    labels = design[:, 0] - 0.5 * design[:, -1] + random.normal(size=60)
    return design, labels


def equations_of(
    design: np.ndarray, labels: np.ndarray, constant: int | None = None
) -> NoisyNormalEquations:
    inside, root = np.linalg.qr(design)
    width = design.shape[1]
    return NoisyNormalEquations(
        root, inside.T @ labels, 1e-3 * np.eye(width), constant, len(labels)
    )


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(1e-3, 2.0), st.sampled_from([0, 3]))
@settings(max_examples=60)
def test_the_lasso_meets_the_conditions_of_optimality(
    seed: int, columns: int, penalty: float, correlated: float
) -> None:
    design, labels = lasso_problem(seed, columns, correlated)
    slopes = fit_rules.lasso(equations_of(design, labels), penalty).coefficients
    gradient = design.T @ (labels - design @ slopes) / 60
    assert np.abs(gradient).max() <= penalty + 1e-8
    kept = slopes != 0
    assert gradient[kept] == pytest.approx(penalty * np.sign(slopes[kept]), abs=1e-8)


@pytest.mark.parametrize("penalty", [0.1, 5.0])
def test_the_lasso_is_scikit_learns(penalty: float) -> None:
    design, labels = lasso_problem(1, 8)
    with_constant = np.column_stack([np.ones(60), design])
    rule = fit_rules.lasso(equations_of(with_constant, labels, 0), penalty)
    expected = Lasso(alpha=penalty, tol=1e-12, max_iter=100_000).fit(design, labels)
    assert rule.coefficients[1:] == pytest.approx(expected.coef_, abs=1e-8)
    assert rule.coefficients[0] == pytest.approx(expected.intercept_, abs=1e-8)
    assert rule.info["columns_kept"] == np.count_nonzero(expected.coef_)


def test_twins_and_empty_columns_do_no_harm() -> None:
    design, labels = lasso_problem(3, 4)
    design[:, 2] = 0.0
    assert fit_rules.lasso(equations_of(design, labels), 0.01).coefficients[2] == 0
    twins = np.column_stack([design[:, 0], design[:, 0]])
    slopes = fit_rules.lasso(equations_of(twins, labels), 0.01).coefficients
    assert np.abs(twins.T @ (labels - twins @ slopes) / 60).max() <= 0.01 + 1e-8


def test_a_lasso_that_did_not_settle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_early(_: Lasso, X: np.ndarray, _y: np.ndarray) -> Any:
        return SimpleNamespace(coef_=np.zeros(X.shape[1]))

    monkeypatch.setattr(Lasso, "fit", stop_early)
    design, labels = lasso_problem(1, 8)
    with pytest.raises(InputError, match="the lasso does not settle"):
        fit_rules.lasso(equations_of(design, labels), 0.01)
    fit_rules.lasso(equations_of(design, labels), 100.0)  # keeps no column
