"""A logarithm that is the same number on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_HIGH, _LOW = 0.6931471805599453, 2.3190468138462996e-17
"""log 2 = _HIGH + _LOW, to 106 bits."""
_TERMS = 23
"""Odd powers of s up to this one: the next is below 2**-64 where |s| ≤ 0.1716."""


def signed_log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """sign(x)·log(1 + |x|), within 2**-50 of its size or of 1; NaN stays NaN.

    The C library's logarithms differ in their last bit from machine to machine, which might move
    a number to the next point of its grid. This one is made of additions, multiplications and
    divisions, each of which IEEE 754 rounds in one way: 1 + |x| = m·2**e with m from √½ to √2, and
    log m = 2·artanh s = 2·(s + s³/3 + s⁵/5 + …) with s = (m − 1)/(m + 1).
    """
    mantissa, exponent = np.frexp(1.0 + np.abs(values))
    small = mantissa < 0.7071067811865476  # √½
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    power = exponent.astype(np.float64) - small
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = s * s, np.zeros_like(s)
    for odd in range(_TERMS, 1, -2):
        series = (series + 1.0 / odd) * square
    log = power * _HIGH + (2.0 * s + (2.0 * s * series + power * _LOW))
    return np.copysign(log, values)
