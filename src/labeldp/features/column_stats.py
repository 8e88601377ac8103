"""Exact statistics of public columns, their accumulator, and what type of column they show.

All of them are the same for any order and any grouping of the rows: extremes, level counts,
integer sums of grid codes, and the tails of numeric columns.

An undeclared column holds numbers, categories or ids, by its name and values alone:

    3 to 12 whole numbers                      a category: they are codes more often than not
    more, named like codes, with rows enough   a category: zip; or like ids, with many: store_id
    named like ids, and not often repeated     no feature, nor are texts that hardly repeat
    all others                                 numbers

The same rows give the same type in any order, in any format and on any engine.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.columns import Column, column_floats, floats_of, integer_ends
from labeldp.errors import DataError
from labeldp.features.categories import MOST_CODES, codes_of, merge_levels, names_of
from labeldp.features.columns import NumericColumn
from labeldp.passes.accumulator import PassRequirements

_MOST_LEVELS = 1_000_000
"""Distinct values a category may have: counting them is the only thing that takes memory."""
_GLANCE = 1 << 10


@dataclass
class Extremes:
    """Smallest and largest value of a numeric column, and how many are missing."""

    name: str
    maybe_id: bool = False  # integers beyond 2**53 are noted in `exact` instead of refused
    rows: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    exact: bool = True

    def add(self, array: pa.Array, first_row: int) -> None:
        """Count one batch, whose first row has this number."""
        self.rows += len(array)
        if pa.types.is_integer(array.type):
            self.missing += array.null_count
            low, high, exact = integer_ends(array, self.name, maybe_id=self.maybe_id)
            self.exact &= exact
            self._widen(low, high)
            return
        values = column_floats(array, self.name, first_row)
        absent = int(np.isnan(values).sum())
        self.missing += absent
        if absent < len(values):
            self._widen(float(np.fmin.reduce(values)), float(np.fmax.reduce(values)))

    def merge(self, other: Extremes) -> None:
        self.rows += other.rows
        self.missing += other.missing
        self.exact &= other.exact
        self._widen(other.low, other.high)

    def _widen(self, low: float, high: float) -> None:
        # Adding 0.0 turns -0.0 into 0.0: which of the two is met first must not matter.
        self.low, self.high = min(self.low, low + 0.0), max(self.high, high + 0.0)

    @property
    def numbers(self) -> int:
        """How many values are not missing."""
        return self.rows - self.missing


@dataclass
class Levels:
    """How often each value of a column occurs; stops counting past `limit` values."""

    limit: int = _MOST_LEVELS
    counts: Counter[str | None] = field(default_factory=Counter)
    too_many: bool = False

    def add(self, array: pa.Array, _first_row: int = 0) -> None:
        if self.limit < _MOST_LEVELS and not self.too_many:
            # A glance at the first values saves counting most columns of numbers; null and NaN are
            # no values.
            self.too_many = len(array.slice(0, _GLANCE).unique()) > self.limit + 2
        if self.too_many:
            return
        dictionary, places = codes_of(array)
        counts = np.bincount(places, minlength=len(dictionary) + 1)
        used = np.flatnonzero(counts[:-1])
        names = names_of(dictionary.take(arrow_numbers(used)))
        for name, count in zip(names, counts[used].tolist(), strict=True):
            self.counts[name] += count
        if counts[-1]:
            self.counts[None] += int(counts[-1])
        self.too_many |= self.distinct > self.limit

    def merge(self, other: Levels) -> None:
        self.counts.update(other.counts)
        self.too_many |= other.too_many or self.distinct > self.limit

    @property
    def distinct(self) -> int:
        """How many values were counted, without missing."""
        return len(self.counts) - (None in self.counts)


@dataclass
class NumberSums:
    """Integer sums of the codes of a column that is not centred yet."""

    column: NumericColumn
    rows: int = 0
    total: int = 0
    squares: int = 0

    def add(self, array: pa.Array, _first_row: int = 0) -> None:
        """Add one batch: sums over at most 2**20 rows of codes below 2**20 fit 64 bits."""
        values = np.empty(len(array))
        self.column.write_codes(values, column_floats(array, self.column.name))
        codes = values[~np.isnan(values)].astype(np.int64)
        self.rows += len(codes)
        self.total += int(codes.sum())
        self.squares += int(np.dot(codes, codes))

    def merge(self, other: NumberSums) -> None:
        self.rows += other.rows
        self.total += other.total
        self.squares += other.squares

    def spread(self, around: int) -> float:
        """Root mean square distance of the codes from a code, correctly rounded throughout."""
        shift = around - self.column.centre
        square = self.squares - 2 * shift * self.total + self.rows * shift * shift
        return math.sqrt(Fraction(square, self.rows))


class Tails:
    """The `depth` smallest and the `depth` largest numbers of a column.

    The largest are kept as the smallest of the negated numbers.
    """

    def __init__(self, name: str, depth: int) -> None:
        self.name, self.depth = name, depth
        self._kept = [np.empty(0), np.empty(0)]
        # Only a number below is in a tail that is full already; NaN never is.
        self._bounds = [math.inf, math.inf]

    def add(self, array: pa.Array, first_row: int = 0) -> None:
        """Take in one batch; integers that float64 cannot tell apart are found out elsewhere."""
        is_integer = pa.types.is_integer(array.type)
        values = floats_of(array) if is_integer else column_floats(array, self.name, first_row)
        self._take(values, -values)

    def _take(self, *numbers: NDArray[np.float64]) -> None:
        for end, values in enumerate(numbers):
            fresh = values[values < self._bounds[end]]
            if not len(fresh):
                continue
            kept = np.concatenate([self._kept[end], fresh])
            if len(kept) >= self.depth:
                kept = np.partition(kept, self.depth - 1)[: self.depth]
                self._bounds[end] = float(kept[-1])
            self._kept[end] = kept

    def merge(self, other: Tails) -> None:
        self._take(*other._kept)

    def sorted(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and the largest numbers, from the outermost inwards; no -0.0."""
        least, most = map(np.sort, self._kept)
        return least + 0.0, 0.0 - most


