"""Radial noise against 25-digit integrals of its law, and its size against quadrature."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from labeldp.accounting import radial
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.privacy_profile import Bounds, LossFactors, SearchMethod
from labeldp.accounting.radial import LaplaceProfile, RadialProfile, product_quantile
from labeldp.errors import InputError


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(25):
        yield


def law(most, dimensions):
    """The density of θ, L = a·sin θ, but for a factor (theory §9)."""
    a, d = mp.mpf(most), dimensions
    ratio = mp.besselk(mp.mpf(d) / 2, a / 2) / mp.besselk(mp.mpf(d) / 2 - 1, a / 2)
    r = a * a + 2 * a * (d - 1) * ratio

    def density(t):
        return mp.exp(a / 2 * mp.sin(t)) * mp.cos(t) ** (d - 2) * (r - (a * mp.sin(t)) ** 2)

    return density


def true_delta(most, dimensions, epsilon):
    density, a = law(most, dimensions), mp.mpf(most)
    whole = mp.quad(density, mp.linspace(-mp.pi / 2, mp.pi / 2, 5))
    start = mp.asin(mp.mpf(epsilon) / a)
    above = mp.quad(
        lambda t: density(t) * -mp.expm1(epsilon - a * mp.sin(t)),
        mp.linspace(start, mp.pi / 2, 4),
    )
    return above / whole


@pytest.mark.parametrize("dimensions", [2, 3, 4, 7])
@pytest.mark.parametrize(("most", "part"), [(0.7, 0.0), (0.7, 0.5), (5.0, 0.2), (5.0, 0.95)])
def test_delta_is_the_integral_of_its_law(dimensions, most, part):
    epsilon = part * most
    true, found = (
        true_delta(most, dimensions, epsilon),
        RadialProfile(most, dimensions).delta(epsilon),
    )
    assert found.estimate == pytest.approx(float(true), rel=1e-12, abs=0.0)
    assert 0.9e-9 < found.upper / found.estimate - 1 < 1.1e-9
    assert 0.9e-9 < 1 - found.lower / found.estimate < 1.1e-9


def test_the_loss_has_an_end():
    each = RadialProfile(0.7, 5)
    assert each.delta(0.7) == each.delta(0.8) == Bounds(0.0, 0.0, 0.0)
    assert each.delta(0.7 - 1e-3).upper > 1e-300
    assert each.delta(0.7 * (1 - 1e-15)).upper >= 1e-300
    with pytest.raises(InputError, match="epsilon"):
        each.delta(-0.1)
    assert each.pure_epsilon() == epsilon_at(each, 0.0) == 0.7
    assert each.group(1) == each
    assert each.group(3) == RadialProfile(3 * 0.7, 5)
    where = each.epsilon_search(0.1)
    assert (where.low, where.high, where.method) == (0.0, 0.7, SearchMethod.SHARP)
    assert each.factors() == LossFactors(atoms=(each.atoms(),))
    assert radial.radial_profile(0.7, 1) == LaplaceProfile(0.7)
    assert radial.radial_profile(0.7, 2) == RadialProfile(0.7, 2)
    for bad in (
        lambda: RadialProfile(0.0, 5),
        lambda: RadialProfile(0.7, 1),
        lambda: each.group(0),
    ):
        with pytest.raises(InputError):
            bad()


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5, 9, 20, 101])
@pytest.mark.parametrize("x", [0.01, 0.35, 4.0, 300.0])
def test_the_ratio_of_bessel_functions(dimensions, x):
    order = mp.mpf(dimensions) / 2
    true = mp.besselk(order, x) / mp.besselk(order - 1, x)
    assert radial._bessel_ratio(dimensions, x) == pytest.approx(float(true), rel=1e-13)


@pytest.mark.parametrize("dimensions", [2, 3, 1402, 1403, 5000, 10**6])
def test_what_is_cut_off_of_the_angles_is_nothing(dimensions):
    """(d − 2)·ln cos θ and the whole of the loss are below −700 there, and not far below."""
    each = RadialProfile(2.0, dimensions)
    if each._first == 0.0:
        assert (dimensions - 2) * (math.pi / 2) ** 2 / 2 <= 702.0
        return
    away = math.pi / 2 - each._first
    assert (dimensions - 2) * away**2 / 2 == pytest.approx(702.0, rel=1e-9)
    assert (dimensions - 2) * math.log(math.cos(away)) + 2.0 <= -700.0
    assert each.delta(2.0 * math.cos(0.5 * each._first)).estimate == 0.0
    assert each.delta(2.0 * math.cos(0.5 * each._first)).upper == 1e-300


@pytest.mark.parametrize(("most", "dimensions"), [(0.7, 2), (0.7, 5), (6.0, 3)])
def test_the_points_of_the_loss_are_a_law_above_it(most, dimensions):
    each = RadialProfile(most, dimensions)
    values, chances = np.array(each.atoms()).T
    assert len(values) == 257
    assert (values[0], chances[0]) == (most, 1e-300)
    assert values[1] == most
    assert (np.diff(values[1:]) < 0.0).all()
    assert values[-1] > -most
    assert chances.sum() == pytest.approx(1.0, rel=1e-13)
    for epsilon in (0.0, 0.3 * most, 0.8 * most):
        got = float(chances @ np.maximum(0.0, -np.expm1(epsilon - values)))
        true = each.delta(epsilon).estimate
        assert true <= got <= 1.06 * true
    density = law(most, dimensions)
    part = mp.quad(density, mp.linspace(0, mp.pi / 2, 4)) / mp.quad(
        density, mp.linspace(-mp.pi / 2, mp.pi / 2, 5)
    )
    assert float(chances[:129].sum()) == pytest.approx(float(part), rel=1e-11)


@pytest.mark.parametrize(("first", "second"), [(1.0, 2.0), (1.0, 6.0), (3.0, 40.0), (1.0, 1.0)])
@pytest.mark.parametrize("probability", [1e-3, 0.5, 0.95, 1 - 1e-9])
def test_the_quantile_of_a_product_has_its_probability(first, second, probability):
    found = product_quantile(first, second, probability)
    below, _ = integrate.quad(
        lambda t: (
            stats.chi2.sf(found / math.exp(t), second)
            * math.exp(t)
            * stats.chi2.pdf(math.exp(t), first)
        ),
        -60.0,
        8.0,
        points=[-20.0, -5.0, 0.0, 2.0, 4.0],
        limit=300,
        epsabs=1e-14,
        epsrel=1e-12,
    )
    assert below == pytest.approx(1 - probability, rel=1e-5)
