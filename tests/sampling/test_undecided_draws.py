"""Draws in doubt are rare, about one in 1e9: here they are made, and the exact law decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray
from scipy import special

from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness, words

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

    found = rounded_noise.sample_rounded(
        rough, error, (7.0, 7.0), GRID, Randomness.experiment(1), exact
    )
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
    found = rounded_noise.sample_rounded(
        mean, np.zeros(COUNT), std, GRID, Randomness.experiment(2), exact
    )
    assert set(asked) == set(range(COUNT))
    assert np.array_equal(found / STEP, cells + (side > 0))


def test_cells_too_large_for_doubles_are_settled_exactly() -> None:
    """2**52 steps away, where doubles have no room for half a cell."""
    mean, asked = np.full(COUNT, 2.0**52 * STEP), []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(float(mean[row])), arb(7.0)

    rounded_noise.sample_rounded(
        mean, np.zeros(COUNT), (7.0, 7.0), GRID, Randomness.experiment(3), exact
    )
    assert set(asked) == set(range(COUNT))
