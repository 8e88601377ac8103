"""Whether an undeclared column holds numbers, categories or ids, from its name and values alone.

    3 to 12 whole numbers                      a category: they are codes more often than not
    more, named like codes, with rows enough   a category: zip; or like ids, with many: store_id
    named like ids, and not often repeated     no feature, nor are texts that hardly repeat
    names of people                            no feature, unless they are few
    all others                                 numbers

The same rows give the same type in any order, in any format and on any engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from labeldp.data.columns import Column
from labeldp.features.categories import MOST_CODES, merge_levels
from labeldp.features.column_stats import ColumnStatistics, Extremes, Levels

FEW = range(3, 13)
"""An integer column with so many distinct values is taken for a category."""
UNIQUE = 0.95
"""Share of distinct values from which a column tells rows apart instead of describing them."""
FEWEST = 20
"""Rows from which that is said."""
_ENOUGH = 50
_SAMPLED = 2
"""Of rows that are numbered, half may be elsewhere."""

_WORDS = re.compile(r"[A-Z]?[a-zß-öø-ÿ]+|[A-Z]+(?![a-z])|\d+|#")
_IDS = frozenset((
    "id", "ids", "uid", "uuid", "guid", "identifier", "ssn", "email", "mail", "phone", "iban",
    "hash", "token", "rowid", "recid", "userid", "url", "idno", "idnr",
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
_NAME_PARTS = frozenset(("first", "last", "full", "given", "family", "middle", "maiden"))
_CYCLES = frozenset((
    "month", "weekday", "dow", "quarter", "season", "hour", "day", "monat", "wochentag", "stunde",
))  # fmt: skip


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _head(name: str) -> str:
    """Return the last word that is no number: region of `sales region 2`."""
    words = [word for word in _words(name) if not word.isdigit()]
    return words[-1] if words else ""


def surely_id(name: str) -> bool:
    """Return whether only identifiers are named so: userId, E-Mail, id_client."""
    return _head(name) in _IDS or _words(name)[:1] in (["id"], ["uuid"])


def named_like_an_id(name: str) -> bool:
    """Return whether a name ends as those of identifiers do: userId, order_no, respondent."""
    return surely_id(name) or _head(name) in _MAYBE_IDS | _PERSONS


def named_like_a_code(name: str) -> bool:
    """Return whether a name ends as those of codes do: zip, region_code, StoreType."""
    return _head(name) in _CODES


def cyclic(name: str) -> bool:
    """Return whether a name ends as those of months, weekdays and hours do: they are cyclic."""
    return _head(name) in _CYCLES


def holds_names_of_people(name: str) -> bool:
    """Return whether a column has people's names: surname, last_name, customerName; not name."""
    words = set(_words(name))
    if words & {"surname", "lastname", "firstname", "fullname"}:
        return True
    return "name" in words and bool(words & (_NAME_PARTS | _PERSONS))


def names_a_person(name: str) -> bool:
    """Return whether a name speaks of people: customer_id, not basket_id."""
    return not _PERSONS.isdisjoint(_words(name))


def type_statistics(columns: Iterable[Column], rows: int | None, format: str) -> ColumnStatistics:
    """Return what to count of columns to find their types; of undecided ones values and levels.

    `rows` is how many the table has, if that is known.
    """
    columns = list(columns)
    statistics = ColumnStatistics(tuple(c.name for c in columns), format, keep_columns=True)
    for column in columns:
        name = column.name
        # Where the number of rows is unknown (Spark), every worker would load numba.
        levels = Levels(name, table_rows=rows or 0)
        if column.kind == "categorical":
            statistics.levels[name] = levels
            continue
        maybe_id = column.undecided and not column.wanted
        check_whole = maybe_id and named_like_an_id(name)
        statistics.extremes[name] = Extremes(name, maybe_id, check_whole)
        if column.undecided:
            hinted = named_like_a_code(name) or named_like_an_id(name)
            levels.limit = MOST_CODES if hinted else FEW[-1]
            statistics.levels[name] = levels
    return statistics


class ColumnType(NamedTuple):
    """What a column is, and why."""

    kind: Literal["number", "category", "id"]
    why: str


def infer_column_type(
    column: Column, extremes: Extremes | None, levels: Levels | None, min_count: int
) -> ColumnType:
    """Return the type of a column: what the user declared, or else what it looks like."""
    name = column.name
    if column.kind == "categorical" and levels is not None:
        distinct, filled = levels.distinct, levels.counts.total() - levels.counts[None]
        several = distinct > FEW[-1]
        if column.declared or column.wanted:
            return ColumnType("category", f"{distinct} levels")
        if levels.too_many:
            return ColumnType("id", f"more than {levels.limit:,} different texts")
        # A column in which nearly every text is different tells who a row is.
        if filled >= FEWEST and distinct >= UNIQUE * filled:
            return ColumnType("id", "nearly every text is different")
        if several and surely_id(name) and 2 * distinct * min_count > filled:
            return ColumnType("id", "named like an id")
        if several and holds_names_of_people(name):
            return ColumnType("id", "names of people")
        return ColumnType("category", f"{distinct} levels")
    if column.undecided and extremes is not None and levels is not None:
        category = _why_category(column, extremes, levels, min_count)
        if category is not None:
            return ColumnType("category", category)
        identifier = None if column.wanted else _why_id(name, extremes, levels)
        if identifier is not None:
            return ColumnType("id", identifier)
    return ColumnType("number", "numbers")


def _why_category(column: Column, extremes: Extremes, levels: Levels, min_count: int) -> str | None:
    """Return why numbers are a category: few, or named like codes or ids and often repeated."""
    counts, distinct, name = levels.counts, levels.distinct, column.name
    if levels.too_many or distinct < FEW[0]:
        return None
    whole = all(level is None or level.lstrip("-").isdigit() for level in counts)
    why = f"{distinct} integer values"
    if distinct in FEW:
        # pandas has integers with gaps as floats, but quantities too.
        integers = column.kind == "integer" or (whole and counts.total() >= _ENOUGH)
        # Unless values are so rare that no two would have a column.
        return why if integers and merge_levels(name, counts, min_count, []).size > 1 else None
    if whole and surely_id(name) and 2 * distinct * min_count <= extremes.numbers:
        return f"{why}, named like an id but often repeated"
    frequent = sum(n for level, n in counts.items() if level is not None and n >= min_count)
    if whole and named_like_a_code(name) and 2 * frequent >= extremes.numbers:
        return f"{why}, named like a code"
    return None


def _why_id(name: str, extremes: Extremes, levels: Levels) -> str | None:
    """Return why whole numbers are ids; None where they are not."""
    if not extremes.exact:
        return "integers beyond 2**53"
    if extremes.numbers < FEWEST or not extremes.whole or not named_like_an_id(name):
        return None
    if surely_id(name):
        return "named like an id" if levels.too_many or levels.distinct > FEW[-1] else None
    if levels.too_many:  # many, which number the rows if they fill their range
        width = extremes.high - extremes.low + 1
        return "numbers the rows" if UNIQUE <= width / extremes.numbers <= _SAMPLED else None
    unique = levels.distinct >= UNIQUE * extremes.numbers
    return "named like an id, nearly every number is different" if unique else None
