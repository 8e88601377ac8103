"""The column that says whose a row is: public ids, which are hashed as soon as they are read.

A hash is fixed, public and has 64 bits; the ids themselves go nowhere. Integers never share a hash.
Texts hardly ever do, unless they differ in how they are spelt alone. Persons who share one count as
one person, which makes a guarantee cost more and never weaker.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, numpy_numbers
from labeldp.data.columns import is_text_type, value_type
from labeldp.errors import DataError
from labeldp.kernels import mixed

PERSON_COLUMN = "\0person"
"""The name of the column of hashes in the batches of a source that has persons."""

PersonHashes = NDArray[np.uint64]

_WHOLE = r"^(?:\+|(-))?0*(\d+)(?:\.0*)?$"
_POWER = r"^[+-]?\d+\.?\d*[eE][+-]?\d{1,2}$"
_INTEGER = r"^-?\d{1,18}$"
_TEXT = np.uint64(0x9E3779B97F4A7C15)
"""Any number far from ids: the hash of a short text is not that of a small integer."""


def check_person_type(field: pa.Field) -> None:
    """Refuse a column that holds neither texts nor integers."""
    type_ = value_type(field.type)
    if not (is_text_type(type_) or pa.types.is_integer(type_)):
        raise DataError(
            f"person column {field.name!r} has type {field.type}; ids must be integers or text, so "
            "convert it"
        )


def with_person_hashes(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the batch with hashes in the place of this column's ids."""
    place = batch.schema.get_field_index(name)
    hashes = person_hashes(batch.column(place), name)
    return batch.set_column(place, PERSON_COLUMN, arrow_numbers(hashes))


def without_person_hashes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without hashes."""
    names = [name for name in batch.schema.names if name != PERSON_COLUMN]
    return batch if len(names) == batch.num_columns else batch.select(names)


def read_person_hashes(batch: pa.RecordBatch) -> PersonHashes | None:
    """Return the hashes of a batch, if its source has persons."""
    place = batch.schema.get_field_index(PERSON_COLUMN)
    return None if place < 0 else numpy_numbers(batch.column(place)).astype(np.uint64, copy=False)


def person_hashes(ids: pa.Array, name: str) -> PersonHashes:
    """Return a hash of every row, the same for equal ids; a row without an id is refused."""
    if ids.null_count:
        raise DataError(
            f"person column {name!r} does not say whose every row is; fill in the missing ids (a "
            "new one for a row that is nobody else's)"
        )
    if pa.types.is_dictionary(ids.type):
        places = numpy_numbers(ids.indices)
        used = np.unique(places)
        among = ids.dictionary.take(arrow_numbers(used))
        return person_hashes(among, name)[np.searchsorted(used, places)]
    if not is_text_type(ids.type):
        return _hash_integers(ids)
    # Files may spell an id in several ways: " 7", "7", "+7", "007", "7.0", "7e0". Signs that look
    # the same have one form: an accent may be one sign with its letter, or its own. A whole number
    # has the hash that it has in a column of integers.
    texts = ids.cast(pa.large_string())
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.utf8_normalize(texts, "NFKC")
    texts = pc.utf8_trim_whitespace(texts)
    powers = pc.match_substring_regex(texts, _POWER)
    if pc.any(powers).as_py():  # whole numbers that a program wrote as floats, such as 1e+16
        full = []
        for text in texts.filter(powers).to_pylist():
            number = Decimal(text)
            full.append(str(int(number)) if number == number.to_integral_value() else text)
        texts = pc.replace_with_mask(texts, powers, arrow_words(full, texts.type))
    texts = pc.replace_substring_regex(texts, _WHOLE, r"\1\2")
    hashes = hash_texts(texts.cast(pa.large_binary()))
    whole = pc.match_substring_regex(texts, _INTEGER)
    hashes[numpy_numbers(whole)] = _hash_integers(texts.filter(whole).cast(pa.int64()))
    return hashes


def _hash_integers(ids: pa.Array) -> PersonHashes:
    integers = numpy_numbers(ids)
    return mixed(integers.astype(np.int64 if integers.dtype.kind == "i" else np.uint64).view("u8"))


def hash_texts(texts: pa.Array) -> PersonHashes:
    """Hash texts eight bytes after eight, those of one length at a time."""
    lengths = numpy_numbers(pc.binary_length(texts))
    hashes = lengths.astype(np.uint64) ^ _TEXT
    for length in np.unique(lengths[lengths > 0]):
        here = np.flatnonzero(lengths == length)
        some = texts.take(arrow_numbers(here))
        start = int(np.frombuffer(some.buffers()[1], np.int64, 1, 8 * some.offset)[0])
        whole = np.frombuffer(some.buffers()[2], np.uint8, len(here) * int(length), start)
        padded = np.zeros((len(here), -(-int(length) // 8) * 8), np.uint8)
        padded[:, :length] = whole.reshape(len(here), int(length))
        for word in padded.view("<u8").T:
            hashes[here] = mixed(hashes[here] ^ word)
    return hashes
