"""Entries of a ledger one by one: chain, caps, which table, whose rows, how a run ended."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from labeldp import DataError, InputError, Ledger, LedgerError
from labeldp.ledger import chain, fingerprint as identity, ledger
from labeldp.ledger.chain import Chain, Entry, Writer, _connected, _transaction

KEY = b"k" * 32


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "book", epsilon=2.0)


# --- the chain -----------------------------------------------------------------------------------


def test_a_ledger_is_a_file_of_its_own_kind_with_a_key_and_a_number(book: Ledger) -> None:
    """SQLite's header has its mark, and the first entry all that the others hang on."""
    assert book.path.read_bytes()[68:72] == b"ldpl"
    assert book.path.stat().st_mode & 0o777 == 0o600
    (first,) = book.entries()
    assert (first.number, first.kind, first.dataset) == (1, "create", None)
    told = dict(first.document)
    assert (len(bytes.fromhex(told.pop("key"))), len(bytes.fromhex(told.pop("ledger")))) == (32, 8)
    assert told == {"format": "labeldp-ledger/1", "epsilon": 2.0, "delta": 1e-6}


def test_every_entry_is_chained_to_the_one_before_under_the_key(book: Ledger) -> None:
    """HMAC-SHA256 of what stands in it and of the digest before, by hand."""
    book.limit("a", epsilon=1.0)
    book.limit("b", epsilon=3.0, delta=1e-9)
    entries = book.entries()
    assert [entry.number for entry in entries] == [1, 2, 3]
    key, before = bytes.fromhex(entries[0].document["key"]), ""
    for each in entries:
        told = [before, each.number, each.at, each.kind, each.dataset, dict(each.document)]
        text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        before = hmac.digest(key, text.encode(), "sha256").hex()
        assert each.digest == before
    with sqlite3.connect(book.path) as file:
        assert file.execute("pragma user_version").fetchone() == (3,)


def test_what_is_committed_is_on_disk_and_no_schema_is_trusted(book: Ledger) -> None:
    with _connected(book.path) as file:
        assert file.execute("pragma synchronous").fetchone() == (3,)  # "extra"
        assert file.execute("pragma trusted_schema").fetchone() == (0,)
        assert not file.in_transaction


class Lost(Exception):  # noqa: N818
    """Something happened."""


def test_of_a_failed_transaction_nothing_is_left_and_its_failure_is_told(book: Ledger) -> None:
    opened = Chain(book.path)

    def failing() -> None:
        with opened.writing() as writer:
            writer.append("limit", "t", {"epsilon": 1.0, "delta": 0.0})
            raise Lost

    with pytest.raises(Lost):
        failing()
    assert len(book.entries()) == 1
    with _connected(book.path) as file:
        with pytest.raises(Lost), _transaction(file):
            raise Lost
        assert not file.in_transaction
        with _transaction(file):
            pass
    book.limit("t", epsilon=1.0)
    assert len(book.entries()) == 2


def written(path: Path, *entries: tuple[str, dict[str, Any]], mark: int = 0x6C64706C) -> Chain:
    """A file whose entries follow from each other, whatever they say."""
    with sqlite3.connect(path, isolation_level=None) as file:
        file.executescript(f"pragma application_id = {mark};{chain._SCHEMA}")
        with _transaction(file):
            writer = Writer(file, [])
            for kind, document in entries:
                writer.append(kind, None, document)
    return Chain(path)


FIRST = {"format": "labeldp-ledger/1", "key": KEY.hex(), "ledger": "x", "epsilon": 1, "delta": 0}
ALTERED = (
    "the ledger {} was altered: its entries do not follow from each other; nothing is released on "
    "it, go back to a copy that is whole"
)


