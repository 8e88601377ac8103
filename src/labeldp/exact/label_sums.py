"""Labels as integers on a public grid, and their exact sums Xᵀy and yᵀy: private.

`LabelGrid` follows from the public label range alone. `LabelMoments` holds the sums. It is a type
of its own so that nothing private travels in a public value; it prints nothing and refuses to be
pickled. The sums are exact for the reason given in `gram.py`: label codes have at most 20 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.display import Private
from labeldp.errors import InputError, to_range
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

    def codes(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers (as doubles) nearest to the labels."""
        # A product with a power of two is exact, so only rint rounds; ties go to even.
        return np.rint(labels * math.ldexp(1.0, -self.exponent)) - self.centre


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
