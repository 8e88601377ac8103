"""Statistics of one's own: accumulators that the package does not know."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import FeatureMap
from labeldp.features.encoder import Encoded
from labeldp.passes.accumulator import PassRequirements

Integers = NDArray[np.int64]


def digest(result: Any) -> str:
    """Of a result made of plain values and arrays."""
    plain = result.tolist() if isinstance(result, np.ndarray) else result
    return hashlib.sha256(repr(plain).encode()).hexdigest()


class WeightedGram:
    """XᵀWX in whole numbers, a row's weight being its first number's code modulo 5."""

    def __init__(self, features: FeatureMap) -> None:
        self._features = features
        self._total: Integers = np.zeros((features.width, features.width), np.int64)

    @property
    def requirements(self) -> PassRequirements:
        features = self._features
        return PassRequirements(
            features.columns,
            features,
            cache_keys=((WeightedGram, features),),
        )

    def new(self) -> WeightedGram:
        return WeightedGram(self._features)

    def add(self, rows: Encoded, *_: object) -> None:
        design = self._features.integers(rows).astype(np.int64)
        weights = rows.numbers[:, 0].astype(np.int64) % 5
        self._total += (design * weights[:, None]).T @ design

    def state(self) -> dict[str, Integers]:
        return {"total": self._total}

    def merge(self, state: dict[str, Integers]) -> None:
        self._total += state["total"]

    def result(self, *_: object) -> Integers:
        return self._total


class Levels:
    """How often values come combine, from rows as they come."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._counts: Counter[tuple[Any, ...]] = Counter()

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(self._columns)

    def new(self) -> Levels:
        return Levels(self._columns)

    def add(self, rows: pa.RecordBatch, *_: object) -> None:
        self._counts.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def state(self) -> Counter[tuple[Any, ...]]:
        return self._counts

    def merge(self, state: Counter[tuple[Any, ...]]) -> None:
        self._counts.update(state)

    def result(self, *_: object) -> list[Any]:
        return sorted(self._counts.items(), key=repr)


class LabelledLevels:
    """The largest label of every level of a category; raw labels, so it is nobody's business."""

    def __init__(self, features: FeatureMap, name: str) -> None:
        self._features, self._name = features, name
        self._place = [column.name for column in features.categorical].index(name)
        self._largest = np.full(features.category_sizes[self._place], -np.inf)

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(self._features.columns, self._features, labels=True)

    def new(self) -> LabelledLevels:
        return LabelledLevels(self._features, self._name)

    def add(self, rows: Encoded, labels: NDArray[np.float64], *_: object) -> None:
        np.maximum.at(self._largest, rows.categories[self._place], labels)

    def state(self) -> NDArray[np.float64]:
        return self._largest

    def merge(self, state: NDArray[np.float64]) -> None:
        self._largest = np.maximum(self._largest, state)

    def result(self, *_: object) -> NDArray[np.float64]:
        return self._largest


class Spread:
    """The numbers of every so many rows, as they are told."""

    def __init__(self, features: FeatureMap, every: int) -> None:
        self._features, self._every = features, every
        self._seen: list[int] = []

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(self._features.columns)

    def new(self) -> Spread:
        return Spread(self._features, self._every)

    def add(self, rows: pa.RecordBatch, _labels: object, first: int) -> None:
        numbers = range(first, first + rows.num_rows)
        self._seen += [number for number in numbers if number and number % self._every == 0]

    def state(self) -> list[int]:
        return self._seen

    def merge(self, state: list[int]) -> None:
        self._seen += state

    def result(self, *_: object) -> list[int]:
        return sorted(self._seen)
