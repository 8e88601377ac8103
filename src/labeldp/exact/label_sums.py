"""Labels as integers on a public grid, their exact sums Xᵀy and yᵀy, and least squares: private.

`LabelGrid` follows from the public label range alone. `LabelMoments` holds the sums. It is a type
of its own so that nothing private travels in a public value; it prints nothing and refuses to be
pickled. The sums are exact for the reason given in `gram.py`: label codes have at most 20 bits.

`ExactLeastSquares` has β̂ and the residual sum of squares σ² = ‖y − Xβ̂‖² in rigorous enclosures,
by iterative refinement in exact arithmetic. For any trial β̃ with exact gradient
g = Xᵀy − XᵀX·β̃ (integers)

    σ² = val(β̃) − gᵀ(XᵀX)⁻¹g,   |z·(β̂ − β̃)| ≤ Σ|z_k|·√((XᵀX)⁻¹_kk)·√(gᵀ(XᵀX)⁻¹g)

(theory §7), where val(β̃) = ‖y − Xβ̃‖². The verified Cholesky factor bounds both terms with
(XᵀX)⁻¹. Each step multiplies the error by about the factor's error bound, so any precision is a
few integer matrix–vector products away. The float64 Schur complement yᵀy − yᵀX(XᵀX)⁻¹Xᵀy, by
contrast, loses every digit as R² → 1, and the privacy of wtd-flag rests on σ².

All values of `ExactLeastSquares` are in label codes and integer design columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.display import Private
from labeldp.errors import InputError, to_range
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.gram import exact_products, no_rows
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import add_sums
from labeldp.passes.accumulator import PassRequirements

LABEL_BITS = 20
LEAST, MOST = 1e-100, 1e100
"""Narrowest and widest label range: sums of squares of labels must be normal doubles."""


@dataclass(frozen=True)
class LabelGrid:
    """Label = (code + centre)·2**exponent, |code| ≤ 2**20.

    Centring keeps codes small. With an intercept among the features it is undone exactly;
    without one the centre is 0.
    """

    low: float
    high: float
    exponent: int
    centre: int

    @classmethod
    def for_range(cls, label_range: tuple[float, float], *, intercept: bool) -> LabelGrid:
        """Return the finest grid of powers of two on which labels in the range take 20 bits."""
        low, high = to_range("label_range", label_range)
        if not (high - low >= LEAST and max(-low, high) <= MOST):
            raise InputError(
                f"label range {low:g} {high:g} is too narrow or too wide; rescale the labels"
            )
        reach = high - low if intercept else 2 * max(abs(low), abs(high))
        exponent = math.ceil(math.log2(reach)) - LABEL_BITS
        centre = round(math.ldexp(0.5 * low + 0.5 * high, -exponent)) if intercept else 0
        return cls(low, high, exponent, centre)

    @property
    def range(self) -> tuple[float, float]:
        """The label range, widened where rounding to the grid steps over an end."""
        ends = np.ldexp(self.codes(np.array([self.low, self.high])) + self.centre, self.exponent)
        return min(self.low, float(ends[0])), max(self.high, float(ends[1]))

    @property
    def middle(self) -> float:
        """The label of code 0: the middle of the range, or 0 without an intercept."""
        return math.ldexp(self.centre, self.exponent)

    def codes(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers (as doubles) nearest to the labels."""
        # A product with a power of two is exact, so only rint rounds; ties go to even.
        return np.rint(labels * math.ldexp(1.0, -self.exponent)) - self.centre


def largest_square_move(label_range: tuple[float, float], centre: float) -> float:
    """Return the most that one label can move Σ(y − c)²: Δ²/4 about the middle (theory §15)."""
    low, high = (end - centre for end in label_range)
    least = 0.0 if low <= 0.0 <= high else min(low * low, high * high)
    return max(low * low, high * high) - least


class LabelMoments(Private):
    """Σy, Σy² and Σx·y over integer codes: private, so it prints as nothing and is not pickled."""

    __slots__ = ("cross", "rows", "square", "total")

    def __init__(self, rows: int, cross: NDArray[np.object_], total: int, square: int) -> None:
        self.rows, self.cross, self.total, self.square = rows, cross, total, square


class LabelCrossProducts:
    """Accumulator of Xᵀy and yᵀy over all design columns: private once it is not empty."""

    def __init__(self, features: FeatureMap, grid: LabelGrid) -> None:
        self._features, self._grid = replace(features, kept=None), grid
        self._rows, self._total, self._square = 0, 0, 0
        # Python's integers: over many rows a sum of products exceeds 64 bits.
        self._cross: NDArray[np.object_] = np.zeros(features.width, dtype=object)
        # Of categories the sums by joint code, from which those of their levels follow.
        self._sums = [np.zeros(width, np.int64) for width in features.joint_codes.widths]

    def __getstate__(self) -> dict[str, Any]:
        # An empty accumulator may travel to a worker; one that has seen labels may not.
        if self._rows:
            raise TypeError("label moments are private and are not written anywhere")
        return vars(self)

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(self._features.columns, self._features, labels=True)

    def new(self) -> LabelCrossProducts:
        return LabelCrossProducts(self._features, self._grid)

    def add(self, batch: Encoded, labels: NDArray[np.float64], *_: object) -> None:
        codes = self._grid.codes(labels)
        self._rows += batch.rows
        self._square += int(exact_products(codes[:, None], codes[:, None])[0, 0])
        self._total += int(codes.sum())
        products = exact_products(batch.numbers, codes[:, None])[:, 0]
        self._cross[list(self._features.number_columns)] += products.astype(object)
        for sums, joint in zip(self._sums, batch.codes, strict=True):
            add_sums(sums, joint, codes)

    def state(self) -> tuple[int, list[int], int, int]:
        """Return the sums as plain integers, on their way to where all sums are added."""
        features, cross = self._features, self._cross.copy()
        if features.intercept:
            cross[0] = self._total
        for group, sums in enumerate(self._sums):
            for member in features.joint_codes.groups[group]:
                levels = features.joint_codes.margin((group,), sums, member)
                cross[features.category_blocks[member]] += levels.astype(object)
        return self._rows, [int(entry) for entry in cross], self._total, self._square

    def merge(self, state: tuple[int, list[int], int, int]) -> None:
        rows, cross, total, square = state
        self._rows, self._total = self._rows + rows, self._total + total
        self._square += square
        self._cross += np.array(cross, dtype=object)

    def result(self, *_: object) -> LabelMoments:
        if self._rows == 0:
            raise no_rows()
        rows, cross, total, square = self.state()
        return LabelMoments(rows, np.array(cross, dtype=object), total, square)


