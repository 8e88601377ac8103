"""‖C x‖² of wide rows, nearly: the same to the last digit in any batch, at the price of a product.

Which rows a pass keeps must not depend on how it is cut, and the digits of a matrix product do.
So C is rounded, row by row, to so few bits that C·x is exact in doubles in whatever order it is
added up; the squares are then added in order. How far the result may be off is bounded.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF
from labeldp.exact.weights import Weights
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

_ROWS = 1024
"""At a time."""


class ShortWeights:
    """C of fewer bits, for rows whose numbers stay within the reach of fitted ones."""

    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        first = int(features.intercept)
        self._numbers = slice(first, first + len(features.number_columns))
        self._blocks = features.category_blocks
        self.reach = features.reach
        most = np.ones(features.width)
        most[self._numbers] = self.reach
        kept = list(weights.kept)
        grid = _grid(np.abs(weights.matrix) @ most[kept])
        short = np.rint(weights.matrix / grid[:, None]) * grid[:, None]
        off = np.abs(short - weights.matrix) @ most[kept]
        self._off = float(np.linalg.norm(off)) * (1 + 1e-9)
        self._matrix = np.zeros((weights.rank, features.width))
        self._matrix[:, kept] = short
        self._constant = self._matrix[:, :1] if features.intercept else np.zeros((weights.rank, 1))

    def __call__(self, batch: Encoded) -> NDArray[np.float64]:
        """Of every row."""
        values = np.zeros(batch.rows)
        for start in range(0, batch.rows, _ROWS):
            total = values[start : start + _ROWS]
            for entries in self._products(batch.part(start, start + _ROWS)):
                total += np.square(entries)
        return values

    def _products(self, batch: Encoded) -> NDArray[np.float64]:
        """C·x: multiples of the grid that stay below 2**53 of it, so nothing is rounded."""
        found = self._matrix[:, self._numbers] @ batch.numbers.T
        found += self._constant
        for block, levels in zip(self._blocks, batch.categories, strict=True):
            found += self._matrix[:, block][:, levels]
        return np.asarray(found)

    def distance(self, largest: float) -> float:
        """How far a value may be from ‖C x‖², of values up to `largest`."""
        norm = math.sqrt(largest) * (1 + 1e-9)
        summing = (len(self._matrix) + 2) * 2 * ROUNDOFF * largest
        return (self._off * (2 * norm + self._off) + summing) * (1 + 1e-9)


def _grid(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Powers of two of which `size`, and some more that rounding adds, is less than 2**53."""
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1] - 51))
