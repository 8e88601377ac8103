"""The ledger: what was spent on every table of a data holder.

A release is debited before its labels are read, in one transaction: the claims of all releases of
the table so far and the new one are composed by their laws (theory §13), and an entry is written
only if δ of all together, at the ε of the table's cap, is at most its δ. The entry is on disk
before a label is read, so that a run that is killed has cost its budget and nothing else. Entries
are

    create   the ledger's own number, the key of its digests, the cap of every table
    limit    another cap for one table
    debit    a release: its claim, the table's identity, the total after it
    done     of a debit: the release is there, by its seal
    failed   of a debit: the run ended without one, and the debit stays

and stand in a file that only grows (`chain.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from labeldp.common.arguments import checked
from labeldp.errors import InputError, LabelDPError, LedgerError, positive, share
from labeldp.ledger.chain import Chain, Entry, key_of
from labeldp.ledger.compose import Joint, joint
from labeldp.ledger.fingerprint import identity, persons_identity
from labeldp.mechanisms.registry import read_claim

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.protocol import Engine
    from labeldp.release.claim import Claim


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
    """A table in the ledger: its cap and its debits."""

    dataset: str
    cap: Cap
    debits: tuple[Entry, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """The digests of all columns that its releases used."""
        return {n: d for entry in self.debits for n, d in entry.document["columns"].items()}

    @property
    def rows(self) -> set[int]:
        """How many its releases had: one number."""
        return {entry.document["claim"]["rows"] for entry in self.debits}

    @property
    def claims(self) -> list[Claim]:
        return [read_claim(dict(entry.document["claim"])) for entry in self.debits]

    @property
    def together(self) -> Joint | None:
        """What was spent; None if nothing was."""
        return joint(self.claims) if self.debits else None

    @property
    def spent(self) -> float:
        """ε of all releases at the cap's δ."""
        return 0.0 if self.together is None else self.together.epsilon(self.cap.delta)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "dataset": self.dataset,
            "releases": len(self.debits),
            "epsilon": self.spent,
            "cap": vars(self.cap),
            "unit": None if self.together is None else self.together.unit,
        }


class Ledger:
    """The ledger in a file; `Ledger.create` makes one."""

    @checked
    def __init__(self, path: str | Path) -> None:
        self._chain = Chain(Path(path))
        self._chain.entries()

    @classmethod
    @checked
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 1e-6) -> Ledger:
        """A new ledger, where every table may cost (ε, δ) unless `limit` says otherwise."""
        cap = Cap(epsilon, delta)
        Chain.create(Path(path), {"ledger": secrets.token_hex(8), **vars(cap)})
        return cls(path)

    @property
    def path(self) -> Path:
        return self._chain.path

    @checked
    def limit(self, dataset: str, *, epsilon: float, delta: float = 1e-6) -> None:
        """Another cap for one table; what was spent stays spent."""
        _check_name(dataset)
        cap = Cap(epsilon, delta)
        with self._chain.writing() as book:
            book.append("limit", dataset, vars(cap))

    def entries(self) -> tuple[Entry, ...]:
        """All of them, in order, checked."""
        return tuple(self._chain.entries())

    @checked
    def account(self, dataset: str) -> Account:
        """One table; a name without entries has the cap of all."""
        return _account(self.entries(), dataset)

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Receipt:
        """Pay for a release before its labels are read, or refuse."""
        _check_name(dataset)
        claim = plan.claim
        key = key_of(self.entries())
        columns = identity(source, engine, key)
        persons = persons_identity(source, engine, key, plan.features)
        with self._chain.writing() as book:
            _check_table(book.entries, dataset, columns, int(claim.to_json()["rows"]))
            account = _account(book.entries, dataset)
            _check_persons(account, persons)
            table = {"columns": columns, "persons": persons}
            told = {"label": source.label, "claim": claim.to_json(), **table}
            entry = book.append("debit", dataset, told | _total(account, claim))
            name = str(book.entries[0].document["ledger"])
        return Receipt(self, entry, name, len(account.debits) + 1)

    def close(self, debit: Entry, kind: str, document: Mapping[str, Any]) -> None:
        """Say how the run of a debit ended."""
        with self._chain.writing() as book:
            book.append(kind, debit.dataset, {"debit": debit.number, **document})

    def to_json(self, dataset: str | None = None) -> dict[str, Any]:
        """What it holds, for people: tables and their totals, debits and how their runs ended."""
        entries = self.entries()
        first, accounts = entries[0].document, _accounts(entries)
        shown = {n: account for n, account in accounts.items() if dataset in (None, n)}
        if dataset is not None and not shown:
            raise LedgerError(f"the ledger {self.path} has no table {dataset!r}; check the name")
        return {
            "ledger": first["ledger"],
            "cap": {"epsilon": first["epsilon"], "delta": first["delta"]},
            "tables": [account.to_json() for account in shown.values()],
            "releases": [_told(each, entries) for a in shown.values() for each in a.debits],
        }


