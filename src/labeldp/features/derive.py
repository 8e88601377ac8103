"""`Deriver`: from encoded rows to the columns that a basis adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.features.terms import Numbers
from labeldp.kernels import Codes

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap


@dataclass(frozen=True)
class _Rows:
    """Encoded rows by the names of their columns."""

    numbers: Numbers
    codes: Sequence[Codes]
    places: Mapping[str, int]
    groups: Mapping[str, tuple[int, NDArray[np.int32]]]
    """Of every category: its group, and its level at every compound code."""

    def number(self, column: str) -> Numbers:
        return self.numbers[:, self.places[column]]

    def levels(self, column: str) -> NDArray[np.int32]:
        group, table = self.groups[column]
        return table[self.codes[group]]


class Deriver:
    """Writes the columns of a basis beside those that they are made of."""

    def __init__(self, features: FeatureMap) -> None:
        self._places, at = dict[str, int](), 0
        for column in features.numeric:
            self._places[column.name] = at
            at += len(column.design_names)
        compounds = features.compounds
        self._groups = {
            features.categorical[member].name: (group, levels.astype(np.int32))
            for group in range(len(compounds.groups))
            for member, levels in compounds.levels(group)
        }
        self._terms, fitted = [], features.fitted
        for term, columns in features.derived:
            self._terms.append((term.writer(fitted), slice(at, at + len(columns))))
            at += len(columns)

    def __call__(self, numbers: Numbers, codes: Sequence[Codes]) -> None:
        """Fill the last columns of `numbers` from the first, and from compound codes."""
        rows = _Rows(numbers, codes, self._places, self._groups)
        for write, place in self._terms:
            write(rows, numbers[:, place])
