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
a difference, and the label of one is the label or a column of the other. Debits of the first
version hold other digests: there as many rows and one column name in common are enough. What a
debit was found to share with earlier ones is written down with it, since the source then had
columns that are not stored. Tables that share persons are counted together for these.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labeldp.display import ReprMixin, format_budget
from labeldp.errors import (
    InputError,
    LabelDPError,
    LedgerError,
    at_least,
    positive,
    to_float,
    to_path,
)
from labeldp.ledger import chain
from labeldp.ledger.chain import Entry
from labeldp.ledger.compose import Joint, claim_of_debit, compose_claims
from labeldp.ledger.fingerprint import Fingerprint, PersonIds, fingerprint, person_digest_v1

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine
    from labeldp.planning import Plan


_CLAIMED = ("mechanism", "epsilon", "delta")


# ---- which debits count together, and what they cost


@dataclass(frozen=True)
class Cap:
    """What all releases of a table may cost together: ε at δ."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        at_least(0, 1, delta=self.delta)


class Match(NamedTuple):
    """Why a debit is of the same table."""

    reason: str
    sure: bool
    """Whether half of the columns agree: then the ids of persons must, too."""


@dataclass(frozen=True)
class Account:
    """What counts for a table in the ledger: debits of it, and of others with the same persons."""

    dataset: str
    caps: Mapping[str, Cap]
    """Of all tables that count, by name: every one of them holds."""
    tables: Sequence[Sequence[Entry]]
    """The debits that count, by table: first those of the table itself."""
    reasons: Mapping[int, str]
    """Why a debit counts, by its number."""

    @property
    def cap(self) -> Cap:
        """Return the cap of the table itself."""
        return self.caps[self.dataset]

    @property
    def debits(self) -> list[Entry]:
        """Return all debits that count, in order."""
        return _in_order(each for table in self.tables for each in table)

    @cached_property
    def total(self) -> Joint | None:
        """What was spent; None if nothing was."""
        return self._compose(self.tables) if any(self.tables) else None

    @property
    def spent(self) -> float:
        """Return ε of all releases at the cap's δ."""
        return 0.0 if self.total is None else self.total.epsilon(self.cap.delta)

    def epsilon_with(self, debit: Entry) -> float:
        """Return ε of all releases and a new one of this table; refuse it beyond a cap."""
        total = self._compose([[*self.tables[0], debit], *self.tables[1:]])
        for name, cap in self.caps.items():
            if not total.delta(cap.epsilon) <= cap.delta:
                spent = 0.0 if self.total is None else self.total.epsilon(cap.delta)
                counted = ", ".join(
                    f"entry {each.number} of {each.dataset!r} ({self.reasons[each.number]})"
                    for each in self.debits
                )
                raise LedgerError(
                    f"table {name!r} has spent ε = {spent:.4g} of {cap.epsilon:g} at "
                    f"δ = {cap.delta:g}, and with this release it would be "
                    f"{total.epsilon(cap.delta):.4g}"
                    f"{'; counted together: ' * bool(counted)}{counted}; ask for less, or stop"
                )
        return total.epsilon(self.cap.delta)

    def _compose(self, tables: Sequence[Sequence[Entry]]) -> Joint:
        claims = [
            claim_of_debit(dict(each.document["claim"])) for table in tables for each in table
        ]
        sizes = [_rows_of_a_person(debit, table) for table in tables for debit in table]
        return compose_claims(claims, sizes, len(self.caps))


def _in_order(debits: Iterable[Entry]) -> list[Entry]:
    return sorted(debits, key=lambda debit: debit.number)


def _rows_of_a_person(debit: Entry, debits: Sequence[Entry]) -> int:
    """Bound how many rows of a debit's table a person has; 1 if none of `debits` protects persons.

    It is 1 as well where the debit protects persons itself: its claim counts their rows. Else the
    ids of an earlier debit tell, or those of debits of the same table: they were counted in all
    its rows, also in those that a release left out. Where no ids tell, as of a table that shares
    the name alone, all rows may be of one person.
    """
    document = debit.document
    persons = [each for each in debits if "person" in each.document["claim"]]
    if not persons or debit in persons:
        return 1
    # Entries of the first version have the rows of the release alone.
    table = document.get("table", document["claim"])
    if most_rows := table.get("most_rows"):
        return int(most_rows)
    known = [
        _is_same_table(debit, each) and (each.document.get("persons") or {}).get("most_rows")
        for each in persons
    ]
    return max(int(most or table["rows"]) for most in known)


