"""The forecast's quantiles against the F law, by another library's routine."""

from __future__ import annotations

import math

import pytest
from scipy.stats import f

from labeldp.mechanisms.forecast import QUANTILES, excess_quantile


@pytest.mark.parametrize("rank", [1, 9, 403])
@pytest.mark.parametrize("spare", [0, 1, 5, 500, 24_706, 10**9])
@pytest.mark.parametrize("probability", QUANTILES)
def test_quantiles_of_the_excess_are_those_of_f(rank, spare, probability):
    freedom = spare + 1
    expected = rank / freedom * f.ppf(probability, rank, freedom)
    assert excess_quantile(rank, rank + spare, probability) == pytest.approx(expected, rel=1e-10)


def test_fewer_bags_than_columns_have_no_finite_excess():
    assert math.isinf(excess_quantile(10, 9, 0.5))
