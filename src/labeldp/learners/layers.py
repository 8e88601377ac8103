"""A fitted ReLU network: how raw rows become its inputs, its output in float64, and its class.

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

from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Matrix: TypeAlias = NDArray[np.float32]
Codes: TypeAlias = NDArray[np.int32]

_CHUNK = 512
"""Rows that are computed at once, always so many: what BLAS makes of a row depends, in its last
bits, on how many there are."""
_ROWS = 4096


def row_products(
    rows: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return rows @ coefficients, the same for a row alone as among a million (unlike BLAS)."""
    parts = [
        np.add.reduce(np.multiply(rows[start : start + _ROWS], coefficients, order="C"), axis=1)
        for start in range(0, len(rows), _ROWS)
    ]
    return np.concatenate([np.empty(0), *parts])


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """The kept design columns of a feature map, but for the constant, as codes and numbers.

    A level whose column was pruned has the code −1, which stands for no column at all. The
    constant is the network's own bias.
    """

    level_codes: tuple[Codes, ...]
    """Per category: the code of every level among the kept ones, −1 for a pruned one."""
    sizes: tuple[int, ...]
    """Per category: how many levels are kept."""
    numbers: list[int]
    """Kept columns of `Encoded.numbers`."""
    scales: NDArray[np.float64]

    @classmethod
    def of(cls, features: FeatureMap) -> RowEncoder:
        """Return the encoder of a feature map."""
        is_kept = features.kept_places >= 0
        blocks = [is_kept[place] for place in features.category_blocks]
        codes = (np.where(block, np.cumsum(block) - 1, -1) for block in blocks)
        columns = features.number_columns
        numbers = [index for index, column in enumerate(columns) if is_kept[column]]
        return cls(
            tuple(each.astype(np.int32) for each in codes),
            tuple(int(block.sum()) for block in blocks),
            numbers,
            features.scales[[columns[index] for index in numbers]],
        )

    def rows(self, encoded: Encoded) -> tuple[Codes, NDArray[np.float64]]:
        """Return codes (rows × categories) and design values of the numbers (rows × numbers)."""
        codes = np.empty((encoded.rows, len(self.sizes)), dtype=np.int32)
        tables = zip(self.level_codes, encoded.categories, strict=True)
        for index, (table, levels) in enumerate(tables):
            codes[:, index] = table[levels]
        return codes, encoded.numbers[:, self.numbers] * self.scales


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
        """Return the network's output for rows without categories."""
        return self.values(np.empty((len(numbers), 0), dtype=np.int32), numbers)

    def values(self, categories: Codes, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the network's output for every row, computed a chunk of rows at a time."""
        result = np.empty(len(numbers))
        for start in range(0, len(numbers), _CHUNK):
            part = slice(start, start + _CHUNK)
            rows = len(numbers[part])
            padding = ((0, _CHUNK - rows), (0, 0))
            outputs = self._chunk(np.pad(categories[part], padding), np.pad(numbers[part], padding))
            result[part] = outputs[:rows]
        return result

    def _chunk(self, categories: Codes, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        first, *others = self._doubles
        hidden = _times(numbers, first[sum(self.sizes) : -1]) + first[-1]
        for index, table in enumerate(self._tables):
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
        """Per category: what each level adds to the first layer, and a row of zeros."""
        zeros = np.zeros((1, self.matrices[0].shape[1]))
        ends = np.cumsum(self.sizes)
        return tuple(
            np.concatenate([self._doubles[0][end - size : end], zeros])
            for end, size in zip(ends, self.sizes, strict=True)
        )


def _times(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    if matrix.shape[1] == 1:
        return row_products(rows, matrix[:, 0])[:, None]
    return np.asarray(rows @ matrix)


def output_bound(radius: float, layers: int) -> float:
    """Return K √((K^{2l0+2} − 1)/(K² − 1)), the largest |f| on F_NN(K, l0)."""
    return radius * math.sqrt(_sum_of_powers(radius, layers))


def lipschitz_constant(radius: float, layers: int) -> float:
    """Return max{√(l0 (K^{2l0+2} − 1)/(K² − 1)), l0}: how fast f moves with its weights."""
    return max(math.sqrt(layers * _sum_of_powers(radius, layers)), float(layers))


def _sum_of_powers(radius: float, layers: int) -> float:
    """Return 1 + K² + … + K^{2l0}, which is (K^{2l0+2} − 1)/(K² − 1), also at K = 1."""
    total = 1.0
    for _ in range(layers):
        total = total * radius * radius + 1.0
    return total
