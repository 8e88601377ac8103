"""Gaussians that differ little: the lemma is above the exact δ, and says where it is silent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from labeldp.errors import InputError
from labeldp_paper.theory.deviation import gaussian_deviation, gaussian_deviation_epsilon


def exact_delta(epsilon: float, distance: float) -> float:
    """Of N(0, 1) and N(distance, 1) in any dimension: only the line between the means matters."""
    a, b = distance / 2, epsilon / distance
    return float(stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b))


@pytest.mark.parametrize("distance", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_shifts(distance: float, delta: float) -> None:
    kappa = gaussian_deviation(7, 1.0, 1.0, distance)
    assert kappa == distance
    epsilon = gaussian_deviation_epsilon(kappa, delta)
    assert exact_delta(epsilon, distance) <= delta
    assert exact_delta(epsilon / 40, distance) > delta, "not that loose"


@pytest.mark.parametrize("dimension", [1, 4, 25])
def test_spreads(dimension: int) -> None:
    """δ = E[(1 − e^{ε − loss})₊] over the radius: both densities depend on it alone."""
    ratio = 1 + 0.4 / math.sqrt(dimension)
    kappa = gaussian_deviation(dimension, 1.0, math.sqrt(ratio), 0.0)
    assert kappa == pytest.approx(0.4)
    epsilon = gaussian_deviation_epsilon(kappa, 1e-3)
    squares = stats.chi2(dimension).ppf((np.arange(200_000) + 0.5) / 200_000)
    for std in (1.0, math.sqrt(ratio)):  # either of the two may be the first
        other = math.sqrt(ratio) / std
        loss = dimension * math.log(other / std) - squares / 2 * (1 - (std / other) ** 2)
        assert np.mean(np.maximum(0.0, 1 - np.exp(epsilon - loss))) <= 1e-3


def test_beyond_one_half_there_is_nothing() -> None:
    assert gaussian_deviation(1, 1.0, 1.0, 0.51) == math.inf
    assert gaussian_deviation(100, 1.0, 1.04, 0.0) == math.inf
    assert gaussian_deviation_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_deviation_epsilon(0.0, 1e-6) == 0.0
    with pytest.raises(InputError, match="`std`"):
        gaussian_deviation(1, 0.0, 1.0, 0.1)
