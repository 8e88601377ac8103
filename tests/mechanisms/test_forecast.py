"""The forecast's quantiles against the F law, by another library's routine."""

from __future__ import annotations

import math

import pytest
from scipy.stats import f

from labeldp import Plan
from labeldp.mechanisms.forecast import QUANTILES, excess_quantile, mean_excess
from tests.plans import plan
from tests.tables import source


@pytest.mark.parametrize("rank", [1, 9, 403])
@pytest.mark.parametrize("spare", [0, 1, 5, 500, 24_706, 10**9])
@pytest.mark.parametrize("probability", QUANTILES)
def test_quantiles_of_the_excess_are_those_of_f(rank, spare, probability):
    freedom = spare + 1
    expected = rank / freedom * f.ppf(probability, rank, freedom)
    assert excess_quantile(rank, rank + spare, probability) == pytest.approx(expected, rel=1e-10)


def test_fewer_bags_than_columns_have_no_finite_excess():
    assert math.isinf(excess_quantile(10, 9, 0.5))


def test_a_forecast_is_in_label_units_and_says_what_it_rests_on():
    options = {"mechanism": "wtd-flag", "floor": "added", "bags": 500}
    guessed, stated = (
        plan(source(), epsilon=1.0, delta=1e-6, residual_guess=guess, **options)
        for guess in (None, 4.0)
    )
    assert (guessed.forecast.residual_source, stated.forecast.residual_source) == (
        "guess",
        "stated",
    )
    noise = stated.claim.to_json()["floor"]["needed"] / 2000
    added = (4.0 + noise) * mean_excess(stated.claim.to_json()["rank"], 500)
    assert stated.forecast.added_mse == pytest.approx(added)
    assert not stated.forecast.added_exact
    assert Plan.from_json(stated.to_json()).forecast == stated.forecast


def test_what_shaped_noise_adds_does_not_rest_on_the_residual():
    one, other = (
        plan(source(), epsilon=1.0, delta=1e-6, mechanism="shaped-flag", residual_guess=guess)
        for guess in (None, 4.0)
    )
    assert one.forecast.added_exact
    for name in ("added_mse", "added_low", "added_high"):
        assert getattr(one.forecast, name) == pytest.approx(getattr(other.forecast, name), 1e-12)
    assert one.forecast.added_low < one.forecast.added_mse < one.forecast.added_high
    assert other.forecast.excess_mean == pytest.approx(one.forecast.added_mse / 4.0)
