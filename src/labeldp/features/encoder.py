"""`Encoder`: from batches of raw rows to integer codes.

Each distinct level is looked up once per dictionary, narrow integers by a table. `Encoded` rows
are exact integers; `Packed` ones are how rows are kept in memory between passes. `ChosenRows`
encodes some rows by number.

Categories are merged into a few joint codes (`JointCategoryCodes`), so that a row is counted only a
few times: seven categories have 21 pairs; merged into three groups they have 3. What the Gram
matrix needs of each pair of categories is a margin of the group tables, taken once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
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
from labeldp.features.categories import CategoricalColumn, codes_of
from labeldp.features.columns import NumericColumn
from labeldp.kernels import Codes, Kernels, Positions, Scratch, code_kind, every_integer, positions
from labeldp.passes.accumulator import Labels, PassRequirements

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap

_CODE_BYTES = 4
_MISSING_CODE = -(2**31)
_MOST_CODES = 2500
"""Codes of a merged group, at most."""
_MOST_CELLS = 1 << 23
"""Cells of all tables between groups, at most: every thread has its own."""
_NEAR_CELLS = 1 << 16
"""About what the processor's cache holds: so many more cells cost as much as one more table."""


@dataclass(frozen=True)
class JointCategoryCodes:
    """Which categories share a code. Positions in `groups` are those of the categories."""

    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> JointCategoryCodes:
        """Merge the smallest first: few tables, but small ones.

        Where not even two categories may be merged, the tables are those of the Gram matrix.
        """
        limits = [_MOST_CODES >> halved for halved in range(_MOST_CODES.bit_length())]
        groupings = dict.fromkeys(_merged(sizes, limit) for limit in limits)
        choices = [cls(tuple(sizes), groups) for groups in groupings]
        fitting = [choice for choice in choices if choice.cells <= _MOST_CELLS]
        # The cost of counting a row, in tables.
        return min(
            fitting or choices[-1:],
            key=lambda choice: comb(len(choice.groups), 2) + choice.cells / _NEAR_CELLS,
        )

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Levels of every member of every group."""
        return tuple(tuple(self.sizes[member] for member in group) for group in self.groups)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of codes of every group."""
        return tuple(map(prod, self.shapes))

    @cached_property
    def kinds(self) -> tuple[np.dtype[Any], ...]:
        """Of every category: the narrowest type for the codes of its group."""
        kinds = dict[int, np.dtype[Any]]()
        for group, width in zip(self.groups, self.widths, strict=True):
            kinds |= dict.fromkeys(group, code_kind(width))
        return tuple(kinds[member] for member in range(len(self.sizes)))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every two groups."""
        return combinations(range(len(self.groups)), 2)

    @property
    def cells(self) -> int:
        """Entries of all tables between two groups."""
        return (sum(self.widths) ** 2 - sum(width * width for width in self.widths)) // 2

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Of every category: what its next level adds to the joint code of its group."""
        strides = dict[int, int]()
        for group, shape in zip(self.groups, self.shapes, strict=True):
            strides |= {member: prod(shape[at + 1 :]) for at, member in enumerate(group)}
        return tuple(strides[member] for member in range(len(self.sizes)))

    def join(self, levels: Sequence[NDArray[np.int32]]) -> tuple[Codes, ...]:
        """Return the joint code of every group, from the level of every category."""
        merged = []
        for group in self.groups:
            code = np.zeros_like(levels[group[0]])
            for member in group:
                code += levels[member] * self.strides[member]
            merged.append(code)
        return tuple(merged)

    def split(self, codes: Sequence[Codes]) -> tuple[NDArray[np.int32], ...]:
        """Return the level of every category, from the joint codes of every group."""
        by_member = dict[int, NDArray[np.int32]]()
        for group, joint in enumerate(codes):
            for member, levels in self.levels(group):
                by_member[member] = levels.astype(np.int32)[joint]
        return tuple(by_member[member] for member in range(len(self.sizes)))

    def levels(self, group: int) -> list[tuple[int, NDArray[np.intp]]]:
        """Return for every member of a group: the member, and its level at every joint code."""
        places = np.unravel_index(np.arange(self.widths[group]), self.shapes[group])
        return list(zip(self.groups[group], places, strict=True))

    def margins(
        self, group: int, table: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield sums over the last axis of `table` (one per joint code) by each member's levels."""
        leading = table.shape[:-1]
        whole = table.reshape(*leading, *self.shapes[group])
        for place, member in enumerate(self.groups[group]):
            yield member, _sum_but(whole, (*range(len(leading)), len(leading) + place))

    def pair_margins(
        self, left: int, right: int, table: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the table of every member of one group by every member of another."""
        first = len(self.groups[left])
        whole = table.reshape(*self.shapes[left], *self.shapes[right])
        for place, member in enumerate(self.groups[left]):
            for place2, member2 in enumerate(self.groups[right]):
                yield member, member2, _sum_but(whole, (place, first + place2))

    def inner_margins(
        self, group: int, counts: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the table of every two members of a group, from the counts of its codes."""
        whole = counts.reshape(self.shapes[group])
        for (place, member), (place2, member2) in combinations(enumerate(self.groups[group]), 2):
            yield member, member2, _sum_but(whole, (place, place2))


def _merged(sizes: Sequence[int], limit: int) -> tuple[tuple[int, ...], ...]:
    groups: list[tuple[int, tuple[int, ...]]]
    groups = sorted((size, (place,)) for place, size in enumerate(sizes))
    while len(groups) > 1 and groups[0][0] * groups[1][0] <= limit:
        (size, members), (size2, members2), *rest = groups
        groups = sorted([(size * size2, tuple(sorted(members + members2))), *rest])
    return tuple(members for _, members in groups)


def _sum_but(table: NDArray[Any], kept: tuple[int, ...]) -> NDArray[Any]:
    """Sum over all axes but these."""
    return np.asarray(table.sum(axis=tuple(set(range(table.ndim)) - set(kept)), dtype=np.int64))


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
        self._features, self._joint_codes = features, features.joint_codes
        self._kernels, self._scratch = kernels or Kernels(), Scratch()
        self._numbers = [_Number(column, self._kernels) for column in features.numeric]
        members = zip(
            features.categorical, self._joint_codes.strides, self._joint_codes.kinds, strict=True
        )
        self._categories = [_Category(*member) for member in members]

    def __call__(self, batch: Rows) -> Encoded:
        """Return the rows of a batch as exact integers; extra columns are ignored."""
        if isinstance(batch, Packed):
            columns, codes, persons = batch.numbers, batch.codes, batch.persons
        else:
            columns = tuple(_find(batch, number.column.name) for number in self._numbers)
            codes = self._encode_categories(batch, self._scratch)
            persons = read_person_hashes(batch)
        shape = len(self._features.number_columns), batch.num_rows
        numbers = self._scratch("numbers", shape, np.float64).T
        places, at = dict[str, int](), 0
        for number, column in zip(self._numbers, columns, strict=True):
            number.encode(column, numbers[:, at : at + 2])
            places[number.column.name] = at
            at += len(number.column.design_columns)

        def column_codes(name: str) -> NDArray[Any]:
            if name in places:
                return numbers[:, places[name]]
            group, levels = self._levels[name]
            return levels[codes[group]]

        for term, derived in self._features.derived:
            out = numbers[:, at : at + len(derived)]
            term.write(self._features.by_name, column_codes, out)
            at += len(derived)
        return Encoded(batch.num_rows, numbers, codes, self._joint_codes, persons)

    @cached_property
    def _levels(self) -> dict[str, tuple[int, NDArray[np.int32]]]:
        """Of every category: its group, and its level at every joint code of the group."""
        return {
            self._features.categorical[member].name: (group, levels.astype(np.int32))
            for group in range(len(self._joint_codes.groups))
            for member, levels in self._joint_codes.levels(group)
        }

    def pack(self, batch: pa.RecordBatch) -> Packed:
        """Return the rows of a batch in a compact form, for any encoder of the same features."""
        scratch = self._scratch("packing", (2, batch.num_rows), np.float64).T
        numbers = tuple(
            number.pack(_find(batch, number.column.name), scratch) for number in self._numbers
        )
        codes = self._encode_categories(batch, lambda _key, shape, kind: np.empty(shape, kind))
        return Packed(batch.num_rows, numbers, codes, read_person_hashes(batch))

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
