"""The Gaussian mechanism against 60-digit arithmetic, and its inverses."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import given, settings, strategies as st

from labeldp.accounting import gaussian
from labeldp.accounting.calibrate import calibrate, epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.errors import InputError


def exact(epsilon, mu):
    mp.mp.dps = 60
    e, m = mp.mpf(epsilon), mp.mpf(mu)

    def phi(x):
        return mp.erfc(-x / mp.sqrt(2)) / 2

    return phi(m / 2 - e / m) - mp.exp(e) * phi(-m / 2 - e / m)


@settings(max_examples=300)
@given(st.floats(-9, 2).map(lambda x: 10.0**x), st.floats(-30, 36.5))
def test_delta_against_mpmath(mu, deviations):
    epsilon = mu * deviations + mu * mu / 2
    want = float(exact(epsilon, mu))
    if want > 1e-299:
        tolerance = 1e-11 if epsilon >= 0 else 1e-9
        assert gaussian.delta(epsilon, mu) == pytest.approx(want, rel=tolerance, abs=0.0)


def test_delta_reaches_1e_300():
    assert gaussian.delta(37.0, 1.0) == pytest.approx(float(exact(37.0, 1.0)), rel=1e-11, abs=0.0)
    assert 1e-300 < gaussian.delta(37.0, 1.0) < 1e-280
    assert gaussian.delta(700.0, 1.0) == 0.0
    assert gaussian.upper(700.0, 1.0) == 1e-300
    assert gaussian.delta(1.0, 0.0) == 0.0


@settings(max_examples=60)
@given(st.floats(0.01, 20), st.floats(-60, -0.1).map(math.exp))
def test_inverses_err_on_the_private_side(epsilon, delta):
    mu = gaussian.largest_mu(epsilon, delta)
    assert mu == calibrate(GaussianProfile(1.0), "mu", epsilon, delta)
    assert exact(epsilon, mu) <= delta
    assert exact(epsilon, mu * (1 + 1e-9)) > delta
    back = epsilon_at(GaussianProfile(mu), delta)
    assert back == pytest.approx(epsilon, rel=1e-7, abs=0.0)
    assert exact(back, mu) <= delta


def test_edges():
    assert gaussian.largest_mu(1.0, 0.0) == 0.0
    assert epsilon_at(GaussianProfile(0.1), 0.5) == 0.0
    assert epsilon_at(GaussianProfile(1.0), 0.0) == math.inf
    with pytest.raises(InputError, match="delta"):
        epsilon_at(GaussianProfile(1.0), -1e-9)
    with pytest.raises(InputError, match="mu"):
        gaussian.delta(1.0, -1.0)


def test_an_absurd_epsilon_is_infinite() -> None:
    assert epsilon_at(GaussianProfile(1e6), 1e-6) == math.inf
    assert epsilon_at(GaussianProfile(10.0), 1e-6) < 200.0
