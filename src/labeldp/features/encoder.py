"""`Encoder`: from batches of raw rows to integer codes.

Each distinct level is looked up once per dictionary, narrow integers by a table. `Encoded` rows
are exact integers; `Packed` ones are how rows are kept in memory between passes. `ChosenRows`
encodes some rows by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import (
    arrow_numbers,
    integer_kind,
    narrow_integers,
    numpy_numbers,
    same_dictionary,
)
from labeldp.data.columns import is_narrow
from labeldp.data.persons import PersonHashes, read_person_hashes
from labeldp.errors import DataError
from labeldp.features.columns import CategoricalColumn, NumericColumn
from labeldp.features.joint_codes import JointCategoryCodes
from labeldp.features.levels import codes_of
from labeldp.kernels import Codes, Kernels, Positions, Scratch, every_integer, positions
from labeldp.passes.accumulator import Labels, PassRequirements

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap

_CODE_BYTES = 4
_MISSING_CODE = -(2**31)


@dataclass(frozen=True)
class Encoded:
    """Rows as exact integers; one-hot columns stay codes, never dense.

    `numbers` holds the codes of numeric columns, their 0/1 indicators and what the basis derives
    from them as whole float64 numbers, in the order of `FeatureMap.number_columns`; `codes` holds
    one joint code per row for every group of `joint_codes`, in types too narrow for arithmetic;
    `persons` says whose the rows are, if the source does.
    """

    rows: int
    numbers: NDArray[np.float64]
    codes: tuple[Codes, ...]
    joint_codes: JointCategoryCodes
    persons: PersonHashes | None = None

    @property
    def categories(self) -> tuple[NDArray[np.int32], ...]:
        """One level code per row for every categorical column."""
        return self.joint_codes.split(self.codes)

    @classmethod
    def empty(cls, features: FeatureMap) -> Encoded:
        """Return no rows, in the form of a map."""
        kinds = [features.joint_codes.kinds[group[0]] for group in features.joint_codes.groups]
        codes = tuple(np.empty(0, kind) for kind in kinds)
        return cls(0, np.empty((0, len(features.number_columns))), codes, features.joint_codes)

    def take(self, places: NDArray[Any] | slice) -> Encoded:
        """Return some of the rows; each number column stays contiguous. A slice copies nothing."""
        codes = tuple(codes[places] for codes in self.codes)
        persons = None if self.persons is None else self.persons[places]
        if isinstance(places, slice):
            numbers = self.numbers[places]
        else:
            numbers = self.numbers.T.take(places, axis=1).T
        return Encoded(len(numbers), numbers, codes, self.joint_codes, persons)

    def part(self, start: int, stop: int) -> Encoded:
        """Return consecutive rows, not copied."""
        return self.take(slice(start, stop))


@dataclass(frozen=True)
class Packed:
    """Rows from which an encoder makes the same as from the table's, in less memory and sooner.

    `numbers` holds every numeric column as it came, if that takes less than four bytes a row,
    else its codes, with `_MISSING_CODE` where an indicator has to tell; `codes` holds the
    joint codes.
    """

    num_rows: int
    numbers: tuple[pa.Array | NDArray[np.int32], ...]
    codes: tuple[Codes, ...]
    persons: PersonHashes | None = None

    @property
    def nbytes(self) -> int:
        persons = () if self.persons is None else (self.persons,)
        return sum(int(column.nbytes) for column in (*self.numbers, *self.codes, *persons))


Rows: TypeAlias = pa.RecordBatch | Packed
"""What an encoder reads."""


class Encoder:
    """Encodes batch after batch, for one thread: the rows it returns last until the next batch."""

    def __init__(self, features: FeatureMap, kernels: Kernels | None = None) -> None:
        self._width, self._joint_codes = len(features.number_columns), features.joint_codes
        self._kernels, self._scratch = kernels or Kernels(), Scratch()
        self._numbers = [_Number(column, self._kernels) for column in features.numeric]
        self._write_terms = _term_writer(features)
        strides, kinds = self._joint_codes.strides, self._joint_codes.kinds
        members = zip(features.categorical, strides, kinds, strict=True)
        self._categories = [_Category(*member) for member in members]

    def __call__(self, batch: Rows) -> Encoded:
        """Return the rows of a batch as exact integers; extra columns are ignored."""
        if isinstance(batch, Packed):
            numbers, codes, persons = batch.numbers, batch.codes, batch.persons
        else:
            numbers, persons = self._numeric(batch), read_person_hashes(batch)
            codes = self._encode_categories(batch, self._scratch)
        encoded = self._scratch("numbers", (self._width, batch.num_rows), np.float64).T
        at = 0
        for number, column in zip(self._numbers, numbers, strict=True):
            number.encode(column, encoded[:, at : at + 2])
            at += len(number.column.design_columns)
        self._write_terms(encoded, codes)
        return Encoded(batch.num_rows, encoded, codes, self._joint_codes, persons)

    def pack(self, batch: pa.RecordBatch) -> Packed:
        """Return the rows of a batch in a compact form, for any encoder of the same features."""
        scratch = self._scratch("packing", (2, batch.num_rows), np.float64).T
        columns = zip(self._numbers, self._numeric(batch), strict=True)
        numbers = tuple(number.pack(column, scratch) for number, column in columns)
        codes = self._encode_categories(batch, lambda _key, shape, kind: np.empty(shape, kind))
        return Packed(batch.num_rows, numbers, codes, read_person_hashes(batch))

    def _numeric(self, batch: pa.RecordBatch) -> tuple[pa.Array, ...]:
        return tuple(_find(batch, number.column.name) for number in self._numbers)

    def _encode_categories(
        self, batch: pa.RecordBatch, allocate: Callable[[Any, tuple[int], Any], Codes]
    ) -> tuple[Codes, ...]:
        """Return joint codes, written to arrays that `allocate` provides."""
        lookups = [each.find(_find(batch, each.name)) for each in self._categories]
        codes = []
        for group in self._joint_codes.groups:
            first, *others = (lookups[member] for member in group)
            code = allocate(group, (batch.num_rows,), first[0].dtype)
            self._kernels.lookup(code, *first)
            for other in others:
                self._kernels.add_lookup(code, *other)
            codes.append(code)
        return tuple(codes)


def _term_writer(
    features: FeatureMap,
) -> Callable[[NDArray[np.float64], Sequence[Codes]], None]:
    """Return what fills the columns of the basis from those that they are made of."""
    places, at = dict[str, int](), 0
    for column in features.numeric:
        places[column.name] = at
        at += len(column.design_columns)
    joint = features.joint_codes
    groups = {
        features.categorical[member].name: (group, levels.astype(np.int32))
        for group in range(len(joint.groups))
        for member, levels in joint.levels(group)
    }
    writers, fitted = [], features.fitted
    for term, columns in features.derived:
        writers.append((term.writer(fitted), slice(at, at + len(columns))))
        at += len(columns)

    def write(numbers: NDArray[np.float64], codes: Sequence[Codes]) -> None:
        def codes_of(column: str) -> NDArray[Any]:
            if column in places:
                return numbers[:, places[column]]
            group, levels = groups[column]
            return levels[codes[group]]

        for write_term, place in writers:
            write_term(codes_of, numbers[:, place])

    return write


class _Number:
    """A numeric column; narrow integers are looked up, which is faster than arithmetic."""

    def __init__(self, column: NumericColumn, kernels: Kernels) -> None:
        self.column, self._kernels = column, kernels
        self._tables: dict[pa.DataType, NDArray[np.float64]] = {}

    def encode(self, array: pa.Array | NDArray[np.int32], out: NDArray[np.float64]) -> None:
        """Write the codes, and the indicator if there is one, into the columns of `out`."""
        if isinstance(array, np.ndarray):  # packed
            out[:, 0] = array
            if self.column.indicator:
                missing = array == _MISSING_CODE
                out[:, 1] = missing
                out[missing, 0] = self.column.fill
        elif is_narrow(array):
            if array.type not in self._tables:
                every = every_integer(integer_kind(array.type))
                table = np.empty((2, len(every)))
                self.column.encode(arrow_numbers(every), table.T, self._kernels)
                self._tables[array.type] = table[0]
            if self.column.indicator:
                out[:, 1] = 0.0
            places = positions(numpy_numbers(array))
            self._kernels.lookup(out[:, 0], self._tables[array.type], places)
        else:
            self.column.encode(array, out, self._kernels)

    def pack(self, array: pa.Array, scratch: NDArray[np.float64]) -> pa.Array | NDArray[np.int32]:
        """Return what `encode` makes the same of, in at most four bytes a row if codes allow."""
        if pa.types.is_integer(array.type):
            array = narrow_integers(array)
        if array.nbytes < _CODE_BYTES * len(array):
            return array
        self.encode(array, scratch)
        codes = scratch[:, 0]
        if max(-codes.min(initial=0.0), codes.max(initial=0.0)) >= -_MISSING_CODE:
            return array  # rows that were not fitted may be anywhere
        packed = codes.astype(np.int32)
        if self.column.indicator:
            packed[scratch[:, 1] == 1.0] = _MISSING_CODE
        return packed


class _Category:
    """A categorical column with the codes of its last dictionary, times their stride."""

    def __init__(self, column: CategoricalColumn, stride: int, kind: np.dtype[Any]) -> None:
        self.name = column.name
        self._column, self._stride, self._kind = column, stride, kind
        self._dictionary: pa.Array | None = None
        self._levels = np.empty(0, dtype=np.int32)
        self._table: Codes = np.empty(0, dtype=kind)

    def find(self, array: pa.Array) -> tuple[Codes, Positions]:
        """Return what each value of a dictionary adds to the joint code, and rows' positions."""
        dictionary, places = codes_of(array)
        if not same_dictionary(dictionary, self._dictionary):
            self._dictionary, self._levels = dictionary, self._column.table(dictionary)
            # Unknown levels, which no row may have, become anything.
            self._table = (self._levels * self._stride).astype(self._kind)
        if array.null_count or self._levels[:-1].min(initial=0) < 0:
            self._column.check_known(dictionary, places, self._levels[places])
        return self._table, places


