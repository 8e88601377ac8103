"""Roots and ends of decreasing functions, wherever the search starts."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from labeldp.accounting.calibrate import _last, calibrate, epsilon_at, largest_cost
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.accounting.privacy_profile import Bounds, StatedProfile
from labeldp.accounting.radial import RadialProfile

PLACES = st.floats(-50.0, 700.0)


SMALL = st.integers(0, 12)


@given(SMALL, st.integers(-3, 20), SMALL, SMALL)
@example(1, 0, 0, 0)
def test_whole_numbers_are_those_of_a_search_one_by_one(first, guess, low, more):
    """From wherever it starts, and never beyond the ends, which may be where it begins."""
    holding = [n for n in range(low + 1, low + more + 1) if n <= first]
    assert _last(lambda n: n <= first, guess, low, low + more) == max(holding, default=low)


@pytest.mark.parametrize("delta", [1e-100, 1e-6, 0.5, 0.99, 0.999999])
def test_an_extreme_delta_needs_few_values_too(delta: float, monkeypatch: pytest.MonkeyPatch):
    """Near 1 it hardly moves, and steps of one length took millions of them."""
    asked, law = [], GaussianProfile.delta

    def counted(self: GaussianProfile, epsilon: float, *, certified: bool = True) -> Bounds:
        asked.append(epsilon)
        assert len(asked) < 1000
        return law(self, epsilon, certified=certified)

    monkeypatch.setattr(GaussianProfile, "delta", counted)
    mu = calibrate(GaussianProfile(1.0), "mu", 1.0, delta)
    assert (
        law(GaussianProfile(mu), 1.0).upper
        <= delta
        < law(GaussianProfile(mu * (1.0 + 1e-5)), 1.0).upper
    )
    asked.clear()
    assert epsilon_at(GaussianProfile(mu), delta) == pytest.approx(1.0, rel=1e-4)


def test_the_smallest_budgets_have_a_limit_too():
    """The search begins at a μ that is far too large for them."""
    mu = calibrate(GaussianProfile(1.0), "mu", 1e-12, 1e-100)
    assert 0.0 < GaussianProfile(mu).delta(1e-12).upper <= 1e-100


@given(st.floats(1.0, 1e3), st.floats(1e-12, 0.1))
def test_the_largest_cost_has_passed_also_where_delta_jumps(limit: float, delta: float):
    """From `limit` on δ is 1: a root finder may end on either side."""
    cost = largest_cost(lambda cost: StatedProfile(cost, delta / 2), limit, delta, least=0.5)
    assert limit * (1.0 - 1e-6) <= cost <= limit


@pytest.mark.parametrize("dimensions", [2, 20])
@pytest.mark.parametrize("delta", [1e-10, 1e-3])
def test_the_largest_cost_of_radial_noise_is_within_the_budget(dimensions: int, delta: float):
    cost = largest_cost(lambda cost: RadialProfile(cost, dimensions), 1.0, delta, least=1.0)
    assert RadialProfile(cost, dimensions).delta(1.0).upper <= delta
    assert RadialProfile(cost * (1.0 + 1e-7), dimensions).delta(1.0).upper > delta
