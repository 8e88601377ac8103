"""Public weights C of shaped-flag and a rigorous bound of max ‖C x_i‖ over all rows (theory §9).

Aggregate j of shaped-flag is Σ_i (c_j·x_i)·y_i, so one label moves the aggregates by at most
Δ·‖C x_i‖, Δ the width of the label range. The guarantee therefore rests on L ≥ max ‖C x_i‖ for C
exactly as it is published, and on nothing else: how C was chosen (`mechanisms/noise_shape.py`)
and how it was rounded cannot hurt.

`RowNormScan` is the accumulator of that maximum:

1. every row gets a value near ‖C x‖², with a known bound on its error (`QuadraticForm`);
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
from labeldp.exact.quadratic_form import MANY_NUMBERS, QuadraticForm
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import mixed
from labeldp.passes.accumulator import PassRequirements

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

_DROPPED_BITS = 13
"""A published weight has 53 − 13 = 40 significant bits: far more than the noise needs."""
_EXPONENT_LIMIT = 400
"""Weights are 0 or between 2**-400 and 2**400: their squares times squares of codes are then
normal doubles, for which rounding errors are relative."""
_LENGTH_BITS = 24
"""Significant bits of a published length."""
_EXACT_ROWS = 256
"""Rows that are computed again from C at a time."""
_SCREENED_ROWS = 8192
"""Rows at a time where a matrix product screens them."""
_OFFERED = 1 << 16
"""Hashes remembered, so that the many equal rows of some tables are offered once."""


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
        """The number of aggregates."""
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
        """Turn a C for scaled codes x·2**-e into weights of codes, rounded for publication.

        To 40 significant bits, ties to even, on the bits of the doubles themselves.
        """
        lower = np.tril(scaled)
        bits = np.ldexp(lower, -cholesky.exponents, out=lower).view(np.int64)
        # Add half of the last kept bit less one, plus one if that bit is odd, then cut. A carry
        # runs into the exponent, which gives the next power of two. In place: C may be large.
        rounded = (bits >> _DROPPED_BITS) & 1
        rounded += bits
        rounded += (1 << (_DROPPED_BITS - 1)) - 1
        rounded &= -1 << _DROPPED_BITS
        return cls(cholesky.kept, rounded.view(np.float64))

    def scaled(self, exponent: int) -> Weights:
        """Return C·2**exponent, which is exact."""
        return Weights(self.kept, np.ldexp(self.matrix, exponent))

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

    def squared_norms(self, features: FeatureMap) -> QuadraticForm:
        """Return x ↦ ‖C x‖² for encoded rows."""
        return QuadraticForm(features, self.kept, self.matrix, gram_of_triangle(self.matrix))

    def noise_root(self, cholesky: VerifiedCholesky) -> Floats:
        """Return K = (C·L)⁻¹, so that K·Kᵀ is the noise covariance S of this C up to rounding."""
        from scipy.linalg.blas import dtrmm
        from scipy.linalg.lapack import dtrtri

        plain = np.ldexp(self.matrix, cholesky.exponents)
        # C·L: the weights in whitened coordinates, in which XᵀX is the identity.
        white = np.tril(dtrmm(1.0, cholesky.lower, plain, side=1, lower=1))
        return np.asarray(dtrtri(white, lower=1)[0])


@dataclass(frozen=True)
class RowNorms:
    """What a scan found.

    maximum: at least ‖C x_i‖² of every row.
    rows: different rows, those of largest value, then sampled ones.
    """

    maximum: float
    rows: Encoded = field(repr=False)

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
    """At least the `size` different rows of largest key; sorted only when there are many others."""

    size: int
    keys: Floats
    hashes: Hashes
    rows: Encoded
    threshold: float = -math.inf
    """No row of smaller key can be one of them."""

    def with_rows(self, keys: Floats, hashes: Hashes, rows: Encoded) -> TopK:
        """Return the collection with those of these rows whose keys are large enough."""
        able = np.flatnonzero((keys >= self.threshold) & (keys > -math.inf))
        if not len(able):
            return self
        keys = np.concatenate([self.keys, keys[able]])
        hashes = np.concatenate([self.hashes, hashes[able]])
        every = Encoded.concatenate([self.rows, rows.take(able)])
        more = replace(self, keys=keys, hashes=hashes, rows=every)
        return more.best() if len(keys) > 2 * self.size else more

    def best(self) -> TopK:
        """Return those of largest key alone, largest first; equal keys in order of hash."""
        order = np.lexsort((self.hashes, -self.keys))
        different = np.ones(len(order), dtype=bool)
        different[1:] = np.diff(self.hashes[order]) != 0  # equal rows have equal keys: neighbours
        chosen = order[different][: self.size]
        keys, hashes = self.keys[chosen], self.hashes[chosen]
        threshold = float(keys[-1]) if len(keys) == self.size > 0 else -math.inf
        return TopK(self.size, keys, hashes, self.rows.take(chosen), threshold)


ScanState = tuple[float, TopK, TopK]
"""The largest squared norm and both collections."""


class RowNormScan:
    """Accumulator of ‖C x_i‖² over all rows, C public weights.

    `keep` rows of largest value are kept, and a `sample` of those with a value above `floor`, with
    a chance that grows with the distance. Without `keep` only the maximum is found.
    """

    def __init__(
        self,
        features: FeatureMap,
        weights: Weights,
        *,
        keep: int = 0,
        sample: int = 0,
        floor: float = 0.0,
    ) -> None:
        self._features, self._weights = features.keep(weights.kept), weights
        self._keep, self._sample, self._floor = keep, sample, floor
        self._reset()

    def _reset(self) -> None:
        empty = TopK(self._keep, np.empty(0), np.empty(0, np.uint64), Encoded.empty(self._features))
        self._worst, self._sampled = empty, replace(empty, size=self._sample)
        self._largest, self._reach = 0.0, np.zeros(len(self._features.number_columns))
        self._offered = np.zeros(_OFFERED if self._keep else 0, np.uint64)

    @cached_property
    def _form(self) -> QuadraticForm:
        return self._weights.squared_norms(self._features)

    @property
    def requirements(self) -> PassRequirements:
        every = replace(self._features, kept=None)
        maximum = (RowNormScan, every, *self._weights.cache_key())
        # A scan that keeps rows also answers who asks for the maximum alone.
        own = ((maximum, self._keep, self._sample, self._floor),) if self._keep else ()
        return PassRequirements(every.columns, every, cache_keys=(*own, maximum))

    def new(self) -> RowNormScan:
        """Return an empty one with the same form: another machine might round M differently."""
        fresh = copy(self)
        fresh._form = self._form
        fresh._reset()
        return fresh

    def add(self, batch: Encoded, *_: object) -> None:
        self._reach = np.maximum(self._reach, np.abs(batch.numbers).max(axis=0, initial=0.0))
        error = self._form.rounding_error(self._reach)
        rough = len(self._reach) >= MANY_NUMBERS
        # What is found in the first rows spares most others the computation of exact digits.
        step = _SCREENED_ROWS if rough and self._keep else max(1, batch.rows)
        for start in range(0, batch.rows, step):
            self._add_rows(batch.take(slice(start, start + step)), error, rough)

    def _add_rows(self, batch: Encoded, error: float, rough: bool) -> None:
        values = self._form(batch, rough=rough)
        if self._keep:
            # Which rows are kept must not depend on how the table was cut into batches, but the
            # last digits of a matrix product do: rows that may be kept get others. A rough value
            # is off by at most two errors: its own, and that of the value it stands for.
            upper = values + (2 * error if rough else error)
            near = (upper > min(self._floor, self._largest)) | (upper >= self._worst.threshold)
            places = np.flatnonzero(near)
            if len(places) < batch.rows:
                batch, values, upper = batch.take(places), values[places], upper[places]
            hashes = _content_hashes(batch)
            if rough:  # chosen by key before they are copied: numbers are many
                near = (upper > self._largest) | self._may_enter(upper, hashes)
                places = np.flatnonzero(near)
                batch, hashes = batch.take(places), hashes[places]
                values = self._form(batch)
            self._offer(batch, values, hashes)
        self._update_maximum(batch, values, error)

    def _update_maximum(self, batch: Encoded, values: Floats, error: float) -> None:
        """Take the largest ‖C x‖² of these rows, rounded up, into the maximum.

        A row whose value plus error stays below the maximum so far could not have changed it, so
        the result is the same in whatever order rows come.
        """
        order = np.flatnonzero(values + error > self._largest)
        order = order[np.argsort(-values[order])]  # largest first: the rest are soon excluded
        for start in range(0, len(order), _EXACT_ROWS):
            some = order[start : start + _EXACT_ROWS]
            some = some[values[some] + error > self._largest]
            if not len(some):
                break
            rows = np.unique(self._features.integers(batch.take(some)), axis=0)
            self._largest = max(self._largest, self._weights.largest_squared_norm(rows))

    def _may_enter(self, values: Floats, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which rows may enter one of the collections."""
        drawn = self._sampling_keys(values, hashes) >= max(self._sampled.threshold, 0.0)
        return np.asarray(drawn | (values >= self._worst.threshold))

    def _offer(self, batch: Encoded, values: Floats, hashes: Hashes) -> None:
        """Offer rows to both collections but those that were offered before."""
        slots = hashes % np.uint64(_OFFERED)
        new = np.flatnonzero(self._may_enter(values, hashes) & (self._offered[slots] != hashes))
        self._offered[slots[new]] = hashes[new]
        values, hashes, rows = values[new], hashes[new], batch.take(new)
        keys = self._sampling_keys(values, hashes)
        self._worst = self._worst.with_rows(values, hashes, rows)
        self._sampled = self._sampled.with_rows(keys, hashes, rows)

    def _sampling_keys(self, values: Floats, hashes: Hashes) -> Floats:
        """Return keys whose k largest are a weighted sample without replacement.

        weight/−log u with u uniform is the reciprocal of an exponential clock of that rate
        (Efraimidis and Spirakis); u is the row's hash, so equal rows have equal keys.
        """
        uniform = ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        weights = values - self._floor
        return np.asarray(np.where(weights > 0.0, weights / -np.log(uniform), -math.inf))

    def state(self) -> ScanState:
        return self._largest, self._worst.best(), self._sampled.best()

    def merge(self, state: ScanState) -> None:
        largest, worst, sampled = state
        self._largest = max(self._largest, largest)
        if self._keep:
            self._worst = self._worst.with_rows(worst.keys, worst.hashes, worst.rows)
            self._sampled = self._sampled.with_rows(sampled.keys, sampled.hashes, sampled.rows)

    def result(self, *_: object) -> RowNorms:
        worst, sampled = self._worst.best(), self._sampled.best()
        extra = np.flatnonzero(~np.isin(sampled.hashes, worst.hashes))
        rows = Encoded.concatenate([worst.rows, sampled.rows.take(extra)])
        return RowNorms(self._largest, rows)


def _content_hashes(batch: Encoded) -> Hashes:
    """Return a fixed hash of every row's content: equal rows have equal hashes."""
    columns = [*batch.codes, *batch.numbers.T]
    factors = mixed(np.arange(1, len(columns) + 1, dtype=np.uint64)) | np.uint64(1)
    total = np.zeros(batch.rows, np.uint64)
    for factor, column in zip(factors, columns, strict=True):
        total += column.astype(np.int64).view(np.uint64) * factor
    return mixed(total)
