"""Sums of ‖C x_i‖ over the rows of one person, and their number (theory §9): public.

All labels of a person move the aggregates of shaped-flag by at most Δ·Σ‖C x_i‖ over the person's
rows, so L_person ≥ the largest such sum takes the place of L. Every norm is rounded up to a whole
number of units, so sums are exact integers, the same in any order.

Persons are known by 64-bit hashes of their ids. Memory is bounded however many persons there are:

- a pass sums by the hashes' first 16 bits (buckets), which bounds every person from above, and
  sums up to 2**18 persons one by one: those of the smallest hashes;
- further passes look at the buckets whose sum exceeds the largest person found so far;
- where there are more persons than passes have room for, what remains is the bucket's sum: larger
  than any of its persons, so still a bound. Likewise two persons of the same hash are summed as
  one, which is larger and safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.data.persons import PersonHashes
from labeldp.errors import DataError
from labeldp.exact.cholesky import gram_of_triangle
from labeldp.exact.gram import no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.exact.row_norms import Weights
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Scratch
from labeldp.passes.accumulator import PassRequirements

_BUCKET_BITS = 16
_ROOM = 1 << 18
"""Persons that are summed one by one."""
_PASSES = 64
_WAITING = 1 << 19
"""Rows that are gathered before they are sorted by person."""
_UNIT_BITS = 40
"""A norm of 1 is 2**40 units; fewer where so many rows might overflow a sum."""

Sums = NDArray[np.int64]
"""Two columns: units of norm, and rows."""


@dataclass(frozen=True)
class PersonNorms:
    """The largest sums over the rows of one person: upper bounds for every person.

    length: of Σ‖C x_i‖; 0 without weights. rows: of the number of rows.
    """

    length: float
    rows: int


@dataclass(frozen=True)
class PersonSums:
    """The result of one pass.

    largest: the largest sums of the persons that were summed one by one.
    buckets: sums by bucket.
    limit: all persons of smaller buckets were summed one by one.
    unit: the norm of one unit; infinite if some row was too long to be counted in units.
    """

    largest: NDArray[np.int64]
    buckets: Sums = field(repr=False)
    limit: int
    unit: float


def largest_person_norms(
    scan: PersonScan,
    run_pass: Callable[[PersonScan], PersonSums],
    first: PersonSums | None = None,
) -> PersonNorms:
    """Find the largest sums by as many passes over all rows as it takes, or are allowed.

    `first` is the result of the first pass, where that was run already.
    """
    sums = first or run_pass(scan)
    largest, left, unit = sums.largest, sums.buckets.copy(), sums.unit
    left[: sums.limit] = 0
    for _ in range(_PASSES):
        wanted = np.asarray((left > largest).any(axis=1))
        if not wanted.any():
            break
        sums = run_pass(scan.of(wanted))
        done = wanted & (np.arange(len(left)) < sums.limit)
        # A table that changes between passes could hide a person from all of them.
        if not np.array_equal(sums.buckets[done], left[done]):
            raise DataError(
                "the persons of the rows changed while they were read; leave the table alone, "
                "run again"
            )
        largest = np.maximum(largest, sums.largest)
        left[done] = 0
    units, rows = np.maximum(largest, left.max(axis=0))
    return PersonNorms(float(units) * unit * (1 + 2.0**-50), int(rows))


ScanState = tuple[int, bool, int, Sums, PersonHashes, Sums]
"""Rows, whether one was too long, the limit, sums by bucket, and persons with their sums."""


class PersonScan:
    """Accumulator of Σ‖C x_i‖ and of rows by person; without weights of rows alone."""

    def __init__(self, features: FeatureMap, weights: Weights | None = None) -> None:
        self._features, self._weights = features, weights
        self._wanted: NDArray[np.bool_] | None = None
        self._reset()

    def _reset(self) -> None:
        self._limit, self._rows, self._too_long = 1 << _BUCKET_BITS, 0, False
        self._buckets = np.zeros((self._limit, 2), np.int64)
        self._hashes: PersonHashes = np.empty(0, np.uint64)
        self._sums: Sums = np.empty((0, 2), np.int64)
        self._waiting: list[tuple[PersonHashes, Sums]] = []
        self._scratch = Scratch()

    def of(self, wanted: NDArray[np.bool_]) -> PersonScan:
        """Return the same for the persons of these buckets alone."""
        narrower = copy(self)
        narrower._wanted = wanted
        narrower._reset()
        return narrower

    @cached_property
    def _form(self) -> QuadraticForm | None:
        if self._weights is None:
            return None
        kept, root = self._weights.kept, self._weights.matrix
        return QuadraticForm(self._features, kept, root, gram_of_triangle(root))

    @cached_property
    def _slack(self) -> float:
        """Bound on the error of a value, of rows within the fitted ends of their columns."""
        return 0.0 if self._form is None else self._form.rounding_error(self._features.reach)

    @property
    def _bits(self) -> int:
        return min(_UNIT_BITS, 61 - self._features.rows.bit_length())

    @property
    def requirements(self) -> PassRequirements:
        every = replace(self._features, kept=None)
        weights = () if self._weights is None else self._weights.cache_key()
        wanted = None if self._wanted is None else self._wanted.tobytes()
        key = (PersonScan, every, wanted, *weights)
        return PassRequirements(every.columns, every, cache_keys=(key,))

    def new(self) -> PersonScan:
        """Return an empty one with the same form: another machine might round M differently."""
        fresh = copy(self)
        fresh._form, fresh._slack = self._form, self._slack
        fresh._reset()
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        hashes = batch.persons
        assert hashes is not None  # a source with persons gives them
        self._rows += batch.rows
        if self._wanted is not None:
            places = np.flatnonzero(self._wanted[_bucket(hashes)])
            batch, hashes = batch.take(places), hashes[places]
        if not batch.rows:
            return
        values = np.ones((batch.rows, 2), np.int64)
        values[:, 0] = self._units(batch)
        hashes, sums = _sum_by_person(hashes, values)
        np.add.at(self._buckets, _bucket(hashes), sums)
        near = _bucket(hashes) < self._limit
        self._waiting.append((hashes[near], sums[near]))
        if sum(len(some) for some, _ in self._waiting) > _WAITING:
            self._compact()

    def _units(self, batch: Encoded) -> NDArray[np.int64] | int:
        """Return ‖C x_i‖ of every row in units, rounded up."""
        if self._form is None:
            return 0
        reach = np.abs(batch.numbers).max(axis=0, initial=0.0)
        # The bound on the error is added to the square, 2**-50 covers the root and its product.
        squares = self._form(batch, self._scratch) + self._slack
        lengths = np.sqrt(np.maximum(squares, 0.0)) * (1 + 2.0**-50)
        # Rows beyond the fitted ends, or of a norm of 2 or more, void the bounds above; L of a
        # plan is below 1, so a long row is a violation anyway.
        if not (lengths.max() < 2.0 and (reach <= self._features.reach).all()):
            self._too_long = True
            return 1
        return np.ceil(np.ldexp(lengths, self._bits)).astype(np.int64)

    def _compact(self) -> None:
        """Keep as many persons as there is room for: whole buckets of the smallest hashes."""
        hashes: PersonHashes = np.concatenate([self._hashes, *(some for some, _ in self._waiting)])
        sums = np.concatenate([self._sums, *(some for _, some in self._waiting)])
        self._waiting = []
        hashes, sums = _sum_by_person(hashes, sums)
        # Whole buckets: of a bucket below the limit every person is known, so it needs no bound.
        if len(hashes) > _ROOM:
            self._limit = min(self._limit, int(_bucket(hashes[_ROOM])))
        near = _bucket(hashes) < self._limit
        self._hashes, self._sums = hashes[near], sums[near]

    def state(self) -> ScanState:
        self._compact()
        return self._rows, self._too_long, self._limit, self._buckets, self._hashes, self._sums

    def merge(self, state: ScanState) -> None:
        rows, too_long, limit, buckets, hashes, sums = state
        self._rows += rows
        self._too_long |= too_long
        self._limit = min(self._limit, limit)
        self._buckets += buckets
        self._waiting.append((hashes, sums))
        self._compact()

    def result(self, *_: object) -> PersonSums:
        if not self._rows:
            raise no_rows()
        # More rows than were planned for might overflow a sum of units.
        sure = not self._too_long and self._rows <= self._features.rows
        unit = math.ldexp(1.0, -self._bits) if sure else math.inf
        largest = self._sums.max(axis=0, initial=0)
        return PersonSums(largest, self._buckets, self._limit, unit)


def _bucket(hashes: PersonHashes) -> NDArray[np.intp]:
    return (hashes >> np.uint64(64 - _BUCKET_BITS)).astype(np.intp)


def _sum_by_person(hashes: PersonHashes, values: Sums) -> tuple[PersonHashes, Sums]:
    """Return the different hashes in increasing order, with the sums of their values."""
    if not len(hashes):
        return hashes, values
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    return hashes[starts], np.add.reduceat(values[order], starts)
