"""β̂ and σ² = ‖y − Xβ̂‖² in rigorous enclosures: private.

Exact iterative refinement. For any trial β̃ with exact gradient g = Xᵀy − XᵀX·β̃ (integers)

    σ² = val(β̃) − gᵀ(XᵀX)⁻¹g,   |z·(β̂ − β̃)| ≤ Σ|z_k|·√((XᵀX)⁻¹_kk)·√(gᵀ(XᵀX)⁻¹g)

(theory §7), and the verified factor bounds both (XᵀX)⁻¹ terms. Each step multiplies the
error by the factor's defect, so any precision is a few integer matrix–vector products
away. The float64 Schur complement, by contrast, loses every digit as R² → 1.

All values here are in label codes (see LabelGrid) and integer design columns.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.label_sums import LabelMoments

_START_BITS = 96
_STEPS = 400


class ExactLeastSquares:
    """Least squares of labels on features, to any precision. Prints as nothing."""

    def __init__(self, factor: VerifiedCholesky, moments: LabelMoments) -> None:
        self._factor = factor
        self._cross = moments.cross[list(factor.kept)]
        self._square = moments.square
        self._whitener = factor.whitener
        self.refine(_START_BITS)

    def __repr__(self) -> str:
        return "Residual(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("residuals are private and are not written anywhere")

    def refine(self, bits: int) -> None:
        """Fix β̃ to `bits` binary places and bound its error."""
        gram, cross = self._factor.gram, self._cross
        trial: NDArray[np.object_] = np.zeros(len(cross), dtype=object)
        target = np.array([int(entry) << bits for entry in cross], dtype=object)
        gradient = target
        for _ in range(_STEPS):
            step = self._newton(gradient)
            if not any(step):
                break
            trial = trial + step
            gradient = target - gram @ trial
        self.bits = bits
        self._trial = trial
        error = self._energy(gradient)
        value = (self._square << (2 * bits)) - int(np.dot(target, trial) + np.dot(gradient, trial))
        unit = Fraction(1, 1 << (2 * bits))
        self.square_high = value * unit
        self.square_low = max(Fraction(0), self.square_high - error * unit)
        self._error = math.sqrt(error * 1.001) * 2.0**-bits

    def coefficients(self) -> NDArray[np.float64]:
        """β̃ rounded to doubles."""
        return np.array([_to_float(int(entry), -self.bits) for entry in self._trial])

    def coefficient_errors(self) -> NDArray[np.float64]:
        """Bounds of |β̂_k − coefficients()_k|, rounding to doubles included."""
        spread = np.sqrt(self._factor.inverse_diagonal()) * (1 + 2.0**-50)
        return spread * self._error + 2.0**-53 * np.abs(self.coefficients())

    def linear(self, weights: NDArray[np.float64]) -> Any:
        """Σ weights·β̂ as a ball (exact weights), at the present working precision."""
        from flint import arb, fmpq, fmpz

        total = fmpq(0)
        for weight, entry in zip(weights, self._trial, strict=True):
            numerator, denominator = float(weight).as_integer_ratio()
            total += fmpq(fmpz(numerator * int(entry)), fmpz(denominator))
        spread = np.sqrt(self._factor.inverse_diagonal()) * (1 + 2.0**-50)
        radius = float(np.abs(weights) @ spread) * self._error * (1 + 1e-9)
        return arb(total / fmpq(fmpz(1) << self.bits)) + arb(0, radius)

    def _newton(self, gradient: NDArray[np.object_]) -> NDArray[np.object_]:
        """Nearest integers to (XᵀX)⁻¹·gradient as far as doubles can tell."""
        shift = max(0, max((int(entry).bit_length() for entry in gradient), default=0) - 900)
        small = np.array([float(int(entry) >> shift) for entry in gradient])
        step = self._whitener.T @ (self._whitener @ small)
        return np.array([round(float(entry)) << shift for entry in step], dtype=object)

    def _energy(self, gradient: NDArray[np.object_]) -> Fraction:
        """An upper bound of gᵀ(XᵀX)⁻¹g."""
        whitened = self._whitener @ gradient.astype(np.float64)
        slack = np.abs(self._whitener) @ np.abs(gradient.astype(np.float64))
        size = len(gradient) + 4
        bound = np.linalg.norm(np.abs(whitened) + size * 2.0**-52 * slack)
        return Fraction(float(bound) ** 2 * (1 + 1e-9)) / Fraction(1 - self._factor.defect)


def _to_float(value: int, exponent: int) -> float:
    """value·2**exponent rounded to a double, however long the integer."""
    return float(Fraction(value) * Fraction(2) ** exponent)
