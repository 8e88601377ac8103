"""`Grid`: a number enters the design as a whole multiple of a power of two.

Codes of a fitted column have at most 20 bits, which is what makes sums of products exact
(`exact/gram.py`). Powers of two, because scaling by them rounds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import DataError
from labeldp.kernels import UNBOUNDED, Kernels, with_numpy

_CODES = 2**19
"""Codes of a fitted column span at most so many."""
_EXACT = 2**52
"""Codes before centring stay below, so that float64 holds every one of them."""
_LARGEST = 1e290
_LOG2_HIGH, _LOG2_LOW = 0.6931471805599453, 2.3190468138462996e-17
"""log 2 = _LOG2_HIGH + _LOG2_LOW, to 106 bits."""
_LOG_TERMS = 23
"""Odd powers of s up to this one: the next is below 2**-64 where |s| ≤ 0.1716."""


def check_size(low: float, high: float, name: str) -> None:
    """Refuse a column whose sums doubles cannot hold."""
    if max(-low, high) > _LARGEST:
        raise DataError(f"column {name!r} holds numbers beyond 1e290; rescale it")


@dataclass(frozen=True)
class Grid:
    """The multiples of 2**exponent; numbers outside `ends`, if there are any, move to the nearest.

    With `log` it is the logarithm of a number that is put on the grid. It rises with the number,
    so that it does not matter whether a number is moved before or after.
    """

    exponent: int
    log: bool = False
    ends: tuple[float, float] | None = None

    @classmethod
    def within(
        cls, low: float, high: float, name: str, *, centred: bool, log: bool, confined: bool
    ) -> Grid:
        """The finest grid on which a column of numbers from `low` to `high` takes 20 bits.

        If codes are centred the width of the range counts, otherwise the largest size.
        """
        inner = cls(0, log)
        first, last = inner.entering(low), inner.entering(high)
        size = max(-first, last)
        check_size(first, last, name)
        width = last - first if centred else size
        exponent = max(_exponent(width, _CODES), _exponent(size, _EXACT), -1000)
        while _span(first, last, exponent, centred) > _CODES:
            exponent += 1  # rounding both ends outwards can cost one code too many
        return cls(exponent, log, (low, high) if confined else None)

    @property
    def step(self) -> float:
        """The grid's spacing, in units of what enters."""
        return math.ldexp(1.0, self.exponent)

    def entering(self, value: float) -> float:
        """The number, or its logarithm."""
        return float(signed_log(np.array([value]))[0]) if self.log else value

    def code(self, value: float) -> int:
        """The code of a number, which is not moved."""
        return _code(self.entering(value), self.exponent)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Codes beyond these move to the nearest: the same as to move the numbers."""
        if self.ends is None:
            return UNBOUNDED
        return float(self.code(self.ends[0])), float(self.code(self.ends[1]))

    def put(
        self,
        out: NDArray[np.float64],
        values: NDArray[np.float64],
        centre: int,
        kernels: Kernels | None = None,
    ) -> bool:
        """Write the codes of numbers, less `centre`, NaN for missing; whether none is."""
        if self.log:
            values = signed_log(values)
        factor = math.ldexp(1.0, -self.exponent)
        to_grid = (kernels or with_numpy()).to_grid
        return to_grid(out, values, factor, float(centre), *self.bounds)


def _exponent(width: float, codes: int) -> int:
    """Return the smallest k with width / 2**k at most `codes`, a power of two."""
    if width == 0:
        return -1000
    fraction, power = math.frexp(width)
    return power - (fraction == 0.5) - (codes.bit_length() - 1)


def _span(first: float, last: float, exponent: int, centred: bool) -> int:
    low, high = _code(first, exponent), _code(last, exponent)
    return high - low if centred else max(-low, high)


def _code(value: float, exponent: int) -> int:
    return round(math.ldexp(value, -exponent))


def signed_log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sign(x)·log(1 + |x|), within 2**-50 of its size or of 1; NaN stays NaN.

    It is the same number on every machine. C libraries' logarithms differ in their last bit, which
    might move a number to the next point of its grid. This one is made of additions,
    multiplications and divisions, each of which IEEE 754 rounds in one way:
    1 + |x| = m·2**e with m from √½ to √2, and
    log m = 2·artanh s = 2·(s + s³/3 + s⁵/5 + …) with s = (m − 1)/(m + 1).
    """
    mantissa, exponent = np.frexp(1.0 + np.abs(values))
    small = mantissa < 0.7071067811865476  # √½
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    power = exponent.astype(np.float64) - small
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = s * s, np.zeros_like(s)
    for odd in range(_LOG_TERMS, 1, -2):
        series = (series + 1.0 / odd) * square
    log = power * _LOG2_HIGH + (2.0 * s + (2.0 * s * series + power * _LOG2_LOW))
    return np.copysign(log, values)
