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
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from labeldp.errors import InputError, LabelDPError, LedgerError, positive, share, to_float, to_path
from labeldp.ledger.chain import Chain, Entry, key_of
from labeldp.ledger.compose import ONE_ROW, Joint, compose_claims
from labeldp.ledger.fingerprint import Fingerprint, PersonIds, digests_v1, fingerprint
from labeldp.mechanisms.registry import read_claim

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine
    from labeldp.planning import Plan
    from labeldp.release.certificate import Claim


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
    tables: tuple[tuple[Entry, ...], ...] = ()
    """The debits that count, by table: first those of the table itself."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why a debit counts, by its number."""

    @property
    def cap(self) -> Cap:
        return self.caps[self.dataset]

    @property
    def debits(self) -> tuple[Entry, ...]:
        """All that count, in order."""
        return tuple(sorted(sum(self.tables, ()), key=lambda debit: debit.number))

    @property
    def claims(self) -> list[Claim]:
        return [_claim(debit) for debit in self.debits]

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
        claims, sizes = [], []
        for place, table in enumerate(self.tables):
            debits = [*table, debit] if debit is not None and place == 0 else [*table]
            claims += [_claim(each) for each in debits]
            sizes += [_rows_of_a_person(debits)] * len(debits)
        return compose_claims(claims, sizes, len(self.caps)) if claims else None


