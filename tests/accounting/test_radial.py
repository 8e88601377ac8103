"""Radial noise: its guarantee and its size, against closed forms, quadrature and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from labeldp.accounting.compose import compose
from labeldp.accounting.radial import (
    LaplaceProfile,
    RadialProfile,
    deviations,
    product_quantile,
    radial_profile,
)
from tests.oracles.pure import PureProfile

DRAWS = 400_000


def test_it_is_pure_grows_with_the_distance_and_falls_with_the_dimensions() -> None:
    assert radial_profile(1.0, 1) == LaplaceProfile(1.0)
    for dimensions in (2, 3, 30, 4096):
        law = RadialProfile(1.0, dimensions)
        assert law.pure_epsilon() == 1.0
        assert law.delta(1.0).upper == 0.0 < law.delta(0.999).upper
        for epsilon in (0.0, 0.1, 0.5):
            assert law.delta(epsilon).upper <= PureProfile(1.0).delta(epsilon).upper
            assert law.delta(epsilon).upper <= LaplaceProfile(1.0).delta(epsilon).upper
            assert law.delta(epsilon).upper < RadialProfile(1.1, dimensions).delta(epsilon).upper
            assert (
                RadialProfile(1.0, dimensions + 1).delta(epsilon).lower < law.delta(epsilon).upper
            )
        assert law.group(3) == RadialProfile(3.0, dimensions)


@pytest.mark.parametrize("dimensions", [2, 3, 10, 500])
def test_composed_it_is_no_better_and_little_worse(dimensions: int) -> None:
    """Cells of the loss stand at their upper ends; with next to nothing beside it, it is itself."""
    law = RadialProfile(1.0, dimensions)
    atoms = np.array(law.atoms())
    assert atoms[:, 1].sum() == pytest.approx(1.0, abs=1e-12)
    assert np.sum(atoms[:, 1] * np.exp(-atoms[:, 0])) == pytest.approx(1.0, abs=0.03)
    together = compose([law, LaplaceProfile(1e-9)])
    for epsilon in (0.0, 0.05):
        alone = law.delta(epsilon).upper
        assert alone <= together.delta(epsilon).upper <= 1.2 * alone + 0.01
    assert together.delta(1.0 + 2e-9).upper == 0.0


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("dimensions", [1, 2, 7, 40])
def test_the_squared_radius_is_that_of_a_gamma_law(dimensions: int, probability: float) -> None:
    """χ_d·χ_{d+1} is Gamma(d): the duplication formula, from which radial noise is drawn."""
    radius = float(special.gammaincinv(dimensions, probability))
    found = product_quantile(dimensions, dimensions + 1, probability)
    assert found == pytest.approx(radius**2, rel=1e-9)


def test_three_dimensions_have_a_closed_form() -> None:
    """The density of a coordinate is ¼(1 + |x|)e^{−|x|}: P(|x| > t) = (1 + t/2)e^{−t}."""
    for t in (0.3, 2.0, 9.0):
        confidence = 1 - (1 + t / 2) * math.exp(-t)
        assert 2 * deviations(3, confidence) == pytest.approx(t, rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [(1.0, 5.0), (3.3, 9.0), (12.5, 17.0)])
def test_quantiles_are_those_of_draws(first: float, second: float) -> None:
    """So many of 400,000 products are below, within 4.5 deviations (7e-6)."""
    random = np.random.default_rng(0)
    products = random.chisquare(first, DRAWS) * random.chisquare(second, DRAWS)
    for q in (0.05, 0.5, 0.95):
        for factor, right in ((1.0, True), (1.15, False), (0.85, False)):
            below = np.mean(products < factor * product_quantile(first, second, q))
            z = (below - q) / math.sqrt(q * (1 - q) / DRAWS)
            assert bool(abs(z) < 4.5) is right
