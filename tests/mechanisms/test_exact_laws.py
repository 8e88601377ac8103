"""Releases all of whose numbers are in doubt: the exact laws, which hardly any draw ever asks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import EVERY, FLAG, NOISY, ROWS, SAMPLED, SHAPED, small_plan
from tests.tables import source

Reals = NDArray[np.float64]


class Doubting:
    """`publish` with errors of several cells, so that every number is settled by its exact law."""

    def __init__(self) -> None:
        self.plain, self.asked = rounded_noise.sample_rounded, 0

    def __call__(
        self,
        mean: Reals,
        error: Reals,
        std: Any,
        grid: int,
        randomness: Randomness,
        exact: rounded_noise.Exact,
        noise: rounded_noise.NoiseLaw = rounded_noise.NORMAL,
    ) -> Reals:
        def counted(row: int, precision: int) -> tuple[Any, Any]:
            self.asked += 1
            return exact(row, precision)

        return self.plain(
            mean, error + math.ldexp(4.0, grid), std, grid, randomness, counted, noise
        )


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "all rows, floor measured": (FLAG, {}),
    "normal noise": (SHAPED, {"noise": "gaussian"}),
    "radial noise": (SHAPED, {"delta": 0.0}),
    "every row": (EVERY, {}),
    "every row, normal noise": (EVERY, {"delta": 0.1}),
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
    monkeypatch.setattr(rounded_noise, "sample_rounded", doubting)
    slow = made.release(rows, randomness=Randomness.experiment(5))
    assert doubting.asked >= 2 * quick.table.num_rows
    assert slow.table.equals(quick.table)
    assert slow.certificate == quick.certificate
