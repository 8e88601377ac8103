"""Draws in doubt are rare, about one in 1e9: here they are made, and every law is asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray
from scipy import special

from labeldp import door
from labeldp._random import Randomness, words
from tests.mechanisms.cases import FLAG, NOISY, ROWS, SAMPLED, small_plan
from tests.tables import source

Reals = NDArray[np.float64]
GRID, COUNT = -3, 60
STEP = 2.0**GRID


def normals(seed: int) -> Reals:
    """The standard normals that `publish` will draw from this seed."""
    bits = words(Randomness.experiment(seed).labels, COUNT)
    below = (bits & np.uint64(2**63 - 1)).astype(float)
    return np.where(bits >> np.uint64(63), -1.0, 1.0) * special.ndtri((below + 0.5) * 2.0**-64)


def cells_and_borders(seed: int) -> tuple[Reals, Reals]:
    """A cell for each draw, and the border between it and the next, in units of labels."""
    cells = np.random.default_rng(seed).integers(-1000, 1000, COUNT).astype(float)
    return cells, (cells + 0.5) * STEP


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("doubt", [0.4, 2.0**-6, 2.0**-20])
def test_where_doubles_are_on_the_wrong_side_of_a_border_the_exact_mean_decides(
    doubt: float, side: float
) -> None:
    """`doubt` in grid steps: how far the mean in doubles may be off, and half of it is."""
    cells, border = cells_and_borders(seed=1)
    truth = border + side * 0.25 * doubt * STEP - 7.0 * normals(1)
    rough = truth - side * 0.5 * doubt * STEP
    error, asked = np.full(COUNT, doubt * STEP), []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(truth[row])), arb(7.0)

    found = door.publish(rough, error, (7.0, 7.0), GRID, Randomness.experiment(1), exact)
    assert set(asked) == set(range(COUNT))
    assert np.array_equal(found / STEP, cells + (side > 0))


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("doubt", [0.4, 2.0**-6, 2.0**-20])
def test_where_the_deviation_in_doubles_is_off_the_exact_one_decides(
    doubt: float, side: float
) -> None:
    """The enclosure of the deviation is not centred on it, and the border lies in between."""
    cells, border = cells_and_borders(seed=2)
    normal = normals(2)
    reach = doubt * STEP / np.abs(normal)  # of the deviation, so that the draw moves by `doubt`
    deviation = 7.0 + side * np.sign(normal) * 0.5 * reach
    mean = border + side * 0.25 * doubt * STEP - deviation * normal
    asked = []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(mean[row])), arb(float(deviation[row]))

    std = (7.0 - reach, 7.0 + reach)
    found = door.publish(mean, np.zeros(COUNT), std, GRID, Randomness.experiment(2), exact)
    assert set(asked) == set(range(COUNT))
    assert np.array_equal(found / STEP, cells + (side > 0))


def test_cells_too_large_for_doubles_are_settled_exactly() -> None:
    """Beyond 2**51 steps the neighbouring cells are no longer exact doubles apart."""
    mean, asked = np.full(COUNT, 2.0**52 * STEP), []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(mean[row])), arb(7.0)

    door.publish(mean, np.zeros(COUNT), (7.0, 7.0), GRID, Randomness.experiment(3), exact)
    assert set(asked) == set(range(COUNT))


# --- whole releases, all of whose numbers are in doubt --------------------------------------


class Doubting:
    """`publish` with errors of several cells, so that every number is settled by its exact law."""

    def __init__(self) -> None:
        self.plain, self.asked = door.publish, 0

    def __call__(
        self,
        mean: Reals,
        error: Reals,
        std: Any,
        grid: int,
        randomness: Randomness,
        exact: door.Exact,
    ) -> Reals:
        def counted(row: int, precision: int) -> tuple[Any, Any]:
            self.asked += 1
            return exact(row, precision)

        return self.plain(mean, error + math.ldexp(4.0, grid), std, grid, randomness, counted)


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "all rows, floor measured": (FLAG, {}),
    "bags, floor measured": (SAMPLED, {}),
    "noisy bags": (NOISY, {}),
    "noisy bags, half the rows": (NOISY, {"noisy_fraction": 0.5, "bag_size": 20, "bags": 10}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_release_whose_every_draw_is_in_doubt_is_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact laws of all mechanisms, and of a measured floor, are those in doubles."""
    mechanism, options = OPTIONS[name]
    made, rows = small_plan(mechanism, **options), source(ROWS)
    quick = made.release(rows, randomness=Randomness.experiment(5))
    doubting = Doubting()
    monkeypatch.setattr(door, "publish", doubting)
    slow = made.release(rows, randomness=Randomness.experiment(5))
    assert doubting.asked >= 2 * made.claim.bags
    assert slow.table.equals(quick.table)
    assert slow.certificate == quick.certificate
