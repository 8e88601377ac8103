"""Sums of ‖C x_i‖ over the rows of one person, and their number (theory §9): public.

All labels of a person move the aggregates of shaped-flag by at most Δ·Σ‖C x_i‖ over the person's
rows, so L_person ≥ the largest such sum takes the place of L. Every norm is rounded up to a whole
number of units, so sums are exact integers, the same in any order.

Persons are known by 64-bit hashes of their ids. Two persons of the same hash are summed as one,
which is larger and safe. A table of 24 bytes for each person is held in memory.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.data.persons import PersonHashes
from labeldp.exact.gram import no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.exact.row_norms import Weights
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.passes.accumulator import PassRequirements

_WAITING = 1 << 19
"""At least so many rows are gathered before they are sorted by person."""
_UNIT_BITS = 40
"""A norm of 1 is 2**40 units; fewer where so many rows might overflow a sum."""
_BYTES = 24
"""Of a person: the hash and two sums."""

Sums = NDArray[np.int64]
"""Two columns: units of norm, and rows."""
Part = tuple[PersonHashes, Sums]
ScanState = tuple[int, bool, PersonHashes, Sums]
"""Rows, whether one was too long to be counted in units, and persons with their sums."""


@dataclass(frozen=True)
class PersonNorms:
    """The largest sums over the rows of one person: upper bounds for every person.

    length: of Σ‖C x_i‖; 0 without weights. rows: of the number of rows.
    """

    length: float
    rows: int


class PersonScan:
    """Accumulator of Σ‖C x_i‖ and of rows by person; without weights of rows alone."""

    def __init__(self, features: FeatureMap, weights: Weights | None = None) -> None:
        self._features, self._weights = features, weights
        self._reset()

    def _reset(self) -> None:
        self._rows, self._too_long = 0, False
        # The table of persons, then rows that wait to be added to it.
        self._parts: list[Part] = [(np.empty(0, np.uint64), np.empty((0, 2), np.int64))]

    @cached_property
    def _form(self) -> QuadraticForm | None:
        return None if self._weights is None else self._weights.squared_norms(self._features)

    @property
    def _bits(self) -> int:
        return min(_UNIT_BITS, 61 - self._features.rows.bit_length())

    @property
    def requirements(self) -> PassRequirements:
        every = replace(self._features, kept=None)
        weights = () if self._weights is None else self._weights.cache_key()
        return PassRequirements(
            every.columns,
            every,
            state_bytes=_BYTES * every.rows,
            cache_keys=((PersonScan, every, *weights),),
        )

    def new(self) -> PersonScan:
        """Return an empty one with the same form: another machine might round M differently."""
        fresh = copy(self)
        fresh._form = self._form
        fresh._reset()
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        assert batch.persons is not None  # a source with persons gives them
        self._rows += batch.rows
        sums = np.ones((batch.rows, 2), np.int64)
        sums[:, 0] = self._units(batch)
        self._take(batch.persons, sums)

    def _units(self, batch: Encoded) -> NDArray[np.int64] | int:
        """Return ‖C x_i‖ of every row in units, rounded up."""
        if self._form is None:
            return 0
        reach = np.abs(batch.numbers).max(axis=0, initial=0.0)
        # A bound on the error of rows within the fitted ends of their columns is added to the
        # square; 2**-50 covers the root and its product.
        squares = self._form(batch) + self._form.rounding_error(self._features.reach)
        lengths = np.sqrt(np.maximum(squares, 0.0)) * (1 + 2.0**-50)
        # Rows beyond the fitted ends, or of a norm of 2 or more, void the bounds above; L of a
        # plan is below 1, so a long row is a violation anyway.
        if not (lengths.max(initial=0.0) < 2.0 and (reach <= self._features.reach).all()):
            self._too_long = True
            return 1
        return np.ceil(np.ldexp(lengths, self._bits)).astype(np.int64)

    def _take(self, hashes: PersonHashes, sums: Sums) -> None:
        """Let rows wait, and add their sums to the table once there are many beside it."""
        self._parts.append((hashes, sums))
        if sum(len(some) for some, _ in self._parts[1:]) > max(
            _WAITING, len(self._parts[0][0]) // 2
        ):
            self._table()

    def _table(self) -> Part:
        """Return all persons, in the order of their hashes, and their sums."""
        if len(self._parts) > 1:
            hashes: PersonHashes = np.concatenate([some for some, _ in self._parts])
            sums = np.concatenate([some for _, some in self._parts])
            self._parts.clear()  # a large table is freed before sorting needs room
            order = np.argsort(hashes)
            hashes = hashes[order]
            starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
            self._parts.append((hashes[starts], np.add.reduceat(sums[order], starts)))
        return self._parts[0]

    def state(self) -> ScanState:
        return self._rows, self._too_long, *self._table()

    def merge(self, state: ScanState) -> None:
        rows, too_long, hashes, sums = state
        self._rows += rows
        self._too_long |= too_long
        self._take(hashes, sums)

    def result(self, *_: object) -> PersonNorms:
        if not self._rows:
            raise no_rows()
        units, rows = self._table()[1].max(axis=0)
        length = math.ldexp(float(units), -self._bits) * (1 + 2.0**-50)
        # More rows than were planned for might overflow a sum of units.
        if self._too_long or (self._weights is not None and self._rows > self._features.rows):
            length = math.inf
        return PersonNorms(length, int(rows))
