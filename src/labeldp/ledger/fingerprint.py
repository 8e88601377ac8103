"""Which table it is: keyed digests of its columns, and of the persons in it.

A column is known by the multiset of its values, under a key that stands in the ledger: not by its
name, its type, its place or the order of rows. All rows and all columns of the source count, before
`na`, `drop_missing_labels` or a choice of features leave any of them out. One column is left out:
the label. Whoever has the ledger has the key and could test a guess of the labels against a digest
of them. For the same reason columns that are not features are compared with what the ledger holds,
but their digests are not stored: they may be other labels, or copies of this one.

Parts of a table may be read in any order and on any machine: a cell is a word of 64 bits, words are
mixed under the key and added up modulo 2^64, twice.

Ledgers of the first version hold other digests. Their tables are known by names of columns and the
number of rows (see `ledger`), and their persons by `person_digest_v1`.
"""

from __future__ import annotations

import base64
import hmac
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, numpy_numbers
from labeldp.data.columns import is_number_type, is_text_type, value_type
from labeldp.data.persons import hash_texts, person_hashes, read_person_hashes
from labeldp.kernels import mixed
from labeldp.passes.accumulator import PassRequirements

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine

Words = NDArray[np.uint64]
_ONCE = np.ones(1, np.uint64)

MOST_IDS = 1 << 20
"""Digests of persons that are stored; of more persons those of the smallest digests."""

# What follows is part of the digests that ledgers hold. It must never change, whatever else is
# read as missing or as a number elsewhere in the package.
_SUMS = 2
_ADDED = np.uint64(0x9E3779B97F4A7C15)  # the constant of SplitMix64, in `mixed`
_MISSING = np.uint64(0x7FF8000000000000)  # the bits of the usual NaN
_MISSING_WORDS = ("", "#n/a", "n/a", "na", "nan", "-nan", "null", "none", "<na>", "nat", ".")
_DECIMAL_COMMA = r"^([+-]?\d+),(\d+)$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?inf(inity)?$"
_WHOLE_SECONDS = r"^(\d{4}-\d\d-\d\d)[t ](\d\d:\d\d:\d\d)(?:\.0+)?(?:z|\+00:00)?$"
_MIDNIGHT = r"^(\d{4}-\d\d-\d\d) 00:00:00$"


@dataclass(frozen=True)
class PersonIds:
    """Whose the rows of a table are, by one column of ids."""

    column: str
    digest: str
    """Of the ids of all rows, so that it also depends on how many rows everybody has."""
    ids: Words
    """Keyed digests of the ids, each once, in increasing order."""
    complete: bool = True
    """Whether they are all ids; else those of the smallest digests."""
    most_rows: int | None = None
    """The largest number of rows of a person; None if ids are not complete."""

    def in_common(self, other: PersonIds) -> int:
        """Return how many persons are seen to be in both; of incomplete ids, among a sample."""
        ends = [each.ids[-1] for each in (self, other) if not each.complete]
        shared = np.intersect1d(self.ids, other.ids, assume_unique=True)
        return int((shared <= min(ends)).sum()) if ends else len(shared)

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"ids": base64.b64encode(self.ids.astype("<u8").tobytes()).decode()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PersonIds:
        ids = np.frombuffer(base64.b64decode(document["ids"]), dtype="<u8").astype(np.uint64)
        return cls(**{**document, "ids": ids})


@dataclass(frozen=True)
class Fingerprint:
    """What a table is recognised by."""

    rows: int
    columns: Mapping[str, str]
    """The digest of every column of the source by its name; not of those that say nothing."""
    names: frozenset[str]
    """Names of all columns of the source but the label."""
    persons: Mapping[str, PersonIds]
    """Ids of persons by their columns."""


def fingerprint(
    source: Source, engine: Engine, key: bytes, id_columns: Collection[str] = ()
) -> Fingerprint:
    """Read all rows of a source once; persons are looked at in `id_columns`, where there are any.

    A constant column, or one that numbers the rows, has no digest: it is the same in any table of
    as many rows.
    """
    stored, ids = source.stored(), []
    for each in stored.reader.schema:
        kind = value_type(each.type)
        if each.name in id_columns and (is_text_type(kind) or pa.types.is_integer(kind)):
            ids.append(each.name)
    return engine.apart().run_pass("which table", stored, TableSums(stored.names, key, ids))


