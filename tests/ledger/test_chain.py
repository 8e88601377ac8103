"""The file of a ledger: entries follow from each other, whole or not at all, or are refused."""

from __future__ import annotations

import hmac
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from labeldp import Ledger, LedgerError
from labeldp.ledger import chain
from labeldp.ledger.chain import Entry, Writer

FIRST = {"format": "labeldp-ledger/1", "key": "6b" * 32, "ledger": "x", "epsilon": 1, "delta": 0}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three entries."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon=2.0)
    ledger.limit("a", epsilon=1.0)
    ledger.limit("b", epsilon=3.0, delta=1e-9)
    return ledger


def altered(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)


def test_a_ledger_is_a_file_of_its_own_kind_with_a_key_and_a_number(ledger: Ledger) -> None:
    """SQLite's header has its mark, and the first entry all that the others hang on."""
    assert ledger.path.read_bytes()[68:72] == b"ldpl"
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    first = ledger.entries()[0]
    assert (first.number, first.kind, first.dataset) == (1, "create", None)
    document = dict(first.document)
    assert len(bytes.fromhex(document.pop("key"))) == 32
    assert len(bytes.fromhex(document.pop("ledger"))) == 8
    assert document == {"format": "labeldp-ledger/1", "epsilon": 2.0, "delta": 1e-6}


def test_every_entry_is_chained_to_the_one_before_under_the_key(ledger: Ledger) -> None:
    """HMAC-SHA256 of what stands in it and of the digest before, by hand."""
    entries = ledger.entries()
    assert [entry.number for entry in entries] == [1, 2, 3]
    key, before = bytes.fromhex(entries[0].document["key"]), ""
    for each in entries:
        content = [before, each.number, each.at, each.kind, each.dataset, dict(each.document)]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        before = hmac.digest(key, text.encode(), "sha256").hex()
        assert each.digest == before
    with sqlite3.connect(ledger.path) as file:
        assert file.execute("pragma user_version").fetchone() == (3,)


def test_what_is_committed_is_on_disk_and_no_schema_is_trusted(ledger: Ledger) -> None:
    with chain._connection(ledger.path) as connection:
        assert connection.execute("pragma synchronous").fetchone() == (3,)  # "extra"
        assert connection.execute("pragma trusted_schema").fetchone() == (0,)


def test_of_a_failed_transaction_nothing_is_left(ledger: Ledger) -> None:
    def failing() -> None:
        with chain.writing(ledger.path) as writer:
            writer.append("limit", "t", {"epsilon": 1.0, "delta": 0.0})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert len(ledger.entries()) == 3
    ledger.limit("t", epsilon=1.0)
    assert len(ledger.entries()) == 4


def test_entries_are_neither_altered_nor_deleted(ledger: Ledger) -> None:
    for statement in ("update entries set at = ''", "delete from entries"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            altered(ledger.path, statement)
    assert len(ledger.entries()) == 3


UPDATE, DELETE = "drop trigger entries_stay", "drop trigger entries_remain"
TAMPERED = {
    "a document": [UPDATE, "update entries set document = '{}'"],
    "a document that is no object": [UPDATE, "update entries set document = '[1]'"],
    "a document that is no JSON": [UPDATE, "update entries set document = '{'"],
    "a cap": [UPDATE, "update entries set document = replace(document, '3.0', '9.0')"],
    "the key": [
        UPDATE,
        """update entries set document = '{"format":"labeldp-ledger/1"}' where number = 1""",
    ],
    "the kind of the key": [
        UPDATE,
        """update entries set document = '{"format":"labeldp-ledger/1","key":5}'""",
    ],
    "a time": [UPDATE, "update entries set at = '2020' where number = 2"],
    "a digest": [UPDATE, "update entries set digest = '00' where number = 3"],
    "a number": [UPDATE, "update entries set number = 7 where number = 3"],
    "the last entry": [DELETE, "delete from entries where number = 3"],
    "an entry, and the count": [
        DELETE,
        "delete from entries where number = 2",
        "pragma user_version = 2",
    ],
    "all entries": [DELETE, "delete from entries"],
    "all entries, and the count": [DELETE, "delete from entries", "pragma user_version = 0"],
    "the table": ["drop table entries"],
    "an entry added": ["insert into entries values (4, 'now', 'limit', 't', '{}', '')"],
    "the header": ["pragma application_id = 1"],
}


@pytest.mark.parametrize("statements", TAMPERED.values(), ids=TAMPERED)
def test_an_altered_ledger_is_refused(statements: list[str], ledger: Ledger) -> None:
    altered(ledger.path, *statements)
    with pytest.raises(LedgerError, match=r"was altered|cannot be used|is not a ledger"):
        Ledger(ledger.path)
    with pytest.raises(LedgerError):
        ledger.limit("t", epsilon=1.0)


def test_a_damaged_schema_is_refused(ledger: Ledger) -> None:
    """What SQLite says of it is no text."""
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b"delete on entries", b"delete on \xe5ntries", 1))
    with pytest.raises(LedgerError, match=r"cannot be used: it is damaged"):
        Ledger(ledger.path)


def written(
    path: Path, *entries: tuple[str, dict[str, Any]], mark: int = 0x6C64706C
) -> list[Entry]:
    """Entries of a file that follow from each other, whatever they say."""
    with sqlite3.connect(path, isolation_level=None) as file:
        file.executescript(f"pragma application_id = {mark};{chain._SCHEMA}")
        writer = Writer(file, [])
        for kind, document in entries:
            writer.append(kind, None, document)
    return chain.read(path)


def test_a_chain_begins_as_a_ledger_does(tmp_path: Path) -> None:
    """Its digests may be right: another first entry, or another format, is no ledger of ours."""
    good = written(tmp_path / "good", ("create", FIRST), ("limit", {}))
    assert [entry.kind for entry in good] == ["create", "limit"]
    others = FIRST | {"format": "labeldp-ledger/2"}
    for name, first in (("kind", ("debit", FIRST)), ("format", ("create", others))):
        with pytest.raises(LedgerError, match="was altered: its entries do not follow"):
            written(tmp_path / name, first, ("limit", {}))
    with pytest.raises(LedgerError, match="is not a ledger; check the path"):
        written(tmp_path / "mark", ("create", FIRST), mark=7)


def test_what_is_missing_or_no_file_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="it is a directory; give the file"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match="it is a pipe or a device; give an ordinary file"):
        Ledger("/dev/null")
    with pytest.raises(LedgerError, match=r"is missing: find it or its copy, since what was spent"):
        Ledger(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    for name, content in (("empty", ""), ("text", "a ledger")):
        (tmp_path / name).write_text(content)
        with pytest.raises(LedgerError):
            Ledger(tmp_path / name)
