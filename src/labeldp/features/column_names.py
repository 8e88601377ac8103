"""What the name of a column says of its values: ids, codes, names of people or quantities."""

from __future__ import annotations

import re

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
