"""The ledger: what was spent on every table of a data holder.

A release is debited before its labels are read, in one transaction: the claims of all releases that
count for the same rows or persons are composed with the new one (theory §13), and an entry is
written only if δ of all together, at the ε of the cap, is at most the cap's δ. The entry is on disk
before a label is read, so that a run that is killed has cost its budget and nothing else. Entries
are

    create   the ledger's own number, the key of its digests, the cap of every table
    limit    another cap for one table
    debit    a release: its claim, what its table is known by, the total after it
    done     of a debit: the release is there, by its seal
    failed   of a debit: the run ended without one, and the debit stays

and stand in a file that only grows (`chain.py`).

Debits are of one table if they have the same name; if a column of one is a column of the other,
whatever it is called; or if the tables have as many rows, no column name in common that could show
a difference, and the label of one is the label or a column of the other. What a debit was found to
share with earlier ones is written down with it, since the source then had columns that are not
stored. Tables that share persons are counted together for these.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labeldp.errors import InputError, LabelDPError, LedgerError, positive, share, to_float, to_path
from labeldp.ledger import chain
from labeldp.ledger.chain import Entry
from labeldp.ledger.compose import ONE_ROW, Joint, compose_claims
from labeldp.ledger.fingerprint import Fingerprint, PersonIds, digests_v1, fingerprint
from labeldp.mechanisms.registry import read_claim

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine
    from labeldp.planning import Plan


@dataclass(frozen=True)
class Cap:
    """What all releases of a table may cost together: ε at δ."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        share(delta=self.delta)


@dataclass(frozen=True)
class Account:
    """What counts for a table in the ledger: debits of it, and of others with the same persons."""

    dataset: str
    caps: Mapping[str, Cap]
    """Of all tables that count, by name: every one of them holds."""
    tables: Sequence[Sequence[Entry]] = ()
    """The debits that count, by table: first those of the table itself."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why a debit counts, by its number."""

    @property
    def cap(self) -> Cap:
        """The cap of the table itself."""
        return self.caps[self.dataset]

    @property
    def debits(self) -> list[Entry]:
        """All that count, in order."""
        return sorted((each for table in self.tables for each in table), key=lambda d: d.number)

    @cached_property
    def total(self) -> Joint | None:
        """What was spent; None if nothing was."""
        return self.total_with(None)

    @property
    def spent(self) -> float:
        """ε of all releases at the cap's δ."""
        return 0.0 if self.total is None else self.total.epsilon(self.cap.delta)

    def total_with(self, debit: Entry | None) -> Joint | None:
        """Compose the claims of all debits, and of a new one of the table itself."""
        claims, group_sizes = [], []
        for place, table in enumerate(self.tables):
            debits = [*table, debit] if debit is not None and place == 0 else [*table]
            claims += [read_claim(dict(each.document["claim"])) for each in debits]
            group_sizes += [_rows_of_a_person(debits)] * len(debits)
        return compose_claims(claims, group_sizes, len(self.caps)) if claims else None


