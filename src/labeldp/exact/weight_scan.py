"""One pass over all rows for max ‖C x_i‖², and the rows worth knowing: public.

The maximum is a rigorous upper bound for exactly this C. Every row's value is a quadratic form
computed elementwise in a fixed order, with a bound on its rounding (`quadratic_form.py`); the few
rows that might exceed all before them by that bound are looked at closely (`Weights.longest`).
A maximum over a sample would not be a bound (theory §9).

On the way two pools of different rows are kept for the search for a better C: the rows of
largest value, and rows drawn at random with weights that grow with the value. What is drawn
depends on the rows' contents alone, by a fixed hash, so that engines, threads and batches all
keep the same rows.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF
from labeldp.exact.gram import no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.exact.short_weights import ShortWeights
from labeldp.exact.weights import Weights
from labeldp.features.accumulators import PassRequirements
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Kernels, kernels_for, mixed
from labeldp.kernels.scratch import Scratch

_LENGTH_BITS = 24
_CLOSE_ROWS = 256
_OFFERED = 1 << 16
"""Marks remembered, so that the many equal rows of some tables are offered once."""
_MANY_NUMBERS = 8
"""From so many on, a matrix product that finds the few rows worth a closer look pays."""
_VERY_MANY = 64
"""From so many on, the values by which rows are kept come from a matrix product too."""
_BLOCK = 1 << 15
"""Rows offered to empty pools at a time: what these hold then keeps most of the others out."""


@dataclass(frozen=True)
class RowNormScan:
    """What a pass saw."""

    maximum: float
    """At least ‖C x_i‖² of every row."""
    features: FeatureMap = field(repr=False)
    kept: tuple[Encoded, Encoded] = field(repr=False)
    """Rows of largest value, and different ones that were drawn."""
    spare: Encoded = field(repr=False)
    """Further rows that were drawn, for a search that has come so far."""

    @property
    def rows(self) -> NDArray[np.float64]:
        """Different rows of large value: integer codes of the kept columns, one row each."""
        return np.concatenate([self.features.integers(some) for some in self.kept])

    @property
    def reserve(self) -> NDArray[np.float64]:
        """The spare rows, like `rows`."""
        return self.features.integers(self.spare)

    def is_within(self, length: float) -> bool:
        """Whether ‖C x_i‖ of every row is at most so much, for certain."""
        return math.sqrt(self.maximum) * (1 + 4 * ROUNDOFF) <= length

    @property
    def length(self) -> float:
        """L ≥ max ‖C x_i‖, a short number, rounded up so far that any machine confirms it."""
        return short_length(math.sqrt(self.maximum) * (1 + 4 * ROUNDOFF))


def short_length(exact: float) -> float:
    """A number of few bits that is larger by more than machines differ in rounding."""
    fraction, exponent = math.frexp(exact)
    return math.ldexp(math.floor(math.ldexp(fraction, _LENGTH_BITS)) + 2, exponent - _LENGTH_BITS)


@dataclass(frozen=True)
class TopK:
    """Different rows of largest key, largest first; equal keys by their marks."""

    size: int
    keys: NDArray[np.float64]
    marks: NDArray[np.uint64]
    rows: Encoded

    @property
    def threshold(self) -> float:
        """No row of smaller key can enter."""
        return float(self.keys[-1]) if len(self.keys) == self.size else -math.inf

    def entrance(self, keys: NDArray[np.float64]) -> float:
        """No row of smaller key can enter once different rows of at least these keys did."""
        if len(keys) < self.size:
            return self.threshold
        place = len(keys) - self.size
        return max(self.threshold, float(np.partition(keys, place)[place]))

    def offer(self, keys: NDArray[np.float64], marks: NDArray[np.uint64], rows: Encoded) -> TopK:
        """The pool after these rows have been seen."""
        near = np.flatnonzero((keys >= self.threshold) & (keys > -math.inf))
        if not len(near):
            return self
        keys = np.concatenate([self.keys, keys[near]])
        marks = np.concatenate([self.marks, marks[near]])
        order = np.lexsort((marks, -keys))
        fresh = np.ones(len(order), dtype=bool)
        fresh[1:] = np.diff(marks[order]) != 0
        chosen = order[fresh][: self.size]
        return TopK(self.size, keys[chosen], marks[chosen], _joined(self.rows, rows, near, chosen))


Seen = tuple[bool, float, NDArray[np.float64], TopK, TopK]
"""What one part showed: whether it had rows, largest value, reach of its numbers, and the pools."""


class WeightScan:
    """A tally of ‖C x_i‖² of every row, C public weights.

    Of each kind, the worst and the drawn, `keep` rows are kept, and of the drawn `spare` more;
    drawn are rows of a value above `floor`, with a chance that grows with the distance. Without
    `keep` only the maximum is found.
    """

    def __init__(
        self,
        features: FeatureMap,
        weights: Weights,
        kernels: Kernels | None = None,
        *,
        keep: int = 0,
        spare: int = 0,
        floor: float = 0.0,
    ) -> None:
        self._every, self._features = features, features.keep(weights.kept)
        self._weights, self._given = weights, kernels
        self._keep, self._spare, self._floor = keep, spare, floor
        self._start()

    def _start(self) -> None:
        empty = TopK(self._keep, np.empty(0), np.empty(0, np.uint64), _none(self._features))
        more = replace(empty, size=self._keep + self._spare)
        self._largest, self._reach = 0.0, np.zeros(len(self._features.number_columns))
        self._seen = False
        self._worst, self._drawn = empty, more
        self._offered = np.zeros(_OFFERED if self._keep else 0, np.uint64)
        self._scratch = Scratch()

    @cached_property
    def _form(self) -> QuadraticForm:
        return QuadraticForm(self._every, self._weights)

    @cached_property
    def _short(self) -> ShortWeights:
        return ShortWeights(self._every, self._weights)

    @cached_property
    def _kernels(self) -> Kernels:
        return self._given or kernels_for(self._every.rows)

    @property
    def needs(self) -> PassRequirements:
        every = replace(self._every, kept=None)
        maximum = (WeightScan, every, *self._weights.identity())
        key = (maximum, self._keep, self._spare, self._floor) if self._keep else maximum
        return PassRequirements(every.columns, every, key=key, answers=maximum)

    def new(self) -> WeightScan:
        """With the same form, for linear algebra may round differently on each machine."""
        fresh = copy(self)
        fresh._form = self._form
        if self._keep and len(self._reach) >= _VERY_MANY:
            fresh._short = self._short
        fresh._start()
        vars(fresh).pop("_kernels", None)
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        if not batch.rows:
            return
        self._seen = True
        self._reach = np.maximum(self._reach, np.abs(batch.numbers).max(axis=0, initial=0.0))
        if len(self._reach) < _MANY_NUMBERS:
            self._take_in(batch, self._form(batch, self._kernels, self._scratch))
            return
        rough = self._form.rough(batch, self._kernels, self._scratch)
        near = self._near(batch, rough)
        if len(near):
            batch = batch.take(near)
            self._take_in(batch, self._values(batch, rough[near]))

    def _take_in(self, batch: Encoded, values: NDArray[np.float64]) -> None:
        self._look_closely(batch, values)
        if self._keep:
            self._offer(batch, values)

    def _values(self, batch: Encoded, rough: NDArray[np.float64]) -> NDArray[np.float64]:
        """That do not depend on the batch, if rows are kept by them."""
        if not self._wide:
            return self._form(batch, self._kernels, self._scratch)
        return self._short(batch) if self._keep else rough

    @property
    def _wide(self) -> bool:
        """Whether values need not be the form's own: of very many numbers, all in reach."""
        return len(self._reach) >= _VERY_MANY and bool((self._reach <= self._every.reach).all())

    def _slack(self, largest: float) -> float:
        """How far a value may be off, of rows so long."""
        slack = self._form.sharp_rounding(self._reach)
        if self._keep and self._wide:
            return max(slack, self._short.distance(largest + slack))
        return slack

    def _look_closely(self, batch: Encoded, values: NDArray[np.float64]) -> None:
        """Take in the largest ‖C x‖² of these rows, rounded up.

        Rows whose value and rounding stay below what was found before are passed over, and
        could not have changed it: so it is the same in whatever order rows are seen.
        """
        slack = self._slack(float(values.max()))
        order = np.flatnonzero(values + slack > self._largest)
        order = order[np.argsort(-values[order])]
        for start in range(0, len(order), _CLOSE_ROWS):
            some = order[start : start + _CLOSE_ROWS]
            some = some[values[some] + slack > self._largest]
            if not len(some):
                break
            rows = self._features.integers(batch.take(some))
            self._largest = max(self._largest, self._weights.longest(np.unique(rows, axis=0)))

    def _offer(self, batch: Encoded, values: NDArray[np.float64]) -> None:
        """Let the pools choose among rows that may enter; block by block as long as any may."""
        full = self._drawn.threshold > -math.inf
        step = batch.rows if full else _BLOCK
        for start in range(0, batch.rows, step):
            part, lengths = batch.part(start, start + step), values[start : start + step]
            able = np.flatnonzero((lengths > self._floor) | (lengths >= self._worst.threshold))
            if len(able) < part.rows:
                part, lengths = part.take(able), lengths[able]
            if len(able):
                self._let_in(part, lengths)

    def _let_in(self, batch: Encoded, values: NDArray[np.float64]) -> None:
        """Offer rows; those that were offered before or cannot be drawn are passed over."""
        marks = _marks(batch)
        lucky = marks >= self._least_mark(float(values.max()))
        near = np.flatnonzero(lucky | (values >= self._worst.threshold))
        slots = marks[near] % np.uint64(_OFFERED)
        near = near[self._offered[slots] != marks[near]]
        self._offered[marks[near] % np.uint64(_OFFERED)] = marks[near]
        values, marks = values[near], marks[near]
        keys = self._chances(values, marks)
        able = np.flatnonzero((values >= self._worst.threshold) | (keys >= self._drawn.threshold))
        if len(able):
            rows = batch.take(near[able])
            self._worst = self._worst.offer(values[able], marks[able], rows)
            self._drawn = self._drawn.offer(keys[able], marks[able], rows)

    def _least_mark(self, largest: float) -> np.uint64:
        """No row of a smaller mark, and of at most this value, can be drawn any more.

        Its key is the distance from the floor over −log u ≥ 1 − u, u the mark's fraction of all.
        """
        if self._drawn.threshold <= 0.0:
            return np.uint64(0)
        apart = (largest - self._floor) / self._drawn.threshold * (1 + 2.0**-40)
        return np.uint64(max(0, math.floor((1 - apart) * 2**52) - 1) << 12)

    def _near(self, batch: Encoded, rough: NDArray[np.float64]) -> NDArray[np.intp]:
        """Rows that may have the largest value or enter a pool.

        A rough value is off by at most two roundings, its own and that of the value it
        stands for.
        """
        own = self._form.sharp_rounding(self._reach)
        slack = own + self._slack(float(rough.max()) + own)
        near = rough + slack > self._largest
        if self._keep:
            marks = _marks(batch)
            _, places = np.unique(marks, return_index=True)
            least = self._worst.entrance(rough[places] - slack)
            near |= rough + slack >= least
            least = self._drawn.entrance(self._chances(rough[places] - slack, marks[places]))
            near |= self._chances(rough + slack, marks) >= max(least, 0.0)
        return np.flatnonzero(near)

    def _chances(
        self, values: NDArray[np.float64], marks: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Keys whose largest are a draw without replacement with these weights."""
        uniform = ((marks >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        weights = values - self._floor
        return np.asarray(np.where(weights > 0.0, weights / -np.log(uniform), -math.inf))

    def share(self) -> Seen:
        return self._seen, self._largest, self._reach, self._worst, self._drawn

    def merge(self, share: Seen) -> None:
        seen, largest, reach, worst, drawn = share
        self._seen |= seen
        self._largest = max(self._largest, largest)
        self._reach = np.maximum(self._reach, reach)
        if self._keep:
            self._worst = self._worst.offer(worst.keys, worst.marks, worst.rows)
            self._drawn = self._drawn.offer(drawn.keys, drawn.marks, drawn.rows)

    def result(self, *_: object) -> RowNormScan:
        """The maximum, and the rows of both pools."""
        if not self._seen:
            raise no_rows()
        extra = np.flatnonzero(~np.isin(self._drawn.marks, self._worst.marks))
        first, spare = extra[extra < self._keep], extra[extra >= self._keep]
        drawn = self._drawn.rows
        kept = self._worst.rows, drawn.take(first)
        return RowNormScan(self._largest, self._features, kept, drawn.take(spare))


def _none(features: FeatureMap) -> Encoded:
    kinds = [features.compounds.kinds[group[0]] for group in features.compounds.groups]
    codes = tuple(np.empty(0, kind) for kind in kinds)
    return Encoded(0, np.empty((0, len(features.number_columns))), codes, features.compounds)


def _joined(
    one: Encoded, other: Encoded, near: NDArray[np.intp], chosen: NDArray[np.intp]
) -> Encoded:
    """Some of the rows of `one` followed by those of `other` that are `near`."""
    other = other.take(near)
    codes = tuple(np.concatenate(pair) for pair in zip(one.codes, other.codes, strict=True))
    numbers = np.concatenate([one.numbers, other.numbers])
    return Encoded(one.rows + other.rows, numbers, codes, one.compounds).take(chosen)


def _marks(batch: Encoded) -> NDArray[np.uint64]:
    """A hash of every row's content, always the same: equal rows have equal marks."""
    columns = [*batch.codes, *batch.numbers.T]
    factors = _odd_numbers(len(columns))
    total = np.zeros(batch.rows, np.uint64)
    for factor, column in zip(factors, columns, strict=True):
        total += column.astype(np.int64).view(np.uint64) * factor
    return mixed(total)


def _odd_numbers(count: int) -> NDArray[np.uint64]:
    return mixed(np.arange(1, count + 1, dtype=np.uint64)) | np.uint64(1)
