"""Where features are no longer taken for drawn: each test of their law, at its limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from labeldp.mechanisms.checks import (
    _entries_fit,
    _fits,
    _triangle_fits,
    bag_squares,
    improbable,
)

Reals = Any
LIMITS = [(1.6e-12, True), (0.8e-12, False)]
"""Chances on either side of the one that is refused."""


def upper(chance: float, freedom: float) -> float:
    return float(stats.chi2.isf(chance, freedom))


def lower(chance: float, freedom: float) -> float:
    return float(stats.chi2.ppf(chance, freedom))


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
@pytest.mark.parametrize("tail", [upper, lower])
@pytest.mark.parametrize("count", [1, 5])
def test_one_of_several_is_improbable_on_either_side(
    tail: Any, count: int, chance: float, fine: bool
) -> None:
    """Both tails of each count: the chance is shared by 2·count of them."""
    squares = np.full(count, 2.0)
    squares[-1] = tail(chance / (2 * count), 3.0)
    assert improbable(squares, 3.0) is not fine
    freedom = np.full(count, 2.0)
    freedom[-1] = 3.0
    assert improbable(squares, freedom) is not fine


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
def test_the_mean_of_rows_is_looked_at_where_every_row_is_likely(chance: float, fine: bool) -> None:
    """Three rows of four columns that point the same way: their sum has a variance of 3."""
    along = np.array([0.5, -0.5, 0.5, 0.5])
    square = upper(chance / 2, 4) / 3
    rows = np.outer(np.ones(3), along) * np.sqrt(square)
    assert 6 * stats.chi2.sf(square, 4) > 1e-9, "each of them passes alone"
    assert _fits(iter([rows])) is fine
    assert _fits(iter([rows[:1], rows[1:]])) is fine


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
def test_every_row_is_looked_at_alone(chance: float, fine: bool) -> None:
    rows = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])
    rows[1] *= np.sqrt(upper(chance / 4, 3) / 3)
    assert _fits(iter([rows])) is fine
    assert _fits(iter([rows[::-1]])) is fine


def test_rows_of_one_direction_have_no_triangle() -> None:
    """Four likely rows of three columns, two of them equal in all: they span too little."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(4, 2)), np.zeros(4)])
    assert _fits(iter([rows[:3]]))
    assert not _fits(iter([rows]))


def triangle(rank: int, bags: int, quantile: float = 0.5) -> Reals:
    """The triangle of a Wishart matrix, every entry at the middle of its law or there."""
    found = np.full((rank, rank), np.sqrt(stats.chi2.ppf(0.5, 1)))
    middles = stats.chi2.ppf(quantile, bags - np.arange(rank))
    found[np.diag_indices(rank)] = np.sqrt(middles)
    return np.triu(found)


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
@pytest.mark.parametrize("tail", [upper, lower])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_entry_of_the_diagonal_has_its_degrees_of_freedom(
    place: int, tail: Any, chance: float, fine: bool
) -> None:
    bags = 40
    made = triangle(3, bags)
    assert _entries_fit(made, bags)
    made[place, place] = np.sqrt(tail(chance / 6, bags - place))
    assert _entries_fit(made, bags) is fine
    assert _entries_fit(-made, bags) is fine


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
@pytest.mark.parametrize("tail", [upper, lower])
def test_each_entry_above_the_diagonal_is_a_normal(tail: Any, chance: float, fine: bool) -> None:
    made = triangle(4, 60)
    made[1, 3] = -np.sqrt(tail(chance / 12, 1))
    assert _entries_fit(made, 60) is fine


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
@pytest.mark.parametrize("tail", [upper, lower])
def test_all_entries_above_the_diagonal_are_looked_at_together(
    tail: Any, chance: float, fine: bool
) -> None:
    """Ten columns have 45 of them."""
    made = triangle(10, 400)
    above = np.triu_indices(10, 1)
    made[above] = np.sqrt(tail(chance / 4, 45) / 45)
    assert _entries_fit(made, 400) is fine


@pytest.mark.parametrize(("chance", "fine"), LIMITS)
@pytest.mark.parametrize("tail", [upper, lower])
def test_the_whole_triangle_is_looked_at_together(tail: Any, chance: float, fine: bool) -> None:
    """Ten columns of fifty aggregates have 500 degrees of freedom."""
    wanted = tail(chance / 4, 500)

    def gap(quantile: float) -> float:
        return float(np.square(triangle(10, 50, quantile)).sum()) - wanted

    quantile = optimize.brentq(gap, 1e-6, 1 - 1e-6, xtol=1e-15)
    made = triangle(10, 50, quantile)
    assert np.square(made).sum() == pytest.approx(wanted, rel=1e-9)
    assert _entries_fit(made, 50) is fine


@pytest.mark.parametrize(("below", "fine"), [(0.8e-6, True), (-0.8e-6, True), (-1.6e-6, False)])
def test_a_compact_release_has_a_triangle_above_a_row_of_zeros(below: float, fine: bool) -> None:
    made = np.vstack([triangle(3, 40), np.zeros(3)])
    made[2, 0] = below * made.max()
    assert _triangle_fits(made, 40) is fine
    made[2, 0] = 0.0
    assert _triangle_fits(-made, 40)
    made[3, 1] = 1e-300
    assert not _triangle_fits(made, 40)


def test_bags_with_columns_of_zeros_and_sums_of_nothing() -> None:
    """A column that is 0 in a bag has the sum 0 there; any other sum is no sum of its rows."""
    rng = np.random.default_rng(5)
    design = rng.normal(size=(3, 4, 3))
    design[0, :, 1] = 0.0
    weights = rng.normal(size=(3, 4))
    weights[2] = 0.0
    sums = (weights[:, None, :] @ design)[:, 0]
    ranks = np.array([2, 3, 3])
    squares, away = bag_squares(design, sums, ranks)
    slow = [float(z @ np.linalg.pinv(d.T @ d) @ z) for d, z in zip(design, sums, strict=True)]
    assert squares == pytest.approx(slow, rel=1e-9, abs=0.0)
    assert squares[2] == 0.0
    assert (away < 1e-12).all()
    sums[0, 1] = 0.5
    off = bag_squares(design, sums, ranks)[1][0]
    scaled = sums[0] / np.where(design[0].any(axis=0), np.abs(design[0]).max(axis=0), 1.0)
    assert off == pytest.approx(0.5 / np.linalg.norm(scaled), rel=1e-9)
