"""Where the floor comes from: arithmetic on the private side, and the promised coverage."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.residual_floor import (
    FloorMode,
    Measurement,
    added_variance,
    default_measurement,
)
from labeldp.errors import InputError


def test_modes_are_their_names():
    assert [str(mode) for mode in FloorMode] == ["declared", "measured", "added", "measured+added"]
    assert FloorMode("measured+added").measures
    assert FloorMode("measured+added").adds
    assert not FloorMode.DECLARED.measures
    assert not FloorMode.MEASURED.adds


def test_lower_bound_by_hand():
    measurement = Measurement(mu=0.5, slack=0.025)
    assert measurement.noise(3.0) == pytest.approx(6.0)
    want = 100.0 - 6.0 * stats.norm.ppf(0.975) - 0.25
    assert measurement.lower_bound(100.0, 0.25, 3.0) == pytest.approx(want, rel=1e-10, abs=0.0)
    assert measurement.lower_bound(100.0, 0.25, 3.0) <= want
    assert measurement.lower_bound(5.0, 0.25, 3.0) == 0.0


def test_lower_bound_fails_as_often_as_it_says():
    """Seeded; 400,000 draws at δ0 = 0.01: six standard errors are 0.00094."""
    measurement, sigma = Measurement(mu=0.5, slack=0.01), 200.0
    noise = np.random.default_rng(1).normal(scale=measurement.noise(1.0), size=400_000)
    margin = sigma - measurement.lower_bound(sigma, 0.0, 1.0)
    assert np.mean(noise > margin) == pytest.approx(0.01, abs=0.00094)


@given(st.floats(1e-3, 1e12), st.floats(0, 1e7))
def test_added_variance_always_reaches_the_floor(needed, lower):
    added = added_variance(needed, lower)
    assert added >= 0.0
    assert Fraction(lower) ** 2 + Fraction(added) >= Fraction(needed)
    assert added <= max(0.0, needed - lower * lower) * (1 + 1e-12) + 1e-9 * needed


def test_nothing_is_added_to_rich_data():
    assert added_variance(100.0, 11.0) == 0.0
    assert added_variance(100.0, 0.0) == pytest.approx(100.0)


def test_default_measurement_spends_a_tenth():
    measurement = default_measurement(1.0, 1e-6)
    assert measurement.mu**2 == pytest.approx(
        calibrate(GaussianProfile(1.0), "mu", 1.0, 1e-6) ** 2 / 10
    )
    assert measurement.slack == pytest.approx(1e-7)


def test_bad_measurements_are_refused():
    with pytest.raises(InputError, match="mu"):
        Measurement(0.0, 0.1)
    with pytest.raises(InputError, match="slack"):
        Measurement(1.0, 0.6)