def _find(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise DataError(f"the rows have no single column {name!r}; add it")
    return batch.column(index)


class ChosenRows:
    """Accumulator that encodes rows with these increasing numbers and, if asked, their labels.

    Every row is read, so that all labels are checked; only the chosen ones are encoded. The
    result is how many rows there were, the chosen ones and their labels.
    """

    def __init__(
        self, features: FeatureMap, wanted: NDArray[np.int64], *, labels: bool = False
    ) -> None:
        size = len(wanted)
        self._features, self._wanted, self._rows = features, wanted, 0
        self._encode = Encoder(features)
        self._numbers = np.empty((size, len(features.number_columns)))
        self._codes = tuple(np.empty(size, dtype=np.int32) for _ in features.joint_codes.groups)
        self._labels = np.empty(size if labels else 0)
        self._labelled = labels

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("chosen rows may have private labels and are not written anywhere")

    @property
    def requirements(self) -> PassRequirements:
        columns = self._features.columns
        return PassRequirements(columns, labels=self._labelled, row_numbers=True, keep_columns=True)

    def new(self) -> ChosenRows:
        """Return another that writes to the same arrays: no two see the same row."""
        fresh = object.__new__(ChosenRows)
        vars(fresh).update(vars(self), _encode=Encoder(self._features), _rows=0)
        return fresh

    def add(self, rows: pa.RecordBatch, labels: Labels | None, first: int) -> None:
        self._rows += rows.num_rows
        start, stop = np.searchsorted(self._wanted, [first, first + rows.num_rows])
        if start == stop:
            return
        places, here = slice(start, stop), self._wanted[start:stop] - first
        encoded = self._encode(rows.take(arrow_numbers(here)))
        self._numbers[places] = encoded.numbers
        for column, codes in zip(self._codes, encoded.codes, strict=True):
            column[places] = codes
        if labels is not None:
            self._labels[places] = labels[here]

    def state(self) -> int:
        return self._rows

    def merge(self, state: int) -> None:
        self._rows += state

    def result(self, *_: object) -> tuple[int, Encoded, Labels]:
        joint_codes = self._features.joint_codes
        encoded = Encoded(len(self._wanted), self._numbers, self._codes, joint_codes)
        return self._rows, encoded, self._labels
