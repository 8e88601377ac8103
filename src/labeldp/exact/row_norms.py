"""Public weights C of shaped-flag and a rigorous bound of max ‖C x_i‖ over all rows (theory §9).

Aggregate j of shaped-flag is Σ_i (c_j·x_i)·y_i, so one label moves the aggregates by at most
Δ·‖C x_i‖, Δ the width of the label range. The guarantee therefore rests on L ≥ max ‖C x_i‖ for C
exactly as it is published, and on nothing else: how C was chosen (`mechanisms/noise_shape.py`)
and how it was rounded cannot hurt.

`RowNormScan` is the accumulator of that maximum:

1. every row gets a value near ‖C x‖², with a known bound on its error:
   `QuadraticForm` mostly, `ShortWeights` where rows have very many numbers;
2. the few rows whose value plus that bound exceeds the largest norm so far are computed again
   from C itself with outward rounding (`Weights.largest_squared_norm`);
3. two collections of different rows (`TopK`) are kept for the optimiser: those of largest value,
   and a weighted random sample. What is sampled follows from the rows' contents by a fixed hash,
   so engines, threads and batch sizes keep the same rows.

A maximum over a sample of the rows would be no bound; the scan sees every row.
"""

from __future__ import annotations

import base64
import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky, gram_of_triangle, matrix_digest
from labeldp.exact.gram import no_rows
from labeldp.exact.quadratic_form import QuadraticForm
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import Scratch, kernels_for, mixed
from labeldp.passes.accumulator import PassRequirements

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

_WEIGHT_BITS = 40
"""Significant bits of a published weight: far more than the noise needs, five bytes in a file."""
_DROPPED_BITS = 53 - _WEIGHT_BITS
_EXPONENT_LIMIT = 400
"""Weights are 0 or between 2**-400 and 2**400: their squares times squares of codes are then
normal doubles, for which rounding errors are relative."""

_LENGTH_BITS = 24
"""Significant bits of a published length."""
_EXACT_ROWS = 256
"""Rows that are computed again from C at a time."""
_OFFERED = 1 << 16
"""Hashes remembered, so that the many equal rows of some tables are offered once."""
_MANY_NUMBERS = 8
"""From so many numeric columns on, a matrix product that finds the few candidates pays."""
_VERY_MANY_NUMBERS = 64
"""From so many on, the values by which rows are kept come from a matrix product too."""
_BLOCK = 1 << 15
"""Rows offered to an empty `TopK` at a time; what it holds then keeps most others out."""
_SHORT_ROWS = 1024
"""Rows that `ShortWeights` multiplies at a time."""


