"""The column that says whose a row is: public ids, which become marks as soon as they are read.

A mark is a fixed public hash of 64 bits, and the ids themselves go nowhere. Integers never share a
mark. Texts hardly ever do, unless they differ in how they are spelt alone; persons who share one
count as one person, which makes a guarantee dearer and never weaker.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, arrow_words, numpy_numbers
from labeldp.data.columns import is_text, value_type
from labeldp.errors import DataError
from labeldp.kernels import mixed

PERSON_COLUMN = "\0person"
"""The name of the column of marks in the batches of a source that has persons."""

PersonHashes = NDArray[np.uint64]

_WHOLE = r"^(?:\+|(-))?0*(\d+)(?:\.0*)?$"
_POWER = r"^[+-]?\d+\.?\d*[eE][+-]?\d{1,2}$"
_INTEGER = r"^-?\d{1,18}$"
_TEXT = np.uint64(0x9E3779B97F4A7C15)
"""Any number far from ids: the mark of a short text is not that of a small integer."""


def check_person_type(field: pa.Field) -> None:
    """Refuse a column that holds neither texts nor integers."""
    type_ = value_type(field.type)
    if not (is_text(type_) or pa.types.is_integer(type_)):
        raise DataError(
            f"person column {field.name!r} has type {field.type}; ids must be integers or text, so "
            "convert it"
        )


def with_person_hashes(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The batch with marks in the place of this column's ids."""
    place = batch.schema.get_field_index(name)
    hashes = person_hashes(batch.column(place), name)
    return batch.set_column(place, PERSON_COLUMN, arrow_numbers(hashes))


def without_person_hashes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without marks."""
    names = [name for name in batch.schema.names if name != PERSON_COLUMN]
    return batch if len(names) == batch.num_columns else batch.select(names)


def read_person_hashes(batch: pa.RecordBatch) -> PersonHashes | None:
    """The marks of a batch, if its source has persons."""
    place = batch.schema.get_field_index(PERSON_COLUMN)
    return None if place < 0 else numpy_numbers(batch.column(place)).astype(np.uint64, copy=False)


def person_hashes(ids: pa.Array, name: str) -> PersonHashes:
    """A mark of every row, the same for equal ids; a row without an id is refused."""
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
    if is_text(ids.type):
        return _of_spelt(_alike(ids.cast(pa.large_string())))
    return _of_integers(ids)


def _alike(texts: pa.Array) -> pa.Array:
    """One spelling of ids that files may spell in several: " 7", "7", "+7", "007", "7.0", "7e0".

    Signs that look the same have one form: an accent may be one sign with its letter, or its own.
    """
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.utf8_normalize(texts, "NFKC")
    texts = _without_powers(pc.utf8_trim_whitespace(texts))
    return pc.replace_substring_regex(texts, _WHOLE, r"\1\2")


def _without_powers(texts: pa.Array) -> pa.Array:
    """Whole numbers in full that a program wrote as floats: "1e+16" is 10000000000000000."""
    powers = pc.match_substring_regex(texts, _POWER)
    if not pc.any(powers).as_py():
        return texts
    full = [_in_full(text) for text in texts.filter(powers).to_pylist()]
    return pc.replace_with_mask(texts, powers, arrow_words(full, texts.type))


def _in_full(text: str) -> str:
    number = Decimal(text)
    return str(int(number)) if number == number.to_integral_value() else text


def _of_spelt(texts: pa.Array) -> PersonHashes:
    """Of a whole number the mark that it has in a column of integers."""
    marks = hash_texts(texts.cast(pa.large_binary()))
    whole = pc.match_substring_regex(texts, _INTEGER)
    marks[numpy_numbers(whole)] = _of_integers(texts.filter(whole).cast(pa.int64()))
    return marks


def _of_integers(ids: pa.Array) -> PersonHashes:
    integers = numpy_numbers(ids)
    return mixed(integers.astype(np.int64 if integers.dtype.kind == "i" else np.uint64).view("u8"))


def hash_texts(texts: pa.Array) -> PersonHashes:
    """Eight bytes after eight, texts of one length at a time."""
    lengths = numpy_numbers(pc.binary_length(texts))
    marks = lengths.astype(np.uint64) ^ _TEXT
    for length in np.unique(lengths[lengths > 0]):
        here = np.flatnonzero(lengths == length)
        some = texts.take(arrow_numbers(here))
        start = int(np.frombuffer(some.buffers()[1], np.int64, 1, 8 * some.offset)[0])
        whole = np.frombuffer(some.buffers()[2], np.uint8, len(here) * int(length), start)
        padded = np.zeros((len(here), -(-int(length) // 8) * 8), np.uint8)
        padded[:, :length] = whole.reshape(len(here), int(length))
        for word in padded.view("<u8").T:
            marks[here] = mixed(marks[here] ^ word)
    return marks