class TableSums:
    """The accumulator behind `fingerprint`."""

    def __init__(self, columns: Sequence[str], key: bytes, id_columns: Sequence[str]) -> None:
        self._columns, self._key, self._id_columns = tuple(columns), key, tuple(id_columns)
        self._rows = 0
        self._sums = {name: _ColumnSum() for name in columns}
        self._ids = {name: _IdSet() for name in id_columns}

    @property
    def requirements(self) -> PassRequirements:
        return PassRequirements(self._columns)

    def new(self) -> TableSums:
        return TableSums(self._columns, self._key, self._id_columns)

    def add(self, rows: pa.RecordBatch, _labels: None, _first: int) -> None:
        self._rows += rows.num_rows
        masks = _masks(self._key, "column:")
        for name, column_sum in self._sums.items():
            column_sum.merge(_column_sum(rows.column(name), masks))
        masks = _masks(self._key, "person:")
        for name, id_set in self._ids.items():
            hashes = person_hashes(rows.column(name).drop_null(), name)
            counts = np.unique(mixed(hashes ^ masks[0]), return_counts=True)
            id_set.merge(_IdSet(_mixed_sums(hashes, masks), [counts]))

    def state(self) -> Any:
        return self._rows, self._sums, self._ids

    def merge(self, state: Any) -> None:
        rows, sums, ids = state
        self._rows += rows
        for name, column in sums.items():
            self._sums[name].merge(column)
        for name, persons in ids.items():
            self._ids[name].merge(persons)

    def result(self, _row: object) -> Fingerprint:
        columns, persons = {}, {}
        for name, column in self._sums.items():
            if column.least_word != column.largest_word and not self._numbers_rows(column):
                columns[name] = self._digest("column", column.sums)
        for name, each in self._ids.items():
            ids, counts = each.smallest()
            most = int(counts.max(initial=0)) if each.complete else None
            digest = self._digest("person", each.sums)
            persons[name] = PersonIds(name, digest, ids, each.complete, most)
        return Fingerprint(self._rows, columns, frozenset(self._columns), persons)

    def _digest(self, what: str, sums: Words) -> str:
        return _hex_digest(self._key, f"{what}:{self._rows}:{sums.tolist()}")

    def _numbers_rows(self, column: _ColumnSum) -> bool:
        """Return whether the column numbers the rows from some integer on."""
        gap = abs(column.largest - column.least - (self._rows - 1))
        if not gap <= abs(column.largest) * 2.0**-23 or column.least % 1:  # singles are rounded
            return False
        sums, masks = np.zeros(_SUMS, np.uint64), _masks(self._key, "column:")
        for start in range(0, self._rows, 1 << 20):
            some = np.arange(start, min(start + (1 << 20), self._rows)) + column.least
            sums += _mixed_sums(_number_words(some), masks)
        return bool(np.array_equal(sums, column.sums))


@dataclass
class _ColumnSum:
    """Sums of the mixed words of a column modulo 2^64, and its ends."""

    sums: Words = field(default_factory=lambda: np.zeros(_SUMS, np.uint64))
    least_word: int = 2**64
    largest_word: int = -1
    least: float = math.inf
    """Of numbers; NaN if a cell is none."""
    largest: float = -math.inf

    def merge(self, other: _ColumnSum) -> None:
        self.sums = self.sums + other.sums
        self.least_word = min(self.least_word, other.least_word)
        self.largest_word = max(self.largest_word, other.largest_word)
        self.least = float(np.minimum(self.least, other.least))
        self.largest = float(np.maximum(self.largest, other.largest))


@dataclass
class _IdSet:
    """The sums of the ids of all rows, and the smallest different digests of ids."""

    sums: Words = field(default_factory=lambda: np.zeros(_SUMS, np.uint64))
    parts: list[tuple[Words, NDArray[np.int64]]] = field(default_factory=list)
    """Digests of ids, and how many rows have each: many small parts are merged at once."""
    complete: bool = True

    def merge(self, other: _IdSet) -> None:
        self.sums = self.sums + other.sums
        self.parts += other.parts
        self.complete = self.complete and other.complete
        if sum(len(ids) for ids, _ in self.parts) > 2 * MOST_IDS:
            self.parts = [self.smallest()]

    def smallest(self) -> tuple[Words, NDArray[np.int64]]:
        """Merge all parts; return the smallest digests, and how many rows have each."""
        parts = [(np.empty(0, np.uint64), np.empty(0, np.int64)), *self.parts]
        all_ids, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
        ids, places = np.unique(all_ids, return_inverse=True)
        rows = np.zeros(len(ids), np.int64)
        np.add.at(rows, places, counts)
        self.complete = self.complete and len(ids) <= MOST_IDS
        return ids[:MOST_IDS], rows[:MOST_IDS]


