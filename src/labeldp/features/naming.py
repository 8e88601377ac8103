"""What the name of a column says of the numbers in it: that they are ids, codes or quantities."""

from __future__ import annotations

import re
from collections.abc import Collection

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
_PEOPLES_NAMES = frozenset((
    "surname", "firstname", "lastname", "fullname", "forename", "vorname", "nachname", "prénom",
    "prenom", "apellido", "apellidos", "cognome", "sobrenome", "achternaam", "voornaam",
    "efternamn", "förnamn", "imię", "nazwisko", "soyadı", "фио", "фамилия", "氏名", "姓名", "名前",
    "이름", "성명",
))  # fmt: skip
_NAMES = frozenset(("name", "names", "nom", "nombre", "nome", "naam", "namn", "navn", "adı", "имя"))
_OF_PEOPLE = frozenset((
    "full", "first", "last", "given", "family", "middle", "maiden", "display", "holder", "contact",
    "owner", "driver", "teacher", "doctor", "physician", "completo", "complet", "et", "y", "e",
    "guest", "passenger", "principal", "manager", "agent", "titular", "nurse", "supervisor",
))  # fmt: skip
_MOSTLY = 0.8
_CYCLES = frozenset((
    "month", "weekday", "dow", "quarter", "season", "hour", "day", "monat", "wochentag", "stunde",
))  # fmt: skip


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _head(name: str) -> str:
    """The word that says what it is, the last that is no number: region of `sales region 2`."""
    words = [word for word in _words(name) if not word.isdigit()]
    return words[-1] if words else ""


def surely_id(name: str) -> bool:
    """Whether only identifiers are named so: userId, E-Mail, id_client."""
    return _head(name) in _IDS or _words(name)[:1] in (["id"], ["uuid"])


def named_like_an_id(name: str) -> bool:
    """Whether a name ends as those of identifiers do: userId, order_no, respondent."""
    return surely_id(name) or _head(name) in _MAYBE_IDS | _PERSONS


def named_like_a_code(name: str) -> bool:
    """Whether a name ends as those of codes do: zip, region_code, StoreType."""
    return _head(name) in _CODES


def cyclic(name: str) -> bool:
    """Whether a name ends as those of months, weekdays and hours do, which come round again."""
    return _head(name) in _CYCLES


def are_names(name: str, values: Collection[str]) -> bool:
    """Whether a column has people's names: last_name, customerName; Name or guest, if they look so.

    A product_name is another thing, and so may a name alone be.
    """
    words = {*filter(None, re.split(r"[\W_\d]+", name.lower()))}
    if not words.isdisjoint(_PEOPLES_NAMES):
        return True
    said, people = {*_words(name)} or words, _OF_PEOPLE | _PERSONS
    if not said or not said <= _NAMES | people:
        return False
    if not (said.isdisjoint(_NAMES) or said.isdisjoint(people)):
        return True
    return _MOSTLY * len(values) <= sum(map(_of_person, values))


def _of_person(value: str) -> bool:
    return (
        re.match(r"\s*(?:[\w'’-]+, [^\W\d]|(?:mr|mrs|ms|dr|herr|frau)\b)", value, re.I) is not None
    )


def names_a_person(name: str) -> bool:
    """Whether a name speaks of people: customer_id, not basket_id."""
    return not _PERSONS.isdisjoint(_words(name))