@dataclass(frozen=True)
class Receipt:
    """A debit: the run that it pays for is a `with` block, which says how it ended."""

    ledger: Ledger
    entry: Entry
    name: str
    releases: int

    @property
    def told(self) -> dict[str, Any]:
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

    def __enter__(self) -> Receipt:
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


def _accounts(entries: Sequence[Entry]) -> dict[str, Account]:
    names = dict.fromkeys(entry.dataset for entry in entries if entry.dataset is not None)
    return {name: _account(entries, name) for name in names}


def _account(entries: Sequence[Entry], dataset: str) -> Account:
    own = [entry for entry in entries if entry.dataset == dataset]
    *_, cap = [entries[0], *(entry for entry in own if entry.kind == "limit")]
    debits = tuple(entry for entry in own if entry.kind == "debit")
    return Account(dataset, Cap(cap.document["epsilon"], cap.document["delta"]), debits)


def _told(debit: Entry, entries: Sequence[Entry]) -> dict[str, Any]:
    """A debit, and how its run ended: one that nobody has told of was killed, or runs still."""
    ends = [entry.kind for entry in entries if entry.document.get("debit") == debit.number]
    claim = debit.document["claim"]
    return {
        "entry": debit.number,
        "at": debit.at,
        "dataset": debit.dataset,
        "label": debit.document["label"],
        **{name: claim[name] for name in ("mechanism", "epsilon", "delta")},
        "total_epsilon": debit.document["epsilon"],
        "total_delta": debit.document["delta"],
        "run": ends[0] if ends else "not finished",
    }


def _check_table(
    entries: Sequence[Entry], dataset: str, columns: Mapping[str, str], rows: int
) -> None:
    """A name is one table, and a table has one name."""
    for name, account in _accounts(entries).items():
        common = account.columns.keys() & columns.keys()
        same = [account.columns[column] == columns[column] for column in common]
        if name == dataset and (not all(same) or account.rows - {rows}):
            raise LedgerError(
                f"this is not the table that the ledger knows as {dataset!r}: rows or features "
                "are others; name another `dataset`, or release that table"
            )
        if name != dataset and same and all(same):
            raise LedgerError(
                f"the ledger knows this table as {name!r}; name it so (`dataset={name!r}`): what "
                "was spent on it counts"
            )


def _check_persons(account: Account, persons: Mapping[str, str] | None) -> None:
    """The ids of one column are of the same persons in all releases, or nothing adds up."""
    known = [entry.document.get("persons") for entry in account.debits]
    if persons and any(each and each != persons for each in known):
        raise LedgerError(
            f"whose rows these are was told otherwise when {account.dataset!r} was released "
            f"before: the ids of person column {persons['column']!r} are others, so that what a "
            "person has spent cannot be added up; take the ids and the column of that release"
        )


def _total(account: Account, claim: Claim) -> dict[str, float]:
    """ε of all releases and this one at the cap's δ, if the cap allows them."""
    cap, together = account.cap, joint([*account.claims, claim])
    total = together.epsilon(cap.delta)
    if together.delta(cap.epsilon) <= cap.delta:
        return {"epsilon": min(total, cap.epsilon), "delta": cap.delta}
    raise LedgerError(
        f"table {account.dataset!r} has spent ε = {account.spent:.4g} of {cap.epsilon:g} at "
        f"δ = {cap.delta:g}, and with this release it would be {total:.4g}; ask for less, or stop"
    )
