"""A fitted ReLU network as plain matrices: predictions in float64, and the bounds of its class.

The paper's class F_NN(K, l0) holds the networks f_l(x) = W_l [o(f_{l−1}(x)) | 1], l = 1 … l0, with
‖W_l‖_F ≤ K for every layer and ‖x‖ ≤ K (if rows are longer, K stands for their largest norm). So a
layer's matrix includes its bias, here as the last row, and one norm bounds both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]

_CHUNK = 8192


@dataclass(frozen=True, eq=False)
class Layers:
    """Matrices of l0 layers, inputs × outputs, the bias last.

    The inputs of the first are one per level of every category, then the numbers, then the bias.
    """

    sizes: tuple[int, ...]
    """Levels of every category."""
    matrices: tuple[Matrix, ...]

    @property
    def numbers(self) -> int:
        """How many numbers a row has."""
        return len(self.matrices[0]) - sum(self.sizes) - 1

    def of_numbers(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The network's output for rows without categories."""
        return self.values(np.empty((len(numbers), 0), dtype=np.int32), numbers)

    def values(
        self, categories: NDArray[np.int32], numbers: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The network's output for every row, a chunk of rows at a time."""
        result = np.empty(len(numbers))
        for start in range(0, len(numbers), _CHUNK):
            part = slice(start, start + _CHUNK)
            result[part] = self._values(categories[part], numbers[part])
        return result

    def _values(
        self, categories: NDArray[np.int32], numbers: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        tables, (first, *others) = self._tables, self._doubles
        hidden = numbers @ first[sum(self.sizes) : -1] + first[-1]
        for index, table in enumerate(tables):
            hidden += table[categories[:, index]]  # the code −1 finds the row of zeros at the end
        for matrix in others:
            np.maximum(hidden, 0.0, out=hidden)
            hidden = hidden @ matrix[:-1] + matrix[-1]
        return np.asarray(hidden[:, 0])

    @cached_property
    def _doubles(self) -> tuple[NDArray[np.float64], ...]:
        return tuple(matrix.astype(np.float64) for matrix in self.matrices)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float64], ...]:
        ends = np.cumsum(self.sizes)
        zeros = np.zeros((1, self.matrices[0].shape[1]))
        blocks = zip(ends, self.sizes, strict=True)
        return tuple(
            np.concatenate([self._doubles[0][end - size : end], zeros]) for end, size in blocks
        )


def output_bound(radius: float, layers: int) -> float:
    """|f| ≤ K √((K^{2l0+2} − 1)/(K² − 1)) on F_NN(K, l0)."""
    return radius * math.sqrt(_powers(radius, layers))


def lipschitz_constant(radius: float, layers: int) -> float:
    """max{√(l0 (K^{2l0+2} − 1)/(K² − 1)), l0}: how fast f moves with its weights in F_NN(K, l0)."""
    return max(math.sqrt(layers * _powers(radius, layers)), float(layers))


def _powers(radius: float, layers: int) -> float:
    """1 + K² + … + K^{2l0}, which is (K^{2l0+2} − 1)/(K² − 1), also at K = 1."""
    total = 1.0
    for _ in range(layers):
        total = total * radius * radius + 1.0
    return total