def _is_same_table(one: Entry, other: Entry) -> bool:
    """Return whether two debits have a column in common, or one was matched to the other.

    Entries of the first version share nothing but the name with others; their table was compared.
    """
    first, second = one.document.get("table"), other.document.get("table")
    if one is other or first is None or second is None:
        return True
    linked = {number for number, _ in (*first["same_as"], *second["same_as"])}
    common = {*first["columns"].values()} & {*second["columns"].values()}
    return bool(common or {one.number, other.number} & linked)


def _match(document: Mapping[str, Any], table: Fingerprint, label: str, rows: int) -> Match | None:
    """Return why a debit is of this table; None if nothing says so."""
    if (stored := document.get("table")) is None:
        # Of the first version, which released all rows but those without a label: any name in
        # common will do, since digests of that version are not compared.
        common = sorted(document["columns"].keys() & table.names)
        if not common or document["claim"]["rows"] not in (rows, table.rows):
            return None
        sure = 2 * len(common) >= len(document["columns"])
        return Match(f"as many rows and a column {common[0]!r}", sure)
    columns, its_label = stored["columns"], document["label"]
    names = {digest: name for name, digest in table.columns.items()}
    same = [(names[digest], name) for name, digest in columns.items() if digest in names]
    if same:
        mine, theirs = same[0]
        other_name = "" if mine == theirs else f", there {theirs!r},"
        reason = f"column {mine!r}{other_name} has the same values"
        return Match(reason, 2 * len(same) >= len(columns))
    # Where no column can be compared, names have to do. Labels are never compared.
    if columns.keys() & table.columns.keys() or stored["rows"] != table.rows:
        return None
    if its_label in {label, *table.names} or label in columns:
        return Match(f"as many rows, and the label {its_label!r} or {label!r} in both", False)
    return None


