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

and stand in a file that only grows (`chain.py`). `history.py` says which debits count together.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.errors import InputError, LabelDPError, LedgerError, to_float, to_path
from labeldp.ledger import chain
from labeldp.ledger.chain import Entry
from labeldp.ledger.fingerprint import fingerprint, person_digest_v1
from labeldp.ledger.history import Account, Cap, History

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine
    from labeldp.planning import Plan


_CLAIMED = ("mechanism", "epsilon", "delta")


class Ledger:
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