_START_BITS = 96
_STEPS = 400


class ExactLeastSquares(Private):
    """Least squares of labels on features, to any precision.

    square_low, square_high: exact fractions that enclose σ².
    """

    def __init__(self, cholesky: VerifiedCholesky, moments: LabelMoments) -> None:
        self._cholesky = cholesky
        self._cross = moments.cross[list(cholesky.kept)]
        self._square = moments.square
        self._whitener = cholesky.whitener
        # At least √((XᵀX)⁻¹_kk): how far an error of the residual moves coefficient k.
        self._spread = np.sqrt(cholesky.inverse_diagonal()) * (1 + 2.0**-50)
        self.refine(_START_BITS)

    def refine(self, bits: int) -> None:
        """Compute β̃ to `bits` binary places and bound its error."""
        gram, cross = self._cholesky.gram, self._cross
        # Everything below is in units of 2**-bits, so that β̃ and the gradient are integers.
        trial: NDArray[np.object_] = np.zeros(len(cross), dtype=object)
        target = np.array([int(entry) << bits for entry in cross], dtype=object)
        gradient = target
        for _ in range(_STEPS):
            # A Newton step in doubles, which hold the first 900 bits of long integers.
            shift = max(0, max((int(entry).bit_length() for entry in gradient), default=0) - 900)
            short = np.array([float(int(entry) >> shift) for entry in gradient])
            step = self._whitener.T @ (self._whitener @ short)
            if not np.rint(step).any():  # doubles see nothing left to correct at this many places
                break
            trial = trial + np.array([round(float(x)) << shift for x in step], dtype=object)
            gradient = target - gram @ trial
        self.bits = bits
        self._trial = trial
        error = self._squared_error(gradient)
        # val(β̃) = yᵀy − β̃ᵀ(Xᵀy) − β̃ᵀg, exactly
        value = (self._square << (2 * bits)) - int(np.dot(target, trial) + np.dot(gradient, trial))
        unit = Fraction(1, 1 << (2 * bits))
        # The subtracted term is between 0 and `error`, so val(β̃) itself is the upper end.
        self.square_high = value * unit
        self.square_low = max(Fraction(0), self.square_high - error * unit)
        # √(gᵀ(XᵀX)⁻¹g) in units of 2**-bits; 1.001 is far more than the rounding of the root. The
        # unit stays apart: 2.0**-bits underflows to 0 beyond 1,074 bits, and so would the error.
        self._error_units = math.sqrt(error * 1.001)

    def coefficients(self) -> NDArray[np.float64]:
        """Return β̃ rounded to doubles."""
        unit = Fraction(1, 1 << self.bits)
        return np.array([float(int(entry) * unit) for entry in self._trial])

    def coefficient_errors(self) -> NDArray[np.float64]:
        """Return bounds of |β̂_k − coefficients()_k|, rounding to doubles included."""
        bound = np.ldexp(self._spread * self._error_units, -self.bits)
        rounding = 2.0**-53 * np.abs(self.coefficients())
        # The next double covers the rounding of these operations, also where they underflow.
        return np.nextafter(bound + rounding, np.inf)

    def linear(self, weights: NDArray[np.float64]) -> Any:
        """Return Σ weights·β̂ as a ball that contains it, at the present working precision.

        The weights are taken as the exact numbers that they are.
        """
        from flint import arb, fmpq, fmpz

        total = fmpq(0)
        for weight, entry in zip(weights, self._trial, strict=True):
            numerator, denominator = float(weight).as_integer_ratio()
            total += fmpq(fmpz(numerator * int(entry)), fmpz(denominator))
        radius = float(np.abs(weights) @ self._spread) * self._error_units * (1 + 1e-9)
        # A ball's radius has no smallest exponent, so the unit may be as small as it likes.
        return arb(total / fmpq(fmpz(1) << self.bits)) + arb(0, radius) * arb(2) ** -self.bits

    def _squared_error(self, gradient: NDArray[np.object_]) -> Fraction:
        """Return an upper bound of gᵀ(XᵀX)⁻¹g.

        (XᵀX)⁻¹ ≼ WᵀW/(1 − error_bound) for the computed whitener W, so ‖Wg‖² bounds it once the
        rounding of W·g (`slack`) is added.
        """
        doubles = gradient.astype(np.float64)
        slack = np.abs(self._whitener) @ np.abs(doubles)
        # An inner product of so many terms, and the rounding of g to doubles.
        roundings = (len(gradient) + 4) * 2.0**-52
        bound = np.linalg.norm(np.abs(self._whitener @ doubles) + roundings * slack)
        return Fraction(float(bound) ** 2 * (1 + 1e-9)) / Fraction(1 - self._cholesky.error_bound)
