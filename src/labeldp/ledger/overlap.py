"""Which earlier debits concern the same rows, or the same persons, as a new release.

Debits are of one table if they have the same name; if a column of one is a column of the other,
whatever it is called; or if the tables have as many rows, no column name in common that could show
a difference, and the label of one is the label or a column of the other. What a debit was found to
share with earlier ones is written down with it, since the source then had columns that are not
stored. Tables that share persons are counted together for these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from labeldp.ledger.chain import Entry
from labeldp.ledger.fingerprint import Fingerprint, PersonIds


@dataclass(frozen=True)
class Match:
    """Why a debit is of the same table."""

    reason: str
    sure: bool = True
    """Whether half of the columns agree: then the ids of persons must, too."""


def same_table(
    debits: Iterable[Entry],
    table: Fingerprint,
    label: str,
    digests_v1: Collection[tuple[str, str]] = (),
) -> dict[int, Match]:
    """Return the debits whose table is this one, by their numbers."""
    matches = {}
    for debit in debits:
        if "table" in debit.document:
            match = _match(debit, table, label)
        else:
            match = _match_v1(debit, table, digests_v1)
        if match is not None:
            matches[debit.number] = match
    return matches


def _match(debit: Entry, table: Fingerprint, label: str) -> Match | None:
    stored = debit.document["table"]
    here = {digest: name for name, digest in table.columns.items()}
    common = [(here[d], name) for name, d in stored["columns"].items() if d in here]
    if common:
        mine, theirs = common[0]
        called = "" if mine == theirs else f", there {theirs!r},"
        reason = f"column {mine!r}{called} has the same values"
        return Match(reason, sure=2 * len(common) >= len(stored["columns"]))
    # Where no column can be compared, names have to do. Labels themselves are never compared.
    comparable = stored["columns"].keys() & table.columns.keys()
    if comparable or stored["rows"] != table.rows:
        return None
    if debit.document["label"] == label:
        return Match(f"as many rows and the same label {label!r}", sure=False)
    if debit.document["label"] in table.names:
        return Match(
            f"as many rows, and its label {debit.document['label']!r} is a column here", sure=False
        )
    if label in stored["columns"]:
        return Match(f"as many rows, and the label {label!r} was a feature there", sure=False)
    return None


def _match_v1(
    debit: Entry, table: Fingerprint, digests: Collection[tuple[str, str]]
) -> Match | None:
    """The same of a debit of an earlier version: by name and values of its features."""
    stored = debit.document["columns"]
    common = [
        name
        for name, digest in stored.items()
        if (name, digest) in digests and name in table.columns
    ]
    if not common:
        return None
    return Match(f"column {common[0]!r} has the same values", sure=2 * len(common) >= len(stored))


def whole_table(
    debits: Sequence[Entry], start: Mapping[int, str], *, by_name: bool = True
) -> dict[int, str]:
    """Return all debits of the table that some debits are of, by their numbers, with reasons."""
    new = [debit for debit in debits if "table" in debit.document]
    links = [(d.number, number) for d in new for number, _ in d.document["table"]["same_as"]]
    reached = dict(start)
    waiting = list(start)
    while waiting:
        number = waiting.pop()
        name = next(d.dataset for d in debits if d.number == number)
        beside = [other for pair in links if number in pair for other in pair]
        named = [d.number for d in debits if by_name and d.dataset == name]
        for other in [*beside, *named]:
            if other not in reached:
                reached[other] = f"the same table as entry {number}"
                waiting.append(other)
    return reached


def tables_of(debits: Sequence[Entry]) -> list[tuple[Entry, ...]]:
    """Return the debits of each table."""
    tables: list[tuple[Entry, ...]] = []
    for debit in debits:
        if not any(debit in table for table in tables):
            numbers = whole_table(debits, {debit.number: ""})
            tables.append(tuple(each for each in debits if each.number in numbers))
    return tables


def persons_of(table: Iterable[Entry], debits: Iterable[Entry]) -> list[PersonIds]:
    """Return the ids of the debits of a table; the same ids are stored with one debit alone."""
    known = {}
    for debit in debits:
        persons = debit.document.get("persons")
        if persons and "ids" in persons:
            known[persons["digest"]] = persons
    wanted = {(d.document.get("persons") or {}).get("digest") for d in table}
    return [PersonIds.from_json(each) for digest, each in known.items() if digest in wanted]


def in_common(some: Iterable[PersonIds], others: Sequence[PersonIds]) -> int:
    """Return how many persons two tables have in common, at least."""
    return max((one.in_common(other) for one in some for other in others), default=0)