class Ledger:
    """The ledger in a file; `Ledger.create` makes one."""

    def __init__(self, path: str | Path) -> None:
        self._chain = Chain(to_path("path", path))
        self._chain.entries()

    @classmethod
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 1e-6) -> Ledger:
        """A new ledger, where every table may cost (ε, δ) unless `limit` says otherwise."""
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        Chain.create(to_path("path", path), {"ledger": secrets.token_hex(8), **vars(cap)})
        return cls(path)

    @property
    def path(self) -> Path:
        return self._chain.path

    def limit(self, dataset: str, *, epsilon: float, delta: float = 1e-6) -> None:
        """Another cap for one table; what was spent stays spent."""
        _check_name(dataset)
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        with self._chain.writing() as writer:
            writer.append("limit", dataset, vars(cap))

    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order, checked."""
        return tuple(self._chain.entries())

    def account(self, dataset: str) -> Account:
        """One table; a name without entries has the cap of all."""
        return _account(self.entries(), dataset)

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Debit:
        """Pay for a release before its labels are read, or refuse."""
        _check_name(dataset)
        entries = self.entries()
        key = key_of(entries)
        table = fingerprint(source, engine, key, _id_columns(_debits(entries), source))
        columns_v1, persons_v1 = set[tuple[str, str]](), None
        if any("table" not in debit.document for debit in _debits(entries)):
            columns_v1, persons_v1 = digests_v1(source, key)
        persons = None if source.person is None else table.persons[source.person]
        with self._chain.writing() as writer:
            debits = _debits(writer.entries)
            matches = _same_table(debits, table, str(source.label), columns_v1)
            _check_new_name(debits, dataset, matches, persons)
            _check_ids(debits, matches, persons, persons_v1)
            account = _account(writer.entries, dataset, matches, persons)
            _check_person(debits, account, table, persons)
            # Other columns may be labels of other releases, or copies of this one: they were
            # compared, but no digest of them is stored.
            public = set(source.names)
            document = {
                "label": source.label,
                "claim": plan.claim.to_json(),
                "table": {
                    "rows": table.rows,
                    "columns": {n: d for n, d in table.columns.items() if n in public},
                    "same_as": [[number, match.reason] for number, match in matches.items()],
                },
                "persons": None if persons is None else _persons_document(debits, persons),
            }
            total = _check_caps(account, Entry(0, "", "debit", dataset, document))
            spent = {"epsilon": min(total, account.cap.epsilon), "delta": account.cap.delta}
            entry = writer.append("debit", dataset, document | spent)
            name = str(writer.entries[0].document["ledger"])
        return Debit(self, entry, name, len(account.debits) + 1)

    def close(self, debit: Entry, kind: str, document: Mapping[str, Any]) -> None:
        """Say how the run of a debit ended."""
        with self._chain.writing() as writer:
            writer.append(kind, debit.dataset, {"debit": debit.number, **document})

    def to_json(self, dataset: str | None = None) -> dict[str, Any]:
        """What it holds, for people: tables and their totals, debits and how their runs ended."""
        entries = self.entries()
        first = entries[0].document
        names = dict.fromkeys(entry.dataset for entry in entries if entry.dataset is not None)
        if dataset is not None and dataset not in names:
            raise LedgerError(f"the ledger {self.path} has no table {dataset!r}; check the name")
        accounts = [_account(entries, name) for name in names if dataset in (None, name)]
        shown = {debit.number: debit for account in accounts for debit in account.debits}
        ends = {entry.document.get("debit"): entry.kind for entry in reversed(entries)}
        return {
            "ledger": first["ledger"],
            "cap": {"epsilon": first["epsilon"], "delta": first["delta"]},
            "tables": [_account_to_json(account) for account in accounts],
            "persons": _persons_to_json(accounts),
            # The run of a debit without an end was killed, or goes on.
            "releases": [
                _debit_to_json(shown[number], ends.get(number, "not finished"))
                for number in sorted(shown)
            ],
        }


@dataclass(frozen=True)
class Debit:
    """A debit: the run that it pays for is a `with` block, which says how it ended."""

    ledger: Ledger
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
        self.ledger.close(self.entry, "done", {"seal": seal})

    def __enter__(self) -> Debit:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if problem is None:
            return
        with suppress(LedgerError):  # what is not said to have ended stays debited as well
            self.ledger.close(self.entry, "failed", {"why": type(problem).__name__})
        if isinstance(problem, LabelDPError):
            spent = f"entry {self.entry.number} of the ledger stays debited"
            problem.args = (f"{problem}; {spent}",)


def _check_name(dataset: str) -> None:
    if not dataset or dataset != dataset.strip() or not dataset.isprintable():
        raise InputError(f"`dataset` must be a name in plain letters, not {dataset!r}")


def _debits(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.kind == "debit"]


def _claim(debit: Entry) -> Claim:
    return read_claim(dict(debit.document["claim"]))


def _stored_persons(debit: Entry) -> Mapping[str, Any]:
    """What a debit says of persons; nothing if it protects single rows."""
    return debit.document.get("persons") or {}


def _cap(entries: Sequence[Entry], dataset: str) -> Cap:
    limits = [each for each in entries if each.kind == "limit" and each.dataset == dataset]
    document = [entries[0], *limits][-1].document
    return Cap(document["epsilon"], document["delta"])


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
    matches = {}
    for debit in debits:
        if "table" in debit.document:
            match = _match(debit, table, label)
        else:
            match = _match_v1(debit, table, columns_v1)
        if match is not None:
            matches[debit.number] = match
    return matches


def _match(debit: Entry, table: Fingerprint, label: str) -> Match | None:
    stored, its_label = debit.document["table"], debit.document["label"]
    here = {digest: name for name, digest in table.columns.items()}
    common = [(here[d], name) for name, d in stored["columns"].items() if d in here]
    if common:
        mine, theirs = common[0]
        other_name = "" if mine == theirs else f", there {theirs!r},"
        sure = 2 * len(common) >= len(stored["columns"])
        return Match(f"column {mine!r}{other_name} has the same values", sure)
    # Where no column can be compared, names have to do. Labels themselves are never compared.
    if stored["columns"].keys() & table.columns.keys() or stored["rows"] != table.rows:
        return None
    if its_label == label:
        return Match(f"as many rows and the same label {label!r}", sure=False)
    if its_label in table.names:
        return Match(f"as many rows, and its label {its_label!r} is a column here", sure=False)
    if label in stored["columns"]:
        return Match(f"as many rows, and the label {label!r} was a feature there", sure=False)
    return None


def _match_v1(
    debit: Entry, table: Fingerprint, digests: Collection[tuple[str, str]]
) -> Match | None:
    """The same of a debit of the first version: by name and values of its features."""
    stored = debit.document["columns"].items()
    common = [name for name, d in stored if (name, d) in digests and name in table.columns]
    if not common:
        return None
    return Match(f"column {common[0]!r} has the same values", 2 * len(common) >= len(stored))


def _whole_table(
    debits: Sequence[Entry], start: Mapping[int, str], *, by_name: bool = True
) -> dict[int, str]:
    """Return all debits of the table that some debits are of, by their numbers, with reasons."""
    links = [
        (debit.number, number)
        for debit in debits
        for number, _ in debit.document.get("table", {}).get("same_as", ())
    ]
    reached, waiting = dict(start), list(start)
    while waiting:
        number = waiting.pop()
        name = next(debit.dataset for debit in debits if debit.number == number)
        beside = [other for pair in links if number in pair for other in pair]
        named = [debit.number for debit in debits if by_name and debit.dataset == name]
        for other in [*beside, *named]:
            if other not in reached:
                reached[other] = f"the same table as entry {number}"
                waiting.append(other)
    return reached


def _persons_of(table: Iterable[Entry], debits: Iterable[Entry]) -> list[PersonIds]:
    """Return the ids of the debits of a table; the same ids are stored with one debit alone."""
    known = {each["digest"]: each for each in map(_stored_persons, debits) if "ids" in each}
    digests = {_stored_persons(debit).get("digest") for debit in table}
    return [PersonIds.from_json(each) for digest, each in known.items() if digest in digests]


def _in_common(some: Iterable[PersonIds], others: Sequence[PersonIds]) -> int:
    """Return how many persons two tables have in common, at least."""
    return max((one.in_common(other) for one in some for other in others), default=0)


def _account(
    entries: Sequence[Entry],
    dataset: str,
    matches: Mapping[int, Match] | None = None,
    persons: PersonIds | None = None,
) -> Account:
    """All that counts for a name, and for a table that was found to be that of other debits."""
    debits = _debits(entries)
    start = {number: match.reason for number, match in (matches or {}).items()}
    start |= {debit.number: "the same name" for debit in debits if debit.dataset == dataset}
    reasons = _whole_table(debits, start)
    own = tuple(debit for debit in debits if debit.number in reasons)
    ids = [*_persons_of(own, debits), *([] if persons is None else [persons])]
    tables, others = [own], [debit for debit in debits if debit.number not in reasons]
    while others:
        numbers = _whole_table(others, {others[0].number: ""})
        table = tuple(debit for debit in others if debit.number in numbers)
        others = [debit for debit in others if debit.number not in numbers]
        if shared := _in_common(ids, _persons_of(table, debits)):
            tables.append(table)
            reasons |= {debit.number: f"{shared:,} persons in common" for debit in table}
    names = dict.fromkeys([dataset, *(str(d.dataset) for table in tables for d in table)])
    caps = {name: _cap(entries, name) for name in names}
    return Account(dataset, caps, tuple(tables), reasons)


def _id_columns(debits: Sequence[Entry], source: Source) -> set[str]:
    """The person column, or those of earlier releases, which the source may have as well."""
    if source.person is not None:
        return {source.person}
    return {persons["column"] for persons in map(_stored_persons, debits) if persons}


def _persons_document(debits: Sequence[Entry], persons: PersonIds) -> dict[str, Any]:
    """What is stored of persons: their ids, unless an earlier debit has the very same."""
    document = persons.to_json()
    if any(_stored_persons(debit).get("digest") == persons.digest for debit in debits):
        del document["ids"]
    return document


def _rows_of_a_person(table: Sequence[Entry]) -> int:
    """Bound how many rows of a table a person has, by its debits; 1 if none protects persons.

    A claim counts the rows of its release. Others of the same person may be in other releases of
    the table: rows that this release left out, all of which may be of one person, unless the ids
    of all rows were counted.
    """
    documents = [debit.document for debit in table]
    most_rows = max((each.get("table", each["claim"])["rows"] for each in documents), default=0)
    sizes = [1]
    for debit in table:
        claim = debit.document["claim"]
        if "person" in claim:
            counted = _stored_persons(debit).get("most_rows")
            sizes.append(counted or claim["person"]["rows"] + most_rows - claim["rows"])
    return max(sizes)


def _check_new_name(
    debits: Sequence[Entry], dataset: str, matches: Mapping[int, Match], persons: PersonIds | None
) -> None:
    """Refuse a second name of a table that is known: its cap could be another.

    Tables of the same persons may share columns and have names of their own, one for each year.
    """
    if dataset in {debit.dataset for debit in debits}:
        return
    mine = [] if persons is None else [persons]
    for debit in debits:
        if debit.number in matches and not _in_common(mine, _persons_of([debit], debits)):
            raise LedgerError(
                f"the ledger knows this table as {debit.dataset!r} "
                f"({matches[debit.number].reason} in entry {debit.number}); name it so "
                f"(`dataset={debit.dataset!r}`): what was spent on it counts"
            )


def _check_ids(
    debits: Sequence[Entry],
    matches: Mapping[int, Match],
    persons: PersonIds | None,
    digest_v1: str | None,
) -> None:
    """The ids of one table are of the same persons in all releases, or nothing adds up."""
    if persons is None:
        return
    sure = {number: match.reason for number, match in matches.items() if match.sure}
    numbers = _whole_table(debits, sure, by_name=False)
    for debit in debits:
        known = _stored_persons(debit)
        if debit.number in numbers and known:
            mine = persons.digest if "table" in debit.document else digest_v1
            if known["digest"] != mine:
                raise LedgerError(
                    f"whose rows these are was told otherwise in entry {debit.number}: the ids of "
                    f"person column {persons.column!r} are others, so that what a person has spent "
                    "cannot be added up; take the ids and the column of that release"
                )


def _check_person(
    debits: Sequence[Entry], account: Account, table: Fingerprint, persons: PersonIds | None
) -> None:
    """Refuse a release without `person` of a table that holds persons of other releases."""
    if persons is not None or _persons_of(account.tables[0], debits):
        return
    for column, ids in table.persons.items():
        for debit in debits:
            shared = _in_common([ids], _persons_of([debit], debits))
            if shared:
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
            raise LedgerError(
                f"table {name!r} has spent ε = {spent:.4g} of {cap.epsilon:g} at "
                f"δ = {cap.delta:g}, and with this release it would be "
                f"{total.epsilon(cap.delta):.4g}{_counted(account)}; ask for less, or stop"
            )
    return total.epsilon(account.cap.delta)


def _counted(account: Account) -> str:
    """Which releases count together, and why."""
    reasons = [
        f"entry {debit.number} of {debit.dataset!r} ({account.reasons[debit.number]})"
        for debit in account.debits
    ]
    return f"; counted together: {', '.join(reasons)}" if reasons else ""


def _account_to_json(account: Account) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "releases": sum(debit.dataset == account.dataset for debit in account.debits),
        "epsilon": account.spent,
        "cap": vars(account.cap),
        "unit": None if account.total is None else account.total.unit,
        "counted_with": [name for name in account.caps if name != account.dataset],
    }


def _persons_to_json(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """What a person spends where several tables hold the same persons."""
    shown: dict[tuple[int, ...], dict[str, Any]] = {}
    for account in accounts:
        if len(account.caps) > 1 and account.total is not None and account.total.unit != ONE_ROW:
            delta = min(cap.delta for cap in account.caps.values())
            shown[tuple(debit.number for debit in account.debits)] = {
                "tables": sorted(account.caps),
                "releases": len(account.debits),
                "epsilon": account.total.epsilon(delta),
                "delta": delta,
            }
    return list(shown.values())


def _debit_to_json(debit: Entry, run: str) -> dict[str, Any]:
    claim = debit.document["claim"]
    return {
        "entry": debit.number,
        "at": debit.at,
        "dataset": debit.dataset,
        "label": debit.document["label"],
        **{name: claim[name] for name in ("mechanism", "epsilon", "delta")},
        "total_epsilon": debit.document["epsilon"],
        "total_delta": debit.document["delta"],
        "run": run,
    }