class Ledger:
    """The ledger in a file; `Ledger.create` makes one."""

    def __init__(self, path: str | Path) -> None:
        self.path = to_path("path", path)
        chain.read(self.path)

    @classmethod
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 1e-6) -> Ledger:
        """A new ledger, where every table may cost (ε, δ) unless `limit` says otherwise."""
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        chain.create(to_path("path", path), {"ledger": secrets.token_hex(8), **vars(cap)})
        return cls(path)

    def limit(self, dataset: str, *, epsilon: float, delta: float = 1e-6) -> None:
        """Another cap for one table; what was spent stays spent."""
        _check_name(dataset)
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        with chain.writing(self.path) as writer:
            writer.append("limit", dataset, vars(cap))

    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order, checked."""
        return tuple(chain.read(self.path))

    def account(self, dataset: str) -> Account:
        """One table; a name without entries has the cap of all."""
        return _account(self.entries(), dataset, {}, None)

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Debit:
        """Pay for a release before its labels are read, or refuse."""
        _check_name(dataset)
        # The table is read before the transaction, which other writers wait for.
        entries = self.entries()
        debits, key = _debits(entries), chain.key_of(entries)
        # Without a person column, those of earlier releases are looked at if the source has them.
        known = {each.document["persons"]["column"] for each in debits if _protects_persons(each)}
        table = fingerprint(source, engine, key, {source.person} if source.person else known)
        columns_v1, persons_v1 = set[tuple[str, str]](), None
        if any("table" not in debit.document for debit in debits):
            columns_v1, persons_v1 = digests_v1(source, key)
        persons = None if source.person is None else table.persons[source.person]
        with chain.writing(self.path) as writer:
            debits = _debits(writer.entries)
            matches = _same_table(debits, table, str(source.label), columns_v1)
            _check_new_name(debits, dataset, matches, persons)
            if persons is not None:
                _check_same_ids(debits, matches, persons, persons_v1)
            account = _account(writer.entries, dataset, matches, persons)
            if persons is None:
                _check_no_persons(debits, account, table)
            # Other columns may be labels of other releases, or copies of this one: they were
            # compared, but no digest of them is stored.
            columns = {n: digest for n, digest in table.columns.items() if n in set(source.names)}
            ids = None if persons is None else persons.to_json()
            if ids is not None and ids["digest"] in _persons_by_digest(debits):
                del ids["ids"]  # an earlier debit has the very same
            document = {
                "label": source.label,
                "claim": plan.claim.to_json(),
                "table": {
                    "rows": table.rows,
                    "columns": columns,
                    "same_as": [[number, match.reason] for number, match in matches.items()],
                },
                "persons": ids,
            }
            total = _check_caps(account, Entry(0, "", "debit", dataset, document))
            spent = {"epsilon": min(total, account.cap.epsilon), "delta": account.cap.delta}
            entry = writer.append("debit", dataset, document | spent)
            name = str(writer.entries[0].document["ledger"])
        return Debit(self.path, entry, name, len(account.debits) + 1)

    def to_json(self, dataset: str | None = None) -> dict[str, Any]:
        """What it holds, for people: tables and their totals, debits and how their runs ended."""
        entries = self.entries()
        first = entries[0].document
        names = dict.fromkeys(entry.dataset for entry in entries if entry.dataset is not None)
        if dataset is not None and dataset not in names:
            raise LedgerError(f"the ledger {self.path} has no table {dataset!r}; check the name")
        tables, releases = [], {}
        persons: dict[tuple[int, ...], dict[str, Any]] = {}
        # The run of a debit without an end was killed, or goes on.
        ends = {entry.document.get("debit"): entry.kind for entry in reversed(entries)}
        for name in names if dataset is None else [dataset]:
            account = _account(entries, name, {}, None)
            total, debits = account.total, account.debits
            tables.append(
                {
                    "dataset": name,
                    "releases": sum(debit.dataset == name for debit in debits),
                    "epsilon": account.spent,
                    "cap": vars(account.cap),
                    "unit": None if total is None else total.unit,
                    "counted_with": [other for other in account.caps if other != name],
                }
            )
            if len(account.caps) > 1 and total is not None and total.unit != ONE_ROW:
                delta = min(cap.delta for cap in account.caps.values())
                persons[tuple(debit.number for debit in debits)] = {
                    "tables": sorted(account.caps),
                    "releases": len(debits),
                    "epsilon": total.epsilon(delta),
                    "delta": delta,
                }
            for debit in debits:
                claim = debit.document["claim"]
                releases[debit.number] = {
                    "entry": debit.number,
                    "at": debit.at,
                    "dataset": debit.dataset,
                    "label": debit.document["label"],
                    **{name: claim[name] for name in ("mechanism", "epsilon", "delta")},
                    "total_epsilon": debit.document["epsilon"],
                    "total_delta": debit.document["delta"],
                    "run": ends.get(debit.number, "not finished"),
                }
        return {
            "ledger": first["ledger"],
            "cap": {"epsilon": first["epsilon"], "delta": first["delta"]},
            "tables": tables,
            "persons": list(persons.values()),
            "releases": [releases[number] for number in sorted(releases)],
        }


@dataclass(frozen=True)
class Debit:
    """A debit: the run that it pays for is a `with` block, which says how it ended."""

    path: Path
    entry: Entry
    name: str
    releases: int

    def to_json(self) -> dict[str, Any]:
        """What the certificate says: the entry, and all that is spent on the table after it."""
        return {
            "ledger": self.name,
            "entry": self.entry.number,
            "digest": self.entry.digest,
            "releases": self.releases,
            **{name: self.entry.document[name] for name in ("epsilon", "delta")},
        }

    def done(self, seal: str) -> None:
        """The release is there."""
        self._end("done", {"seal": seal})

    def __enter__(self) -> Debit:
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if problem is None:
            return
        with suppress(LedgerError):  # what is not said to have ended stays debited as well
            self._end("failed", {"why": type(problem).__name__})
        if isinstance(problem, LabelDPError):
            spent = f"entry {self.entry.number} of the ledger stays debited"
            problem.args = (f"{problem}; {spent}",)

    def _end(self, kind: str, document: dict[str, Any]) -> None:
        with chain.writing(self.path) as writer:
            writer.append(kind, self.entry.dataset, {"debit": self.entry.number, **document})


def _check_name(dataset: str) -> None:
    if not dataset or dataset != dataset.strip() or not dataset.isprintable():
        raise InputError(f"`dataset` must be a name in plain letters, not {dataset!r}")


def _debits(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.kind == "debit"]


def _protects_persons(debit: Entry) -> bool:
    return bool(debit.document.get("persons"))


# ---- which debits are of the same table, and of the same persons


class Match(NamedTuple):
    """Why a debit is of the same table."""

    reason: str
    sure: bool
    """Whether half of the columns agree: then the ids of persons must, too."""


def _same_table(
    debits: Iterable[Entry],
    table: Fingerprint,
    label: str,
    columns_v1: Collection[tuple[str, str]],
) -> dict[int, Match]:
    """Return the debits whose table is this one, by their numbers."""
    names, matches = {digest: name for name, digest in table.columns.items()}, {}
    for debit in debits:
        first_version = "table" not in debit.document
        stored = debit.document if first_version else debit.document["table"]
        columns = stored["columns"]
        if first_version:  # digests are of names and values
            same = [name for name, digest in columns.items() if (name, digest) in columns_v1]
            common = [(name, name) for name in same if name in table.columns]
        else:
            common = [(names[digest], n) for n, digest in columns.items() if digest in names]
        if common:
            mine, theirs = common[0]
            other_name = "" if mine == theirs else f", there {theirs!r},"
            reason = f"column {mine!r}{other_name} has the same values"
            matches[debit.number] = Match(reason, 2 * len(common) >= len(columns))
            continue
        # Where no column can be compared, names have to do. Labels themselves are never compared.
        if first_version or columns.keys() & table.columns.keys() or stored["rows"] != table.rows:
            continue
        its_label = debit.document["label"]
        if its_label == label:
            reason = f"as many rows and the same label {label!r}"
        elif its_label in table.names:
            reason = f"as many rows, and its label {its_label!r} is a column here"
        elif label in columns:
            reason = f"as many rows, and the label {label!r} was a feature there"
        else:
            continue
        matches[debit.number] = Match(reason, sure=False)
    return matches


def _whole_table(
    debits: Sequence[Entry], start: Mapping[int, str], *, by_name: bool = True
) -> dict[int, str]:
    """Return all debits of the table that some debits are of, by their numbers, with reasons."""
    names = {debit.number: debit.dataset for debit in debits}
    links = [
        (debit.number, number)
        for debit in debits
        for number, _ in debit.document.get("table", {}).get("same_as", ())
    ]
    reached, waiting = dict(start), list(start)
    while waiting:
        number = waiting.pop()
        others = [other for pair in links if number in pair for other in pair]
        if by_name:
            others += [other for other, name in names.items() if name == names[number]]
        for other in others:
            if other not in reached:
                reached[other] = f"the same table as entry {number}"
                waiting.append(other)
    return reached


def _persons_by_digest(debits: Iterable[Entry]) -> dict[str, PersonIds]:
    """Return the ids that debits store; the same ids are stored with one debit alone."""
    documents = [each.document["persons"] for each in debits if _protects_persons(each)]
    return {each["digest"]: PersonIds.from_json(each) for each in documents if "ids" in each}


def _in_common(
    some: Iterable[PersonIds], table: Iterable[Entry], stored: Mapping[str, PersonIds]
) -> int:
    """Return how many of these persons the debits of a table have in common, at least."""
    others = _persons_of(table, stored)
    return max((one.in_common(other) for one in some for other in others), default=0)


def _persons_of(table: Iterable[Entry], stored: Mapping[str, PersonIds]) -> list[PersonIds]:
    """Return the ids of the debits of a table, each once."""
    digests = {each.document["persons"]["digest"] for each in table if _protects_persons(each)}
    return [ids for digest, ids in stored.items() if digest in digests]


def _account(
    entries: Sequence[Entry],
    dataset: str,
    matches: Mapping[int, Match],
    persons: PersonIds | None,
) -> Account:
    """All that counts for a name, and for a table that was found to be that of other debits."""
    debits = _debits(entries)
    start = {number: match.reason for number, match in matches.items()}
    start |= {debit.number: "the same name" for debit in debits if debit.dataset == dataset}
    reasons = _whole_table(debits, start)
    tables = [[debit for debit in debits if debit.number in reasons]]
    stored = _persons_by_digest(debits)
    ids = _persons_of(tables[0], stored) + ([] if persons is None else [persons])
    others = [debit for debit in debits if debit.number not in reasons]
    while others:
        numbers = _whole_table(others, {others[0].number: ""})
        table = [debit for debit in others if debit.number in numbers]
        others = [debit for debit in others if debit.number not in numbers]
        if shared := _in_common(ids, table, stored):
            tables.append(table)
            reasons |= {debit.number: f"{shared:,} persons in common" for debit in table}
    caps = {}
    for name in [dataset, *(str(debit.dataset) for table in tables for debit in table)]:
        limits = [each for each in entries if each.kind == "limit" and each.dataset == name]
        document = [entries[0], *limits][-1].document
        caps[name] = Cap(document["epsilon"], document["delta"])
    return Account(dataset, caps, tables, reasons)


def _rows_of_a_person(table: Sequence[Entry]) -> int:
    """Bound how many rows of a table a person has, by its debits; 1 if none protects persons.

    A claim counts the rows of its release. Others of the same person may be in other releases of
    the table: rows that this release left out, all of which may be of one person, unless the ids
    of all rows were counted.
    """
    documents = [debit.document for debit in table]
    most_rows = max((each.get("table", each["claim"])["rows"] for each in documents), default=0)
    sizes = [1]
    for document in documents:
        claim = document["claim"]
        if "person" in claim:
            counted = (document.get("persons") or {}).get("most_rows")
            sizes.append(counted or claim["person"]["rows"] + most_rows - claim["rows"])
    return max(sizes)


# ---- what is refused


def _check_new_name(
    debits: Sequence[Entry], dataset: str, matches: Mapping[int, Match], persons: PersonIds | None
) -> None:
    """Refuse a second name of a table that is known: its cap could be another.

    Tables of the same persons may share columns and have names of their own, one for each year.
    """
    if dataset in {debit.dataset for debit in debits}:
        return
    mine, stored = [] if persons is None else [persons], _persons_by_digest(debits)
    for debit in debits:
        if debit.number in matches and not _in_common(mine, [debit], stored):
            raise LedgerError(
                f"the ledger knows this table as {debit.dataset!r} "
                f"({matches[debit.number].reason} in entry {debit.number}); name it so "
                f"(`dataset={debit.dataset!r}`): what was spent on it counts"
            )


def _check_same_ids(
    debits: Sequence[Entry],
    matches: Mapping[int, Match],
    persons: PersonIds,
    digest_v1: str | None,
) -> None:
    """The ids of one table are of the same persons in all releases, or nothing adds up."""
    sure = {number: match.reason for number, match in matches.items() if match.sure}
    numbers = _whole_table(debits, sure, by_name=False)
    for debit in debits:
        if debit.number in numbers and _protects_persons(debit):
            digest = persons.digest if "table" in debit.document else digest_v1
            if debit.document["persons"]["digest"] != digest:
                raise LedgerError(
                    f"whose rows these are was told otherwise in entry {debit.number}: the ids of "
                    f"person column {persons.column!r} are others, so that what a person has spent "
                    "cannot be added up; take the ids and the column of that release"
                )


def _check_no_persons(debits: Sequence[Entry], account: Account, table: Fingerprint) -> None:
    """Refuse a release without `person` of a table that holds persons of other releases."""
    stored = _persons_by_digest(debits)
    if _persons_of(account.tables[0], stored):
        return
    for column, ids in table.persons.items():
        for debit in debits:
            if shared := _in_common([ids], [debit], stored):
                raise LedgerError(
                    f"column {column!r} holds {shared:,} persons of entry {debit.number} "
                    f"({debit.dataset!r}); name it as `person`, so that what one of them spends "
                    "in all tables is counted"
                )


def _check_caps(account: Account, debit: Entry) -> float:
    """Return ε of all releases and this one at the cap's δ; refuse it if a cap does not hold."""
    total = account.total_with(debit)
    assert total is not None
    for name, cap in account.caps.items():
        if not total.delta(cap.epsilon) <= cap.delta:
            spent = 0.0 if account.total is None else account.total.epsilon(cap.delta)
            reasons = [
                f"entry {each.number} of {each.dataset!r} ({account.reasons[each.number]})"
                for each in account.debits
            ]
            counted = f"; counted together: {', '.join(reasons)}" if reasons else ""
            raise LedgerError(
                f"table {name!r} has spent ε = {spent:.4g} of {cap.epsilon:g} at "
                f"δ = {cap.delta:g}, and with this release it would be "
                f"{total.epsilon(cap.delta):.4g}{counted}; ask for less, or stop"
            )
    return total.epsilon(account.cap.delta)
