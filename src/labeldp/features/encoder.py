"""`Encoder`: from batches of raw rows to integer codes.

Each distinct level is looked up once per dictionary, narrow integers by a table. `Encoded` rows
are exact integers; `Packed` ones are how rows are kept in memory between passes. `ChosenRows`
encodes some rows by number.

Categories are merged into a few joint codes (`JointCategoryCodes`), so that a row is counted only a
few times: seven categories have 21 pairs; merged into three groups they have 3. What the Gram
matrix needs of each pair of categories is a margin of the group tables, taken once at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers, narrow_integers, same_dictionary
from labeldp.data.persons import PersonHashes, read_person_hashes
from labeldp.errors import DataError, one_of
from labeldp.features.categories import codes_of
from labeldp.kernels import Codes, code_kind
from labeldp.passes.accumulator import Labels, PassRequirements

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap

_CODE_BYTES = 4
_MISSING_CODE = -(2**31)
_MOST_CODES = 2500  # codes of a merged group, at most
_MOST_CELLS = 1 << 23  # cells of all tables between groups, at most: every thread has its own
_NEAR_CELLS = 1 << 16
"""About what the processor's cache holds: so many more cells cost as much as one more table."""


@dataclass(frozen=True)
class JointCategoryCodes:
    """Which categories share a code. Positions in `groups` are those of the categories.

    The joint code of a group numbers the combinations of its members' levels in row-major order.
    """

    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> JointCategoryCodes:
        """Merge the smallest first: few tables, but small ones.

        Where not even two categories may be merged, the tables are those of the Gram matrix.
        """
        choices = list[JointCategoryCodes]()
        for halved in range(_MOST_CODES.bit_length()):
            groups: list[tuple[int, tuple[int, ...]]]
            groups = sorted((size, (place,)) for place, size in enumerate(sizes))
            while len(groups) > 1 and groups[0][0] * groups[1][0] <= _MOST_CODES >> halved:
                (size, members), (size2, members2), *rest = groups
                groups = sorted([(size * size2, tuple(sorted(members + members2))), *rest])
            choices.append(cls(tuple(sizes), tuple(members for _, members in groups)))
        fitting = [choice for choice in choices if choice.cells <= _MOST_CELLS]
        # The cost of counting a row, in tables.
        return min(
            fitting or choices[-1:],
            key=lambda choice: comb(len(choice.groups), 2) + choice.cells / _NEAR_CELLS,
        )

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of every group the number of levels of each member."""
        return tuple(tuple(self.sizes[member] for member in group) for group in self.groups)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of codes of every group."""
        return tuple(map(prod, self.shapes))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every two groups."""
        return combinations(range(len(self.groups)), 2)

    @property
    def cells(self) -> int:
        """Entries of all tables between two groups."""
        return (sum(self.widths) ** 2 - sum(width * width for width in self.widths)) // 2

    def join(self, levels: Sequence[NDArray[np.int32]]) -> tuple[Codes, ...]:
        """Return the joint code of every group, from the level of every category."""
        return tuple(
            np.ravel_multi_index([levels[member] for member in members], shape)
            for members, shape in zip(self.groups, self.shapes, strict=True)
        )

    def levels(self, group: int) -> list[tuple[int, NDArray[np.intp]]]:
        """Return for every member of a group: the member, and its level at every joint code."""
        places = np.unravel_index(np.arange(self.widths[group]), self.shapes[group])
        return list(zip(self.groups[group], places, strict=True))

    def margin(
        self, groups: Sequence[int], table: NDArray[np.int64], *members: int
    ) -> NDArray[np.int64]:
        """Sum a table, whose last axes are the joint codes of groups, by the levels of members.

        The members' axes are last, in the order of the groups.
        """
        categories = [member for group in groups for member in self.groups[group]]
        leading = table.shape[: table.ndim - len(groups)]
        whole = table.reshape(*leading, *(self.sizes[category] for category in categories))
        others = [axis for axis, each in enumerate(categories, len(leading)) if each not in members]
        return np.asarray(whole.sum(axis=tuple(others), dtype=np.int64))


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
        by_member = dict[int, NDArray[np.int32]]()
        for group, joint in enumerate(self.codes):
            for member, levels in self.joint_codes.levels(group):
                by_member[member] = levels.astype(np.int32)[joint]
        return tuple(by_member[member] for member in range(len(self.joint_codes.sizes)))

    @classmethod
    def empty(cls, features: FeatureMap) -> Encoded:
        """Return no rows, in the form of a map."""
        codes = tuple(np.empty(0, code_kind(width)) for width in features.joint_codes.widths)
        return cls(0, np.empty((0, len(features.number_columns))), codes, features.joint_codes)

    @classmethod
    def concatenate(cls, parts: Sequence[Encoded]) -> Encoded:
        """Return the rows of all parts, one after the other, without their persons."""
        numbers = np.concatenate([part.numbers.T for part in parts], axis=1).T
        codes = tuple(map(np.concatenate, zip(*(part.codes for part in parts), strict=True)))
        return cls(len(numbers), numbers, codes, parts[0].joint_codes)

    def take(self, places: NDArray[Any] | slice) -> Encoded:
        """Return some of the rows; each number column stays contiguous. A slice copies nothing."""
        codes = tuple(codes[places] for codes in self.codes)
        persons = None if self.persons is None else self.persons[places]
        numbers = self.numbers.T[:, places].T
        return Encoded(len(numbers), numbers, codes, self.joint_codes, persons)


@dataclass(frozen=True)
class Packed:
    """Rows from which an encoder makes the same as from the table's, in less memory and sooner.

    `numbers` holds every numeric column as it came, if that takes less than four bytes a row and
    is no logarithm's, else its codes, with `_MISSING_CODE` where an indicator has to tell; `codes`
    holds the joint codes.
    """

    num_rows: int
    numbers: tuple[pa.Array | NDArray[np.int32], ...]
    codes: tuple[Codes, ...]
    persons: PersonHashes | None = None

    @property
    def nbytes(self) -> int:
        persons = () if self.persons is None else (self.persons,)
        return sum(int(column.nbytes) for column in (*self.numbers, *self.codes, *persons))


Rows: TypeAlias = pa.RecordBatch | Packed  # what an encoder reads


class UnseenValues:
    """Takes values of further rows as ones that the fitted rows had, and counts them by column.

    A number outside the fitted range counts as its nearest end; a level that is unknown as the base
    level or, with "error", it is refused.
    """

    def __init__(self, unknown: str = "base") -> None:
        self.takes_levels = one_of("unknown", unknown, ("base", "error")) == "base"
        self.unknown_levels, self.outside_range = Counter[str](), Counter[str]()

    def notes(self) -> Iterator[str]:
        """Yield what was changed, with counts."""
        for name, count in self.unknown_levels.items():
            yield f"{name}: {count:,} rows have a level not seen before, taken as base"
        for name, count in self.outside_range.items():
            yield f"{name}: {count:,} numbers outside the public range, taken as its nearest end"


class Encoder:
    """Encodes batch after batch, for one thread. Without `unseen`, unknown levels are refused."""

    def __init__(self, features: FeatureMap, unseen: UnseenValues | None = None) -> None:
        self._features, self._joint_codes = features, features.joint_codes
        self._outside = None if unseen is None else unseen.outside_range
        self._unknown = unseen.unknown_levels if unseen and unseen.takes_levels else None
        # Of every category its last dictionary, the levels of that, and what they add to codes.
        self._dictionaries: dict[int, tuple[pa.Array, NDArray[np.int32], Codes]] = {}

    def __call__(self, batch: Rows) -> Encoded:
        """Return the rows of a batch as exact integers; extra columns are ignored."""
        features = self._features
        if isinstance(batch, Packed):
            columns, codes, persons = batch.numbers, batch.codes, batch.persons
        else:
            columns = tuple(_column_named(batch, column.name) for column in features.numeric)
            codes = self._encode_categories(batch)
            persons = read_person_hashes(batch)
        shape = len(features.number_columns), batch.num_rows
        numbers = np.empty(shape).T
        encoded = Encoded(batch.num_rows, numbers, codes, self._joint_codes, persons)
        by_name, at = dict[str, NDArray[Any]](), 0
        for column, values in zip(features.numeric, columns, strict=True):
            out = numbers[:, at : at + 2]
            if isinstance(values, np.ndarray):  # packed
                out[:, 0] = values
                if column.indicator:
                    missing = values == _MISSING_CODE
                    out[:, 1] = missing
                    out[missing, 0] = column.fill
            else:
                column.encode(values, out, self._outside)
            by_name[column.name] = out[:, 0]
            at += len(column.design_columns)
        if features.derived:
            names = [column.name for column in features.categorical]
            by_name |= zip(names, encoded.categories, strict=True)
        for term, derived in features.derived:
            term.write(features.by_name, by_name, numbers[:, at : at + len(derived)])
            at += len(derived)
        return encoded

    def pack(self, batch: pa.RecordBatch) -> Packed:
        """Return the rows of a batch in a compact form, for any encoder of the same features."""
        scratch = np.empty((2, batch.num_rows)).T
        numbers = list[pa.Array | NDArray[np.int32]]()
        for column in self._features.numeric:
            array = _column_named(batch, column.name)
            if pa.types.is_integer(array.type):
                array = narrow_integers(array)
            numbers.append(array)
            if array.nbytes < _CODE_BYTES * len(array) and not column.log:
                continue
            column.encode(array, scratch)
            codes = scratch[:, 0]
            # Rows that were not fitted may have codes that four bytes do not hold.
            if max(-codes.min(initial=0.0), codes.max(initial=0.0)) < -_MISSING_CODE:
                numbers[-1] = codes.astype(np.int32)
                if column.indicator:
                    numbers[-1][scratch[:, 1] == 1.0] = _MISSING_CODE
        joint = self._encode_categories(batch)
        return Packed(batch.num_rows, tuple(numbers), joint, read_person_hashes(batch))

    def _encode_categories(self, batch: pa.RecordBatch) -> tuple[Codes, ...]:
        codes = []
        for members, width in zip(self._joint_codes.groups, self._joint_codes.widths, strict=True):
            code, stride = np.zeros(batch.num_rows, code_kind(width)), width
            for member in members:
                column = self._features.categorical[member]
                stride //= column.size
                array = _column_named(batch, column.name)
                dictionary, places = codes_of(array)
                if not same_dictionary(dictionary, self._dictionaries.get(member, (None,))[0]):
                    levels = column.table(dictionary)
                    unknown, base = levels < 0, 0
                    if self._unknown is not None and unknown.any():
                        base = self._features.base_level(member)
                    table = (np.where(unknown, base, levels) * stride).astype(code.dtype)
                    self._dictionaries[member] = dictionary, levels, table
                _, levels, table = self._dictionaries[member]
                if array.null_count or levels[:-1].min(initial=0) < 0:
                    strange = np.flatnonzero(levels[places] < 0)
                    if len(strange):
                        if self._unknown is None:
                            column.refuse_unknown(dictionary, int(places[strange[0]]))
                        self._unknown[column.name] += len(strange)
                code += table.take(places)
            codes.append(code)
        return tuple(codes)


def _column_named(batch: pa.RecordBatch, name: str) -> pa.Array:
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
        size, joint_codes = len(wanted), features.joint_codes
        self._features, self._wanted, self._rows = features, wanted, 0
        self._encode = Encoder(features)
        numbers = np.empty((size, len(features.number_columns)))
        codes = tuple(np.empty(size, dtype=np.int32) for _ in joint_codes.groups)
        self._chosen = Encoded(size, numbers, codes, joint_codes)
        self._labels = np.empty(size if labels else 0)
        self._labelled = labels

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("chosen rows may have private labels and are not written anywhere")

    @property
    def requirements(self) -> PassRequirements:
        columns = self._features.columns
        return PassRequirements(columns, labels=self._labelled)

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
        self._chosen.numbers[places] = encoded.numbers
        for column, codes in zip(self._chosen.codes, encoded.codes, strict=True):
            column[places] = codes
        if labels is not None:
            self._labels[places] = labels[here]

    def state(self) -> int:
        return self._rows

    def merge(self, state: int) -> None:
        self._rows += state

    def result(self, *_: object) -> tuple[int, Encoded, Labels]:
        return self._rows, self._chosen, self._labels
