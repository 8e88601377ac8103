"""The rows of a person together: Σ‖C x_i‖ over them, and how many they are (theory §9): public.

All labels of a person move the aggregates of shaped-flag by at most Δ·Σ‖C x_i‖ over the person's
rows, so L_person ≥ the largest such sum takes the place of L. Every length is rounded up to a
whole number of units, so sums are exact integers, the same in any order.

Persons are known by 64-bit marks. Memory is bounded: a pass sums the marks' first bits, which
bounds every person from above, and holds as many persons as there is room for one by one, those of
the smallest marks. Further passes look at those whose bound exceeds what was found. Where there
are more persons than passes have room for, the bound is that of the first bits: larger, and sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.persons import PersonHashes
from labeldp.errors import DataError
from labeldp.exact.gram import no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.exact.weights import Weights
from labeldp.features.accumulators import PassRequirements
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels, kernels_for
from labeldp.kernels.scratch import Scratch

_FIRST_BITS = 16
_ROOM = 1 << 18
"""Persons held one by one."""
_PASSES = 64
_WAITING = 1 << 19
"""Rows that are gathered before persons are put in order."""
_UNIT_BITS = 40
"""Of a length 1, at most: fewer where so many rows might overflow a sum."""

Sums = NDArray[np.int64]
"""Two columns: units of length, and rows."""


@dataclass(frozen=True)
class Persons:
    """The largest sums over the rows of one person."""

    length: float
    """At least Σ‖C x_i‖ of every person; 0 if there are no weights."""
    rows: int
    """At least the number of rows of every person."""

    def is_within(self, length: float, rows: int) -> bool:
        """Whether no person has more, for certain."""
        return self.length <= length and self.rows <= rows


@dataclass(frozen=True)
class Seen:
    """What a pass saw."""

    largest: NDArray[np.int64]
    """Of the persons it looked at one by one."""
    sums: Sums = field(repr=False)
    """By the first bits of the marks."""
    limit: int
    """Persons of smaller first bits were looked at one by one."""
    unit: float
    """The length of one unit; infinite if some row was too long to be counted in units."""


Look = Callable[["PersonScan"], Seen]
"""A pass over all rows."""


def largest_persons(scan: PersonScan, look: Look, first: Seen | None = None) -> Persons:
    """By as many passes as it takes, or as many as are allowed; `first` may have been made."""
    seen = first or look(scan)
    largest, left, unit = seen.largest, seen.sums.copy(), seen.unit
    left[: seen.limit] = 0
    for _ in range(_PASSES):
        wanted = np.asarray((left > largest).any(axis=1))
        if not wanted.any():
            break
        seen = look(scan.of(wanted))
        done = wanted & (np.arange(len(left)) < seen.limit)
        if not np.array_equal(seen.sums[done], left[done]):
            raise DataError(
                "the persons of the rows changed while they were read; leave the table alone, "
                "run again"
            )
        largest = np.maximum(largest, seen.largest)
        left[done] = 0
    units, rows = np.maximum(largest, left.max(axis=0))
    return Persons(float(units) * unit * (1 + 2.0**-50), int(rows))


class PersonScan:
    """A tally of Σ‖C x_i‖ and of rows by persons; without weights of rows alone."""

    def __init__(
        self, features: FeatureMap, weights: Weights | None = None, kernels: Kernels | None = None
    ) -> None:
        self._features, self._weights, self._given = features, weights, kernels
        self._wanted: NDArray[np.bool_] | None = None
        self._start()

    def _start(self) -> None:
        self._limit, self._rows, self._too_long = 1 << _FIRST_BITS, 0, False
        self._sums = np.zeros((self._limit, 2), np.int64)
        self._marks: PersonHashes = np.empty(0, np.uint64)
        self._held: Sums = np.empty((0, 2), np.int64)
        self._waiting: list[tuple[PersonHashes, Sums]] = []
        self._scratch = Scratch()

    def of(self, wanted: NDArray[np.bool_]) -> PersonScan:
        """The same for the persons of these first bits alone."""
        narrower = copy(self)
        narrower._wanted = wanted
        narrower._start()
        return narrower

    @cached_property
    def _form(self) -> QuadraticForm | None:
        return None if self._weights is None else QuadraticForm(self._features, self._weights)

    @cached_property
    def _slack(self) -> float:
        """Of every value: of rows within the ends of the feature map's columns."""
        return 0.0 if self._form is None else self._form.sharp_rounding(self._features.reach)

    @cached_property
    def _kernels(self) -> Kernels:
        return self._given or kernels_for(self._features.rows)

    @property
    def _bits(self) -> int:
        return min(_UNIT_BITS, 61 - self._features.rows.bit_length())

    @property
    def needs(self) -> PassRequirements:
        every = replace(self._features, kept=None)
        weights = () if self._weights is None else self._weights.identity()
        wanted = None if self._wanted is None else self._wanted.tobytes()
        return PassRequirements(
            every.columns,
            every,
            key=(PersonScan, every, wanted, *weights),
            bound_to=None if weights or wanted else lambda: ["persons", every.to_json()],
        )

    def new(self) -> PersonScan:
        """With the same form, for linear algebra may round differently on each machine."""
        fresh = copy(self)
        fresh._form, fresh._slack = self._form, self._slack
        fresh._start()
        vars(fresh).pop("_kernels", None)
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        marks = batch.persons
        assert marks is not None  # a source with persons gives them
        self._rows += batch.rows
        if self._wanted is not None:
            places = np.flatnonzero(self._wanted[_first_bits(marks)])
            batch, marks = batch.take(places), marks[places]
        if not batch.rows:
            return
        values = np.ones((batch.rows, 2), np.int64)
        values[:, 0] = self._units(batch)
        marks, sums = _by_person(marks, values)
        np.add.at(self._sums, _first_bits(marks), sums)
        near = _first_bits(marks) < self._limit
        self._waiting.append((marks[near], sums[near]))
        if sum(len(some) for some, _ in self._waiting) > _WAITING:
            self._settle()

    def _units(self, batch: Encoded) -> NDArray[np.int64] | int:
        """‖C x_i‖ of every row in units, rounded up."""
        if self._form is None:
            return 0
        reach = np.abs(batch.numbers).max(axis=0, initial=0.0)
        squares = self._form(batch, self._kernels, self._scratch) + self._slack
        lengths = np.sqrt(np.maximum(squares, 0.0)) * (1 + 2.0**-50)
        if not (lengths.max() < 2.0 and (reach <= self._features.reach).all()):
            self._too_long = True
            return 1
        return np.ceil(np.ldexp(lengths, self._bits)).astype(np.int64)

    def _settle(self) -> None:
        """Hold as many persons as there is room for: those of the smallest marks."""
        marks: PersonHashes = np.concatenate([self._marks, *(some for some, _ in self._waiting)])
        sums = np.concatenate([self._held, *(some for _, some in self._waiting)])
        self._waiting = []
        marks, sums = _by_person(marks, sums)
        if len(marks) > _ROOM:
            self._limit = min(self._limit, int(_first_bits(marks[_ROOM])))
        near = _first_bits(marks) < self._limit
        self._marks, self._held = marks[near], sums[near]

    def share(self) -> dict[str, Any]:
        self._settle()
        return {
            "rows": self._rows,
            "too_long": self._too_long,
            "limit": self._limit,
            "sums": self._sums,
            "marks": self._marks,
            "held": self._held,
        }

    def merge(self, share: dict[str, Any]) -> None:
        self._rows += share["rows"]
        self._too_long |= share["too_long"]
        self._limit = min(self._limit, share["limit"])
        self._sums += share["sums"]
        self._waiting.append((share["marks"], share["held"]))
        self._settle()

    def result(self, *_: object) -> Seen:
        if not self._rows:
            raise no_rows()
        sure = not self._too_long and self._rows <= self._features.rows
        unit = math.ldexp(1.0, -self._bits) if sure else math.inf
        largest = self._held.max(axis=0, initial=0)
        return Seen(largest, self._sums, self._limit, unit)


def _first_bits(marks: PersonHashes) -> NDArray[np.intp]:
    return (marks >> np.uint64(64 - _FIRST_BITS)).astype(np.intp)


def _by_person(marks: PersonHashes, values: Sums) -> tuple[PersonHashes, Sums]:
    """Different marks in order, with the sums of their values."""
    if not len(marks):
        return marks, values
    order = np.argsort(marks, kind="stable")
    marks = marks[order]
    starts = np.flatnonzero(np.concatenate([[True], marks[1:] != marks[:-1]]))
    return marks[starts], np.add.reduceat(values[order], starts)
