"""Which table it is: a keyed digest of each public feature column, whatever the order of its rows.

A cell becomes a word of 64 bits under the key, words are added up modulo 2^64, twice; so parts of a
table may be read in any order and on any machine. A number counts by its value, however it is
spelt; text that is no number by its letters. Only who has the ledger, and with it the key, can tell
whether a table is the one of a digest.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.features.accumulators import PassRequirements

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.features.encoder import Encoded
    from labeldp.features.feature_map import FeatureMap
    from labeldp.passes.protocol import Engine

Words = NDArray[np.uint64]
_SUMS = 2
_MISSING = math.nan


def identity(source: Source, engine: Engine, key: bytes) -> dict[str, str]:
    """A digest of every feature column by its name; the number of rows is in each."""
    return engine.run_pass("which table", source, ColumnSums(source.names, key))


def persons_identity(
    source: Source, engine: Engine, key: bytes, features: FeatureMap
) -> dict[str, str] | None:
    """A digest of whose the rows are, by the column of ids; None without one."""
    if source.person is None:
        return None
    told = engine.run_pass("whose rows", source, PersonSums(features, source.person, key))
    return {"column": source.person, "digest": told}


class ColumnSums:
    """The tally behind `identity`."""

    def __init__(self, columns: Sequence[str], key: bytes) -> None:
        self._columns, self._key = tuple(columns), key
        self._rows = 0
        self._sums = {name: [0] * _SUMS for name in columns}

    @property
    def needs(self) -> PassRequirements:
        return PassRequirements(self._columns, keep=True)

    def new(self) -> ColumnSums:
        return ColumnSums(self._columns, self._key)

    def add(self, rows: pa.RecordBatch, _labels: None, _first: int) -> None:
        self._rows += rows.num_rows
        for name in self._columns:
            bits = _cells(rows.column(name))
            self._sums[name] = _plus(self._sums[name], _sums_of(bits, name, self._key))

    def share(self) -> dict[str, Any]:
        return {"rows": self._rows, "sums": self._sums}

    def merge(self, share: Mapping[str, Any]) -> None:
        self._rows += share["rows"]
        for name, sums in share["sums"].items():
            self._sums[name] = _plus(self._sums[name], sums)

    def result(self, _row: object) -> dict[str, str]:
        return {n: _digest(self._rows, n, self._sums[n], self._key) for n in self._columns}


class PersonSums:
    """The tally behind `persons_identity`: of the marks of ids, not of their spelling.

    How many rows everybody has follows from them, and with it what a release costs a person.
    """

    def __init__(self, features: FeatureMap, column: str, key: bytes) -> None:
        self._features, self._column, self._key = features, column, key
        self._rows, self._sums = 0, [0] * _SUMS

    @property
    def needs(self) -> PassRequirements:
        every = replace(self._features, kept=None)
        return PassRequirements(every.columns, every)

    def new(self) -> PersonSums:
        return PersonSums(self._features, self._column, self._key)

    def add(self, rows: Encoded, _labels: None, _first: int) -> None:
        assert rows.persons is not None  # a source with persons gives them
        self._rows += rows.rows
        self._sums = _plus(self._sums, _sums_of(rows.persons, self._column, self._key))

    def share(self) -> dict[str, Any]:
        return {"rows": self._rows, "sums": self._sums}

    def merge(self, share: Mapping[str, Any]) -> None:
        self._rows += share["rows"]
        self._sums = _plus(self._sums, share["sums"])

    def result(self, _row: object) -> str:
        return _digest(self._rows, self._column, self._sums, self._key)


def _sums_of(words: Words, name: str, key: bytes) -> list[int]:
    """Of the words of a column, mixed under the key in several ways."""
    seeds = [hmac.digest(key, f"{place}:{name}".encode(), "sha256") for place in range(_SUMS)]
    numbers = [np.uint64(int.from_bytes(seed[:8], "little")) for seed in seeds]
    return [int(_mixed(words ^ number).sum(dtype=np.uint64)) for number in numbers]


def _plus(sums: Sequence[int], others: Sequence[int]) -> list[int]:
    return [(mine + other) % 2**64 for mine, other in zip(sums, others, strict=True)]


def _digest(rows: int, name: str, sums: Sequence[int], key: bytes) -> str:
    return hmac.digest(key, f"{rows}:{name}:{list(sums)}".encode(), "sha256").hex()[:32]


def _cells(column: pa.Array) -> Words:
    """Every cell as 64 bits: a float's, or those of a hash of text."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _bits(pc.cast(column, pa.float64(), safe=False))
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    coded = pc.cast(column, pa.string()).dictionary_encode(null_encoding="encode")
    texts = np.array([_text_bits(text) for text in coded.dictionary.to_pylist()], dtype=np.uint64)
    return np.asarray(texts[coded.indices.to_numpy()])


def _bits(numbers: pa.Array) -> Words:
    values = numbers.to_numpy(zero_copy_only=False) + 0.0  # −0 is 0
    values[np.isnan(values)] = _MISSING
    return np.asarray(values.view(np.uint64))


def _text_bits(text: str | None) -> int:
    plain = "" if text is None else text.strip()
    try:
        number = float(plain) if plain else _MISSING
    except ValueError:
        return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "little")
    number = _MISSING if math.isnan(number) else number + 0.0
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def _mixed(words: Words) -> Words:
    """The finaliser of splitmix64: a permutation in which every bit moves every other."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
