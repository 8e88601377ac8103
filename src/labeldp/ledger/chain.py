"""The append-only file of a ledger: entries in SQLite, each with a digest of the one before.

Writers wait for each other and see all entries. What a writer has appended is on disk before it
goes on; if it is killed, nothing of it is there. Digests are made under a key that stands in the
first entry: they show what was altered by accident or by hand, not who rewrites the whole file.
Triggers refuse to alter or delete, and SQLite's `user_version` counts the entries. A file that is
missing, or whose chain is broken, is refused; nothing here makes a new one in its place.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labeldp.errors import LedgerError
from labeldp.io_util import canonical_json, new_path, path_problem

LEDGER_FORMAT = "labeldp-ledger/1"
_APPLICATION = 0x6C64706C  # of the SQLite header: "ldpl"
_TIMEOUT = 600.0  # seconds that a writer waits for others, each of which may compose for a while
_SCHEMA = """
create table entries (
    number integer primary key check (number > 0), at text not null, kind text not null,
    dataset text, document text not null, digest text not null
);
create trigger entries_stay before update on entries
    begin select raise(abort, 'entries of a ledger are never altered'); end;
create trigger entries_remain before delete on entries
    begin select raise(abort, 'entries of a ledger are never deleted'); end;
"""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger."""

    number: int
    at: str
    kind: str
    dataset: str | None
    document: Mapping[str, Any]
    digest: str = ""

    def chained(self, key: bytes, before: str) -> str:
        """Return the digest that it must have after the one before."""
        content = [before, self.number, self.at, self.kind, self.dataset, self.document]
        return hmac.digest(key, canonical_json(content).encode(), "sha256").hex()


def key_of(entries: Sequence[Entry]) -> bytes:
    """Return the key of a ledger's digests, which stands in its first entry."""
    return bytes.fromhex(entries[0].document["key"])


@dataclass(frozen=True)
class Writer:
    """A transaction that no other writer enters."""

    connection: sqlite3.Connection
    entries: list[Entry]
    """All so far."""

    def append(self, kind: str, dataset: str | None, document: Mapping[str, Any]) -> Entry:
        """Write the next entry of the chain."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(len(self.entries) + 1, now, kind, dataset, document)
        before = self.entries[-1].digest if self.entries else ""
        entry = replace(entry, digest=entry.chained(key_of([*self.entries, entry]), before))
        values = (entry.number, now, kind, dataset, canonical_json(document), entry.digest)
        self.connection.execute("insert into entries values (?, ?, ?, ?, ?, ?)", values)
        self.connection.execute(f"pragma user_version = {entry.number}")
        self.entries.append(entry)
        return entry


def create(path: Path, document: Mapping[str, Any]) -> None:
    """Write a new file, whole or not at all, that only its owner reads."""
    first = {"format": LEDGER_FORMAT, "key": secrets.token_hex(32), **document}
    with new_path(path, private=True) as partial, _connection(partial) as connection:
        connection.executescript(f"pragma application_id = {_APPLICATION};{_SCHEMA}")
        with connection:
            connection.execute("begin immediate")
            Writer(connection, []).append("create", None, first)


def read(path: Path) -> list[Entry]:
    """Return all entries in order; refuse a file that is missing or altered."""
    reason = path_problem(path) or (path.is_dir() and "it is a directory; give the file")
    if reason:
        raise LedgerError(f"the ledger {path}: {reason}")
    if not path.is_file():
        raise LedgerError(
            f"the ledger {path} is missing: find it or its copy, since what was spent is known "
            "nowhere else (a first one is made by labeldp ledger create)"
        )
    with _connection(path) as connection:
        return _read(connection, path)


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Give all entries, and the right to append: on disk when the block ends, or nothing."""
    with _connection(path) as connection, connection:  # commits at its end, or rolls back
        connection.execute("begin immediate")  # alone among writers from here on
        yield Writer(connection, _read(connection, path))


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file; every commit is on disk when it returns."""
    uri = path.absolute().as_uri() + "?mode=rw"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)
        ) as connection:
            connection.execute("pragma synchronous = extra")  # "full", and the directory as well
            connection.execute("pragma trusted_schema = off")
            yield connection
    except sqlite3.Error as problem:
        raise LedgerError(f"the ledger {path} cannot be used: {problem}") from None
    except UnicodeDecodeError:  # what SQLite says of a damaged schema has its bytes in it
        raise LedgerError(f"the ledger {path} cannot be used: it is damaged") from None


def _read(connection: sqlite3.Connection, path: Path) -> list[Entry]:
    """Read all entries; refuse them if they do not follow from each other."""
    if connection.execute("pragma application_id").fetchone()[0] != _APPLICATION:
        raise LedgerError(f"{path} is not a ledger; check the path")
    count = connection.execute("pragma user_version").fetchone()[0]
    select = "select number, at, kind, dataset, document, digest from entries order by number"
    rows = connection.execute(select).fetchall()
    try:
        entries = [
            Entry(n, at, kind, name, json.loads(text), d) for n, at, kind, name, text, d in rows
        ]
        first, key, before = entries[0], key_of(entries), ""
        sound = (len(entries), first.kind) == (count, "create")
        sound = sound and first.document["format"] == LEDGER_FORMAT
        for number, entry in enumerate(entries, 1):
            sound = sound and entry.number == number and entry.digest == entry.chained(key, before)
            before = entry.digest
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError):
        sound = False  # an altered entry may hold anything
    if not sound:
        raise LedgerError(
            f"the ledger {path} was altered: its entries do not follow from each other; "
            "nothing is released on it, go back to a copy that is whole"
        )
    return entries
