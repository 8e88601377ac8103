"""A release is debited on every engine, and a table is the same to the ledger on all of them."""

from __future__ import annotations

from pathlib import Path

from labeldp import Ledger
from labeldp.ledger.fingerprint import fingerprint
from labeldp.passes.engine import LocalEngine
from tests.passes.conftest import Home
from tests.plans import plan
from tests.tables import source, table


def test_a_debit_on_every_engine(either: Home, tmp_path: Path) -> None:
    rows, engine = either.scan(table()), either.engine
    assert fingerprint(rows, engine, b"key") == fingerprint(source(), LocalEngine(1), b"key")
    book = Ledger.create(tmp_path / "book", epsilon=3.0)
    made = plan(rows, epsilon=1.0, delta=1e-6, mechanism="shaped-flag", engine=engine)
    released = made.release(rows, engine=engine, ledger=book, dataset="t")
    assert released.certificate["ledger"]["entry"] == 2
    assert [entry.kind for entry in book.entries()] == ["create", "debit", "done"]
