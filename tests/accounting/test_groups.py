"""Several labels change at once: what wtd-FLAg claims against two Gram matrices (theory §3).

The accountant knows the leverages, and for a group multiplies cosine and leverage. Here is a
table that comes close to all its bounds, so that a factor left out is a claim that is broken.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from labeldp import DatasetBounds
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.sketch import Measurement, SketchProfile, measurement_cost
from tests.oracles import gaussian_law, sketch_law
from tests.oracles.sketch_law import Reals

BAGS, DELTA = 100, 1e-3
RANGE = (-0.5, 0.5)
LARGEST = 5
"""Rows of a group; every row stands in the table that often."""


def flat_design() -> Reals:
    """320 rows of 36 columns of ±1 (the constant among them) with |H_ij| alike for all i ≠ j.

    The columns are the characters of Z₂⁶ at the zeros of a bent function, so that H is as flat
    as the bound of theory §3e on a residual assumes; equal rows have residuals in step.
    """
    points = np.array(list(itertools.product((0, 1), repeat=6)))
    bent = (points[:, 0::2] * points[:, 1::2]).sum(axis=1) % 2
    characters = (-1.0) ** (points @ points[bent == 0].T)
    return np.repeat(characters, LARGEST, axis=0)


DESIGN = flat_design()
HAT = DESIGN @ DESIGN.T / len(DESIGN)


def extreme_labels() -> Reals:
    """At the ends of the range, so that the first rows have the largest residual and may rise."""
    return np.where(HAT[0] > 0.0, RANGE[0], RANGE[1])


def residual_square(labels: Reals) -> float:
    rest = labels - HAT @ labels
    return float(rest @ rest)


def facts() -> DatasetBounds:
    rank = int(np.linalg.matrix_rank(DESIGN))
    return DatasetBounds(
        len(DESIGN), RANGE, features=rank, max_leverage=float(HAT.diagonal().max())
    )


def test_the_table_is_what_it_is_said_to_be() -> None:
    other = np.abs(HAT[0, LARGEST:])
    assert np.allclose(HAT @ HAT, HAT)
    assert np.allclose(HAT @ np.ones(len(HAT)), 1.0), "the constant is among the columns"
    assert other.max() == pytest.approx(other.min())
    assert facts().features == 36


@pytest.mark.parametrize("room", [3.0, 10.0, 40.0])
@pytest.mark.parametrize("group", [2, LARGEST])
def test_no_group_of_neighbours_costs_more_than_is_claimed(group: int, room: float) -> None:
    """`room` is the floor over the residual of the labels themselves; the rest is added noise.

    With little of it the residuals of the group decide, with much of it their leverage does.
    Never above the claim, and not so far below it that the claim could not be broken.
    """
    labels = extreme_labels()
    raised = labels + np.where(np.arange(len(labels)) < group, 1.0, 0.0)
    assert RANGE[0] <= raised.min() <= raised.max() <= RANGE[1]
    own = residual_square(labels)
    floor = room * own
    epsilon = epsilon_at(SketchProfile(facts(), BAGS, floor).group(group), DELTA)
    ratios = sketch_law.eigenvalues(DESIGN, labels, raised, floor - own)
    assert sketch_law.delta(BAGS, ratios, epsilon) <= DELTA
    assert sketch_law.delta(BAGS, ratios, epsilon / 2) > DELTA


@pytest.mark.parametrize("group", [1, 2, LARGEST])
def test_a_measured_floor_shows_a_group_as_much_as_it_moves_the_residual(group: int) -> None:
    """Equal labels, then some at the other end: the residual's root goes from 0 to about √group·Δ.

    It is published with noise Δ/μ. The sketch itself costs nothing here: its floor is huge.
    """
    rows, measured = 400, Measurement(0.8, 1e-9)
    labels = np.where(np.arange(rows) < group, 1.0, 0.0)
    moved = float(np.linalg.norm(labels - labels.mean()))
    public = DatasetBounds(rows, (0.0, 1.0), features=1, max_leverage=1 / rows)
    true = float(gaussian_law.delta(0.5, np.array(moved / measured.noise(1.0))))
    law = SketchProfile(public, 1, 1e12, *measurement_cost(measured)).group(group)
    claimed = law.delta(0.5).upper
    assert true <= claimed <= 1.02 * true
    assert epsilon_at(law, claimed) == pytest.approx(0.5, rel=1e-6)
