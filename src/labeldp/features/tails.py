"""The tails of numeric columns, exactly: which public quantiles numbers are confined to.

Theory §9, "Winsorise first": to clip features at public quantiles costs no privacy and tames
leverage. The lower end of a column of n numbers is the one that ⌊share·n⌋ others do not exceed,
the upper end its mirror image: both occur in the table, whatever the order of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import numpy_numbers
from labeldp.data.columns import floats_of, to_float
from labeldp.passes.accumulator import PassRequirements

Numbers = NDArray[Any]
Shares = Mapping[str, tuple[Numbers, Numbers]]


def depth_of(share: float, numbers: int) -> int:
    """⌊share·numbers⌋, the share taken as it is written: 0.3 of ten are three."""
    return math.floor(Fraction(repr(float(share))) * numbers)


@dataclass
class Tail:
    """The smallest, or largest, numbers of many: `depth` of them, in room for a few more."""

    depth: int
    largest: bool
    _kept: list[Numbers] = field(default_factory=list)
    _count: int = 0
    _bound: float | None = None
    """All that is kept is at most, or least, this; others that are not beyond it do not matter."""

    def add(self, numbers: Numbers) -> None:
        """Take in numbers; NaN are none."""
        fresh = self._beyond(numbers)
        if len(fresh):
            self._kept.append(fresh.astype(np.float64))
            self._count += len(fresh)
        if self._count > 2 * self.depth:
            self._trim()

    def sorted(self) -> Numbers:
        """From the outermost inwards."""
        self._trim()
        kept = np.sort(np.concatenate([np.empty(0), *self._kept])) + 0.0  # no -0.0
        return kept[::-1] if self.largest else kept

    def _beyond(self, numbers: Numbers) -> Numbers:
        if self._bound is None:
            return numbers if numbers.dtype.kind != "f" else numbers[~np.isnan(numbers)]
        inwards = math.floor if self.largest else math.ceil
        bound = self._bound if numbers.dtype.kind == "f" else inwards(self._bound)
        found: Numbers = numbers[numbers > bound if self.largest else numbers < bound]
        return found

    def _trim(self) -> None:
        if self._count <= self.depth:
            return
        every, place = np.concatenate(self._kept), self.depth - 1
        if self.largest:
            kept = np.partition(every, -self.depth)[-self.depth :]
            self._bound = float(kept[0])
        else:
            kept = np.partition(every, place)[: self.depth]
            self._bound = float(kept[place])
        self._kept, self._count = [kept], self.depth


class Tails:
    """A tally of both tails of some columns, each as deep as it is said."""

    def __init__(
        self, columns: tuple[str, ...], depths: Mapping[str, int], keep: bool = False
    ) -> None:
        self._columns, self._depths, self._keep = columns, dict(depths), keep
        self._tails = {
            name: (Tail(depth, largest=False), Tail(depth, largest=True))
            for name, depth in depths.items()
        }

    @property
    def requirements(self) -> PassRequirements:
        numbers = 2 * sum(self._depths.values())
        return PassRequirements(self._columns, keep_columns=self._keep, state_bytes=3 * 8 * numbers)

    def new(self) -> Tails:
        return Tails(self._columns, self._depths, self._keep)

    def add(self, batch: pa.RecordBatch, _labels: object, first: int) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._tails:
                numbers = _numbers(column, name, first)
                for tail in self._tails[name]:
                    tail.add(numbers)

    def state(self) -> Shares:
        return self.result()

    def merge(self, state: Shares) -> None:
        for name, numbers in state.items():
            for tail, some in zip(self._tails[name], numbers, strict=True):
                tail.add(some)

    def result(self, *_: object) -> Shares:
        return {name: (low.sorted(), high.sorted()) for name, (low, high) in self._tails.items()}


def _numbers(array: pa.Array, name: str, first: int) -> Numbers:
    """Integers as they are: most are not beyond, and need not be converted.

    Those that float64 cannot tell apart are refused, or found to be ids, elsewhere.
    """
    if pa.types.is_integer(array.type):
        return floats_of(array) if array.null_count else numpy_numbers(array)
    return to_float(array, name, first)
