"""The digests of ledgers written before `fingerprint`: of features as they were read, by name.

Only needed where a ledger holds such entries, so that a release of the same table is recognised.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.passes.accumulator import PassRequirements

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.features.feature_map import FeatureMap
    from labeldp.passes.engine import Engine

Words = NDArray[np.uint64]
_SUMS = 2
_MISSING = math.nan


def column_digests(source: Source, engine: Engine, key: bytes) -> set[tuple[str, str]]:
    """Return name and digest of every column: of features as read, of all columns as stored."""
    stored = source.stored()
    read = engine.run_pass("which table", source, _Digests(source.names, key))
    other = engine.apart().run_pass("which table", stored, _Digests(stored.names, key))
    return {*read.items(), *other.items()}


def person_digest(source: Source, engine: Engine, key: bytes, features: FeatureMap) -> str | None:
    """Return a digest of whose the rows are; None without a column of ids."""
    if source.person is None:
        return None
    accumulator = _Digests([source.person], key, replace(features, kept=None))
    return engine.run_pass("whose rows", source, accumulator)[source.person]


class _Digests:
    """Sums of all cells of some columns; with `features`, of the marks of persons instead."""

    def __init__(
        self, columns: Sequence[str], key: bytes, features: FeatureMap | None = None
    ) -> None:
        self._columns, self._key, self._features = tuple(columns), key, features
        self._rows = 0
        self._sums = {name: [0] * _SUMS for name in columns}

    @property
    def requirements(self) -> PassRequirements:
        if self._features is None:
            return PassRequirements(self._columns, keep_columns=True)
        return PassRequirements(self._features.columns, self._features)

    def new(self) -> _Digests:
        return _Digests(self._columns, self._key, self._features)

    def add(self, rows: Any, _labels: None, _first: int) -> None:
        for name in self._columns:
            words = _cells(rows.column(name)) if self._features is None else rows.persons
            self._plus(name, _mixed_sums(words, name, self._key))
        self._rows += len(words)

    def state(self) -> Any:
        return self._rows, self._sums

    def merge(self, state: Any) -> None:
        rows, sums = state
        self._rows += rows
        for name, each in sums.items():
            self._plus(name, each)

    def result(self, _row: object) -> dict[str, str]:
        told = {name: f"{self._rows}:{name}:{self._sums[name]}" for name in self._columns}
        return {n: hmac.digest(self._key, t.encode(), "sha256").hex()[:32] for n, t in told.items()}

    def _plus(self, name: str, others: Sequence[int]) -> None:
        pairs = zip(self._sums[name], others, strict=True)
        self._sums[name] = [(mine + other) % 2**64 for mine, other in pairs]


def _mixed_sums(words: Words, name: str, key: bytes) -> list[int]:
    seeds = [hmac.digest(key, f"{place}:{name}".encode(), "sha256") for place in range(_SUMS)]
    numbers = [np.uint64(int.from_bytes(seed[:8], "little")) for seed in seeds]
    return [int(_mixed(words ^ number).sum(dtype=np.uint64)) for number in numbers]


def _cells(column: pa.Array) -> Words:
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False) + 0.0
        values[np.isnan(values)] = _MISSING
        return np.asarray(values.view(np.uint64))
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    coded = pc.cast(column, pa.string()).dictionary_encode(null_encoding="encode")
    texts = np.array([_text_bits(text) for text in coded.dictionary.to_pylist()], dtype=np.uint64)
    return np.asarray(texts[coded.indices.to_numpy()])


def _text_bits(text: str | None) -> int:
    plain = "" if text is None else text.strip()
    try:
        number = float(plain) if plain else _MISSING
    except ValueError:
        return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "little")
    number = _MISSING if math.isnan(number) else number + 0.0
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def _mixed(words: Words) -> Words:
    """The finaliser of splitmix64, without the constant that `kernels.mixed` adds first."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
