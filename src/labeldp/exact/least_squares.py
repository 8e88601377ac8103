"""Least squares β̂ and the residual sum of squares σ² = ‖y − Xβ̂‖² in rigorous enclosures: private.

Iterative refinement in exact arithmetic. For any trial β̃ with exact gradient
g = Xᵀy − XᵀX·β̃ (integers)

    σ² = val(β̃) − gᵀ(XᵀX)⁻¹g,   |z·(β̂ − β̃)| ≤ Σ|z_k|·√((XᵀX)⁻¹_kk)·√(gᵀ(XᵀX)⁻¹g)

(theory §7), where val(β̃) = ‖y − Xβ̃‖². The verified Cholesky factor bounds both terms with
(XᵀX)⁻¹. Each step multiplies the error by about the factor's error bound, so any precision is a
few integer matrix–vector products away. The float64 Schur complement yᵀy − yᵀX(XᵀX)⁻¹Xᵀy, by
contrast, loses every digit as R² → 1, and the privacy of wtd-flag rests on σ².

All values here are in label codes (see `LabelGrid`) and integer design columns.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.display import Private
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.label_sums import LabelMoments

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
