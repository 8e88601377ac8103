"""Least squares with all labels, and how good coefficients are: not private, for comparisons.

A table is an iterable of blocks (design matrix, labels) that can be gone through again; `Rows`
is one. Labels are counted from the middle of their public range throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from labeldp import FeatureMap, Source

Array = NDArray[np.float64]
Blocks = Iterable[tuple[Array, Array]]
BINS = 128
"""Values, from one end of the label range to the other, at which labels are counted."""
_HELD = 50_000_000
"""Numbers of a design matrix that are kept in memory between passes."""


@dataclass(frozen=True)
class Rows:
    """A table's rows as a feature map encodes them, with labels clipped to the range."""

    source: Source
    features: FeatureMap

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        low, high = self.source.label_range or (-np.inf, np.inf)
        for batch, labels in self.source.labelled_batches(columns=self.features.columns):
            yield self.features.design(batch), np.clip(labels, low, high)

    def held(self) -> Blocks:
        """The same, in memory if it is small."""
        small = self.features.rows * len(self.features.names) <= _HELD
        return list(self) if small else self


@dataclass(frozen=True, eq=False)
class Fit:
    """The fit with all labels, and what the design says in public."""

    label_range: tuple[float, float]
    rows: int
    gram: Array
    moments: Array
    """Xᵀ(y − middle)."""
    sum: float
    squares: float
    """Of y − middle, over all rows."""
    counts: Array
    """Of labels nearest to each of `BINS` values."""
    largest_norm: float
    """max‖x_i‖."""
    largest_leverage: float

    @property
    def width(self) -> float:
        """Δ."""
        return self.label_range[1] - self.label_range[0]

    @property
    def middle(self) -> float:
        return sum(self.label_range) / 2

    @property
    def columns(self) -> int:
        """d."""
        return len(self.gram)

    @cached_property
    def root(self) -> Array:
        """R, upper triangular, RᵀR = XᵀX."""
        return np.asarray(np.linalg.cholesky(self.gram).T)

    def solve(self, moments: Array, ridge: float = 0.0) -> Array:
        """(XᵀX + ridge·I)⁻¹·moments, as coefficients that predict labels: the middle is back."""
        gram = self.gram + ridge * np.eye(self.columns)
        coefficients = np.asarray(np.linalg.solve(gram, moments), dtype=np.float64)
        coefficients[0] += self.middle  # column 0 is the constant
        return coefficients

    @cached_property
    def coefficients(self) -> Array:
        """β̂."""
        return self.solve(self.moments)

    @cached_property
    def residual_ss(self) -> float:
        """opt."""
        half = solve_triangular(self.root, self.moments, trans="T")
        return self.squares - float(half @ half)

    @property
    def constant_ss(self) -> float:
        """Σ(y − ȳ)²."""
        return self.squares - self.sum**2 / self.rows

    def distance(self, coefficients: Array) -> Array:
        """Σ(x·β − x·β̂)² of each column of coefficients."""
        gap = self.root @ (coefficients.T - self.coefficients).T
        return np.asarray(np.square(gap).sum(axis=0))


def fit(blocks: Blocks, label_range: tuple[float, float]) -> Fit:
    """Two passes: sums, then leverages."""
    middle = sum(label_range) / 2
    rows, total, squares, norm = 0, 0.0, 0.0, 0.0
    gram: Array | float = 0.0
    moments: Array | float = 0.0
    counts = np.zeros(BINS)
    for design, labels in blocks:
        centred = labels - middle
        gram, moments = gram + design.T @ design, moments + design.T @ centred
        rows, total = rows + len(labels), total + float(centred.sum())
        squares += float(centred @ centred)
        counts += np.bincount(nearest(labels, label_range), minlength=BINS)
        norm = max(norm, float(np.square(design).sum(axis=1).max(initial=0.0)))
    sums = np.asarray(gram), np.asarray(moments)
    leverage = _largest_leverage(blocks, np.linalg.cholesky(sums[0]))
    return Fit(label_range, rows, *sums, total, squares, counts, norm**0.5, leverage)


def nearest(labels: Array, label_range: tuple[float, float]) -> NDArray[np.intp]:
    """Which of `BINS` values each label is nearest to."""
    low, high = label_range
    return np.rint((labels - low) / (high - low) * (BINS - 1)).astype(np.intp)


def _largest_leverage(blocks: Blocks, lower: Array) -> float:
    return max(
        float(np.square(solve_triangular(lower, design.T, lower=True)).sum(axis=0).max(initial=0.0))
        for design, _ in blocks
    )


def errors(blocks: Blocks, coefficients: Array, limits: tuple[float, float]) -> Array:
    """Sums of squared errors of each column of coefficients, predictions clipped to the limits."""
    total = np.zeros(coefficients.shape[1])
    for design, labels in blocks:
        predicted = np.clip(design @ coefficients, *limits)
        total += np.square(predicted - labels[:, None]).sum(axis=0)
    return total
