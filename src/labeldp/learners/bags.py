"""`WeightedBags`: rows with weights, in groups that share one label."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.features.encoder import Encoded, Encoder
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.layers import RowEncoder
from labeldp.learners.normal_equations import bag_members
from labeldp.release.files import WANTS_TABLE, labelled_rows
from labeldp.release.label_model import BagLabels, RowLabels

if TYPE_CHECKING:
    from labeldp.release.files import Release


@dataclass(frozen=True)
class LabelUnits:
    """The affine map between labels and what a network is trained on: f = shift + scale · g.

    Aggregation is linear, so Σ w f = shift · Σ w + scale · Σ w g: subtracting from each bag label
    what the shift contributes, and dividing by the scale, loses nothing at any label scale.
    """

    shift: float
    scale: float
    energy: float
    """Σ w² over all rows: what one unit of variance per row adds up to, all bags together."""


@dataclass(frozen=True, eq=False)
class WeightedBags:
    """Bag j holds the rows offsets[j] to offsets[j+1] and one label, Σ weight · (row's label).

    Category codes count from 0 in each column; −1 is a level without a column of its own. If
    `aggregated`, a bag is a single pseudo-row of summed features, fit for a linear model alone.
    """

    categories: NDArray[np.int32] = field(repr=False)
    numbers: NDArray[np.float32] = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    labels: NDArray[np.float64] = field(repr=False)
    category_sizes: tuple[int, ...]
    constants: NDArray[np.float64] = field(repr=False)
    """What the function 1 contributes to each bag: Σ w, or the aggregated constant column."""
    aggregated: bool = False
    features: FeatureMap | None = field(default=None, repr=False)
    """How raw rows become these; None if they were never raw."""

    def __post_init__(self) -> None:
        rows, bags = len(self.weights), len(self.labels)
        if bags == 0:
            raise InputError("there is no bag; nothing can be learnt")
        shapes = {
            "categories": (self.categories.shape, (rows, len(self.category_sizes))),
            "numbers": (self.numbers.shape[:1], (rows,)),
            "offsets": (self.offsets.shape, (bags + 1,)),
            "constants": (self.constants.shape, (bags,)),
        }
        for name, (shape, expected) in shapes.items():
            if shape != expected:
                raise InputError(f"{name} has shape {shape} where {expected} was expected")
        if self.offsets[0] != 0 or self.offsets[-1] != rows or np.any(self.lengths < 1):
            raise InputError("offsets must rise from 0 to the number of rows: no bag is empty")
        for index, size in enumerate(self.category_sizes):
            codes = self.categories[:, index]
            if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= size:
                raise InputError(f"categories, column {index}: codes must be −1 to {size - 1}")
        for name in ("numbers", "weights", "labels", "constants"):
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} holds values that are not finite")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.weights)

    @property
    def bags(self) -> int:
        """Number of bags."""
        return len(self.labels)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rows of each bag."""
        return np.diff(self.offsets)

    @property
    def row_norm(self) -> float | None:
        """The largest Euclidean norm of an encoded row; unknown once rows are aggregated."""
        if self.aggregated:
            return None
        ones = np.count_nonzero(self.categories >= 0, axis=1)
        squares = np.einsum("ij,ij->i", self.numbers, self.numbers, dtype=np.float64)
        return math.sqrt(float(np.max(ones + squares)))

    def units(self, *, scaled: bool = True) -> LabelUnits:
        """Return the best constant as shift, and the root mean square it leaves per row as scale.

        A label Σ w y over k rows has standard deviation about σ_y √k; energy accounts for the k.
        """
        energy = float(np.sum(np.square(self.weights, dtype=np.float64)))
        if self.aggregated and self.numbers.size:
            energy = float(np.sum(np.mean(np.square(self.numbers, dtype=np.float64), axis=1)))
        energy = energy or 1.0
        if not scaled:
            return LabelUnits(0.0, 1.0, energy)
        # A power of two is exact, and keeps squares of very large or small labels in range.
        unit = math.ldexp(1.0, math.frexp(float(np.max(np.abs(self.labels))))[1])
        labels, constants = self.labels / unit, self.constants
        square = float(constants @ constants)
        shift = float(constants @ labels) / square if square > 0 else 0.0
        scale = math.sqrt(float(np.sum((labels - shift * constants) ** 2)) / energy)
        return LabelUnits(shift * unit, (scale or 1.0) * unit, energy)

    @classmethod
    def from_release(cls, release: Release, source: Source | None) -> WeightedBags:
        """Return what a release teaches a network; rows that it names are read from the source.

        Labels of the source are not read.
        """
        labels, features = release.label_model, release.features
        if isinstance(labels, RowLabels):
            encode, encoder = Encoder(features), RowEncoder.of(features)
            parts = [
                (*encoder.rows(encode(batch)), noisy)
                for batch, noisy in labelled_rows(release, source)
            ]
            codes, numbers, noisy = (np.concatenate(each) for each in zip(*parts, strict=True))
            return _single_rows(codes, numbers.astype(np.float32), noisy, encoder.sizes, features)
        if isinstance(labels, BagLabels):
            if not isinstance(source, Source):
                raise InputError(WANTS_TABLE)
            return cls.from_source(features, source, labels.bags, release.labels)
        return cls.from_aggregates(release.design, release.labels, features)

    @classmethod
    def from_arrays(cls, numbers: ArrayLike, labels: ArrayLike) -> WeightedBags:
        """Return every row of a numeric array as a bag of weight 1, with columns as they are."""
        values = np.asarray(numbers, dtype=np.float32)
        if values.ndim != 2:
            raise InputError(f"numbers must have two dimensions, not {values.ndim}")
        return _single_rows(np.empty((len(values), 0), dtype=np.int32), values, labels, (), None)

    @classmethod
    def from_rows(cls, features: FeatureMap, rows: Any, labels: ArrayLike) -> WeightedBags:
        """Return every raw row as a bag of weight 1: the instance-level baseline, not private."""
        encoder = RowEncoder.of(features)
        codes, numbers = encoder.whole(rows)
        return _single_rows(codes, numbers, labels, encoder.sizes, features)

    @classmethod
    def from_bags(
        cls,
        features: FeatureMap,
        encoded: Encoded,
        bag: ArrayLike,
        row: ArrayLike,
        weight: ArrayLike,
        labels: ArrayLike,
    ) -> WeightedBags:
        """Return bags given as (bag, row, weight) triples; rows count from 0 in `encoded`."""
        encoder = RowEncoder.of(features)
        codes, numbers = encoder.rows(encoded)
        members = _Members.of(bag, row, weight, labels)
        if members.row.max() >= encoded.rows:
            raise InputError(f"the bags name row {members.row.max()} of {encoded.rows} rows")
        return members.bags(codes, numbers.astype(np.float32), members.row, encoder)

    @classmethod
    def from_source(
        cls, features: FeatureMap, source: Source, bag_table: pa.Table, labels: ArrayLike
    ) -> WeightedBags:
        """Return bags whose rows are taken from the source in one pass; its labels are not read.

        Only rows that stand in a bag are kept.
        """
        members = _Members.of(*bag_members(bag_table), labels)
        encoder = RowEncoder.of(features)
        row_numbers, places = np.unique(members.row, return_inverse=True)
        codes, numbers = encoder.take(source.feature_batches(features.columns), row_numbers)
        return members.bags(codes, numbers, places, encoder)

    @classmethod
    def from_aggregates(
        cls, design: ArrayLike, labels: ArrayLike, features: FeatureMap | None = None
    ) -> WeightedBags:
        """Return one pseudo-row of weight 1 per aggregate of features; linear models only."""
        Z = np.asarray(design, dtype=np.float64)
        if Z.ndim != 2 or (features is not None and Z.shape[1] != len(features.names)):
            raise InputError(
                f"the design has shape {Z.shape}, which is not bags by columns of the feature map"
            )
        constant = None if features is None else features.constant
        constants = np.zeros(len(Z)) if constant is None else Z[:, constant].copy()
        Z = Z if constant is None else np.delete(Z, constant, axis=1)
        return cls(
            np.empty((len(Z), 0), dtype=np.int32),
            Z.astype(np.float32),
            np.ones(len(Z), dtype=np.float32),
            np.arange(len(Z) + 1),
            _label_vector(labels, len(Z)),
            (),
            constants,
            aggregated=True,
            features=features,
        )


@dataclass(frozen=True, eq=False)
class _Members:
    """Checked (bag, row, weight) triples, sorted by bag, with the labels of the bags."""

    offsets: NDArray[np.int64]
    row: NDArray[np.int64]
    weight: NDArray[np.float32]
    labels: NDArray[np.float64]

    @classmethod
    def of(cls, bag: ArrayLike, row: ArrayLike, weight: ArrayLike, labels: ArrayLike) -> _Members:
        bags, rows, weights = np.asarray(bag), np.asarray(row), np.asarray(weight)
        t = np.asarray(labels, dtype=np.float64)
        if bags.ndim != 1 or not bags.shape == rows.shape == weights.shape or t.ndim != 1:
            raise InputError("bag, row, weight and labels must be vectors, the first three as long")
        if bags.dtype.kind not in "iu" or rows.dtype.kind not in "iu":
            raise InputError("bag and row must be whole numbers")
        if len(bags) == 0 or bags.min() < 0 or bags.max() >= len(t) or rows.min() < 0:
            raise InputError(f"bags must count from 0 to {len(t) - 1}, one label each; rows from 0")
        counts = np.bincount(bags, minlength=len(t))
        if counts.min() == 0:
            raise InputError(f"bag {int(np.argmin(counts))} has no rows")
        order = np.argsort(bags, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(offsets, rows[order].astype(np.int64), weights[order].astype(np.float32), t)

    def bags(
        self,
        codes: NDArray[np.int32],
        numbers: NDArray[np.float32],
        places: NDArray[np.int64],
        encoder: RowEncoder,
    ) -> WeightedBags:
        """Return bags whose rows stand at these places of codes and numbers."""
        return WeightedBags(
            codes[places],
            numbers[places],
            self.weight,
            self.offsets,
            self.labels,
            encoder.sizes,
            np.add.reduceat(self.weight.astype(np.float64), self.offsets[:-1]),
            features=encoder.features,
        )


def _single_rows(
    codes: NDArray[np.int32],
    numbers: NDArray[np.float32],
    labels: ArrayLike,
    sizes: tuple[int, ...],
    features: FeatureMap | None,
) -> WeightedBags:
    """Return every row as a bag of weight 1."""
    rows = len(numbers)
    return WeightedBags(
        codes,
        numbers,
        np.ones(rows, dtype=np.float32),
        np.arange(rows + 1),
        _label_vector(labels, rows),
        sizes,
        np.ones(rows),
        features=features,
    )


def _label_vector(labels: ArrayLike, length: int) -> NDArray[np.float64]:
    t = np.asarray(labels, dtype=np.float64)
    if t.shape != (length,):
        raise InputError(f"labels have shape {t.shape}; a vector of {length} was expected")
    return t