class History:
    """All entries of a ledger, and the questions about its debits."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.debits = [entry for entry in entries if entry.kind == "debit"]
        # The same ids are stored with one debit alone.
        stored = [each.document["persons"] for each in self.debits if _persons_digest(each)]
        self.ids = {each["digest"]: PersonIds.from_json(each) for each in stored if "ids" in each}

    def account(
        self,
        dataset: str,
        matches: Mapping[int, Match] | None = None,
        persons: PersonIds | None = None,
    ) -> Account:
        """Return all that counts for a name, and for a table that other debits were matched to."""
        known = {number: match.reason for number, match in (matches or {}).items()}
        known |= {each.number: "the same name" for each in self.debits if each.dataset == dataset}
        own, others, reasons = list[Entry](), list[list[Entry]](), dict[int, str]()
        for table in self._tables:
            first = next((debit.number for debit in table if debit.number in known), None)
            if first is None:
                others.append(table)
                continue
            own += table
            same = f"the same table as entry {first}"
            reasons |= {debit.number: known.get(debit.number, same) for debit in table}
        tables = [_in_order(own)]
        ids = self._ids_of(own) + ([] if persons is None else [persons])
        for table in others:
            if shared := self._in_common(ids, table):
                tables.append(_in_order(table))
                reasons |= {debit.number: f"{shared:,} persons in common" for debit in table}
        caps = {}
        for name in [dataset, *(str(debit.dataset) for table in tables for debit in table)]:
            limits = [
                each for each in self.entries if each.kind == "limit" and each.dataset == name
            ]
            document = [self.entries[0], *limits][-1].document
            caps[name] = Cap(document["epsilon"], document["delta"])
        return Account(dataset, caps, tables, reasons)

    @cached_property
    def _tables(self) -> list[list[Entry]]:
        """The debits of each table: of one name, or matched to each other."""
        return self._join(by_name=True)

    def _join(self, *, by_name: bool) -> list[list[Entry]]:
        tables = list[list[Entry]]()
        for debit in self.debits:
            linked = {number for number, _ in debit.document.get("table", {}).get("same_as", ())}
            same, others = list[Entry](), list[list[Entry]]()
            for table in tables:
                numbers, names = {e.number for e in table}, {e.dataset for e in table}
                if numbers & linked or (by_name and debit.dataset in names):
                    same += table
                else:
                    others.append(table)
            tables = [*others, [*same, debit]]
        return tables

    def matches(self, table: Fingerprint, label: str, rows: int) -> dict[int, Match]:
        """Return the debits whose table is this one, by their numbers; `rows` are released."""
        found = {debit.number: _match(debit.document, table, label, rows) for debit in self.debits}
        return {number: match for number, match in found.items() if match is not None}

    def _ids_of(self, table: Iterable[Entry]) -> list[PersonIds]:
        """Return the ids of persons in the debits of a table, each once."""
        digests = set(map(_persons_digest, table))
        return [ids for digest, ids in self.ids.items() if digest in digests]

    def _in_common(self, some: Iterable[PersonIds], table: Iterable[Entry]) -> int:
        """Return how many of these persons the debits of a table have in common, at least."""
        others = self._ids_of(table)
        return max((one.in_common(other) for one in some for other in others), default=0)

    def check_name(
        self, dataset: str, matches: Mapping[int, Match], persons: PersonIds | None
    ) -> None:
        """Refuse a second name of a table that is known: its cap could be another.

        Tables of the same persons may share columns and have names of their own, one for each year.
        """
        if dataset in {debit.dataset for debit in self.debits}:
            return
        mine = [] if persons is None else [persons]
        for debit in self.debits:
            if debit.number in matches and not self._in_common(mine, [debit]):
                raise LedgerError(
                    f"the ledger knows this table as {debit.dataset!r} "
                    f"({matches[debit.number].reason} in entry {debit.number}); name it so "
                    f"(`dataset={debit.dataset!r}`): what was spent on it counts"
                )

    def check_ids(
        self, matches: Mapping[int, Match], persons: PersonIds, digest_v1: str | None
    ) -> None:
        """Refuse ids that are not those of the table's other releases: costs could not be added.

        Debits of the first version have `digest_v1`.
        """
        sure = {number for number, match in matches.items() if match.sure}
        tables = self._join(by_name=False)
        same = [each for table in tables if sure & {e.number for e in table} for each in table]
        for debit in _in_order(same):
            digest = persons.digest if "table" in debit.document else digest_v1
            if _persons_digest(debit) not in (None, digest):
                raise LedgerError(
                    f"whose rows these are was told otherwise in entry {debit.number}: the ids of "
                    f"person column {persons.column!r} are others, so that what a person has spent "
                    "cannot be added up; take the ids and the column of that release"
                )

    def check_no_persons(self, account: Account, table: Fingerprint) -> None:
        """Refuse a release without `person` of a table that holds persons of other releases."""
        if self._ids_of(account.tables[0]):
            return
        for column, ids in table.persons.items():
            for debit in self.debits:
                if shared := self._in_common([ids], [debit]):
                    raise LedgerError(
                        f"column {column!r} holds {shared:,} persons of entry {debit.number} "
                        f"({debit.dataset!r}); name it as `person`, so that what one of them "
                        "spends in all tables is counted"
                    )


def _persons_digest(debit: Entry) -> str | None:
    """Return the digest of the ids of persons; None if the release protects single rows."""
    persons = debit.document.get("persons")
    return persons["digest"] if persons else None


# ---- the ledger


class Ledger(ReprMixin):
    """The ledger in a file; `Ledger.create` makes one."""

    def __init__(self, path: str | Path) -> None:
        self.path = to_path("path", path)
        chain.read(self.path)

    @classmethod
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 1e-6) -> Ledger:
        """Create a ledger in which every table may cost (ε, δ) unless `limit` says otherwise."""
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        chain.create(to_path("path", path), {"ledger": secrets.token_hex(8), **vars(cap)})
        return cls(path)

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        facts = []
        for table in self.to_json()["tables"]:
            spent, cap = table["epsilon"], format_budget(**table["cap"])
            facts.append(
                (table["dataset"], f"{table['releases']} releases: ε = {spent:.4g} of {cap}")
            )
        return f"Ledger {self.path}", facts or [("", "no release yet")]

    def limit(self, dataset: str, *, epsilon: float, delta: float = 1e-6) -> None:
        """Set another cap for one table; what was spent stays spent."""
        _check_name(dataset)
        cap = Cap(to_float("epsilon", epsilon), to_float("delta", delta))
        with chain.writing(self.path) as writer:
            writer.append("limit", dataset, vars(cap))

    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order, checked."""
        return tuple(chain.read(self.path))

    def account(self, dataset: str) -> Account:
        """Return what counts for one table; a name without entries has the cap of all."""
        return History(self.entries()).account(dataset)

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Debit:
        """Pay for a release before its labels are read, or refuse."""
        _check_name(dataset)
        # The table is read before the transaction, which other writers wait for.
        history = History(self.entries())
        key = chain.key_of(history.entries)
        # Without a person column, those of earlier releases are looked at if the source has them.
        documents = [debit.document for debit in history.debits]
        known = {each["persons"]["column"] for each in documents if each.get("persons")}
        table = fingerprint(source, engine, key, {source.person} if source.person else known)
        persons = None if source.person is None else table.persons[source.person]
        first_version = persons is not None and any("table" not in each for each in documents)
        digest_v1 = person_digest_v1(source, key) if first_version else None
        claim = plan.claim.to_json()
        with chain.writing(self.path) as writer:
            history = History(writer.entries)
            matches = history.matches(table, str(source.label), claim["rows"])
            history.check_name(dataset, matches, persons)
            account = history.account(dataset, matches, persons)
            if persons is None:
                history.check_no_persons(account, table)
            else:
                history.check_ids(matches, persons, digest_v1)
            ids = None if persons is None else persons.to_json()
            if ids is not None and ids["digest"] in history.ids:
                del ids["ids"]  # an earlier debit has the very same
            # Rows of a person by ids that are known, where single rows are protected.
            counted = [each.most_rows or 0 for each in table.persons.values() if persons is None]
            most_rows = {"most_rows": max(counted)} if counted and all(counted) else {}
            document = {
                "label": source.label,
                "claim": claim,
                "table": {
                    "rows": table.rows,
                    **most_rows,
                    # Other columns may be labels of other releases, or copies of this one: they
                    # were compared, but no digest of them is stored.
                    "columns": {n: d for n, d in table.columns.items() if n in set(source.names)},
                    "same_as": [[number, match.reason] for number, match in matches.items()],
                },
                "persons": ids,
            }
            total = account.epsilon_with(Entry(0, "", "debit", dataset, document))
            spent = {"epsilon": min(total, account.cap.epsilon), "delta": account.cap.delta}
            entry = writer.append("debit", dataset, document | spent)
            name = str(writer.entries[0].document["ledger"])
        return Debit(self.path, entry, name, len(account.debits) + 1)

    def to_json(self, dataset: str | None = None) -> dict[str, Any]:
        """Return what it holds, for people: tables, totals, debits and how their runs ended."""
        history = History(self.entries())
        first = history.entries[0].document
        names = dict.fromkeys(each.dataset for each in history.entries if each.dataset is not None)
        if dataset is not None and dataset not in names:
            raise LedgerError(f"the ledger {self.path} has no table {dataset!r}; check the name")
        accounts = {
            name: history.account(name) for name in (names if dataset is None else [dataset])
        }
        counted = {each.number: each for account in accounts.values() for each in account.debits}
        # The run of a debit without an end was killed, or goes on.
        ends = {each.document.get("debit"): each.kind for each in reversed(history.entries)}
        return {
            "ledger": first["ledger"],
            "cap": {"epsilon": first["epsilon"], "delta": first["delta"]},
            "tables": [
                {
                    "dataset": name,
                    "releases": sum(debit.dataset == name for debit in account.debits),
                    "epsilon": account.spent,
                    "cap": vars(account.cap),
                    "unit": None if account.total is None else account.total.unit,
                    "counted_with": [other for other in account.caps if other != name],
                }
                for name, account in accounts.items()
            ],
            "releases": [
                {
                    "entry": number,
                    "at": debit.at,
                    "dataset": debit.dataset,
                    "label": debit.document["label"],
                    **{key: debit.document["claim"][key] for key in _CLAIMED},
                    "total_epsilon": debit.document["epsilon"],
                    "total_delta": debit.document["delta"],
                    "run": ends.get(number, "not finished"),
                }
                for number, debit in sorted(counted.items())
            ],
        }


@dataclass(frozen=True)
class Debit:
    """A debit: the run that it pays for is a `with` block, which says how it ended."""

    path: Path
    entry: Entry
    name: str
    releases: int

    def to_json(self) -> dict[str, Any]:
        """Return what the certificate says: the entry, and all that the table has cost with it."""
        return {
            "ledger": self.name,
            "entry": self.entry.number,
            "digest": self.entry.digest,
            "releases": self.releases,
            **{name: self.entry.document[name] for name in ("epsilon", "delta")},
        }

    def done(self, seal: str) -> None:
        """Note that the release was published."""
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
