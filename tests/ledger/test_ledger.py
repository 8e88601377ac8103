"""The ledger: debited before labels are read, by the laws of all releases, and never reset."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import InputError, Ledger, LedgerError, Source, compose, scan, verify
from labeldp.accounting.compose import compose as compose_profiles, gaussian_mu
from labeldp.passes.engine import LocalEngine
from tests.console import labeldp as command
from tests.ledger import runs
from tests.plans import plan
from tests.tables import RANGE, source, table

LABEL = ("--label", "label", "--label-range", *RANGE)
GAUSSIAN: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "mechanism": "shaped-flag",
    "noise": "gaussian",
}


@pytest.fixture(scope="module")
def made() -> labeldp.Plan:
    return plan(source(), **GAUSSIAN)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    """It has room for three releases of the plan."""
    epsilon, delta = runs.cap(1.0, 1e-6)
    return Ledger.create(tmp_path / "book", epsilon=epsilon, delta=delta)


@pytest.fixture
def folder(made: labeldp.Plan, tmp_path: Path) -> Path:
    """For processes."""
    pq.write_table(table(), tmp_path / "table.parquet")
    (tmp_path / "plan.json").write_text(json.dumps(made.to_json()))
    return tmp_path


def test_three_fit_and_the_fourth_is_refused(made: labeldp.Plan, book: Ledger) -> None:
    rows, totals = source(), []
    for _ in range(3):
        told = made.release(rows, ledger=book, dataset="t").certificate["ledger"]
        totals.append(told["epsilon"])
    assert told["releases"] == 3
    assert totals == sorted(totals)
    assert totals[1] == pytest.approx(1.455, abs=5e-4)
    with pytest.raises(LedgerError, match=r"has spent ε = 1\.8\d+ of 1\.8\d+ at δ = 1e-06") as full:
        made.release(rows, ledger=book, dataset="t")
    assert "stays debited" not in str(full.value)
    assert book.account("t").spent == pytest.approx(totals[2], rel=1e-9)
    book.limit("t", epsilon=2.2)
    made.release(rows, ledger=book, dataset="t")


def test_the_certificate_holds_the_entry_and_the_total(
    made: labeldp.Plan, book: Ledger, tmp_path: Path
) -> None:
    made.release_to(tmp_path / "r", source(), ledger=book, dataset="t")
    told = labeldp.Release.load(tmp_path / "r").certificate["ledger"]
    debit, done = book.entries()[1:]
    assert (told["entry"], told["digest"], told["releases"]) == (2, debit.digest, 1)
    assert told["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert told["delta"] == 1e-6
    assert done.kind == "done"
    assert verify(tmp_path / "r").valid
    assert made.release(source()).certificate["ledger"] is None


def test_laws_are_stored_and_composed_whatever_they_are(book: Ledger) -> None:
    rows = source()
    book.limit("t", epsilon=8.0, delta=1e-3)
    asked: list[dict[str, Any]] = [
        GAUSSIAN,
        GAUSSIAN | {"mechanism": "shaped-flag", "noise": "radial", "delta": 0.0, "epsilon": 0.2},
        {"mechanism": "noisy-rows", "epsilon": 0.3, "delta": 0.0},
        {"mechanism": "sampled-noisy-wtd-lag", "bags": 9, "bag_size": 60, "over_draw": True}
        | {"epsilon": 2.0, "delta": 1e-3},
    ]
    made = [plan(rows, **each) for each in asked]
    released = [each.release(rows, ledger=book, dataset="t") for each in made]
    account = book.account("t")
    assert account.total is not None
    assert account.total.claims == tuple(each.claim for each in made)
    together = compose(released)
    assert account.spent == together.epsilon(1e-3) == released[-1].certificate["ledger"]["epsilon"]
    assert together.epsilon(1e-3) < together.sum_of_epsilons


def test_labels_are_read_after_the_debit(made: labeldp.Plan, book: Ledger) -> None:
    seen, check = [], Source.label_check

    def looking(rows: Source) -> Any:
        seen.append([entry.kind for entry in book.entries()])
        return check(rows)

    with patch.object(Source, "label_check", looking):
        made.release(source(), ledger=book, dataset="t")
    assert seen
    assert all(kinds == ["create", "debit"] for kinds in seen)


def test_a_failed_run_stays_debited_and_says_so(made: labeldp.Plan, book: Ledger) -> None:
    data = table()
    labels = data["label"].to_pylist()
    wrong = data.set_column(4, "label", pa.array([99.0, *labels[1:]]))
    rows = scan(wrong, label="label", label_range=RANGE)
    with pytest.raises(labeldp.DataError, match=r"entry 2 of the ledger stays debited$"):
        made.release(rows, ledger=book, dataset="t")
    assert [entry.kind for entry in book.entries()] == ["create", "debit", "failed"]
    assert book.to_json()["releases"][0]["run"] == "failed"
    assert book.account("t").spent == pytest.approx(1.0, rel=1e-6)


def test_a_plan_for_other_labels_is_refused_and_costs_nothing(
    made: labeldp.Plan, book: Ledger
) -> None:
    rows = scan(table(), label="label", label_range=(0, 11))
    with pytest.raises(labeldp.PlanError, match="the plan is for labels"):
        made.release(rows, ledger=book, dataset="t")
    assert len(book.entries()) == 1
    with pytest.raises(InputError, match="go together"):
        made.release(source(), ledger=book)
    with pytest.raises(InputError, match="in plain letters"):
        made.release(source(), ledger=book, dataset=" ")


def test_a_lost_ledger_is_refused_and_not_made_again(
    made: labeldp.Plan, book: Ledger, tmp_path: Path
) -> None:
    book.path.unlink()
    with pytest.raises(LedgerError, match="is missing: find it or its copy"):
        made.release(source(), ledger=book, dataset="t")
    assert not book.path.exists()
    (tmp_path / "there").touch()
    with pytest.raises(labeldp.ReleaseError, match="already exists"):
        Ledger.create(tmp_path / "there", epsilon=1.0)


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
    tmp_path: Path,
) -> None:
    book = Ledger.create(tmp_path / "caps", epsilon=2.0)
    book.limit("t", epsilon=5.0, delta=1e-5)
    book.limit("t", epsilon=4.0)
    book.limit("u", epsilon=9.0)
    caps = {"t": (4.0, 1e-6), "u": (9.0, 1e-6), "other": (2.0, 1e-6)}
    assert {n: tuple(vars(book.account(n).cap).values()) for n in caps} == caps
    shown = book.to_json()
    assert [table["dataset"] for table in shown["tables"]] == ["t", "u"]
    assert [table["epsilon"] for table in shown["tables"]] == [0.0, 0.0]
    assert [table["dataset"] for table in book.to_json("u")["tables"]] == ["u"]
    with pytest.raises(LedgerError, match="has no table 'v'; check the name"):
        book.to_json("v")


@pytest.mark.parametrize(("share", "fitting"), [(1.0, 2), (1 - 1e-6, 1)])
def test_the_cap_holds_to_the_last_digit(share: float, fitting: int, tmp_path: Path) -> None:
    """δ at the cap's ε decides, up to the cap's δ itself; the total is at most the cap."""
    rows = source()
    asked = plan(rows, **GAUSSIAN | {"epsilon": 0.5})
    two = compose_profiles([asked.claim.privacy_profile] * 2).delta(1.0).upper
    book = Ledger.create(tmp_path / "book", epsilon=1.0, delta=two * share)
    for _ in range(fitting):
        told = asked.release(rows, ledger=book, dataset="t").certificate["ledger"]
        assert told["epsilon"] <= 1.0
    with pytest.raises(LedgerError, match="with this release it would be"):
        asked.release(rows, ledger=book, dataset="t")


@pytest.mark.parametrize("name", ["", " ", " t", "t ", "a\nb", "a\0"])
def test_names_that_nobody_can_read_are_refused(name: str, book: Ledger) -> None:
    nothing: Any = None
    for refused in (
        lambda: book.limit(name, epsilon=1.0),
        lambda: book.debit(nothing, nothing, nothing, name),
    ):
        with pytest.raises(InputError, match="`dataset` must be a name in plain letters"):
            refused()
    assert len(book.entries()) == 1


# --- how runs end --------------------------------------------------------------------------------


class Lost(Exception):  # noqa: N818
    """Something happened."""


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kind", [labeldp.DataError, Lost, KeyboardInterrupt])
def test_a_run_that_fails_is_said_to_have_and_its_debit_stays(
    kind: type[BaseException], lost: bool, made: labeldp.Plan, book: Ledger
) -> None:
    """Who reads the refusal is told of the debit, also where the ledger itself is gone by then."""

    def failing() -> None:
        with book.debit(made, source(), LocalEngine(), "t"):
            if lost:
                book.path.unlink()
            raise kind("bad")

    with pytest.raises(kind) as seen:
        failing()
    ours = issubclass(kind, labeldp.DataError)
    assert str(seen.value) == ("bad; entry 2 of the ledger stays debited" if ours else "bad")
    if not lost:
        last = book.entries()[-1]
        assert (last.kind, last.dataset) == ("failed", "t")
        assert last.document == {"debit": 2, "why": kind.__name__}


def test_how_every_run_ended_is_shown(made: labeldp.Plan, book: Ledger) -> None:
    done, _killed = (book.debit(made, source(), LocalEngine(), "t") for _ in range(2))
    with done:
        done.done("seal")
    assert book.entries()[-1].document == {"debit": 2, "seal": "seal"}
    first, second = book.to_json()["releases"]
    assert (first["run"], second["run"]) == ("done", "not finished")
    assert {n: first[n] for n in ("entry", "dataset", "label", "mechanism", "epsilon")} == {
        "entry": 2, "dataset": "t", "label": "label", "mechanism": "shaped-flag", "epsilon": 1.0,
    }  # fmt: skip
    assert first["total_epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert second["total_epsilon"] == pytest.approx(1.455, abs=5e-4)


# --- many at once, and killed --------------------------------------------------------------------


def answer(folder: Path, *words: Any) -> str:
    line = [sys.executable, "-m", "tests.ledger.runs", str(folder), *map(str, words)]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=7200, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def race(folder: Path, count: int) -> None:
    codes = json.loads(answer(folder, "race", count))
    assert codes.count(0) == runs.FITS, codes
    assert codes.count(3) == count - runs.FITS, codes
    assert runs.check(folder) == runs.FITS
    assert len(list(folder.glob("out-*"))) == runs.FITS


def test_of_many_at_once_as_many_are_granted_as_fit(folder: Path) -> None:
    race(folder, 5)


def test_killed_at_any_step_nothing_is_overspent(folder: Path) -> None:
    """Eight steps spread over the whole run; the debit stays, or nothing was written."""
    steps = int(answer(folder, "steps"))
    assert steps > 300
    places = [1 + steps * k // 8 for k in range(8)]
    told = json.loads(answer(folder, "killed", *places))
    assert told["killed"] >= 6
    assert told["debits"] >= 3


# --- command line --------------------------------------------------------------------------------


def test_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, book = folder / "table.parquet", folder / "b"
    assert command("ledger", "create", book, "--epsilon", "1.2").code == 0
    asked = ("release", data, *LABEL, "--plan", folder / "plan.json", "--anyway")
    paid = command(*asked, "--ledger", book, "--dataset", "census", "--out", folder / "r")
    assert "entry 2; this table has cost ε = 1 at δ = 1e-06" in " ".join(paid.out.split())
    unpaid = command(*asked, "--out", folder / "r2").error
    assert "was released before" in unpaid, "a ledger that is left out is no second budget"
    monkeypatch.setenv("LABELDP_LEDGER", str(book))
    refused = command(*asked, "--dataset", "census", "--out", folder / "r2").error
    assert "has spent ε = 1 of 1.2" in refused
    assert "LABELDP_LEDGER) and --dataset go together" in command(*asked, "--out", "r2").error
    assert not (folder / "r2").exists()
    raised = command("ledger", "limit", book, "census", "--epsilon", "2", "--json").json
    assert raised["tables"][0]["cap"] == {"epsilon": 2.0, "delta": 1e-6}
    told = command("ledger", "show", book, "census").out
    assert "census" in told
    assert "done" in told
    assert "key" not in command("ledger", "show", book, "--json").out
    assert "no table 'x'" in command("ledger", "show", book, "x").error
    assert "'create', 'show', 'limit'" in command("ledger", "burn", book).error
    assert "--epsilon" in command("ledger", "create", folder / "c").error
    assert "needs the name" in command("ledger", "limit", book, "--epsilon", "2").error


def test_whose_labels_a_total_covers_is_shown(book: Ledger) -> None:
    """Once persons are protected, releases of single rows count for all rows of one."""
    data = table().append_column("who", pa.array([k // 2 for k in range(2000)]))
    persons = scan(data, label="label", label_range=RANGE, person="who")
    rows, asked = source(), GAUSSIAN | {"epsilon": 0.2}
    plan(rows, **asked).release(rows, ledger=book, dataset="t")
    assert "a row" in command("ledger", "show", book.path).out
    before = book.account("t").spent
    plan(persons, **asked).release(persons, ledger=book, dataset="t")
    shown = command("ledger", "show", book.path).out
    assert "a person" in shown
    assert "a row" not in shown
    account = book.account("t")
    assert account.total is not None
    row, person = (gaussian_mu(claim.privacy_profile) or 0.0 for claim in account.total.claims)
    assert account.total.mu == pytest.approx(math.hypot(2 * row, person), rel=1e-9)
    assert account.spent > 2 * before


def with_persons(ids: list[Any], column: str = "who") -> Source:
    data = table().append_column(column, pa.array(ids))
    return scan(data, label="label", label_range=RANGE, person=column)


def test_where_no_ids_tell_all_rows_may_be_of_one_person(book: Ledger) -> None:
    """A table that shares the name alone with one of persons: it counts for all of its rows."""
    data = pa.table({"z": [1.5 * k for k in range(50)], "label": [k / 5 for k in range(50)]})
    alone, asked = scan(data, label="label", label_range=RANGE), GAUSSIAN | {"epsilon": 0.05}
    persons = with_persons([k // 2 for k in range(2000)])
    book.limit("t", epsilon=100, delta=1e-6)
    for rows in (alone, persons):
        plan(rows, **asked).release(rows, ledger=book, dataset="t")
    total = book.account("t").total
    assert total is not None
    row, person = (gaussian_mu(claim.privacy_profile) or 0.0 for claim in total.claims)
    assert total.mu == pytest.approx(math.hypot(50 * row, person), rel=1e-9)


def test_other_ids_do_not_make_a_second_release_cheaper(book: Ledger) -> None:
    """Everybody alone in the second release: whoever had five rows would have spent five times."""
    asked = GAUSSIAN | {"epsilon": 0.2}
    fives = with_persons([k // 5 for k in range(2000)])
    plan(fives, **asked).release(fives, ledger=book, dataset="t")
    spent = book.account("t").spent
    for ids, column in (
        (list(range(2000)), "who"),
        ([k % 400 + 7 for k in range(2000)], "who"),
        ([k // 2 for k in range(2000)], "whose"),
    ):
        others = with_persons(ids, column)
        with pytest.raises(LedgerError, match=f"person column {column!r}"):
            plan(others, **asked).release(others, ledger=book, dataset="t")
    assert book.account("t").spent == spent
    spelt = with_persons([f" {k // 5:05d}.0" for k in range(2000)], "id")
    plan(spelt, **asked).release(spelt, ledger=book, dataset="t")
    rows = source()
    plan(rows, **asked).release(rows, ledger=book, dataset="t")
    assert len(book.account("t").debits) == 3


def test_a_plan_that_was_released_is_released_again_on_demand_alone(folder: Path) -> None:
    data, path = folder / "table.parquet", folder / "plan.json"
    asked = ("release", data, *LABEL, "--plan", path, "--anyway", "--out")
    other = pq.read_table(data).slice(1)
    pq.write_table(other, folder / "other.parquet")
    wrong = ("release", folder / "other.parquet", *asked[2:])
    assert "plan again" in command(*wrong, folder / "a").error
    assert not (folder / "plan.json.released").exists(), "nothing was published"
    assert command(*asked, folder / "a").code < 2
    assert "was released before" in command(*asked, folder / "b").error
    assert not (folder / "b").exists()
    assert command(*asked, folder / "b", "--again").code < 2


def test_in_python_a_plan_file_is_released_once_too(folder: Path, book: Ledger) -> None:
    rows, marker = source(), folder / "plan.json.released"
    loaded = labeldp.Plan.load(folder / "plan.json")
    with pytest.raises(labeldp.DataError):
        loaded.release(table().drop_columns("height"), label="label")
    assert not marker.exists(), "nothing was published"
    loaded.release(rows)
    assert marker.exists()
    for once_more in (loaded, labeldp.Plan.load(folder / "plan.json")):
        with pytest.raises(InputError, match="was released before"):
            once_more.release(rows)
        with pytest.raises(InputError, match="again=True"):
            once_more.release_to(folder / "b", rows)
    assert not (folder / "b").exists()
    loaded.release_to(folder / "b", rows, again=True)
    loaded.release(rows, ledger=book, dataset="t")


def test_a_plan_is_saved_and_loaded(made: labeldp.Plan, tmp_path: Path) -> None:
    made.save(tmp_path / "p.json")
    assert labeldp.Plan.load(tmp_path / "p.json") == made
    with pytest.raises(labeldp.ReleaseError, match="already exists"):
        made.save(tmp_path / "p.json")
    text = (tmp_path / "p.json").read_text()
    (tmp_path / "p.json").write_text(text.replace('"epsilon": 1.0', '"epsilon": 0.5', 1))
    with pytest.raises(InputError, match=r"p\.json: the plan was altered"):
        labeldp.Plan.load(tmp_path / "p.json")
