"""Numeric columns: what a number becomes, as an exact integer.

A number becomes a whole multiple of a power of two, because scaling by these rounds nothing. Codes
of a fitted column have at most 20 bits, which is what makes sums of products exact
(`exact/gram.py`). Categories are in `categories.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.columns import column_floats
from labeldp.errors import DataError

LARGEST_CODE = 2**19  # codes of a fitted column span at most so many
_EXACT = 2**52  # codes before centring stay below, so that float64 holds every one of them
_LARGEST_NUMBER = 1e290
_LATER = ("winsorised", "log")  # fields that files written before do not have
_LOG2_HIGH, _LOG2_LOW = 0.6931471805599453, 2.3190468138462996e-17
"""log 2 = _LOG2_HIGH + _LOG2_LOW, to 106 bits."""
_LOG_TERMS = 23  # odd powers of s up to this one: the next is below 2**-64 where |s| ≤ 0.1716


@dataclass(frozen=True)
class DesignColumn:
    """One column of the design, whose values are integer codes times `scale`."""

    name: str
    owners: frozenset[str]  # the raw columns that it is made of
    scale: float = 1.0
    slope: float = 1.0  # what its coefficient is multiplied by to be one in original units
    offset: float = 0.0  # what its coefficient times this adds to the intercept in original units
    reach: float = 1.0  # no code of a fitted row is larger in absolute value
    degree: int = 0  # 0 for a raw column, 1 for a spline, 2 for an interaction or a wave


@dataclass(frozen=True)
class NumericColumn:
    """A quantity on the grid of multiples of 2**exponent.

    The code of x is rint(x / 2**exponent) − centre, an integer of at most 2**19 in absolute
    value on the fitted rows; a missing x has the code `fill`, the mean. The design value is
    code · scale. If the column is `winsorised`, x outside [low, high] counts as the nearest end,
    at prediction too; if not, it gets a code beyond. With `log`, sign(x)·log(1 + |x|) stands for x.
    """

    name: str
    exponent: int
    centre: int
    fill: int
    scale: float
    low: float
    high: float
    missing: int
    indicator: bool
    winsorised: bool = False
    log: bool = False

    @classmethod
    def with_grid(
        cls, name: str, low: float, high: float, *, centred: bool, log: bool, **options: Any
    ) -> NumericColumn:
        """Return a column on the finest grid on which its numbers take 20 bits.

        If codes are centred the width of the range counts, otherwise the largest size. Codes that
        will be centred are counted from the lowest until the mean is known, which keeps sums small.
        """
        first, last = entering(low, log), entering(high, log)
        check_size(first, last, name)
        size = max(-first, last)
        exponent = -1000
        for width, codes in ((last - first if centred else size, LARGEST_CODE), (size, _EXACT)):
            if width:  # the smallest k with width / 2**k at most `codes`, a power of two
                fraction, power = math.frexp(width)
                exponent = max(exponent, power - (fraction == 0.5) - (codes.bit_length() - 1))
        while True:
            lowest, highest = (round(math.ldexp(end, -exponent)) for end in (first, last))
            if (highest - lowest if centred else max(-lowest, highest)) <= LARGEST_CODE:
                break
            exponent += 1  # rounding both ends outwards can cost one code too many
        centre = lowest if centred else 0
        return cls(name, exponent, centre, 0, 1.0, low, high, log=log, **options)

    @property
    def step(self) -> float:
        """The grid's spacing in units of x, or of its logarithm."""
        return math.ldexp(1.0, self.exponent)

    @property
    def imputed(self) -> float:
        """The x, or the logarithm, that a missing value counts as."""
        return (self.centre + self.fill) * self.step

    @property
    def entering_range(self) -> tuple[float, float]:
        """The ends of the range, or their logarithms."""
        return entering(self.low, self.log), entering(self.high, self.log)

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The codes of both ends of the range, before they are centred."""
        low, high = (round(math.ldexp(end, -self.exponent)) for end in self.entering_range)
        return low, high

    @cached_property
    def design_columns(self) -> tuple[DesignColumn, ...]:
        """The quantity and, if it has one, its indicator."""
        owners, shown = frozenset([self.name]), f"log({self.name})" if self.log else self.name
        known = (*self.entering_range, self.imputed)
        number = DesignColumn(
            shown,
            owners,
            self.scale,
            slope=self.scale / self.step,
            offset=-self.centre * self.scale,
            reach=max(abs(value / self.step - self.centre) + 0.5 for value in known),
        )
        indicator = DesignColumn(f"{self.name} is missing", owners)
        return (number, indicator) if self.indicator else (number,)

    def encode(
        self, array: pa.Array, out: NDArray[np.float64], outside: Counter[str] | None = None
    ) -> None:
        """Write the codes, and the indicator if there is one, into the columns of `out`.

        With `outside`, numbers outside the range count as its nearest end, and are counted there.
        """
        codes, values = out[:, 0], column_floats(array, self.name)
        if outside is not None:
            beyond = int(np.count_nonzero((values < self.low) | (values > self.high)))
            if beyond:
                outside[self.name] += beyond
                values = np.clip(values, self.low, self.high)
        self.write_codes(codes, values)
        missing = np.isnan(codes)
        if self.indicator:
            out[:, 1] = missing
        codes[missing] = self.fill

    def write_codes(self, out: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Write the codes of numbers, NaN for missing."""
        if self.log:
            values = signed_log(values)
        with np.errstate(over="ignore"):  # where there are ends, infinity is moved to one
            np.multiply(values, math.ldexp(1.0, -self.exponent), out=out)
        np.rint(out, out=out)
        if self.winsorised:
            # Confining codes is the same as confining the numbers: both rise together.
            np.clip(out, *map(float, self.ends), out=out)
        out -= float(self.centre)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; flags that are not set are left out."""
        return {n: value for n, value in asdict(self).items() if n not in _LATER or value}

    @classmethod
    def from_json(cls, entry: Any) -> NumericColumn:
        """Read what `to_json` wrote; the feature map has checked it."""
        numbers = {name: float(entry[name]) for name in ("scale", "low", "high")}
        return cls(**{**entry, **numbers})


def check_size(low: float, high: float, name: str) -> None:
    """Refuse a column whose sums doubles cannot hold."""
    if max(-low, high) > _LARGEST_NUMBER:
        raise DataError(f"column {name!r} holds numbers beyond 1e290; rescale it")


def entering(value: float, log: bool) -> float:
    """Return what stands for a number in the design: itself, or its logarithm."""
    return float(signed_log(np.array([value]))[0]) if log else value


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
