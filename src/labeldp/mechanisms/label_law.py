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
        size = np.abs(features)
        slope = self._slope.copy()
        if self._centre:
            slope[0] += self._centre
        terms = features.shape[1] + 3
        error = size @ (self._slope_error + terms * 2.0**-52 * np.abs(slope))
        if self._centre:
            error += 2.0**-52 * (abs(self._slope[0]) + abs(self._centre)) * size[:, 0]
        return features @ slope, error * (1 + 2.0**-40)

    def exact_at(self, features: NDArray[np.float64]) -> door.Exact:
        def exact(row: int, precision: int) -> tuple[Any, Any]:
            from flint import arb, fmpz

            std = std_ball(self._residual, precision, self._added)
            mean = self._residual.linear(features[row])
            if self._centre:
                mean += arb(float(features[row, 0])) * arb(fmpz(self._centre))
            return mean, std

        return exact
