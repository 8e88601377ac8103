"""`ChosenRows`: the rows with some numbers, encoded, for those who need them one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp._arrow import arrow_numbers
from labeldp.features.encoder import Encoded, Encoder
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fold import Labels, Needs


class ChosenRows:
    """A tally that encodes rows with these increasing numbers and, if asked, takes their labels.

    Every row is read, so that all labels are checked; only the chosen ones are encoded. The
    result is how many rows there were, the chosen ones and their labels.
    """

    def __init__(
        self, features: FeatureMap, wanted: NDArray[np.int64], *, labels: bool = False
    ) -> None:
        size = len(wanted)
        self._features, self._wanted, self._rows = features, wanted, 0
        self._encode = Encoder(features)
        self._numbers = np.empty((size, len(features.number_columns)))
        self._codes = tuple(np.empty(size, dtype=np.int32) for _ in features.compounds.groups)
        self._labels = np.empty(size if labels else 0)
        self._labelled = labels

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("chosen rows may have private labels and are not written anywhere")

    @property
    def needs(self) -> Needs:
        columns = self._features.columns
        return Needs(columns, labels=self._labelled, numbered=True, keep=True)

    def new(self) -> ChosenRows:
        """Another that writes to the same arrays: no two see the same row."""
        fresh = object.__new__(ChosenRows)
        vars(fresh).update(vars(self), _encode=Encoder(self._features), _rows=0)
        return fresh

    def add(self, rows: pa.RecordBatch, labels: Labels | None, first: int) -> None:
        self._rows += rows.num_rows
        start, stop = np.searchsorted(self._wanted, [first, first + rows.num_rows])
        if start == stop:
            return
        places, here = slice(start, stop), self._wanted[start:stop] - first
        encoded = self._encode(rows.take(arrow_numbers(here)))
        self._numbers[places] = encoded.numbers
        for column, codes in zip(self._codes, encoded.codes, strict=True):
            column[places] = codes
        if labels is not None:
            self._labels[places] = labels[here]

    def share(self) -> int:
        return self._rows

    def merge(self, share: int) -> None:
        self._rows += share

    def result(self, *_: object) -> tuple[int, Encoded, Labels]:
        compounds = self._features.compounds
        encoded = Encoded(len(self._wanted), self._numbers, self._codes, compounds)
        return self._rows, encoded, self._labels