@dataclass
class ColumnStatistics:
    """Accumulator of statistics of single columns, by name; those that are asked for."""

    extremes: dict[str, Extremes] = field(default_factory=dict)
    levels: dict[str, Levels] = field(default_factory=dict)
    tails: dict[str, Tails] = field(default_factory=dict)
    sums: dict[str, NumberSums] = field(default_factory=dict)
    rows: int = 0

    @property
    def requirements(self) -> PassRequirements:
        numbers = sum(2 * tails.depth for tails in self.tails.values())
        names = dict.fromkeys(name for kind in self._kinds for name in kind)
        return PassRequirements(tuple(names), state_bytes=3 * 8 * numbers)

    def new(self) -> ColumnStatistics:
        return deepcopy(self)

    def add(self, batch: pa.RecordBatch, _labels: object, first: int) -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for statistics in self._kinds:
                if name in statistics:
                    statistics[name].add(column, first)

    def state(self) -> ColumnStatistics:
        return self

    def merge(self, state: ColumnStatistics) -> None:
        self.rows += state.rows
        for ours, theirs in zip(self._kinds, state._kinds, strict=True):
            for name, statistic in theirs.items():
                ours[name].merge(statistic)

    def result(self, *_: object) -> ColumnStatistics:
        if self.rows == 0:
            raise DataError("the data have no rows; nothing can be learnt from them")
        return self

    @property
    def _kinds(self) -> tuple[dict[str, Any], ...]:
        return self.extremes, self.levels, self.tails, self.sums


FEW = range(3, 13)  # an integer column with so many distinct values is taken for a category
UNIQUE, FEWEST = 0.95, 20
"""A column of so many rows with this share of distinct values tells rows apart."""
_ENOUGH = 50
_SAMPLED = 2
"""Row numbers may span this many times the rows: half of the rows may be in another table."""

_WORDS = re.compile(r"[A-Z]?[a-zß-öø-ÿ]+|[A-Z]+(?![a-z])|\d+|#")
_IDS = frozenset((
    "id", "ids", "uid", "uuid", "guid", "identifier", "ssn", "email", "mail", "phone", "iban",
    "hash", "token", "rowid", "recid", "userid", "url", "idno", "idnr", "surname", "lastname",
    "firstname", "fullname",
))  # fmt: skip
_MAYBE_IDS = frozenset((
    "key", "number", "nr", "no", "name", "surname", "index", "row", "rows", "rownames", "address",
    "record", "obs", "observation", "case", "unnamed", "lfd", "#", "nbr",
))  # fmt: skip
"""Names of ids and of much else: it takes unique values as well."""
_CODES = frozenset((
    "code", "codes", "cd", "zip", "zipcode", "postcode", "postal", "plz", "fips", "naics", "sic",
    "isco", "isic", "type", "class", "category", "group", "region", "district", "county", "state",
    "country", "store", "branch", "department", "dept", "occupation", "industry", "sector",
    "cluster", "segment", "status", "carrier", "species", "brand", "tract", "precinct", "bin",
    "bucket", "bracket", "band", "tier", "stratum", "cohort", "fip", "statefip", "countyfip",
    "puma", "race",
))  # fmt: skip
_PERSONS = frozenset((
    "person", "user", "userid", "customer", "client", "patient", "household", "member", "account",
    "subject", "employee", "student", "respondent", "player", "donor", "kunde", "kunden", "ssn",
    "email", "mail", "participant", "pid", "mrn", "beneficiary", "policyholder", "borrower",
    "applicant", "voter", "pupil", "panelist",
))  # fmt: skip
_NAME_PARTS = frozenset(("first", "last", "full", "given", "family"))