def test_a_chain_begins_as_a_ledger_does(tmp_path: Path) -> None:
    """Its digests may be right: another first entry, or another format, is no ledger of ours."""
    good = written(tmp_path / "good", ("create", FIRST), ("limit", {}))
    assert [entry.kind for entry in good.entries()] == ["create", "limit"]
    for name, first in (
        ("kind", ("debit", FIRST)),
        ("format", ("create", FIRST | {"format": "labeldp-ledger/2"})),
    ):
        with pytest.raises(LedgerError) as refusal:
            written(tmp_path / name, first, ("limit", {})).entries()
        assert str(refusal.value) == ALTERED.format(tmp_path / name)
    with pytest.raises(LedgerError) as refusal:
        written(tmp_path / "mark", ("create", FIRST), mark=7).entries()
    assert str(refusal.value) == f"{tmp_path / 'mark'} is not a ledger; check the path"


@pytest.mark.parametrize("text", ["[1, 2]", "nonsense", "7", "{"])
def test_an_entry_that_is_no_json_object_says_nothing(text: str) -> None:
    assert chain._document(text) == {}
    assert chain._document('{"a": 1}') == {"a": 1}


def links(count: int) -> list[Entry]:
    made: list[Entry] = []
    for number in range(1, count + 1):
        fresh = Entry(number, "now", "create" if number == 1 else "limit", None, FIRST)
        before = made[-1].digest if made else ""
        made.append(Entry(*list(vars(fresh).values())[:5], fresh.chained(KEY, before)))
    return made


def test_a_chain_is_sound_only_link_by_link() -> None:
    whole = links(4)
    assert chain._sound(whole)
    assert not chain._sound([])
    assert not chain._sound(whole[1:])
    assert not chain._sound([whole[0], *whole[2:]])
    assert not chain._sound([*whole[:2], whole[3], whole[2]])
    shifted = [Entry(e.number + 1, *list(vars(e).values())[1:]) for e in whole]
    assert not chain._sound(shifted)
    assert not chain._sound([Entry(1, "now", "create", None, {}, "")])
    without = {name: value for name, value in FIRST.items() if name != "key"}
    for document in (without, without | {"key": 5}, without | {"key": "no hex"}):
        assert not chain._sound([Entry(1, "now", "create", None, document, "")])


def test_what_is_no_file_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as refusal:
        Ledger(tmp_path)
    assert str(refusal.value) == f"the ledger {tmp_path}: it is a directory; give the file"
    with pytest.raises(LedgerError, match=r"is missing: find it or its copy, since what was spent"):
        Ledger(tmp_path / "none")
    with pytest.raises(LedgerError, match="it is a pipe or a device; give an ordinary file"):
        Ledger("/dev/null")


def test_entries_are_looked_at_when_a_ledger_is_opened(tmp_path: Path) -> None:
    written(tmp_path / "book", ("debit", FIRST))
    with pytest.raises(LedgerError, match="was altered"):
        Ledger(tmp_path / "book")


# --- caps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (1.0, -1e-9), (1.0, 1.5), (float("nan"), 0)]
)
def test_a_cap_that_is_none_is_refused(
    tmp_path: Path, book: Ledger, epsilon: float, delta: float
) -> None:
    with pytest.raises(InputError):
        Ledger.create(tmp_path / "new", epsilon=epsilon, delta=delta)
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError):
        book.limit("t", epsilon=epsilon, delta=delta)
    assert len(book.entries()) == 1


def test_the_last_cap_of_a_table_counts_and_all_others_have_that_of_the_ledger(
    book: Ledger,
) -> None:
    book.limit("t", epsilon=5.0, delta=1e-5)
    book.limit("t", epsilon=4.0)
    book.limit("u", epsilon=9.0)
    assert book.account("t").cap == ledger.Cap(4.0, 1e-6)
    assert book.account("u").cap == ledger.Cap(9.0, 1e-6)
    assert book.account("other").cap == ledger.Cap(2.0, 1e-6)
    assert book.account("t").spent == 0.0
    assert book.account("t").to_json() == {
        "dataset": "t",
        "releases": 0,
        "epsilon": 0.0,
        "cap": {"epsilon": 4.0, "delta": 1e-6},
        "unit": None,
    }


