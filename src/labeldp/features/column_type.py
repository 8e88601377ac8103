"""Whether an undeclared column holds numbers, categories or ids, from its name and values alone.

    3 to 12 whole numbers                      a category: they are codes more often than not
    more, named like codes, with rows enough   a category: zip; or like ids, with many: store_id
    named like ids, and not often repeated     no feature, nor are texts that hardly repeat
    all others                                 numbers

The same rows give the same type in any order, in any format and on any engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from labeldp.data.columns import Column
from labeldp.features.categories import MOST_CODES, merge_levels
from labeldp.features.column_stats import ColumnStatistics, Extremes, Levels

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