def _column_sum(column: pa.Array, masks: Words) -> _ColumnSum:
    """Return the sums and ends of a column; a text counts as many times as it occurs."""
    if is_number_type(column.type):
        words, counts = _words(column), _ONCE
    else:
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string()) if is_text_type(column.type) else column
            column = column.dictionary_encode()
        codes = numpy_numbers(column.indices.drop_null())
        times = np.bincount(codes, minlength=len(column.dictionary)).astype(np.uint64)
        used = np.flatnonzero(times)
        words, counts = _words(column.dictionary.take(arrow_numbers(used))), times[used]
        if column.null_count:
            words = np.append(words, _MISSING)
            counts = np.append(counts, np.uint64(column.null_count))
    if not len(words):
        return _ColumnSum()
    numbers = words.view(np.float64)  # a text's word is any number, and no row number in the end
    ends = int(words.min()), int(words.max()), float(numbers.min()), float(numbers.max())
    return _ColumnSum(_mixed_sums(words, masks, counts), *ends)


def _mixed_sums(words: Words, masks: Words, counts: Words = _ONCE) -> Words:
    """Return the sum of the mixed words, each as often as it occurs, for every mask."""
    sums = [(mixed(words ^ mask) * counts).sum(dtype=np.uint64) for mask in masks]
    return np.array(sums, np.uint64)


def _masks(key: bytes, before: str = "", after: str = "") -> Words:
    texts = [f"{before}{place}{after}" for place in range(_SUMS)]
    digests = [hmac.digest(key, text.encode(), "sha256") for text in texts]
    return np.array([int.from_bytes(each[:8], "little") for each in digests], dtype=np.uint64)


def _hex_digest(key: bytes, content: str) -> str:
    return hmac.digest(key, content.encode(), "sha256").hex()[:32]


def _words(values: pa.Array) -> Words:
    """Return a 64-bit word of every value: of a number by its value, else by its text."""
    kind = values.type
    if is_number_type(kind):
        return _number_words(numpy_numbers(pc.cast(values, pa.float64(), safe=False)))
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp(kind.unit))  # an instant, in any time zone
    return _text_words(values.cast(pa.large_string()))


def _number_words(values: NDArray[Any]) -> Words:
    """Bits of the nearest single: what a column keeps when it is written as float32 or int."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32).astype(np.float64) + 0.0  # −0 is 0
    words = numbers.view(np.uint64)
    words[np.isnan(numbers)] = _MISSING
    return words


def _text_words(texts: pa.Array) -> Words:
    """Return words of texts: a number's for one that is a number, `_MISSING` for a missing one."""
    texts = pc.if_else(texts.is_null(), arrow_words([""], texts.type)[0], texts)
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    texts = pc.replace_substring_regex(texts, _WHOLE_SECONDS, r"\1 \2")
    texts = pc.replace_substring_regex(texts, _MIDNIGHT, r"\1")
    texts = pc.replace_substring_regex(texts, _DECIMAL_COMMA, r"\1.\2")
    texts = pc.replace_substring_regex(texts, "^true$", "1")
    texts = pc.replace_substring_regex(texts, "^false$", "0")
    words = hash_texts(texts.cast(pa.large_binary()))
    numbers = pc.match_substring_regex(texts, _NUMBER)
    values = texts.filter(numbers).cast(pa.float64())
    words[numpy_numbers(numbers)] = _number_words(numpy_numbers(values))
    missing = pc.is_in(texts, value_set=arrow_words(_MISSING_WORDS, texts.type))
    words[numpy_numbers(missing)] = _MISSING
    return words


def person_digest_v1(source: Source, key: bytes) -> str:
    """Return the digest that ledgers of the first version hold of the ids of a source's persons."""
    rows, sums, column = 0, np.zeros(_SUMS, np.uint64), str(source.person)
    masks = _masks(key, after=f":{column}")
    for batch in source.feature_batches([]):
        hashes = read_person_hashes(batch)
        assert hashes is not None
        rows += len(hashes)
        # `mixed` adds a constant before it mixes; the first version did not.
        sums += [mixed((hashes ^ mask) - _ADDED).sum(dtype=np.uint64) for mask in masks]
    return _hex_digest(key, f"{rows}:{column}:{sums.tolist()}")
