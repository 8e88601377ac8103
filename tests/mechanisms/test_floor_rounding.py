"""What the residual floor and the means of aggregates do with rounding: bounds that hold."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labeldp import PlanError
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms import residual_floor
from labeldp.mechanisms.residual_floor import FloorMode, means, root_bounds
from labeldp.releases.certificate import FloorOutcome
from labeldp.sampling.streams import Randomness

Reals = Any


def root_between(value: Fraction, down: float, up: float) -> bool:
    return Fraction(down) ** 2 <= value <= Fraction(up) ** 2


def test_roots_are_enclosed_whatever_is_lost_to_rounding() -> None:
    """Fractions between doubles, small and large; the enclosure is as narrow as doubles allow."""
    rng = np.random.default_rng(0)
    for power in (-200, -3, 0, 5, 90, 300):
        for _ in range(60):
            top, bottom = (int(part) for part in rng.integers(1, 2**62, 2))
            value = Fraction(top, bottom) * Fraction(2) ** power
            down, up = root_bounds(value, value)
            assert root_between(value, down, up)
            near = Fraction(3, 2) / 2**50
            assert Fraction(down) ** 2 > value * (1 - near) ** 2
            assert Fraction(up) ** 2 < value * (1 + near) ** 2


def test_the_smallest_residual_is_enclosed_whichever_it_is() -> None:
    """Where enclosures overlap, any of them may hold it."""
    ends = [(4, 9), (5, 6), (7, 8)]
    for order in ends, ends[::-1]:
        residuals: Any = [SimpleNamespace(square_low=low, square_high=high) for low, high in order]
        assert residual_floor._smallest(residuals) == (4, 6)


def test_a_declared_floor_is_refused_from_just_above_the_smallest_residual() -> None:
    """Of two bags, in codes of 2⁻⁷; the enclosure's lower end counts."""
    grid = LabelGrid.for_range((0.0, 2.0**13), intercept=True)
    unit = 2.0 ** (2 * grid.exponent)
    least, other = Fraction(10**9 + 1, 3), Fraction(10**10)
    residuals: Any = [
        SimpleNamespace(square_low=other, square_high=other),
        SimpleNamespace(square_low=least, square_high=least * 2),
    ]
    randomness = Randomness.experiment(0)

    def established(floor: float) -> FloorOutcome:
        claim: Any = SimpleNamespace(mode=FloorMode.DECLARED, floor=floor, measurement=None)
        return residual_floor.establish_floor(claim, residuals, grid, randomness)

    assert established(float(least) * unit * (1 - 1e-11)) == FloorOutcome()
    for above in (float(least) * unit * (1 + 1e-11), float(other) * unit):
        with pytest.raises(PlanError, match="the declared residual floor does not hold"):
            established(above)


def exactly(features: Reals, slope: Reals, centre: int) -> list[Fraction]:
    """Σ z·β, the first β moved by the centre, in fractions."""
    found = []
    for row, own in zip(features, np.broadcast_to(slope, features.shape), strict=True):
        moved = [Fraction(b) + (centre if not at else 0) for at, b in enumerate(own.tolist())]
        found.append(sum((Fraction(z) * b for z, b in zip(row.tolist(), moved, strict=True))))
    return [Fraction(value) for value in found]


@pytest.mark.parametrize("centre", [0, 12345, -(2**40)])
@pytest.mark.parametrize("own", [False, True])
def test_the_error_of_a_mean_covers_what_rounding_does_where_terms_cancel(
    centre: int, own: bool
) -> None:
    """Rows orthogonal to the slope but for rounding: what is left is rounding alone."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(200, 6)) * 2.0 ** rng.integers(-10, 10, (200, 6))
    slope = rng.normal(size=(200, 6) if own else 6) * 100
    whole = np.broadcast_to(slope, features.shape) + centre * np.eye(6)[0]
    features[:, -1] = -(features[:, :-1] * whole[:, :-1]).sum(axis=1) / whole[:, -1]
    mean, error = means(features, slope, np.zeros_like(slope), centre)
    truth = exactly(features, slope, centre)
    off = [abs(Fraction(m) - t) for m, t in zip(mean.tolist(), truth, strict=True)]
    assert all(gap <= Fraction(e) for gap, e in zip(off, error.tolist(), strict=True))
    assert max(off) > 0
    size = np.abs(features * whole).sum(axis=1)
    assert (error > 6 * 2.0**-53 * size).all(), "what six products and their sum may lose"
    if not centre:
        assert (error < 20 * 2.0**-52 * size).all()


def test_a_centre_that_no_double_holds_is_covered_where_the_slope_takes_it_back() -> None:
    """2⁵⁵ + 1 less 2⁵⁵ is 1, and in doubles 0."""
    features = np.array([[1.0, 0.5], [-3.0, 0.5]])
    for sign in (1, -1):
        slope = np.array([-sign * 2.0**55, 0.0])
        mean, error = means(features, slope, np.zeros(2), sign * (2**55 + 1))
        truth = exactly(features, slope, sign * (2**55 + 1))
        gaps = [abs(Fraction(m) - t) for m, t in zip(mean.tolist(), truth, strict=True)]
        assert gaps == [1, 3]
        assert all(gap <= Fraction(e) for gap, e in zip(gaps, error.tolist(), strict=True))
        assert (error < 2.0**-51 * 2.0**56 * np.abs(features[:, 0])).all()


def test_the_error_of_the_slope_counts_in_full() -> None:
    """Σ|z|·e in fractions is no more than what is said of it in doubles, and hardly less."""
    rng = np.random.default_rng(11)
    features = rng.normal(size=(300, 9))
    errors = rng.uniform(0.5, 1.0, 9)
    mean, said = means(features, np.zeros(9), errors, 0)
    assert not mean.any()
    for row, bound in zip(np.abs(features).tolist(), said.tolist(), strict=True):
        pairs = zip(row, errors.tolist(), strict=True)
        truth = sum((Fraction(z) * Fraction(e) for z, e in pairs), Fraction(0))
        assert truth <= Fraction(bound) < truth * (1 + Fraction(1, 2**38))
