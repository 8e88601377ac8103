"""Each fast routine against a slow obvious one, and the laws it must obey."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import t as student
from sklearn.linear_model import LinearRegression, Ridge

from labeldp.errors import InputError
from labeldp.learners import least_squares
from labeldp.learners.least_squares import Fit, bounded_norm, intervals, ridge


def normals(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


Z = normals(40, 5) * [1.0, 3.0, 0.1, 20.0, 1.0]
T = Z @ [1.0, -2.0, 5.0, 0.3, 0.0] + normals(40, seed=8)


# --- ordinary ---


def test_ordinary_is_numpy_lstsq() -> None:
    expected, residual, rank, _ = np.linalg.lstsq(Z, T, rcond=None)
    fit = ridge(Z, T, 0.0)
    np.testing.assert_allclose(fit.coefficients, expected, rtol=1e-12)
    np.testing.assert_allclose(fit.residual_ss, residual[0], rtol=1e-12)
    assert (fit.rows, fit.rank, fit.dof, fit.multiplier) == (40, rank, 35.0, 0.0)


def test_covariance_factor_is_the_inverse_gram() -> None:
    factor = ridge(Z, T, 0.0).covariance_factor
    np.testing.assert_allclose(factor @ factor.T, np.linalg.inv(Z.T @ Z), rtol=1e-9, atol=1e-14)


def test_rank_deficient_gives_the_least_norm_solution() -> None:
    doubled = np.column_stack([Z, Z[:, 0] + Z[:, 1], np.zeros(len(Z))])
    fit = ridge(doubled, T, 0.0)
    np.testing.assert_allclose(fit.coefficients, np.linalg.pinv(doubled) @ T, rtol=1e-9, atol=1e-12)
    assert fit.rank == 5
    assert fit.dof == 35
    np.testing.assert_allclose(fit.residual_ss, ridge(Z, T, 0.0).residual_ss, rtol=1e-10)


def test_rank_deficient_with_a_free_intercept_is_sklearn() -> None:
    levels = np.eye(3)[np.arange(40) % 7 % 3]
    design = np.column_stack([np.ones(40), levels])
    fit = ridge(design, T, 0.0, intercept=0)
    other = LinearRegression().fit(levels, T)
    np.testing.assert_allclose(fit.coefficients, [other.intercept_, *other.coef_], atol=1e-12)
    assert fit.rank == 3


def test_rank_tolerance_decides_what_is_noise() -> None:
    nearly = np.column_stack([Z[:, 0], Z[:, 0] + 1e-12 * normals(40)])
    assert ridge(nearly, T, 0.0).rank == 2
    assert ridge(nearly, T, 0.0, rank_tolerance=1e-9).rank == 1


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tall, labels = normals(1000, 4), normals(1000, seed=8)
    whole = ridge(tall, labels, 3.0, intercept=1)
    monkeypatch.setattr(least_squares, "_BLOCK_ENTRIES", 100)
    pieces = ridge(tall, labels, 3.0, intercept=1)
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(pieces.residual_ss, whole.residual_ss, rtol=1e-12)


# --- ridge ---


@pytest.mark.parametrize("penalty", [1e-6, 1.0, 50.0, 1e6])
def test_ridge_is_sklearn_ridge(penalty: float) -> None:
    penalised = ridge(Z, T, penalty)
    other = Ridge(alpha=penalty, fit_intercept=False, solver="svd").fit(Z, T)
    np.testing.assert_allclose(penalised.coefficients, other.coef_, rtol=1e-9)
    free = ridge(np.column_stack([Z, np.ones(40)]), T, penalty, intercept=5)
    other = Ridge(alpha=penalty, solver="svd").fit(Z, T)
    np.testing.assert_allclose(free.coefficients, [*other.coef_, other.intercept_], rtol=1e-9)


@pytest.mark.parametrize("intercept", [None, 0, 3, -1])
def test_ridge_factor_and_dof_are_those_of_the_linear_map(intercept: int | None) -> None:
    weights = np.ones(5)
    if intercept is not None:
        weights[intercept] = 0.0
    solve = np.linalg.solve(Z.T @ Z + 7.0 * np.diag(weights), Z.T)  # coefficients = solve @ T
    fit = ridge(Z, T, 7.0, intercept=intercept)
    np.testing.assert_allclose(fit.coefficients, solve @ T, rtol=1e-9)
    F = fit.covariance_factor
    np.testing.assert_allclose(F @ F.T, solve @ solve.T, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(fit.dof, 40 - np.trace(Z @ solve), rtol=1e-12)
    np.testing.assert_allclose(fit.residual_ss, np.sum((T - Z @ solve @ T) ** 2), rtol=1e-11)


def test_a_free_intercept_of_zeros_is_ignored() -> None:
    empty = Z.copy()
    empty[:, 2] = 0.0
    np.testing.assert_allclose(
        ridge(empty, T, 2.0, intercept=2).coefficients, ridge(empty, T, 2.0).coefficients
    )


# --- bounded norm ---


def slow_bounded_norm(Z: np.ndarray, t: np.ndarray, radius: float) -> np.ndarray:
    """Accelerated projected gradient: obvious, and slow."""
    step = 1 / np.linalg.norm(Z, 2) ** 2
    r = probe = np.zeros(Z.shape[1])
    momentum = 1.0
    for _ in range(20_000):
        following = probe - step * (Z.T @ (Z @ probe - t))
        following *= min(1.0, radius / max(float(np.linalg.norm(following)), 1e-300))
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        probe = following + (momentum - 1) / grown * (following - r)
        r, momentum = following, grown
    return r


@pytest.mark.parametrize("radius", [0.01, 0.5, 2.0, 5.0, 100.0])
def test_bounded_norm_is_projected_gradient(radius: float) -> None:
    design = Z / np.linalg.norm(Z, axis=0) * [1, 2, 3, 1, 0.5]  # so that the slow one converges
    fit = bounded_norm(design, T, radius)
    np.testing.assert_allclose(
        fit.coefficients, slow_bounded_norm(design, T, radius), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
def test_bounded_norm_is_slsqp(radius: float) -> None:
    found = minimize(
        lambda r: float(np.sum((T - Z @ r) ** 2)),
        np.zeros(5),
        jac=lambda r: -2 * Z.T @ (T - Z @ r),
        constraints={"type": "ineq", "fun": lambda r: radius**2 - r @ r, "jac": lambda r: -2 * r},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    fit = bounded_norm(Z, T, radius)
    np.testing.assert_allclose(fit.coefficients, found.x, atol=1e-5)
    assert fit.residual_ss <= found.fun * (1 + 1e-7)  # which may leave the ball a little


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
@settings(max_examples=400)
def test_bounded_norm_meets_kkt(problem: tuple[np.ndarray, np.ndarray, float]) -> None:
    design, labels, radius = problem
    fit = bounded_norm(design, labels, radius)
    r, multiplier = fit.coefficients, fit.multiplier
    norm, top = float(np.linalg.norm(r)), float(np.linalg.norm(design, 2))
    assert np.isfinite(r).all()
    assert 0 <= multiplier < np.inf
    assert norm <= radius * (1 + 1e-14)  # feasible
    if multiplier > 0:
        assert norm == pytest.approx(radius, rel=1e-9)  # complementary
    gradient = design.T @ (labels - design @ r) - multiplier * r  # stationary
    size = top * float(np.linalg.norm(labels)) + (top**2 + multiplier) * norm
    assert np.linalg.norm(gradient) <= 1e-12 * size


@given(problems(), st.floats(0.1, 0.99))
@settings(max_examples=150)
def test_a_smaller_ball_never_fits_better(
    problem: tuple[np.ndarray, np.ndarray, float], shrink: float
) -> None:
    design, labels, radius = problem
    wide, narrow = (
        bounded_norm(design, labels, radius),
        bounded_norm(design, labels, shrink * radius),
    )
    slack = 1e-12 * float(labels @ labels)
    assert narrow.residual_ss >= wide.residual_ss - slack
    assert narrow.multiplier >= wide.multiplier * (1 - 1e-9)


@pytest.mark.parametrize("spread", [1e-4, 1e-8, 1e-12])
def test_bounded_norm_on_singular_values_of_every_size(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(least_squares, "_NEWTON_STEPS", 12)  # Newton on ‖r‖ itself needs 20 to 50
    left, _ = np.linalg.qr(normals(30, 8))
    right, _ = np.linalg.qr(normals(8, 8))
    design = left * np.geomspace(1, spread, 8) @ right.T
    labels = left @ np.ones(8) + normals(30, seed=8) / 9
    least = np.linalg.norm(ridge(design, labels, 0.0).coefficients)
    for radius in np.geomspace(1e-3, 0.999 * least, 25):
        fit = bounded_norm(design, labels, radius)
        assert np.linalg.norm(fit.coefficients) == pytest.approx(radius, rel=1e-12)
        again = ridge(design, labels, fit.multiplier)
        np.testing.assert_allclose(again.coefficients, fit.coefficients, rtol=0, atol=1e-6 * radius)


def test_a_wide_ball_is_the_least_norm_solution() -> None:
    doubled = np.column_stack([Z, Z[:, :2]])
    least = ridge(doubled, T, 0.0)
    fit = bounded_norm(doubled, T, float(np.linalg.norm(least.coefficients)) * 1.0001)
    assert fit.multiplier == 0
    np.testing.assert_array_equal(fit.coefficients, least.coefficients)
    assert fit.dof == least.dof == 35


@pytest.mark.parametrize(
    ("design", "labels"),
    [(Z, np.zeros(40)), (np.zeros((40, 2)), T), (Z[:3], np.zeros(3)), ([[1.0], [0.0]], [0.0, 5.0])],
)
def test_nothing_to_explain_gives_zero(design: np.ndarray, labels: np.ndarray) -> None:
    for fit in (ridge(design, labels, 0.0), bounded_norm(design, labels, 1.0)):
        np.testing.assert_array_equal(fit.coefficients, 0.0)
        assert fit.multiplier == 0
        assert fit.residual_ss == pytest.approx(float(np.sum(np.square(labels))))


# --- intervals ---


def test_intervals_are_the_textbook_ones() -> None:
    transform = normals(3, 5)
    value, low, high = intervals(ridge(Z, T, 0.0), transform, confidence=0.9)
    inverse = np.linalg.inv(Z.T @ Z)
    beta = inverse @ Z.T @ T
    variance = np.sum((T - Z @ beta) ** 2) / 35
    deviation = np.sqrt(variance * np.diag(transform @ inverse @ transform.T))
    np.testing.assert_allclose(value, transform @ beta, rtol=1e-9)
    np.testing.assert_allclose(high - value, student.ppf(0.95, 35) * deviation, rtol=1e-9)
    np.testing.assert_allclose(value - low, high - value, rtol=1e-9)


@given(st.floats(0.01, 0.98), st.floats(0.001, 0.01))
@settings(max_examples=30)
def test_more_confidence_is_wider(confidence: float, more: float) -> None:
    fit = ridge(Z, T, 0.0)
    _, low, high = intervals(fit, confidence=confidence)
    _, lower, higher = intervals(fit, confidence=confidence + more)
    assert (lower < low).all()
    assert (higher > high).all()


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_intervals_need_more_bags_than_columns(rows: int) -> None:
    with pytest.raises(InputError, match="needs more aggregates than columns"):
        intervals(ridge(Z[:rows], T[:rows], 0.0))
    intervals(ridge(Z[:6], T[:6], 0.0))


@pytest.mark.parametrize("fit", [ridge(Z, T, 1.0), bounded_norm(Z, T, 0.1)])
def test_intervals_refuse_a_shrunk_fit(fit: Fit) -> None:
    with pytest.raises(InputError, match="nothing shrinks"):
        intervals(fit)


# --- wrong requests ---


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan, 5e-324])
def test_radius_must_be_positive(radius: float) -> None:
    with pytest.raises(InputError, match="radius"):
        bounded_norm(Z, T, radius)


@pytest.mark.parametrize("penalty", [-1.0, np.inf, np.nan])
def test_penalty_must_not_be_negative(penalty: float) -> None:
    with pytest.raises(InputError, match="penalty"):
        ridge(Z, T, penalty)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, np.nan])
def test_confidence_must_be_a_probability(confidence: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        intervals(ridge(Z, T, 0.0), confidence=confidence)


@pytest.mark.parametrize(
    ("design", "labels"),
    [(Z, T[:3]), (T, T), (Z, Z), (np.empty((0, 2)), []), (np.empty((4, 0)), T[:4])],
)
def test_shapes_must_agree(design: np.ndarray, labels: np.ndarray) -> None:
    with pytest.raises(InputError, match="shape"):
        ridge(design, labels, 0.0)


def test_errors_show_no_label() -> None:
    with pytest.raises(InputError, match="finite") as caught:
        ridge(Z, np.where(T[3] < T, np.nan, 123.456), 0.0)
    assert "123" not in str(caught.value)


def test_intercept_must_be_a_column() -> None:
    with pytest.raises(InputError, match="intercept"):
        ridge(Z, T, 1.0, intercept=5)
