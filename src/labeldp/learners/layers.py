"""A fitted ReLU network: how raw rows become its inputs, and its output in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]
Codes = NDArray[np.int32]

_CHUNK = 512
"""Rows that are computed at once, always so many: what BLAS makes of a row depends, in its last
bits, on how many there are."""
_ROWS = 4096


def row_products(rows: Array, coefficients: Array) -> Array:
    """Return rows @ coefficients, the same for a row alone as among a million (unlike BLAS)."""
    parts = [
        np.add.reduce(np.multiply(rows[start : start + _ROWS], coefficients, order="C"), axis=1)
        for start in range(0, len(rows), _ROWS)
    ]
    return np.concatenate([np.empty(0), *parts])


class RowEncoder:
    """The kept design columns of a feature map, but for the constant, as codes and numbers.

    A level whose column was pruned has the code −1, which stands for no column at all. The
    constant is the network's own bias.
    """

    def __init__(self, features: FeatureMap) -> None:
        is_kept = features.kept_places >= 0
        blocks = [is_kept[place] for place in features.category_blocks]
        codes = (np.where(block, np.cumsum(block) - 1, -1) for block in blocks)
        self._level_codes = [each.astype(np.int32) for each in codes]
        columns = features.number_columns
        self.sizes = tuple(int(block.sum()) for block in blocks)
        """Per category: how many levels are kept."""
        self.numbers = [index for index, column in enumerate(columns) if is_kept[column]]
        """Kept columns of `Encoded.numbers`."""
        self._scales = features.scales[[columns[index] for index in self.numbers]]

    def rows(self, encoded: Encoded) -> tuple[Codes, Array]:
        """Return codes (rows × categories) and design values of the numbers (rows × numbers)."""
        codes = np.empty((encoded.rows, len(self.sizes)), dtype=np.int32)
        tables = zip(self._level_codes, encoded.categories, strict=True)
        for index, (table, levels) in enumerate(tables):
            codes[:, index] = table[levels]
        return codes, encoded.numbers[:, self.numbers] * self._scales


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

    def of_numbers(self, numbers: Array) -> Array:
        """Return the network's output for rows without categories."""
        return self.values(np.empty((len(numbers), 0), dtype=np.int32), numbers)

    def values(self, categories: Codes, numbers: Array) -> Array:
        """Return the network's output for every row, computed a chunk of rows at a time."""
        first, *others = (matrix.astype(np.float64) for matrix in self.matrices)
        # Per category: what each level adds to the first layer, and zeros for the code −1.
        zeros, ends = np.zeros((1, first.shape[1])), np.cumsum(self.sizes)
        tables = [
            np.concatenate([first[end - size : end], zeros])
            for end, size in zip(ends, self.sizes, strict=True)
        ]
        result = np.empty(len(numbers))
        for start in range(0, len(numbers), _CHUNK):
            part = slice(start, start + _CHUNK)
            rows = len(numbers[part])
            padding = ((0, _CHUNK - rows), (0, 0))
            codes = np.pad(categories[part], padding)
            hidden = _times(np.pad(numbers[part], padding), first[sum(self.sizes) : -1]) + first[-1]
            for index, table in enumerate(tables):
                hidden += table[codes[:, index]]
            for matrix in others:
                np.maximum(hidden, 0.0, out=hidden)
                hidden = _times(hidden, matrix[:-1]) + matrix[-1]
            result[part] = hidden[:rows, 0]
        return result


def _times(rows: Array, matrix: Array) -> Array:
    if matrix.shape[1] == 1:
        return row_products(rows, matrix[:, 0])[:, None]
    return np.asarray(rows @ matrix)


def without_constant(design: Array, features: FeatureMap) -> Array:
    """Return the design without its constant, for which a network's own bias stands."""
    return design if features.constant is None else np.delete(design, features.constant, axis=1)
