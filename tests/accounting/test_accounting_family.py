"""The certified sup: no neighbour exceeds it, and it is the closed form where one is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.accounting import SketchFamily, contour, residual_cosine, sketch
from labeldp.errors import InputError


def member(bags, tau, cosine, leverage, epsilon, mu=0.0):
    """δ of single neighbours in the worse direction; arrays allowed."""
    u, v = sketch.roots(tau, cosine, leverage)
    alpha, beta = sketch.scales(u, v)
    there = contour.delta(contour.compose([(bags, alpha, beta)], mu), epsilon)
    back = contour.delta(contour.compose([(bags, u, v)], mu), epsilon)
    return np.maximum(there, back)


@pytest.mark.parametrize("bags", [1, 3, 100, 10**5, 10**9])
@pytest.mark.parametrize("effect", [0.05, 0.6])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 6.0])
def test_features_unknown_the_sup_is_the_closed_form_end(bags, effect, epsilon):
    tau = effect / math.sqrt(bags)
    answer = SketchFamily(bags, tau).delta(epsilon)
    end = member(bags, tau, -1.0, 0.0, epsilon)[:, 0]
    assert answer.estimate == pytest.approx(end[1], rel=1e-10, abs=1e-300)
    assert answer.upper <= end[2] * (1 + 3e-9) + 1e-300
    assert answer.upper >= end[1]


@settings(max_examples=40, deadline=None)
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
    assert top <= SketchFamily(bags, tau).delta(epsilon, mu).upper


@settings(max_examples=40, deadline=None)
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
    _, v = sketch.roots(some, cosine, leverage)
    inside = v < 1 - 1e-9
    top = member(bags, some[inside], cosine[inside], leverage[inside], epsilon)[0].max()
    assert top <= SketchFamily(bags, tau, h, c).delta(epsilon).upper


def test_public_features_are_certified_tightly_and_help():
    facts = SketchFamily(20_000, 0.0126, 6e-4, 0.055)
    answer = facts.delta(1.0)
    brute = max(member(20_000, 0.0126, c, 6e-4, 1.0)[1, 0] for c in np.linspace(-0.055, 0.055, 41))
    assert answer.upper == pytest.approx(brute, rel=1e-8)
    assert answer.upper < 1e-3 * SketchFamily(20_000, 0.0126).delta(1.0).upper


def test_tau_above_one_needs_public_features():
    assert SketchFamily(1, 1.2).delta(1.0).lower == 1.0
    assert SketchFamily(1, 1.2, 0.01, 0.1).delta(6.0).upper < 0.5
    assert SketchFamily(1, 0.999999).delta(1.0).upper > 0.5
    assert SketchFamily(1, 1e-9).delta(0.0).upper < 1e-8


def test_the_quick_guess_is_never_above_the_sup():
    for family in (SketchFamily(5, 0.2), SketchFamily(5, 0.2, 0.05, 0.3), SketchFamily(1, 0.9)):
        for epsilon in (0.0, 0.5, 2.0):
            assert family.guess(epsilon).upper <= family.delta(epsilon).upper


def test_inflation_costs_a_little_and_never_helps():
    plain, tiny = SketchFamily(900, 0.01), SketchFamily(900, 0.01, inflation=2.0**-30)
    much = SketchFamily(900, 0.01, inflation=0.1)
    assert plain.delta(1.0).estimate < tiny.delta(1.0).estimate
    assert tiny.delta(1.0).upper < plain.delta(1.0).upper * (1 + 1e-6)
    assert much.delta(1.0).lower > tiny.delta(1.0).upper
    assert SketchFamily(9, 0.9, inflation=0.1).delta(1.0).upper == 1.0  # v reaches 1


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10**5), st.floats(0.05, 0.9), st.floats(0, 5), st.sampled_from([1.0, 0.1]))
def test_monotone_in_every_argument(bags, effect, epsilon, leverage):
    tau = effect / math.sqrt(bags)
    cosine = 1.0 if leverage == 1.0 else 0.4
    base = SketchFamily(bags, tau, leverage, cosine).delta(epsilon)
    worse = (
        SketchFamily(bags + 1, tau, leverage, cosine).delta(epsilon),
        SketchFamily(bags, tau * 1.01, leverage, cosine).delta(epsilon),
        SketchFamily(bags, tau, min(1.0, leverage * 1.1), cosine).delta(epsilon),
        SketchFamily(bags, tau, leverage, min(1.0, cosine * 1.1)).delta(epsilon),
        SketchFamily(bags, tau, leverage, cosine).delta(epsilon, gaussian=0.1),
        SketchFamily(bags, tau, leverage, cosine).delta(epsilon * 0.9),
    )
    for other in worse:
        assert base.lower <= other.upper


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 10**7), st.floats(0.1, 50), st.floats(0, 1), st.floats(-3, 3))
def test_residual_cosine_is_the_maximum_of_the_smaller_curve(rows, radius, top, log_ratio):
    floor = radius**2 * rows * 10.0**log_ratio
    h = np.append(np.linspace(0, top, 20_001), top * np.geomspace(1e-9, 1, 2000))
    rho = radius * (1 - h + np.sqrt((rows - 1) * h * (1 - h)))
    brute = np.minimum(rho / math.sqrt(floor), np.sqrt(1 - h)).max()
    answer = residual_cosine(rows, radius, top, floor)
    assert answer >= brute * (1 - 1e-15)
    assert answer <= brute * (1 + 2e-3) + 1e-12


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


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match="bags"):
        SketchFamily(0, 0.1)
    with pytest.raises(InputError, match="tau"):
        SketchFamily(1, math.nan)
    with pytest.raises(InputError, match="epsilon"):
        SketchFamily(1, 0.1).delta(-1.0)
