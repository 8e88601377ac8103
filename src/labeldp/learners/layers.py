"""A fitted ReLU network as plain matrices: predictions in float64, and the bounds of its class.

The paper's class F_NN(K, l0) holds the networks f_l(x) = W_l [o(f_{l−1}(x)) | 1], l = 1 … l0, with
‖W_l‖_F ≤ K for every layer and ‖x‖ ≤ K (if rows are longer, K stands for their largest norm). So a
layer's matrix includes its bias, here as the last row, and one norm bounds both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]

_CHUNK = 512
"""Rows that are computed at once, always so many: what BLAS makes of a row depends, in its last
bits, on how many there are."""
_ROWS = 4096


def row_products(
    rows: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """rows @ coefficients, the same for a row alone as among a million, which BLAS's is not."""
    parts = [
        np.add.reduce(np.multiply(rows[start : start + _ROWS], coefficients, order="C"), axis=1)
        for start in range(0, len(rows), _ROWS)
    ]
    return np.concatenate([np.empty(0), *parts])


def _times(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    one = matrix.shape[1] == 1
    return row_products(rows, matrix[:, 0])[:, None] if one else np.asarray(rows @ matrix)


def _filled(rows: NDArray[Any]) -> NDArray[Any]:
    """As many rows as are computed at once."""
    return np.pad(rows, ((0, _CHUNK - len(rows)), (0, 0)))


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
            found = self._values(_filled(categories[part]), _filled(numbers[part]))
            result[part] = found[: len(numbers) - start]
        return result

    def _values(
        self, categories: NDArray[np.int32], numbers: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        tables, (first, *others) = self._tables, self._doubles
        hidden = _times(numbers, first[sum(self.sizes) : -1]) + first[-1]
        for index, table in enumerate(tables):
            hidden += table[categories[:, index]]  # the code −1 finds the row of zeros at the end
        for matrix in others:
            np.maximum(hidden, 0.0, out=hidden)
            hidden = _times(hidden, matrix[:-1]) + matrix[-1]
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


def averaged(networks: Sequence[tuple[Matrix, ...]], share: float) -> tuple[Matrix, ...]:
    """The network whose output is `share` of the mean of these: they side by side."""
    first, *others = zip(*networks, strict=True)
    if not others:
        return (_scaled(np.mean(first, axis=0), share),)
    *middle, last = others
    joined = [np.hstack(first), *(_beside(each) for each in middle)]
    outputs = np.vstack([*(matrix[:-1] for matrix in last), sum(matrix[-1:] for matrix in last)])
    return (*joined, _scaled(outputs, share / len(networks)))


def _beside(matrices: Sequence[Matrix]) -> Matrix:
    """Matrices that do not see each other's inputs; their biases, the last rows, together."""
    from scipy.linalg import block_diag

    apart = block_diag(*(matrix[:-1] for matrix in matrices))
    return np.vstack([apart, np.hstack([matrix[-1:] for matrix in matrices])])


def _scaled(matrix: Matrix, factor: float) -> Matrix:
    return (matrix * np.float64(factor)).astype(np.float32)


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
