"""The law of one neighbour: eigenvalues, domination, and the released numbers themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import linalg, stats

from labeldp.accounting import contour, neighbors
from labeldp.accounting.compose import compose
from labeldp.accounting.radial import RadialProfile
from labeldp.accounting.sketch import DatasetBounds, SketchProfile
from tests.oracles.quadrature import by_contour


def problem(seed, rows=12, features=3):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    y = generator.normal(size=rows)
    q, _ = np.linalg.qr(x)
    residual = y - q @ (q.T @ y)
    return x, y, q, residual


def eigenvalues(x, y, row, change):
    """The two generalised eigenvalues of (A'ᵀA', AᵀA) that are not 1, as u and v."""
    before, after = np.column_stack([x, y]), np.column_stack([x, y])
    after[row, -1] += change
    values = linalg.eigvalsh(after.T @ after, before.T @ before)
    return values[-1] - 1.0, 1.0 - values[0]


def delta(bags, u, v, epsilon):
    """The worse direction."""
    alpha, beta = neighbors.scales(np.asarray(u), np.asarray(v))
    there = by_contour(contour.joint_loss([(bags, alpha, beta)]), epsilon)
    back = by_contour(contour.joint_loss([(bags, u, v)]), epsilon)
    return max(there, back, key=lambda b: b.estimate)


@pytest.mark.parametrize("seed", range(20))
def test_roots_are_the_eigenvalues(seed):
    x, y, q, residual = problem(seed)
    sigma, change = np.linalg.norm(residual), [-0.9, 0.03, 0.5, 2.0][seed % 4]
    u, v = neighbors.roots(change / sigma, residual[1] / sigma, np.sum(q[1] ** 2))
    assert (float(u), float(v)) == pytest.approx(eigenvalues(x, y, 1, change), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_a_column_orthogonal_to_the_residual_makes_the_roots_differ_by_tau(seed):
    """The reduction of `family`: publish w, and √(1+u) − √(1−v) = τ exactly."""
    x, y, q, residual = problem(seed)
    sigma, row = np.linalg.norm(residual), 2
    unit = np.eye(len(y))[row]
    extra = unit - q @ (q.T @ unit) - residual[row] * residual / sigma**2
    wider = np.column_stack([x, extra])
    again = y - wider @ np.linalg.lstsq(wider, y, rcond=None)[0]
    assert np.linalg.norm(again) == pytest.approx(sigma, rel=1e-12, abs=0.0)
    change = 0.7 * sigma * (-1) ** seed
    u, v = eigenvalues(wider, y, row, change)
    narrow_u, narrow_v = eigenvalues(x, y, row, change)
    assert math.sqrt(1 + u) - math.sqrt(1 - v) == pytest.approx(0.7, rel=1e-10, abs=0.0)
    assert u >= narrow_u - 1e-12
    assert v >= narrow_v - 1e-12


@settings(max_examples=60)
@given(
    st.sampled_from([1, 2, 7, 300, 10**5]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 3),
)
def test_domination(bags, top_u, top_v, share_u, share_v, epsilon):
    """3c: smaller u and v leak less, in both directions."""
    scale = 0.9 / math.sqrt(bags)
    u, v = top_u * scale, top_v * scale
    assert delta(bags, share_u * u, share_v * v, epsilon).lower <= delta(bags, u, v, epsilon).upper


@pytest.mark.parametrize("back", [False, True])
def test_the_loss_of_released_numbers_has_this_law(back):
    """Log-density ratios of simulated WᵀA against κ + αG1 − βG2, by Kolmogorov–Smirnov.

    Seeded. Accepts the law (p > 1e-4) and rejects the law with m off by a tenth (p < 1e-6).
    """
    x, y, q, residual = problem(3)
    bags, change, draws = 10, 1.5, 6000
    before, after = np.column_stack([x, y]), np.column_stack([x, y])
    after[1, -1] += change
    if back:
        before, after = after, before
    generator = np.random.default_rng(11)
    release = generator.normal(size=(draws, bags, len(y))) @ before
    log_ratio = np.zeros(draws)
    for data, sign in ((before, 1.0), (after, -1.0)):
        gram = data.T @ data
        form = np.einsum("dbi,ij,dbj->d", release, np.linalg.inv(gram), release)
        log_ratio -= sign * 0.5 * (form + bags * np.linalg.slogdet(gram)[1])
    sigma = np.linalg.norm(residual)
    u, v = neighbors.roots(change / sigma, residual[1] / sigma, np.sum(q[1] ** 2))
    alpha, beta = (u, v) if back else neighbors.scales(u, v)

    def law(m):
        one, two = generator.standard_gamma(m / 2, (2, 100_000))
        return -m / 2 * (np.log1p(alpha) + np.log1p(-beta)) + alpha * one - beta * two

    assert stats.ks_2samp(log_ratio, law(bags)).pvalue > 1e-4
    assert stats.ks_2samp(log_ratio, law(1.1 * bags)).pvalue < 1e-6


def test_two_kinds_of_sketches_beside_bounded_noise_take_bounded_work(monkeypatch):
    """As in a ledger of three mechanisms: a box costs an integral for every point of the noise."""
    whole = SketchProfile(DatasetBounds(4000, (0.0, 10.0), 5, 0.01), 3000, 4.0e6, 0.075, 1e-7)
    bag = SketchProfile(DatasetBounds(96, (0.0, 10.0), 5, 0.26), 1, 8168.0, 0.075, 1e-7)
    together, looks, integral = compose([RadialProfile(1.0, 5), whole, bag]), [], contour.loss_delta

    def counted(loss, *rest):
        looks.append(loss.alpha.shape[1])
        assert sum(looks) < 60_000
        return integral(loss, *rest)

    monkeypatch.setattr(contour, "loss_delta", counted)
    for epsilon in (1.5, 8.0):
        looks.clear()
        found = together.delta(epsilon)
        assert found.upper >= together.delta(epsilon, certified=False).upper
    assert found.upper == pytest.approx(2e-7, rel=1e-6), "what their floors cost alone"
