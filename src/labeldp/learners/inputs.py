"""Raw rows as what a network reads: one code per category, and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.batches import take_rows
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap


@dataclass(frozen=True, eq=False)
class Inputs:
    """The kept design columns of a feature map, but for the constant, as codes and numbers.

    A row is worth what its design columns are worth: a level whose column was pruned has the code
    −1, which stands for no column at all. The constant is the network's own bias.
    """

    features: FeatureMap
    places: tuple[NDArray[np.int32], ...]
    """Per category: the code of every level among the kept ones, −1 for a pruned one."""
    sizes: tuple[int, ...]
    """Per category: how many levels are kept."""
    numbers: tuple[int, ...]
    """Kept columns of `Encoded.numbers`."""
    scales: NDArray[np.float64]

    @classmethod
    def of(cls, features: FeatureMap) -> Inputs:
        """Find the kept columns."""
        kept = features.kept_places >= 0
        places, sizes = [], []
        for block in (kept[place] for place in features.category_blocks):
            places.append(np.where(block, np.cumsum(block) - 1, -1).astype(np.int32))
            sizes.append(int(block.sum()))
        columns = features.number_columns
        numbers = tuple(index for index, column in enumerate(columns) if kept[column])
        scales = features.scales[[columns[index] for index in numbers]]
        return cls(features, tuple(places), tuple(sizes), numbers, scales)

    def rows(self, encoded: Encoded) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Codes (rows × categories) and design values of the numbers (rows × numbers)."""
        codes = np.empty((encoded.rows, len(self.sizes)), dtype=np.int32)
        for index, (places, levels) in enumerate(zip(self.places, encoded.categories, strict=True)):
            codes[:, index] = places[levels]
        return codes, encoded.numbers[:, list(self.numbers)] * self.scales

    def batches(self, frame: Any) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float64]]]:
        """Codes and numbers of a table or frame, a batch of rows at a time."""
        for batch in self.features.batches(frame):
            yield self.rows(self.features.encode(batch))

    def whole(self, frame: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Codes and numbers of all rows of a table or frame."""
        parts = list(self.batches(frame))
        codes = [np.empty((0, len(self.sizes)), dtype=np.int32), *(part[0] for part in parts)]
        numbers = [np.empty((0, len(self.numbers))), *(part[1] for part in parts)]
        return np.concatenate(codes), np.concatenate(numbers).astype(np.float32)

    def take(
        self, batches: Iterator[pa.RecordBatch], wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Codes and numbers of the rows with these increasing row numbers; reads every batch."""
        codes = np.empty((len(wanted), len(self.sizes)), dtype=np.int32)
        numbers = np.empty((len(wanted), len(self.numbers)), dtype=np.float32)
        for places, chosen in take_rows(batches, wanted, self.features.rows):
            codes[places], numbers[places] = self.rows(self.features.encode(chosen))
        return codes, numbers