Hint = Literal["id", "like an id", "code", "person"]


def name_hints(name: str) -> set[Hint]:
    """Return what a column's name says of its values, mostly by its last word that is no number.

    "id": only identifiers are named so: userId, E-Mail, id_client, surname; "like an id": they and
    other things: order_no, respondent; "code": zip, region_code, StoreType; "person": it speaks of
    people: customer_id, not basket_id.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    last = next((word for word in reversed(words) if not word.isdigit()), "")
    of_person = not _PERSONS.isdisjoint(words)
    of_names = last == "name" and (of_person or not _NAME_PARTS.isdisjoint(words))
    surely_id = last in _IDS or words[:1] in (["id"], ["uuid"]) or of_names
    holds: dict[Hint, bool] = {
        "id": surely_id,
        "like an id": surely_id or last in _MAYBE_IDS or last in _PERSONS,
        "code": last in _CODES,
        "person": of_person,
    }
    return {hint for hint, held in holds.items() if held}


def type_statistics(columns: Sequence[Column]) -> ColumnStatistics:
    """Return what to count of columns to find their types; of undecided ones values and levels."""
    statistics = ColumnStatistics()
    for column in columns:
        name, hints = column.name, name_hints(column.name)
        if column.kind == "categorical":
            statistics.levels[name] = Levels()
            continue
        statistics.extremes[name] = Extremes(name, column.undecided and not column.wanted)
        if column.undecided:
            limit = MOST_CODES if hints & {"code", "like an id"} else FEW[-1]
            statistics.levels[name] = Levels(limit)
    return statistics


class ColumnType(NamedTuple):
    """What a column is, and why."""

    kind: Literal["number", "category", "id"]
    why: str


def infer_column_type(
    column: Column, extremes: Extremes | None, levels: Levels | None, min_count: int
) -> ColumnType:
    """Return the type of a column: what the user declared, or else what it looks like."""
    hints = name_hints(column.name)
    if column.undecided and extremes is not None and levels is not None:
        return _type_of_numbers(column, hints, extremes, levels, min_count)
    if column.kind != "categorical" or levels is None:
        return ColumnType("number", "numbers")
    distinct, filled = levels.distinct, levels.counts.total() - levels.counts[None]
    several, why = distinct > FEW[-1], None
    if not (column.declared or column.wanted):
        if levels.too_many:
            why = f"more than {levels.limit:,} different texts"
        # A column in which nearly every text is different tells who a row is.
        elif filled >= FEWEST and distinct >= UNIQUE * filled:
            why = "nearly every text is different"
        elif several and "id" in hints and 2 * distinct * min_count > filled:
            why = "named like an id"
    return ColumnType("id", why) if why else ColumnType("category", f"{distinct} levels")


def _type_of_numbers(
    column: Column, hints: set[Hint], extremes: Extremes, levels: Levels, min_count: int
) -> ColumnType:
    """Return the type of undecided numbers.

    They are a category if they are few, or named like codes or ids and often repeated; whole
    numbers that are named like ids and seldom repeated are ids.
    """
    counts, distinct, numbers = levels.counts, levels.distinct, extremes.numbers
    if not levels.too_many and distinct >= FEW[0]:
        whole = all(level is None or level.lstrip("-").isdigit() for level in counts)
        frequent = sum(n for level, n in counts.items() if level is not None and n >= min_count)
        why = f"{distinct} integer values"
        if distinct in FEW:
            # pandas has integers with gaps as floats, but quantities too.
            integers = column.kind == "integer" or (whole and counts.total() >= _ENOUGH)
            # Unless values are so rare that no two would have a column.
            if integers and merge_levels(column.name, counts, min_count, []).size > 1:
                return ColumnType("category", why)
        elif whole and "id" in hints and 2 * distinct * min_count <= numbers:
            return ColumnType("category", f"{why}, named like an id but often repeated")
        elif whole and "code" in hints and 2 * frequent >= numbers:
            return ColumnType("category", f"{why}, named like a code")
    if column.wanted:
        return ColumnType("number", "numbers")
    if not extremes.exact:
        return ColumnType("id", "integers beyond 2**53")
    is_whole = extremes.low.is_integer() and extremes.high.is_integer()
    if "like an id" in hints and numbers >= FEWEST and is_whole:
        if "id" in hints and (levels.too_many or distinct > FEW[-1]):
            return ColumnType("id", "named like an id")
        # Many different ones number the rows if they fill their range.
        span = (extremes.high - extremes.low + 1) / numbers
        fills = UNIQUE <= span <= _SAMPLED if levels.too_many else distinct >= UNIQUE * numbers
        if fills and "id" not in hints:
            return ColumnType("id", "numbers the rows")
    return ColumnType("number", "numbers")