@pytest.mark.parametrize("name", ["", " ", " t", "t ", "a\nb", "a\0"])
def test_names_that_nobody_can_read_are_refused(name: str, book: Ledger) -> None:
    with pytest.raises(InputError) as refusal:
        book.limit(name, epsilon=1.0)
    assert str(refusal.value) == f"`dataset` must be a name in plain letters, not {name!r}"
    nothing: Any = None
    with pytest.raises(InputError, match="in plain letters"):
        book.debit(nothing, nothing, nothing, name)
    assert len(book.entries()) == 1


def test_a_ledger_shows_all_tables_or_the_one_that_is_named(book: Ledger) -> None:
    assert book.to_json()["tables"] == []
    book.limit("t", epsilon=5.0)
    book.limit("u", epsilon=9.0)
    shown = book.to_json()
    assert [table["dataset"] for table in shown["tables"]] == ["t", "u"]
    assert shown["cap"] == {"epsilon": 2.0, "delta": 1e-6}
    assert shown["ledger"] == book.entries()[0].document["ledger"]
    assert [table["dataset"] for table in book.to_json("u")["tables"]] == ["u"]
    with pytest.raises(LedgerError) as refusal:
        book.to_json("v")
    assert str(refusal.value) == f"the ledger {book.path} has no table 'v'; check the name"


# --- which table, and whose rows -----------------------------------------------------------------


def debit(number: int, dataset: str, columns: dict[str, str], rows: int = 5, **more: Any) -> Entry:
    claim = {"rows": rows, "mechanism": "m", "epsilon": 0.5, "delta": 0.0}
    document = {"columns": columns, "claim": claim, "label": "y", "epsilon": 1.0, "delta": 0.1}
    return Entry(number, "then", "debit", dataset, document | more)


OTHERS = (
    "this is not the table that the ledger knows as 't': rows or features are others; name another "
    "`dataset`, or release that table"
)
KNOWN = (
    "the ledger knows this table as 't'; name it so (`dataset='t'`): what was spent on it counts"
)


@pytest.mark.parametrize(
    ("name", "columns", "rows", "words"),
    [
        ("t", {"a": "1", "b": "2"}, 5, None),
        ("t", {"a": "1", "c": "7"}, 5, None),
        ("t", {"c": "7"}, 5, None),
        ("t", {"c": "7"}, 6, OTHERS),
        ("t", {"a": "1"}, 6, OTHERS),
        ("t", {"a": "9", "b": "2"}, 5, OTHERS),
        ("u", {"a": "1", "b": "2"}, 5, KNOWN),
        ("u", {"b": "2", "c": "7"}, 5, KNOWN),
        ("u", {"a": "9", "b": "2"}, 5, None),
        ("u", {"c": "7"}, 5, None),
    ],
)
def test_a_name_is_one_table_and_a_table_has_one_name(
    name: str, columns: dict[str, str], rows: int, words: str | None
) -> None:
    entries = [Entry(1, "", "create", None, {"epsilon": 1.0, "delta": 0.0})]
    entries += [debit(2, "t", {"a": "1"}), debit(3, "t", {"b": "2"})]
    if words is None:
        ledger._check_table(entries, name, columns, rows)
        return
    with pytest.raises(LedgerError) as refusal:
        ledger._check_table(entries, name, columns, rows)
    assert str(refusal.value) == words


def test_ids_are_those_of_the_releases_before_if_these_had_any() -> None:
    mine, other = {"column": "id", "digest": "1"}, {"column": "id", "digest": "2"}
    cap = ledger.Cap(1.0, 0.0)

    def check(persons: Any, *known: Any) -> None:
        debits = [debit(2 + k, "t", {}, persons=each) for k, each in enumerate(known)]
        ledger._check_persons(ledger.Account("t", cap, tuple(debits)), persons)

    check(mine)
    check(mine, mine, None)
    check(None, mine, other)
    check(mine, None, None)
    for known in ((other,), (None, other), (mine, other)):
        with pytest.raises(LedgerError, match="the ids of person column 'id' are others"):
            check(mine, *known)


