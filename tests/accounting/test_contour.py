"""The contour integral against stored 20-digit references, quadrature and closed forms."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from labeldp.accounting import contour, gaussian
from tests.oracles.quadrature import by_contour, delta_by_quadrature

REFERENCES = json.loads(Path(__file__).with_name("references.json").read_text())


def delta(bags, alpha, beta, epsilon, mu=0.0):
    return by_contour(contour.joint_loss([(bags, alpha, beta)], mu), epsilon)


def test_the_references_cover_what_is_claimed():
    values = [float(row[-1]) for row in REFERENCES]
    assert min(values) < 1e-150
    assert max(values) > 0.25
    assert {row[0] for row in REFERENCES} >= {1, 2, 3, 10**7}
    assert any(row[1] == 0 for row in REFERENCES)
    assert any(row[2] == 0 for row in REFERENCES)


def test_contour_matches_the_references_and_brackets_them():
    for bags, alpha, beta, epsilon, digits in REFERENCES:
        value, answer = float(digits), delta(bags, alpha, beta, epsilon)
        assert answer.estimate == pytest.approx(value, rel=1e-12, abs=0.0)
        assert answer.lower < value < answer.upper
        assert answer.upper == pytest.approx(value, rel=3e-9, abs=0.0)


@pytest.mark.parametrize("bags", [1, 2, 5, 100])
@pytest.mark.parametrize(("alpha", "beta"), [(0.001, 0.1), (0.1, 0.01), (0.5, 0.0), (2.0, 0.3)])
@pytest.mark.parametrize("off", [0.0, 1e-12, -1e-9])
def test_it_settles_where_epsilon_is_kappa(bags, alpha, beta, off):
    """There the integrand falls by powers alone, and a contour that bends goes the wrong way."""
    epsilon = -bags / 2 * (math.log1p(alpha) + math.log1p(-beta)) + off
    answer = delta(bags, alpha, beta, epsilon)
    assert answer.estimate == pytest.approx(
        delta_by_quadrature(bags, alpha, beta, epsilon), rel=1e-9
    )
    assert answer.upper == pytest.approx(answer.estimate, rel=3e-9)


def test_quadrature_matches_the_references():
    for bags, alpha, beta, epsilon, digits in REFERENCES:
        if float(digits) < 1e-13:
            continue
        got = delta_by_quadrature(bags, alpha, beta, epsilon)
        assert got == pytest.approx(float(digits), rel=1e-10, abs=0.0)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-3, 0.1, 0.29, 0.31, 0.9, 30.0, 1e9])
def test_log1p_minus_keeps_its_digits(size):
    mp.mp.dps = 40
    angles = np.exp(1j * np.linspace(0.0, 3.0, 7))
    for x in size * angles:
        want = complex(mp.log1p(mp.mpc(x)) - mp.mpc(x))
        got = complex(contour.log1p_minus(np.array([x]))[0])
        assert abs(got - want) <= 3e-15 * abs(want)


@pytest.mark.parametrize(
    ("bags", "alpha", "beta", "mu", "epsilon"),
    [
        (1, 0.1, 0.02, 0.3, 1.0),
        (1, 0.02, 0.1, 1.0, 0.5),
        (50, 0.03, 0.05, 0.2, 1.0),
        (10_000, 0.002, 0.001, 0.1, 0.8),
        (10_000, 0.0, 0.002, 0.3, 0.8),
        (400, 0.05, 0.0, 0.5, 3.0),
    ],
)
def test_composition_with_a_gaussian_by_a_double_integral(bags, alpha, beta, mu, epsilon):
    """δ(ε) = E[δ_Gauss(ε − κ − αG1 + βG2)] over both densities: no moment function."""
    s, weight = root_gamma_rule(bags / 2)
    kappa = -bags / 2 * (math.log1p(alpha) + math.log1p(-beta))
    levels = epsilon - kappa - alpha * s[:, None] ** 2 + beta * s**2
    inner = np.vectorize(lambda level: gaussian.delta(level, mu))(levels)
    answer = delta(bags, alpha, beta, epsilon, mu)
    assert answer.estimate == pytest.approx(weight @ inner @ weight, rel=1e-8, abs=0.0)
    assert answer.estimate > delta(bags, alpha, beta, epsilon).upper


def root_gamma_rule(shape):
    """Gauss nodes and weights for the density of √G, G ~ Gamma(shape)."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    centre = math.sqrt(shape)
    edges = np.linspace(max(0.0, centre - 5.5), centre + 5.5, 7)
    half = np.diff(edges)[:, None] / 2
    s = (edges[:-1, None] + half * (nodes + 1)).ravel()
    log_density = (2 * shape - 1) * np.log(s) - s * s - special.gammaln(shape)
    return s, (half * weights).ravel() * 2 * np.exp(log_density)


def test_two_releases_under_one_floor_are_one():
    one = by_contour(contour.joint_loss([(90, 0.1, 0.05)]), 1.0)
    two = by_contour(contour.joint_loss([(40, 0.1, 0.05), (50, 0.1, 0.05)]), 1.0)
    more = by_contour(contour.joint_loss([(40, 0.1, 0.05), (51, 0.1, 0.05)]), 1.0)
    assert two.estimate == pytest.approx(one.estimate, rel=1e-12, abs=0.0)
    assert more.lower > one.upper


def test_two_unlike_sketches_against_a_histogram():
    """Seeded; the band is six standard errors, so a right code fails with odds of 1e-9."""
    generator = np.random.default_rng(20)
    draws = generator.standard_gamma(np.array([[10.0], [10.0], [30.0], [30.0]]), (4, 400_000))
    kappa = -10 * (math.log1p(0.2) + math.log1p(-0.1)) - 30 * (math.log1p(0.05) + math.log1p(-0.2))
    loss = kappa + 0.2 * draws[0] - 0.1 * draws[1] + 0.05 * draws[2] - 0.2 * draws[3]
    gain = np.maximum(0.0, -np.expm1(1.0 - loss))
    answer = by_contour(contour.joint_loss([(20, 0.2, 0.1), (60, 0.05, 0.2)]), 1.0)
    error = gain.std() / math.sqrt(gain.size)
    assert abs(gain.mean() - answer.estimate) < 6 * error
    assert error < 0.01 * answer.estimate


@settings(max_examples=150)
@given(
    st.floats(0, 12),
    st.one_of(st.just(0.0), st.floats(-14, 15).map(lambda x: 10.0**x)),
    st.one_of(st.just(0.0), st.floats(-14, -1e-12).map(lambda x: 10.0**x)),
    st.one_of(st.just(0.0), st.floats(1e-6, 100.0)),
    st.one_of(st.just(0.0), st.just(700.0), st.floats(-6, 3).map(lambda x: 10.0**x)),
)
def test_always_a_bracket_never_nan(log_bags, alpha, beta, mu, epsilon):
    answer = delta(round(10.0**log_bags), alpha, beta, epsilon, mu)
    assert 0.0 <= answer.lower <= answer.estimate <= answer.upper <= 1.0


def test_beyond_the_smallest_float_the_bound_stays_a_bound():
    answer = delta(60_000, 0.0015, 0.0, 12.0)
    assert answer.lower == 0.0
    assert answer.upper == 1e-300


def test_the_second_method_does_not_trust_scipy_gamma_tails():
    """The case in which scipy's gammainc is wrong by 1e-3; reference by Arb."""
    case = 6_699_106, 0.0, 0.00022534639697, 2.2954
    assert delta_by_quadrature(*case) == pytest.approx(delta(*case).estimate, rel=1e-10, abs=0.0)
