"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights.

The m rows WᵀA are iid N(0, AᵀA), so no weights are drawn (theory §3a): the aggregated
features are Z = G·R with RᵀR = XᵀX, and given Z the aggregated labels are independent
N(Z_j·β̂, σ²). Z does not depend on labels and takes an ordinary float path; the labels go
through the door. An added floor of variance s² (theory §6) makes σ² into σ² + s².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp import door
from labeldp._random import Randomness
from labeldp.statistics import Factor, LabelGrid, Residual

CHUNK_ROWS = 16384


@dataclass(frozen=True)
class Aggregates:
    """Some of the published rows: public."""

    features: NDArray[np.float64]
    """Σ w·x over integer design columns (multiply by the feature map's scales)."""
    labels: NDArray[np.float64]
    """Σ w·y (+ added noise), on the public grid."""


def draw_aggregates(
    factor: Factor,
    residual: Residual,
    labels: LabelGrid,
    *,
    bags: int,
    added_variance: float,
    grid: int,
    intercept: bool,
    randomness: Randomness,
) -> Iterator[Aggregates]:
    """Yield `bags` aggregates in chunks."""
    root = factor.root()
    law = _LabelLaw(residual, labels, added_variance, intercept)
    for start in range(0, bags, CHUNK_ROWS):
        size = min(CHUNK_ROWS, bags - start)
        features = randomness.features.standard_normal((size, factor.rank)) @ root
        mean, error = law.means(features)
        codes = door.publish(
            mean, error, law.std, grid - labels.exponent, randomness, law.exact_at(features)
        )
        yield Aggregates(features, np.ldexp(codes, labels.exponent))


def measure_residual(
    residual: Residual, labels: LabelGrid, noise: float, grid: int, randomness: Randomness
) -> float:
    """σ̂ = σ + N(0, noise²), published through the door (theory §6.2)."""
    scale = math.ldexp(1.0, -labels.exponent)
    low, high = root_bounds(residual.square_low, residual.square_high)

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        from flint import arb

        return _std_ball(residual, precision, Fraction(0)), arb(noise * scale)

    middle = 0.5 * (low + high)
    value = door.publish(
        np.array([middle]),
        np.array([high - low + 2.0**-52 * high]),
        (noise * scale, noise * scale),
        grid - labels.exponent,
        randomness,
        exact,
    )
    return math.ldexp(float(value[0]), labels.exponent)


def root_bounds(low: Fraction, high: Fraction) -> tuple[float, float]:
    """√low rounded down and √high rounded up."""
    down, up = math.sqrt(low), math.sqrt(high)
    return max(0.0, down * (1 - 2.0**-50)), up * (1 + 2.0**-50)


class _LabelLaw:
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

            std = _std_ball(self._residual, precision, self._added)
            mean = self._residual.linear(features[row])
            if self._centre:
                mean += arb(float(features[row, 0])) * arb(fmpz(self._centre))
            return mean, std

        return exact


def _std_ball(residual: Residual, precision: int, added: Fraction) -> Any:
    """√(σ² + added) as a ball, refined to go with the precision asked for."""
    from flint import arb, fmpq

    if residual.bits < precision // 2:
        residual.refine(precision // 2)
    ends = (residual.square_low + added, residual.square_high + added)
    low, high = (arb(fmpq(end.numerator, end.denominator)).sqrt() for end in ends)
    return low.union(high)
