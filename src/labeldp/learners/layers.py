"""A fitted ReLU network: which columns of the design are its inputs, and its output in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeldp.features.feature_map import FeatureMap

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]

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


def input_columns(features: FeatureMap) -> NDArray[np.intp]:
    """Return the places of a network's inputs in the design: levels of categories, then numbers.

    The constant is left out: it is the network's own bias.
    """
    numbers = features.number_columns
    places = features.kept_places[[*range(numbers.stop, features.width), *numbers]]
    return np.asarray(places[places >= 0])


def network_outputs(matrices: tuple[Matrix, ...], inputs: Array) -> Array:
    """Return the network's output for every row. Each matrix has the bias as its last row."""
    layers = [matrix.astype(np.float64) for matrix in matrices]
    result = np.empty(len(inputs))
    for start in range(0, len(inputs), _CHUNK):
        part = inputs[start : start + _CHUNK]
        hidden = np.pad(part, ((0, _CHUNK - len(part)), (0, 0)))
        for place, matrix in enumerate(layers):
            if place:
                np.maximum(hidden, 0.0, out=hidden)
            if matrix.shape[1] == 1:
                hidden = row_products(hidden, matrix[:-1, 0])[:, None] + matrix[-1]
            else:
                hidden = hidden @ matrix[:-1] + matrix[-1]
        result[start : start + _CHUNK] = hidden[: len(part), 0]
    return result
