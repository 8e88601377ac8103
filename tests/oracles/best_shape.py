"""The shape problem the slow way: generic minimisation over S, and closed forms (theory §9)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


def whitened(rows: Array) -> Array:
    """u_i with Σ u_i u_iᵀ = I, by the symmetric root."""
    values, vectors = np.linalg.eigh(rows.T @ rows)
    return np.asarray(rows @ (vectors / np.sqrt(values)) @ vectors.T)


def least_trace(rows: Array, starts: int = 3) -> float:
    """min tr(S)·max_i u_iᵀS⁻¹u_i over S = KKᵀ, K triangular with any entries.

    The maximum is smoothed ever less (a norm of growing order); the value returned is that of
    a feasible S, so it is at least the optimum.
    """
    white = whitened(rows)
    size = white.shape[1]
    below = np.tril_indices(size)

    def value(entries: Array, order: float) -> float:
        inverse = np.zeros((size, size))
        inverse[below] = entries
        lengths = np.square(white @ inverse.T).sum(axis=1)
        top = lengths.max()
        if top == 0.0:
            return np.inf
        smooth = top * np.power(lengths / top, order).sum() ** (1 / order)
        try:
            root = np.linalg.inv(inverse)
        except np.linalg.LinAlgError:
            return np.inf
        return float(np.log(np.square(root).sum() * smooth))

    best = np.inf
    for seed in range(starts):
        noise = np.random.default_rng(seed).normal(size=len(below[0]))
        point = np.eye(size)[below] + 0.1 * seed * noise
        for order in (8.0, 64.0, 512.0, 4096.0):
            point = minimize(value, point, args=(order,), method="BFGS").x
        best = min(best, float(np.exp(value(point, 1e9))))
    return best


def one_hot_least_trace(counts: NDArray[np.int64]) -> float:
    """A single category: u of a level is e/√count, so S = diag(1/count)."""
    return float((1 / counts).sum())


def exact_square_length(matrix: Array, row: NDArray[np.int64]) -> Fraction:
    """‖C x‖² in rationals."""
    total = Fraction(0)
    for weights in matrix:
        inner = sum(
            (Fraction(float(c)) * int(x) for c, x in zip(weights, row, strict=True)), Fraction(0)
        )
        total += inner * inner
    return total
