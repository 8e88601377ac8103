"""The certified sup: no neighbour exceeds it, and it is the closed form where one is known."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labeldp.accounting import contour, neighbors
from labeldp.accounting.neighbors import NeighborFamily, residual_cosine
from labeldp.accounting.privacy_profile import Bounds


def member(bags, tau, cosine, leverage, epsilon, mu=0.0):
    """δ of single neighbours in the worse direction; arrays allowed."""
    u, v = neighbors.roots(tau, cosine, leverage)
    alpha, beta = neighbors.scales(u, v)
    there = contour.loss_delta(contour.joint_loss([(bags, alpha, beta)], mu), epsilon)
    back = contour.loss_delta(contour.joint_loss([(bags, u, v)], mu), epsilon)
    return np.maximum(there, back)


@pytest.mark.parametrize("bags", [1, 3, 100, 10**5, 10**9])
@pytest.mark.parametrize("effect", [0.05, 0.6])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 6.0])
def test_features_unknown_the_sup_is_the_closed_form_end(bags, effect, epsilon):
    tau = effect / math.sqrt(bags)
    answer = NeighborFamily(bags, tau).delta(epsilon)
    end = member(bags, tau, -1.0, 0.0, epsilon)[:, 0]
    assert answer.estimate == pytest.approx(end[1], rel=1e-10, abs=1e-300)
    assert answer.upper <= end[2] * (1 + 3e-9) + 1e-300
    assert answer.upper >= end[1]


@settings(max_examples=40)
@given(
    st.sampled_from([1, 2, 50, 10**6]),
    st.floats(0.01, 0.95),
    st.floats(0, 4),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 10**6),
)
def test_no_neighbour_exceeds_the_worst_case(bags, effect, epsilon, mu, seed):
    tau = effect / math.sqrt(bags)
    generator = np.random.default_rng(seed)
    cosine = generator.uniform(-1, 1, 200)
    leverage = generator.uniform(0, 1, 200) ** 0.5 * (1 - cosine**2)
    some = tau * generator.uniform(0, 1, 200) ** 0.2
    top = member(bags, some, cosine, leverage, epsilon, mu)[0].max()
    assert top <= NeighborFamily(bags, tau).delta(epsilon, mu).upper


@settings(max_examples=40)
@given(
    st.sampled_from([1, 40, 10**5]),
    st.floats(0.05, 3.0),
    st.floats(1e-5, 0.5),
    st.floats(0.02, 1.0),
    st.floats(0, 3),
    st.integers(0, 10**6),
)
def test_no_neighbour_exceeds_the_family_with_public_features(bags, size, h, c, epsilon, seed):
    tau = size / math.sqrt(bags)
    generator = np.random.default_rng(seed)
    cosine = generator.uniform(-c, c, 200)
    leverage = np.minimum(h, 1 - cosine**2) * generator.uniform(0, 1, 200) ** 0.2
    some = tau * generator.uniform(0, 1, 200) ** 0.2
    _, v = neighbors.roots(some, cosine, leverage)
    inside = v < 1 - 1e-9
    top = member(bags, some[inside], cosine[inside], leverage[inside], epsilon)[0].max()
    assert top <= NeighborFamily(bags, tau, h, c).delta(epsilon).upper


def test_public_features_are_certified_tightly_and_help():
    facts = NeighborFamily(20_000, 0.0126, 6e-4, 0.055)
    answer = facts.delta(1.0)
    brute = max(member(20_000, 0.0126, c, 6e-4, 1.0)[1, 0] for c in np.linspace(-0.055, 0.055, 41))
    assert answer.upper == pytest.approx(brute, rel=1e-8, abs=0.0)
    assert answer.upper < 1e-3 * NeighborFamily(20_000, 0.0126).delta(1.0).upper


@given(st.floats(1e-6, 0.999), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_worst_case_cell_dominates_what_is_in_it(tau, x1, x2, share, smaller):
    """Any c of the cell, any leverage up to 1 − c², any change up to τ."""
    b1, b2 = sorted((x1 * tau, x2 * tau))
    top_u, top_v = neighbors._worst_cells(tau, np.array([b1]), np.array([b2]))
    b = b1 + share * (b2 - b1)
    cosine = max(-1.0, min(1.0, ((1 + tau - b) * (1 - b) - 1) / tau))
    u, v = neighbors.roots(tau, cosine, smaller * (1 - cosine**2))
    assert u <= top_u * (1 + 1e-6) + 1e-15
    assert v <= top_v * (1 + 1e-6) + 1e-15


@given(
    st.floats(1e-3, 3),
    st.floats(1e-6, 1),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
def test_a_feature_cell_dominates_what_is_in_it(tau, leverage, x1, x2, shares):
    c1, c2 = sorted((x1, x2))
    top_u, top_v = neighbors._feature_cells(tau, leverage, np.array([c1]), np.array([c2]))
    cosine = c1 + shares[0] * (c2 - c1)
    h = shares[1] * min(leverage, 1 - cosine**2)
    u, v = neighbors.roots(shares[2] * tau, cosine, h)
    assert u <= top_u * (1 + 1e-9) + 1e-15
    assert v <= top_v * (1 + 1e-9) + 1e-15


def test_beyond_the_turn_a_smaller_change_is_worse():
    """v(τ) has its maximum c² + h inside (0, τ); the cell must know."""
    _, top = neighbors._feature_cells(1.5, 0.01, np.array([-0.3]), np.array([-0.3]))
    _, at_tau = neighbors.roots(1.5, -0.3, 0.01)
    assert top[0] == pytest.approx(0.1, rel=1e-12, abs=0.0)
    assert at_tau < 0.05


def synthetic(shift=0.0):
    """δ = u²v on u = x, v = 1 − x: the sup 4/27 is inside a cell, at x = 2/3."""

    def value(left, right, enough):  # noqa: ARG001
        u, v = right[0], 1.0 - left[0]
        return np.array([u * u * v, u * u * v, u * u * v + np.where(v > 0.9, shift, 0.0)])

    return [neighbors.Chart(0.0, 1.0, None)], value, Bounds(0.0, 0.0, 0.0)


def test_branch_and_bound_finds_an_inner_sup(monkeypatch):
    answer = neighbors._certify(*synthetic())
    assert 4 / 27 <= answer.upper <= 4 / 27 * (1 + 1e-4)  # a smooth sup meets the cap on cells
    monkeypatch.setattr(neighbors, "_ROUNDS", 1)
    early = neighbors._certify(*synthetic())
    assert early.lower < 0.99 * 4 / 27 < 4 / 27 < early.upper


@settings(max_examples=25)
@given(st.integers(1, 10**5), st.floats(0.05, 0.9), st.floats(0, 5), st.sampled_from([1.0, 0.1]))
def test_cells_left_at_a_quick_bound_change_nothing(bags, effect, epsilon, leverage):
    cosine = 1.0 if leverage == 1.0 else 0.4
    some = NeighborFamily(bags, effect / math.sqrt(bags), leverage, cosine)
    for chart in some.charts():
        there = [some], [chart], epsilon, 0.1, ((0.0, 1.0),)
        value = partial(neighbors._delta_of_boxes, *there)
        ends = np.array([[chart.low, chart.high]])
        at_ends = neighbors._largest(value(ends, ends, 0.0))
        quick = neighbors._certify([chart], value, at_ends)
        assert quick == neighbors._certify([chart], lambda a, b, _: value(a, b, 0.0), at_ends)  # noqa: B023


def test_tau_above_one_needs_public_features():
    assert NeighborFamily(1, 1.2).delta(1.0).lower == 1.0
    assert NeighborFamily(1, 1.2, 0.01, 0.1).delta(6.0).upper < 0.5
    assert NeighborFamily(1, 0.999999).delta(1.0).upper > 0.5
    assert NeighborFamily(1, 1e-9).delta(0.0).upper < 1e-8


def test_the_quick_guess_is_never_above_the_sup():
    for some in (NeighborFamily(5, 0.2), NeighborFamily(5, 0.2, 0.05, 0.3), NeighborFamily(1, 0.9)):
        for epsilon in (0.0, 0.5, 2.0):
            assert some.delta(epsilon, certified=False).upper <= some.delta(epsilon).upper


def test_inflation_costs_a_little_and_never_helps():
    plain, tiny = NeighborFamily(900, 0.01), NeighborFamily(900, 0.01, inflation=2.0**-30)
    much = NeighborFamily(900, 0.01, inflation=0.1)
    assert plain.delta(1.0).estimate < tiny.delta(1.0).estimate
    assert tiny.delta(1.0).upper < plain.delta(1.0).upper * (1 + 1e-6)
    assert much.delta(1.0).lower > tiny.delta(1.0).upper
    assert NeighborFamily(9, 0.9, inflation=0.1).delta(1.0).upper == 1.0  # v reaches 1


@settings(max_examples=25)
@given(st.integers(1, 10**5), st.floats(0.05, 0.9), st.floats(0, 5), st.sampled_from([1.0, 0.1]))
def test_monotone_in_every_argument(bags, effect, epsilon, leverage):
    tau = effect / math.sqrt(bags)
    cosine = 1.0 if leverage == 1.0 else 0.4
    base = NeighborFamily(bags, tau, leverage, cosine).delta(epsilon)
    worse = (
        NeighborFamily(bags + 1, tau, leverage, cosine).delta(epsilon),
        NeighborFamily(bags, tau * 1.01, leverage, cosine).delta(epsilon),
        NeighborFamily(bags, tau, min(1.0, leverage * 1.1), cosine).delta(epsilon),
        NeighborFamily(bags, tau, leverage, min(1.0, cosine * 1.1)).delta(epsilon),
        NeighborFamily(bags, tau, leverage, cosine).delta(epsilon, gaussian=0.1),
        NeighborFamily(bags, tau, leverage, cosine).delta(epsilon * 0.9),
    )
    for other in worse:
        assert base.lower <= other.upper


@pytest.mark.parametrize("seed", range(8))
def test_no_residual_exceeds_the_cosine(seed):
    """Worst labels for a row are the signs of its row of I − H; they stay below ρ."""
    generator = np.random.default_rng(seed)
    x = np.column_stack([np.ones(40), generator.standard_t(2, size=(40, 3))])
    q, _ = np.linalg.qr(x)
    off = np.eye(40) - q @ q.T
    leverage = np.sum(q**2, axis=1)
    y = np.where(off[7] > 0, 5.0, 1.0)  # label range [1, 5], so B = 2
    residual = off @ y
    floor = float(residual @ residual)
    bound = residual_cosine(40, 2.0, float(leverage.max()), floor)
    assert np.abs(residual).max() / math.sqrt(floor) <= bound


@pytest.mark.parametrize("tau", [1e-4, 1e-6, 1e-9, 1e-12])
def test_a_vanishing_change_costs_next_to_nothing(tau: float) -> None:
    """Large tables have tiny τ: cells of tiny v must not end on the singularity at 1/α."""
    for bags in (1, 7):
        for epsilon in (0.1, 1.0, 4.0):
            assert NeighborFamily(bags, tau).delta(epsilon).upper < 1e-200
