"""The law of an aggregate label given the aggregated features, for the door."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp import door
from labeldp.mechanisms.floors import root_bounds, std_ball
from labeldp.statistics import LabelGrid, Residual


class LabelLaw:
    """t_j | Z_j ~ N(Z_j·β̂, σ² + s²) in label codes, in doubles and to any precision."""

    def __init__(
        self, residual: Residual, labels: LabelGrid, added_variance: float, intercept: bool
    ) -> None:
        self._residual = residual
        self._centre = labels.centre if intercept else 0
        self._added = Fraction(added_variance) * Fraction(2) ** (-2 * labels.exponent)
        self._slope = residual.coefficients()
        self._slope_error = residual.coefficient_errors()
        self.std = root_bounds(
            residual.square_low + self._added, residual.square_high + self._added
        )

    def means(
        self, features: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Z·β̂ and a rigorous bound of its error."""
        return means(features, self._slope, self._slope_error, self._centre)

    def exact_at(self, features: NDArray[np.float64]) -> door.Exact:
        def exact(row: int, precision: int) -> tuple[Any, Any]:
            from flint import arb, fmpz

            std = std_ball(self._residual, precision, self._added)
            mean = self._residual.linear(features[row])
            if self._centre:
                mean += arb(float(features[row, 0])) * arb(fmpz(self._centre))
            return mean, std

        return exact


def means(
    features: NDArray[np.float64],
    slope: NDArray[np.float64],
    slope_error: NDArray[np.float64],
    centre: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Z·β̂ and a rigorous bound of its error, for one slope or one for each row of Z.

    `centre` is what labels count from, if the first column is the constant, else 0.
    """
    size, terms = np.abs(features), features.shape[1] + 3
    moved = slope.copy()
    if centre:
        moved[..., 0] += centre
    error = np.vecdot(size, slope_error + terms * 2.0**-52 * np.abs(moved))
    if centre:
        error += 2.0**-52 * (np.abs(slope[..., 0]) + abs(centre)) * size[:, 0]
    return np.vecdot(features, moved), error * (1 + 2.0**-40)