def test_an_entry_before_persons_were_told_says_nothing_of_them() -> None:
    account = ledger.Account("t", ledger.Cap(1.0, 0.0), (debit(2, "t", {}),))
    ledger._check_persons(account, {"column": "id", "digest": "1"})


# --- totals, and how runs end --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "total", "granted"),
    [(1e-6, 1.5, 1.5), (1e-6, 2.5, 2.0), (0.9e-6, 2.0, 2.0), (1.0000001e-6, 2.5, None)],
)
def test_a_release_is_granted_if_all_together_keep_the_cap(
    spent: float, total: float, granted: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """δ at the cap's ε decides, up to the cap's δ itself; the total is at most the cap."""
    seen: list[Any] = []

    def joint(claims: list[Any]) -> Any:
        seen.append(claims)
        return SimpleNamespace(
            epsilon=lambda delta: total if delta == 1e-6 else pytest.fail("another δ"),
            delta=lambda epsilon: spent if epsilon == 2.0 else pytest.fail("another ε"),
            unit="one row",
        )

    monkeypatch.setattr(ledger, "joint", joint)
    monkeypatch.setattr(ledger, "read_claim", lambda document: ("old", document["rows"]))
    account = ledger.Account("t", ledger.Cap(2.0, 1e-6), (debit(2, "t", {}),))
    new: Any = "new"
    if granted is not None:
        assert ledger._total(account, new) == {"epsilon": granted, "delta": 1e-6}
        assert seen == [[("old", 5), "new"]]
        assert account.spent == total
        assert account.to_json()["unit"] == "one row"
        return
    with pytest.raises(LedgerError) as refusal:
        ledger._total(account, new)
    assert str(refusal.value) == (
        "table 't' has spent ε = 2.5 of 2 at δ = 1e-06, and with this release it would be 2.5; ask "
        "for less, or stop"
    )


def test_a_debit_says_which_table_whose_rows_and_what_all_cost_together(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    source: Any = SimpleNamespace(label="y")
    engine: Any = SimpleNamespace()
    key = bytes.fromhex(book.entries()[0].document["key"])
    persons = {"column": "id", "digest": "p"}

    def columns_of(*asked: Any) -> dict[str, str]:
        assert asked == (source, engine, key)
        return {"x": "1"}

    def persons_of(*asked: Any) -> dict[str, str]:
        assert asked == (source, engine, key, "features")
        return persons

    class Claim:
        def to_json(self) -> dict[str, Any]:
            return {"rows": 5, "mechanism": "m", "epsilon": 0.5, "delta": 0.0}

    def joint(claims: list[Any]) -> Any:
        count = len(claims)
        assert isinstance(claims[-1], Claim)
        return SimpleNamespace(epsilon=lambda _: 0.5 * count, delta=lambda _: 0.0, unit="u")

    monkeypatch.setattr(ledger, "identity", columns_of)
    monkeypatch.setattr(ledger, "persons_identity", persons_of)
    monkeypatch.setattr(ledger, "read_claim", lambda _: Claim())
    monkeypatch.setattr(ledger, "joint", joint)
    plan: Any = SimpleNamespace(claim=Claim(), features="features")
    for count in (1, 2):
        paid = book.debit(plan, source, engine, "t")
        last = book.entries()[-1]
        assert (paid.entry, last.number, last.kind, last.dataset) == (last, 1 + count, "debit", "t")
        assert last.document == {
            "label": "y", "claim": Claim().to_json(), "columns": {"x": "1"}, "persons": persons,
            "epsilon": 0.5 * count, "delta": 1e-6,
        }  # fmt: skip
        assert (paid.releases, paid.told["epsilon"]) == (count, 0.5 * count)
        assert paid.told["ledger"] == book.entries()[0].document["ledger"]
        assert paid.ledger is book
    assert book.account("t").columns == {"x": "1"}
    assert book.account("t").rows == {5}
    with pytest.raises(LedgerError, match="knows this table as 't'"):
        book.debit(plan, source, engine, "u")
    persons = {"column": "id", "digest": "q"}
    with pytest.raises(LedgerError, match="whose rows these are was told otherwise"):
        book.debit(plan, source, engine, "t")
    assert len(book.entries()) == 3


def test_how_a_run_ended_is_told_with_its_debit() -> None:
    ends = [
        Entry(4, "", "done", "t", {"debit": 2, "seal": "x"}),
        Entry(5, "", "failed", "t", {"debit": 3}),
    ]
    entries = [debit(2, "t", {}), debit(3, "t", {}), *ends, debit(6, "t", {})]
    told = [ledger._told(entries[place], entries) for place in (0, 1, 4)]
    assert [each["run"] for each in told] == ["done", "failed", "not finished"]
    assert told[0] == {
        "entry": 2, "at": "then", "dataset": "t", "label": "y", "mechanism": "m", "epsilon": 0.5,
        "delta": 0.0, "total_epsilon": 1.0, "total_delta": 0.1, "run": "done",
    }  # fmt: skip


def receipt(book: Ledger) -> ledger.Receipt:
    with Chain(book.path).writing() as writer:
        entry = writer.append("debit", "t", dict(debit(2, "t", {}).document))
    return ledger.Receipt(book, entry, "name", 7)


def test_a_receipt_says_what_was_spent_and_that_the_release_is_there(book: Ledger) -> None:
    paid = receipt(book)
    assert paid.told == {
        "ledger": "name", "entry": 2, "digest": paid.entry.digest, "releases": 7, "epsilon": 1.0,
        "delta": 0.1,
    }  # fmt: skip
    with paid as same:
        assert same is paid
        paid.done("seal")
    last = book.entries()[-1]
    assert (len(book.entries()), last.kind, last.dataset) == (3, "done", "t")
    assert last.document == {"debit": 2, "seal": "seal"}


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("problem", [DataError("bad"), Lost("gone"), KeyboardInterrupt()])
def test_a_run_that_fails_is_said_to_have_and_its_debit_stays(
    problem: BaseException, lost: bool, book: Ledger
) -> None:
    """Who reads the refusal is told of the debit, also where the ledger itself is gone by then."""
    paid = receipt(book)
    before = str(problem)

    def failing() -> None:
        with paid:
            if lost:
                book.path.unlink()
            raise problem

    with pytest.raises(type(problem)) as seen:
        failing()
    stays = "; entry 2 of the ledger stays debited" if isinstance(problem, DataError) else ""
    assert str(seen.value) == before + stays
    problem.args = (before,) if before else ()
    if not lost:
        last = book.entries()[-1]
        assert (last.kind, last.document) == (
            "failed",
            {"debit": 2, "why": type(problem).__name__},
        )


# --- the identity of columns ---------------------------------------------------------------------


def splitmix(word: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        word = (word ^ (word >> shift)) * factor % 2**64
    return word


def digest_of(words: list[int], name: str) -> str:
    """By the notes at the top of `identity`, in whole numbers."""
    sums = []
    for place in range(2):
        mask = int.from_bytes(hmac.digest(KEY, f"{place}:{name}".encode(), "sha256")[:8], "little")
        sums.append(sum(splitmix(word ^ mask) for word in words) % 2**64)
    return hmac.digest(KEY, f"{len(words)}:{name}:{sums}".encode(), "sha256").hex()[:32]


def number_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def text_bits(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


NAN = number_bits(float("nan"))
SPELT = {
    "a": text_bits("a"), " a ": text_bits("a"), "née": text_bits("née"), "1,5": text_bits("1,5"),
    "1.5": number_bits(1.5), " 015e-1 ": number_bits(1.5), "inf": number_bits(float("inf")),
    "-0": number_bits(0.0), "0": number_bits(0.0), "": NAN, "  ": NAN, "nan": NAN, "NaN": NAN,
}  # fmt: skip


def test_cells_are_numbers_by_their_value_and_texts_by_their_letters() -> None:
    texts = pa.array([*SPELT, None])
    expected = [*SPELT.values(), NAN]
    for array in (texts, texts.dictionary_encode(), texts.cast(pa.large_string())):
        assert identity._cells(array).tolist() == expected
    for kind in (pa.int16(), pa.float32(), pa.float64(), pa.decimal128(21, 2), pa.uint64()):
        cells = identity._cells(pa.array([3, None, 0]).cast(kind))
        assert cells.tolist() == [number_bits(3.0), NAN, number_bits(0.0)]
    assert identity._cells(pa.array([-0.0, float("nan")])).tolist() == [number_bits(0.0), NAN]


def column_sums(*parts: pa.RecordBatch) -> identity.ColumnSums:
    tally = identity.ColumnSums(["x", "t"], KEY)
    for part in parts:
        tally.add(part, None, 0)
    return tally


def test_a_digest_is_that_of_all_cells_however_they_are_read() -> None:
    """In one part, in two, or added up by two who share what they have."""
    rng = np.random.default_rng(0)
    numbers, texts = rng.normal(size=40), [f"word {k % 7}" for k in range(40)]
    batch = pa.record_batch({"x": pa.array(numbers), "t": pa.array(texts)})
    expected = {
        "x": digest_of([number_bits(float(n)) for n in numbers], "x"),
        "t": digest_of([text_bits(t) for t in texts], "t"),
    }
    one, other = batch.slice(0, 13), batch.slice(13)
    assert column_sums(batch).result(None) == expected
    assert column_sums(other, one).result(None) == expected
    merged = column_sums(one)
    merged.merge(column_sums(other).share())
    assert merged.result(None) == expected
    fresh = merged.new()
    fresh.merge(merged.share())
    assert fresh.result(None) == expected
    assert merged.needs.columns == ("x", "t")
    assert column_sums(one).result(None) != expected


def test_sums_are_those_of_64_bits() -> None:
    assert identity._plus([2**64 - 1, 5], [3, 2**63]) == [2, 2**63 + 5]
    assert identity._plus([2**63, 0], [2**63, 1]) == [0, 1]


def persons(marks: list[int]) -> Any:
    return SimpleNamespace(rows=len(marks), persons=np.array(marks, np.uint64))


def test_whose_rows_they_are_is_a_digest_of_their_marks() -> None:
    marks = [5, 5, 2**64 - 1, 0, 7]
    nothing: Any = None
    whole, one, other = (identity.PersonSums(nothing, "id", KEY) for _ in range(3))
    whole.add(persons(marks), None, 0)
    one.add(persons(marks[:2]), None, 0)
    one.add(persons(marks[2:3]), None, 0)
    other.add(persons(marks[3:]), None, 0)
    one.merge(other.share())
    expected = digest_of(marks, "id")
    assert whole.result(None) == one.result(None) == expected
    fresh = whole.new()
    assert fresh.result(None) == digest_of([], "id") != expected
    fresh.merge(whole.share())
    assert fresh.result(None) == expected


def test_tables_without_ids_have_no_persons() -> None:
    source: Any = SimpleNamespace(person=None)
    engine: Any = None
    assert identity.persons_identity(source, engine, KEY, engine) is None
    source.person = "id"
    engine = SimpleNamespace(run_pass=lambda task, rows, tally: (task, rows, type(tally).__name__))
    told: Any = identity.persons_identity(source, engine, KEY, engine)
    assert told == {"column": "id", "digest": ("whose rows", source, "PersonSums")}