@dataclass(frozen=True)
class Weights:
    """C for the integer codes of the kept columns: a lower triangle of doubles.

    With L·Lᵀ = XᵀX and a noise covariance S = K·Kᵀ, both factors triangular, C = K⁻¹L⁻¹ is lower
    triangular and CᵀC = L⁻ᵀS⁻¹L⁻¹. That halves the file, and aggregate j involves only the first
    j columns.
    """

    kept: tuple[int, ...]
    matrix: Floats = field(repr=False)

    @property
    def rank(self) -> int:
        """The number of aggregates; an entry of CᵀC has at most so many terms."""
        return len(self.matrix)

    def problem(self) -> str | None:
        """Return why no norm of these weights can be trusted, or None.

        Weights may come from a file. The rounding bounds below count on a lower triangle of
        finite numbers whose products neither overflow nor become subnormal.
        """
        if not np.isfinite(self.matrix).all():
            return "the weights are not all numbers"
        _, exponents = np.frexp(self.matrix[self.matrix != 0])
        if (np.abs(exponents) > _EXPONENT_LIMIT).any():
            return "the weights are too large or too small to be measured"
        if np.triu(self.matrix, 1).any() or not np.diagonal(self.matrix).all():
            return "the weights are not an invertible lower triangle"
        return None

    def cache_key(self) -> tuple[object, ...]:
        """Return what tells weights apart."""
        return self.kept, matrix_digest(self.matrix)

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the lower triangle, row by row, in eight bytes each."""
        entries = self.matrix[np.tril_indices(self.rank)].astype("<f8").tobytes()
        return {"kept": list(self.kept), "lower": base64.b64encode(entries).decode()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Weights:
        """Read what `to_json` wrote."""
        kept = tuple(document["kept"])
        matrix = np.zeros((len(kept), len(kept)))
        entries = np.frombuffer(base64.b64decode(document["lower"]), "<f8")
        matrix[np.tril_indices(len(kept))] = entries
        return cls(kept, matrix)

    @classmethod
    def rounded(cls, cholesky: VerifiedCholesky, scaled: Floats) -> Weights:
        """Turn a C for scaled codes x·2**-e into weights of codes, rounded for publication."""
        lower = np.tril(scaled)
        return cls(cholesky.kept, round_weights(np.ldexp(lower, -cholesky.exponents, out=lower)))

    def scaled(self, exponent: int) -> Weights:
        """Return C·2**exponent, which is exact."""
        return Weights(self.kept, np.ldexp(self.matrix, exponent))

    def crossproduct(self) -> Floats:
        """Return CᵀC, each entry an inner product of at most `rank` terms."""
        return gram_of_triangle(self.matrix)

    def crossproduct_size(self) -> Floats:
        """Return Σ|terms| of every entry of CᵀC: what its rounding error is relative to."""
        return gram_of_triangle(np.abs(self.matrix))

    def column_norms(self) -> Floats:
        """Return the Euclidean norms of the columns of C."""
        return np.asarray(np.linalg.norm(self.matrix, axis=0))

    def largest_squared_norm(self, rows: Floats) -> float:
        """Return an upper bound of ‖C x‖² over these dense rows of integers; 0 without rows.

        Entries of C·x are inner products of `rank` terms, computed in whatever order the BLAS
        likes: each is off by at most rank·ROUNDOFF·Σ|terms|, so the norm of the error vector is
        at most that of the vector of sizes times the same factor. (rank + 4) covers the squares,
        their sum and the root as well, the factor 2 the second-order terms. Far less is lost
        this way than in xᵀ(CᵀC)x, where every entry of CᵀC is already rounded.
        """
        norms = np.linalg.norm(rows @ self.matrix.T, axis=1)
        sizes = np.linalg.norm(np.abs(rows) @ np.abs(self.matrix.T), axis=1)
        upper = norms + 2 * (self.rank + 4) * ROUNDOFF * sizes
        return float(upper.max(initial=0.0)) ** 2 * (1 + 8 * ROUNDOFF)

    def noise_root(self, cholesky: VerifiedCholesky) -> Floats:
        """Return K = (C·L)⁻¹, so that K·Kᵀ is the noise covariance S of this C up to rounding."""
        from scipy.linalg.lapack import dtrtri

        return np.asarray(dtrtri(self.whitened(cholesky), lower=1)[0])

    def whitened(self, cholesky: VerifiedCholesky) -> Floats:
        """Return C·L: the weights in whitened coordinates, in which XᵀX is the identity."""
        from scipy.linalg.blas import dtrmm

        plain = np.ldexp(self.matrix, cholesky.exponents)
        return np.tril(dtrmm(1.0, cholesky.lower, plain, side=1, lower=1))


def round_weights(values: Floats) -> Floats:
    """Round to 40 significant bits, ties to even, on the bits of the doubles themselves."""
    bits = values.view(np.int64)
    # Add half of the last kept bit less one, plus one if that bit is odd, then cut. A carry runs
    # into the exponent, which gives the next power of two. In place: C may be large.
    rounded = (bits >> _DROPPED_BITS) & 1
    rounded += bits
    rounded += (1 << (_DROPPED_BITS - 1)) - 1
    rounded &= -1 << _DROPPED_BITS
    return rounded.view(np.float64)


class ShortWeights:
    """C rounded to so few bits that C·x is exact in doubles: values near ‖C x‖² of wide rows.

    Which rows a pass keeps must not depend on how the table was cut into batches, but the last
    digits of a matrix product do. Here every product is a multiple of a row's grid below 2**53
    of it, so the order of additions does not matter; the squares are then added in order. This
    holds for rows whose numbers stay within the reach of the fitted ones.
    """

    def __init__(self, features: FeatureMap, weights: Weights) -> None:
        first = int(features.intercept)
        self._numbers = slice(first, first + len(features.number_columns))
        self._blocks = features.category_blocks
        self.reach = features.reach
        most = np.ones(features.width)
        most[self._numbers] = self.reach
        kept = list(weights.kept)
        grid = _exact_grid(np.abs(weights.matrix) @ most[kept])
        short = np.rint(weights.matrix / grid[:, None]) * grid[:, None]
        off = np.abs(short - weights.matrix) @ most[kept]
        self._off = float(np.linalg.norm(off)) * (1 + 1e-9)
        self._matrix = np.zeros((weights.rank, features.width))
        self._matrix[:, kept] = short
        self._constant = self._matrix[:, :1] if features.intercept else np.zeros((weights.rank, 1))

    def __call__(self, batch: Encoded) -> Floats:
        """Return the value of every row."""
        values = np.zeros(batch.rows)
        for start in range(0, batch.rows, _SHORT_ROWS):
            part = batch.part(start, start + _SHORT_ROWS)
            products = self._matrix[:, self._numbers] @ part.numbers.T
            products += self._constant
            for block, levels in zip(self._blocks, part.categories, strict=True):
                products += self._matrix[:, block][:, levels]
            total = values[start : start + _SHORT_ROWS]
            for entries in products:
                total += np.square(entries)
        return values

    def error(self, largest: float) -> float:
        """Bound the distance of a value from ‖C x‖², for values up to `largest`.

        With C' the rounded C, |‖C'x‖² − ‖Cx‖²| ≤ ‖(C' − C)x‖·(2‖C'x‖ + ‖(C' − C)x‖); the second
        part is the rounding of the sum of squares.
        """
        norm = math.sqrt(largest) * (1 + 1e-9)
        summing = (len(self._matrix) + 2) * 2 * ROUNDOFF * largest
        return (self._off * (2 * norm + self._off) + summing) * (1 + 1e-9)


def _exact_grid(size: Floats) -> Floats:
    """Return powers of two of which `size`, and what rounding to them adds, is less than 2**53."""
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1] - 51))


@dataclass(frozen=True)
class RowNorms:
    """What a scan found."""

    maximum: float
    """At least ‖C x_i‖² of every row."""
    features: FeatureMap = field(repr=False)
    kept: tuple[Encoded, Encoded] = field(repr=False)
    """Rows of largest value, and different ones that were sampled."""
    spare: Encoded = field(repr=False)
    """Further sampled rows."""

    @property
    def rows(self) -> Floats:
        """Different rows of large value: integer codes of the kept columns, one row each."""
        return np.concatenate([self.features.integers(some) for some in self.kept])

    @property
    def reserve(self) -> Floats:
        """The spare rows, like `rows`."""
        return self.features.integers(self.spare)

    def is_within(self, length: float) -> bool:
        """Return whether ‖C x_i‖ ≤ length for every row, for certain."""
        return math.sqrt(self.maximum) * (1 + 4 * ROUNDOFF) <= length

    @property
    def length(self) -> float:
        """The published L ≥ max ‖C x_i‖."""
        return round_length_up(math.sqrt(self.maximum) * (1 + 4 * ROUNDOFF))


def round_length_up(exact: float) -> float:
    """Return a number of 24 bits that is larger by more than machines differ in rounding.

    Adding 2 units instead of 1 leaves room, so that whoever checks a certificate on another
    machine, whose BLAS rounds differently, still finds every row within the published length.
    """
    fraction, exponent = math.frexp(exact)
    return math.ldexp(math.floor(math.ldexp(fraction, _LENGTH_BITS)) + 2, exponent - _LENGTH_BITS)


@dataclass(frozen=True)
class TopK:
    """The `size` different rows of largest key, largest first; equal keys in order of hash."""

    size: int
    keys: Floats
    hashes: Hashes
    rows: Encoded

    @property
    def threshold(self) -> float:
        """No row of smaller key can enter."""
        return float(self.keys[-1]) if len(self.keys) == self.size else -math.inf

    def threshold_after(self, keys: Floats) -> float:
        """Return the least possible threshold after different rows of at least these keys."""
        if len(keys) < self.size:
            return self.threshold
        place = len(keys) - self.size
        return max(self.threshold, float(np.partition(keys, place)[place]))

    def offer(self, keys: Floats, hashes: Hashes, rows: Encoded) -> TopK:
        """Return the collection after these rows were seen."""
        able = np.flatnonzero((keys >= self.threshold) & (keys > -math.inf))
        if not len(able):
            return self
        keys = np.concatenate([self.keys, keys[able]])
        hashes = np.concatenate([self.hashes, hashes[able]])
        order = np.lexsort((hashes, -keys))
        different = np.ones(len(order), dtype=bool)
        different[1:] = np.diff(hashes[order]) != 0  # equal rows have equal keys: neighbours
        chosen = order[different][: self.size]
        some = rows.take(able)
        codes = tuple(
            np.concatenate(pair) for pair in zip(self.rows.codes, some.codes, strict=True)
        )
        numbers = np.concatenate([self.rows.numbers, some.numbers])
        count = self.rows.rows + some.rows
        every = Encoded(count, numbers, codes, self.rows.joint_codes)
        return TopK(self.size, keys[chosen], hashes[chosen], every.take(chosen))


ScanState = tuple[bool, float, Floats, TopK, TopK]
"""Whether there were rows, the largest squared norm, the reach of the numbers, both collections."""


class RowNormScan:
    """Accumulator of ‖C x_i‖² over all rows, C public weights.

    `keep` rows of largest value and as many sampled ones are kept, and `spare` more of the
    sampled. Rows with a value above `floor` are sampled, with a chance that grows with the
    distance. Without `keep` only the maximum is found.
    """

    def __init__(
        self,
        features: FeatureMap,
        weights: Weights,
        *,
        keep: int = 0,
        spare: int = 0,
        floor: float = 0.0,
    ) -> None:
        self._every, self._features = features, features.keep(weights.kept)
        self._weights = weights
        self._keep, self._spare, self._floor = keep, spare, floor
        self._reset()

    def _reset(self) -> None:
        empty = TopK(self._keep, np.empty(0), np.empty(0, np.uint64), Encoded.empty(self._features))
        self._worst, self._sampled = empty, replace(empty, size=self._keep + self._spare)
        self._largest, self._reach = 0.0, np.zeros(len(self._features.number_columns))
        self._has_rows = False
        self._offered = np.zeros(_OFFERED if self._keep else 0, np.uint64)
        self._scratch = Scratch()

    @cached_property
    def _form(self) -> QuadraticForm:
        return QuadraticForm(self._every, self._weights)

    @cached_property
    def _short(self) -> ShortWeights:
        return ShortWeights(self._every, self._weights)

    @property
    def requirements(self) -> PassRequirements:
        every = replace(self._every, kept=None)
        maximum = (RowNormScan, every, *self._weights.cache_key())
        key = (maximum, self._keep, self._spare, self._floor) if self._keep else maximum
        return PassRequirements(every.columns, every, cache_key=key, also_answers=maximum)

    def new(self) -> RowNormScan:
        """Return an empty one with the same form: another machine might round M differently."""
        fresh = copy(self)
        fresh._form = self._form
        if self._keep and len(self._reach) >= _VERY_MANY_NUMBERS:
            fresh._short = self._short
        fresh._reset()
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        if not batch.rows:
            return
        self._has_rows = True
        self._reach = np.maximum(self._reach, np.abs(batch.numbers).max(axis=0, initial=0.0))
        kernels = kernels_for(self._every.rows)
        if len(self._reach) < _MANY_NUMBERS:
            values = self._form(batch, kernels, self._scratch)
        else:
            rough = self._form.rough(batch, kernels, self._scratch)
            near = self._candidates(batch, rough)
            if not len(near):
                return
            batch = batch.take(near)
            values = self._values(batch, rough[near])
        self._update_maximum(batch, values)
        if self._keep:
            self._offer(batch, values)

    def _values(self, batch: Encoded, rough: Floats) -> Floats:
        """Return values of rows: where rows are kept by them, independent of the batch."""
        if not self._wide:
            return self._form(batch, kernels_for(self._every.rows), self._scratch)
        return self._short(batch) if self._keep else rough

    @property
    def _wide(self) -> bool:
        """Whether a matrix product may give the values: very many numbers, all within reach."""
        many = len(self._reach) >= _VERY_MANY_NUMBERS
        return many and bool((self._reach <= self._every.reach).all())

    def _slack(self, largest: float) -> float:
        """Bound the error of values up to `largest`."""
        slack = self._form.rounding_error(self._reach)
        if self._keep and self._wide:
            return max(slack, self._short.error(largest + slack))
        return slack

    def _update_maximum(self, batch: Encoded, values: Floats) -> None:
        """Take the largest ‖C x‖² of these rows, rounded up, into the maximum.

        A row whose value plus error stays below the maximum so far could not have changed it, so
        the result is the same in whatever order rows come.
        """
        slack = self._slack(float(values.max()))
        order = np.flatnonzero(values + slack > self._largest)
        order = order[np.argsort(-values[order])]  # largest first: the rest are soon excluded
        for start in range(0, len(order), _EXACT_ROWS):
            some = order[start : start + _EXACT_ROWS]
            some = some[values[some] + slack > self._largest]
            if not len(some):
                break
            rows = np.unique(self._features.integers(batch.take(some)), axis=0)
            self._largest = max(self._largest, self._weights.largest_squared_norm(rows))

    def _candidates(self, batch: Encoded, rough: Floats) -> NDArray[np.intp]:
        """Return the rows that may have the largest norm or be kept.

        A rough value is off by at most two errors: its own, and that of the value it stands for.
        """
        own = self._form.rounding_error(self._reach)
        slack = own + self._slack(float(rough.max()) + own)
        near = rough + slack > self._largest
        if self._keep:
            hashes = _content_hashes(batch)
            _, places = np.unique(hashes, return_index=True)
            least = self._worst.threshold_after(rough[places] - slack)
            near |= rough + slack >= least
            low = self._sampling_keys(rough[places] - slack, hashes[places])
            least = self._sampled.threshold_after(low)
            near |= self._sampling_keys(rough + slack, hashes) >= max(least, 0.0)
        return np.flatnonzero(near)

    def _offer(self, batch: Encoded, values: Floats) -> None:
        """Offer rows to both collections; block by block as long as these are not full."""
        full = self._sampled.threshold > -math.inf
        step = batch.rows if full else _BLOCK
        for start in range(0, batch.rows, step):
            part, some = batch.part(start, start + step), values[start : start + step]
            able = np.flatnonzero((some > self._floor) | (some >= self._worst.threshold))
            if len(able) < part.rows:
                part, some = part.take(able), some[able]
            if len(able):
                self._offer_block(part, some)

    def _offer_block(self, batch: Encoded, values: Floats) -> None:
        """Offer rows but those that were offered before or can no longer be sampled."""
        hashes = _content_hashes(batch)
        lucky = hashes >= self._least_hash(float(values.max()))
        near = np.flatnonzero(lucky | (values >= self._worst.threshold))
        slots = hashes[near] % np.uint64(_OFFERED)
        near = near[self._offered[slots] != hashes[near]]
        self._offered[hashes[near] % np.uint64(_OFFERED)] = hashes[near]
        values, hashes = values[near], hashes[near]
        keys = self._sampling_keys(values, hashes)
        able = np.flatnonzero((values >= self._worst.threshold) | (keys >= self._sampled.threshold))
        if len(able):
            rows = batch.take(near[able])
            self._worst = self._worst.offer(values[able], hashes[able], rows)
            self._sampled = self._sampled.offer(keys[able], hashes[able], rows)

    def _sampling_keys(self, values: Floats, hashes: Hashes) -> Floats:
        """Return keys whose k largest are a weighted sample without replacement.

        weight/−log u with u uniform is the reciprocal of an exponential clock of that rate
        (Efraimidis and Spirakis); u is the row's hash, so equal rows have equal keys.
        """
        uniform = ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        weights = values - self._floor
        return np.asarray(np.where(weights > 0.0, weights / -np.log(uniform), -math.inf))

    def _least_hash(self, largest: float) -> np.uint64:
        """Return a hash such that no row below it, of at most this value, can be sampled.

        Its key is its weight over −log u ≥ 1 − u, so u must be at least 1 − weight/threshold.
        """
        if self._sampled.threshold <= 0.0:
            return np.uint64(0)
        apart = (largest - self._floor) / self._sampled.threshold * (1 + 2.0**-40)
        return np.uint64(max(0, math.floor((1 - apart) * 2**52) - 1) << 12)

    def state(self) -> ScanState:
        return self._has_rows, self._largest, self._reach, self._worst, self._sampled

    def merge(self, state: ScanState) -> None:
        has_rows, largest, reach, worst, sampled = state
        self._has_rows |= has_rows
        self._largest = max(self._largest, largest)
        self._reach = np.maximum(self._reach, reach)
        if self._keep:
            self._worst = self._worst.offer(worst.keys, worst.hashes, worst.rows)
            self._sampled = self._sampled.offer(sampled.keys, sampled.hashes, sampled.rows)

    def result(self, *_: object) -> RowNorms:
        if not self._has_rows:
            raise no_rows()
        extra = np.flatnonzero(~np.isin(self._sampled.hashes, self._worst.hashes))
        first, spare = extra[extra < self._keep], extra[extra >= self._keep]
        sampled = self._sampled.rows
        kept = self._worst.rows, sampled.take(first)
        return RowNorms(self._largest, self._features, kept, sampled.take(spare))


def _content_hashes(batch: Encoded) -> Hashes:
    """Return a fixed hash of every row's content: equal rows have equal hashes."""
    columns = [*batch.codes, *batch.numbers.T]
    factors = mixed(np.arange(1, len(columns) + 1, dtype=np.uint64)) | np.uint64(1)
    total = np.zeros(batch.rows, np.uint64)
    for factor, column in zip(factors, columns, strict=True):
        total += column.astype(np.int64).view(np.uint64) * factor
    return mixed(total)
