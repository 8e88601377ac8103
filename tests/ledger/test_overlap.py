"""Which releases a ledger counts together: by all rows and columns of a table, and by its persons.

Every release costs ε = 1 at δ = 1e-6, and two of them 1.455, which is above the cap.
"""

from __future__ import annotations

import base64
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import labeldp
from labeldp import Ledger, LedgerError, scan
from labeldp.accounting.compose import gaussian_mu
from labeldp.ledger import fingerprint, ledger as ledgers
from labeldp.ledger.compose import Joint, compose_claims
from tests.console import labeldp as command
from tests.plans import plan

CAP = 1.2
RANGE = (0.0, 10.0)
ROWS = 600
RECORDED = Path(__file__).parents[1] / "golden/recorded"
GAUSSIAN: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "mechanism": "shaped-flag",
    "noise": "gaussian",
}


def table(seed: int = 0) -> pa.Table:
    """Two measures, a code with gaps, a town, two labels of which the first has gaps."""
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(18, 90, ROWS), np.round(rng.normal(5, 2, ROWS), 2)
    town = rng.choice(["Ulm", "Hof", "Jena"], ROWS)
    code = rng.choice([1.0, 2.0, 3.0, 99.0], ROWS)
    pay = np.clip(np.round(age / 12 + rng.normal(size=ROWS), 1), *RANGE)
    pay = np.where(rng.random(ROWS) < 0.05, np.nan, pay)
    sick = np.clip(np.round(dose + rng.normal(size=ROWS), 1), *RANGE)
    columns = {"age": age, "dose": dose, "town": town, "code": code}
    return pa.table({**columns, "pay": pa.array(pay, from_pandas=True), "sick": sick})


def release(ledger: Ledger, name: str, data: Any, **options: Any) -> labeldp.Release:
    options = {"label": "sick", "label_range": RANGE, "drop": ["pay"]} | options
    source = scan(data, **options)
    return plan(source, **GAUSSIAN).release(source, ledger=ledger, dataset=name)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger in which the table was released once."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon=CAP)
    release(ledger, "a", table())
    return ledger


def replaced(name: str, values: Any, called: str | None = None) -> pa.Table:
    data = table()
    return data.set_column(data.column_names.index(name), called or name, pa.array(values))


def rescaled(*names: str) -> pa.Table:
    data = table()
    for name in names:
        place = data.column_names.index(name)
        data = data.set_column(place, name, pa.array(data[name].to_numpy() * 2.54 + 1))
    return data


def as_file(data: pa.Table, ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"table.{ending}"
        if ending == "csv":
            csv.write_csv(data, path)
        elif ending == "parquet":
            pq.write_table(data, path)
        else:
            data.to_pandas().to_excel(path, index=False)
        return path

    return write


def everything_as_text() -> pa.Table:
    data = table()
    return pa.table({name: data[name].cast(pa.string()) for name in data.column_names})


BACKWARDS = np.arange(ROWS)[::-1]
COUNTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "the same again": (table(), {}),
    "another code for missing values": (as_file(table(), "csv"), {"na": ["code=99"]}),
    "no usual codes for missing values": (as_file(table(), "csv"), {"na": []}),
    "another label": (table(), {"label": "pay", "drop_missing_labels": True, "drop": ["sick"]}),
    "a label that was no column before": (
        table().append_column("new", pa.array([1.0, 2.0] * (ROWS // 2))),
        {"label": "new"},
    ),
    "the label is a feature now": (
        table(),
        {"label": "pay", "drop_missing_labels": True, "drop": ["age", "dose", "code", "town"]},
    ),
    "one feature": (table(), {"features": ["dose"], "drop": ()}),
    "features left out": (table(), {"drop": ["pay", "age", "town"]}),
    "rows whose label is missing left out": (
        replaced("sick", [None, None, *table()["sick"].to_pylist()[2:]]),
        {"drop_missing_labels": True},
    ),
    "a word that means no label": (
        as_file(table(), "csv"),
        {"drop_missing_labels": True, "na": ["sick=0"]},
    ),
    "the last row taken for a footer": (as_file(table(), "csv"), {"skip_footer": 1}),
    "the last row of a sheet taken for a footer": (as_file(table(), "xlsx"), {"skip_footer": 1}),
    "rows in another order": (table().take(pa.array(BACKWARDS)), {}),
    "columns in another order": (table().select(table().column_names[::-1]), {}),
    "columns added": (
        table().append_column("one", pa.array([1] * ROWS)).append_column("x", pa.array(BACKWARDS)),
        {},
    ),
    "one column renamed": (table().rename_columns({"age": "years"}), {}),
    "all columns renamed": (
        table().rename_columns(["v1", "v2", "v3", "v4", "v5", "v6"]),
        {"label": "v6", "drop": ["v5"]},
    ),
    "the label renamed": (table().rename_columns({"sick": "ill"}), {"label": "ill"}),
    "all but one column rescaled": (rescaled("age", "code").drop_columns("town"), {}),
    "columns that were no features before, in another file": (
        table().select(["pay", "dose", "sick"]),
        {"features": ["pay"], "drop": ()},
    ),
    "whole numbers as decimals": (replaced("age", table()["age"].cast(pa.float64())), {}),
    "single precision": (
        replaced("dose", table()["dose"].cast(pa.float32())).drop_columns(["age", "town", "code"]),
        {},
    ),
    "numbers as text": (everything_as_text(), {}),
    "categories for numbers": (table(), {"categorical": ["age", "code"]}),
    "a CSV file": (as_file(table(), "csv"), {}),
    "a Parquet file": (as_file(table(), "parquet"), {}),
    "an Excel file": (as_file(table(), "xlsx"), {}),
    "labels clipped to another range": (table(), {"label_range": (0.0, 5.0), "clip": True}),
    "other features of the same label": (
        pa.table({"height": BACKWARDS * 7 % 100, "sick": table()["sick"]}),
        {"drop": ()},
    ),
}
"""Data, a function that writes them or a table; and what `scan` is told."""


@pytest.mark.parametrize("case", COUNTED)
def test_the_same_table_has_one_cap(case: str, ledger: Ledger, tmp_path: Path) -> None:
    """Under its name it is refused by the cap; under another it is told the name."""
    data, options = COUNTED[case]
    data = data(tmp_path) if callable(data) else data
    with pytest.raises(LedgerError, match=r"would be 1\.4\d+; counted together: entry 2 of 'a'"):
        release(ledger, "a", data, **options)
    with pytest.raises(LedgerError, match="knows this table as 'a' ") as refusal:
        release(ledger, "b", data, **options)
    assert "dataset='a'" in str(refusal.value)
    assert "another" not in str(refusal.value)
    assert len(ledger.entries()) == 3, "nothing was debited"


@pytest.mark.parametrize(
    ("columns", "label"),
    [(["dose", "sick"], "dose"), (["sick", "age"], "age"), (["dose", "age"], "dose")],
)
def test_a_label_is_known_by_its_name_alone(columns: list[str], label: str, tmp_path: Path) -> None:
    """The table of dose and sick: a column that is a label in one of the releases stays private."""
    ledger = Ledger.create(tmp_path / "l", epsilon=CAP)
    release(ledger, "a", table().select(["dose", "sick"]), drop=())
    options: dict[str, Any] = {"label": label, "label_range": (-9, 99), "drop": ()}
    with pytest.raises(LedgerError, match=r"knows this table as 'a' .as many rows, and"):
        release(ledger, "b", table().select(columns), **options)
    release(ledger, "c", table().select(columns).slice(1), **options)


def test_what_two_releases_share_is_remembered(tmp_path: Path) -> None:
    """The third file has no column of the first release, but one of the second."""
    ledger = Ledger.create(tmp_path / "l", epsilon=1.6)
    data = table().drop_columns(["pay", "town", "code"])
    release(ledger, "a", data, features=["age"], drop=())
    release(ledger, "a", data, features=["dose"], drop=())
    other = table().select(["dose", "sick"]).rename_columns(["x", "ill"])
    with pytest.raises(LedgerError, match=r"would be 1\.8\d+; counted together: entry 2"):
        release(ledger, "a", other, label="ill", drop=())
    with pytest.raises(LedgerError, match="column 'x', there 'dose', has the same values"):
        release(ledger, "b", other, label="ill", drop=())


def test_a_table_of_two_known_tables_counts_for_both(tmp_path: Path) -> None:
    """All that has their names counts, and they count together from then on."""
    ledger = Ledger.create(tmp_path / "l", epsilon=2.1)
    ages, doses = table().select(["age", "sick"]), table().select(["dose", "pay"])
    options: dict[str, Any] = {"label": "pay", "drop": (), "drop_missing_labels": True}
    release(ledger, "ages", ages, drop=())
    release(ledger, "doses", doses, **options)
    release(ledger, "doses", doses.slice(7), **options)
    ledger.limit("ages", epsilon=1.9)
    with pytest.raises(LedgerError, match=r"would be 2\.1\d+; counted together") as refusal:
        release(ledger, "ages", table())
    assert "entry 2 of 'ages' (the same name)" in str(refusal.value)
    assert "entry 4 of 'doses' (column 'dose' has the same values)" in str(refusal.value)
    assert "entry 6 of 'doses' (the same table as entry 4)" in str(refusal.value)
    ledger.limit("ages", epsilon=2.3)
    ledger.limit("doses", epsilon=2.3)
    release(ledger, "ages", table())
    with pytest.raises(LedgerError, match=r"would be 2\.4; counted together: entry 2 of 'ages'"):
        release(ledger, "doses", doses.slice(3), **options)


def test_the_smallest_cap_of_all_names_holds(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", epsilon=9)
    release(ledger, "ages", table().select(["age", "sick"]), drop=())
    release(
        ledger,
        "doses",
        table().select(["dose", "pay"]),
        label="pay",
        drop=(),
        clip=True,
        drop_missing_labels=True,
    )
    ledger.limit("doses", epsilon=1.2)
    with pytest.raises(LedgerError, match=r"table 'doses' has spent ε = 1\.\d+ of 1\.2"):
        release(ledger, "ages", table())


def test_one_name_has_one_cap_whatever_it_is_given_to(ledger: Ledger) -> None:
    """A part of the rows cannot be recognised, but may be in the table that has the name."""
    for data in (table().slice(100), table(seed=1)):
        with pytest.raises(LedgerError, match=r"would be 1\.4\d+; counted .* \(the same name\)"):
            release(ledger, "a", data)


def test_other_tables_have_caps_of_their_own(ledger: Ledger) -> None:
    """With as many rows, the same names, and columns that any table of as many rows may have."""
    beside = {"one": [1] * ROWS, "row": list(range(ROWS)), "from": list(range(1000, 1000 + ROWS))}
    for seed in (1, 2):
        data = table(seed)
        for name, values in beside.items():
            data = data.append_column(name, pa.array(values))
        release(ledger, f"other {seed}", data)
    assert [each["counted_with"] for each in ledger.to_json()["tables"]] == [[], [], []]


def test_what_escapes_is_what_the_docs_say(ledger: Ledger) -> None:
    """A part of the rows, or changed cells in every column, under a new name."""
    release(ledger, "part", table().slice(1))
    other = rescaled("age", "dose", "code")
    release(ledger, "changed", other.drop_columns("town"))


VISITS: dict[str, Any] = {"label": "visits", "label_range": (0, 77), "drop": ()}


def earlier_ledger(folder: Path) -> tuple[Ledger, pa.Table]:
    """A copy of a ledger that an earlier version wrote, and its table with rows in reverse."""
    shutil.copyfile(RECORDED / "ledgers/visits.ledger", folder / "l")
    (folder / "l").chmod(0o600)
    data = pq.read_table(RECORDED / "tables/visits.parquet")
    return Ledger(folder / "l"), data.take(pa.array(np.arange(len(data))[::-1]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["health"]},
        {"drop": ["coinsurance"], "categorical": ["chronic_diseases"]},
        {"label": "coinsurance", "label_range": (0, 100), "drop": ["visits"]},
    ],
    ids=str,
)
def test_a_table_in_a_ledger_of_an_earlier_version_is_recognised(
    options: dict[str, Any], tmp_path: Path
) -> None:
    ledger, data = earlier_ledger(tmp_path)
    options = VISITS | options
    with pytest.raises(LedgerError, match="knows this table as 'visits' "):
        release(ledger, "new", data, **options)


def test_a_table_in_a_ledger_of_an_earlier_version_has_one_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Composing different mechanisms takes seconds, so the first claim stands for all."""
    ledger, data = earlier_ledger(tmp_path)
    ledger.limit("visits", epsilon=0.1)
    counts = []

    def first_alone(claims: Any, *_: Any) -> Joint:
        counts.append(len(claims))
        return compose_claims(claims[:1], [1])

    monkeypatch.setattr(ledgers, "compose_claims", first_alone)
    with pytest.raises(LedgerError, match=r"counted together: entry 3 .*entry 5 "):
        release(ledger, "visits", data.slice(5), **VISITS)
    before = sum(entry.kind == "debit" for entry in ledger.entries())
    assert counts == [before + 1, before]


@pytest.mark.parametrize(("rows", "known"), [(90, True), (100, True), (95, False)])
def test_a_table_of_an_earlier_version_may_have_been_released_whole_or_not(
    rows: int, known: bool
) -> None:
    """Then as now of 100 rows, of which 90 have a label."""
    document = {"columns": {"age": "of names and values"}, "claim": {"rows": rows}, "label": "y"}
    source: Any = SimpleNamespace(names={"age", "town"}, rows=100)
    assert (ledgers._match(document, source, "y", 90) is not None) is known
    other: Any = SimpleNamespace(names={"height"}, rows=100)
    assert ledgers._match(document, other, "y", 90) is None


@pytest.mark.parametrize("same", [True, False], ids=["the same ids", "other ids"])
def test_ids_of_a_ledger_of_an_earlier_version_are_compared(same: bool, tmp_path: Path) -> None:
    shutil.copyfile(RECORDED / "ledgers/persons.ledger", tmp_path / "l")
    (tmp_path / "l").chmod(0o600)
    data = pq.read_table(RECORDED / "tables/people.parquet")
    if not same:
        place = data.column_names.index("person")
        data = data.set_column(place, "person", pa.array(data["person"].to_numpy() + 1))
    options: dict[str, Any] = {"label": "hours", "label_range": (0, 100), "person": "person"}
    options |= {"drop": ["night"], "clip": True}
    if same:
        release(Ledger(tmp_path / "l"), "people", data, **options)
        return
    with pytest.raises(LedgerError, match="whose rows these are was told otherwise in entry 2"):
        release(Ledger(tmp_path / "l"), "people", data, **options)


# --- labels stay out of it -----------------------------------------------------------------------


def test_no_entry_depends_on_a_label(tmp_path: Path) -> None:
    """Neighbours leave the same debit under the same key, and so do other labels and copies."""
    Ledger.create(tmp_path / "one", epsilon=CAP)
    shutil.copy(tmp_path / "one", tmp_path / "two")
    documents = []
    for name, first in (("one", 1.0), ("two", 9.0)):
        labels = [first, *table()["sick"].to_pylist()[1:]]
        data = replaced("sick", labels).append_column("copy", pa.array(labels))
        release(Ledger(tmp_path / name), "a", data, drop=["copy", "pay"])
        documents.append(json.dumps(Ledger(tmp_path / name).entries()[1].document))
    assert documents[0] == documents[1]


def test_columns_that_are_no_features_are_not_stored(ledger: Ledger) -> None:
    stored = ledger.entries()[1].document["table"]
    assert stored["columns"].keys() == {"age", "dose", "town", "code"}
    assert stored["rows"] == ROWS


# --- persons -------------------------------------------------------------------------------------


def year(which: int, first: int = 0, column: str = "who") -> pa.Table:
    """A table of a year: other rows, the same persons, two rows each."""
    ids = [f"person-{first + k // 2}" for k in range(ROWS)]
    return table(seed=which).append_column(column, pa.array(ids))


def test_four_years_of_one_person_have_one_cap(tmp_path: Path) -> None:
    path = tmp_path / "l"
    assert command("ledger", "create", path, "--epsilon", "1").code == 0
    asked = ["--label", "sick", "--label-range", "0", "10", "--drop", "pay", "--person", "who"]
    asked += ["--epsilon", "1", "--delta", "1e-6", "--mechanism", "shaped-flag", "--anyway"]
    codes = []
    for which in range(4):
        pq.write_table(year(2020 + which), tmp_path / f"{which}.parquet")
        book = ["--ledger", path, "--dataset", f"y{which}", "--out", tmp_path / f"out{which}"]
        done = command("release", tmp_path / f"{which}.parquet", *asked, *book)
        codes.append(done.code)
    assert codes == [0, 2, 2, 2]
    assert "entry 2 of 'y0' (300 persons in common)" in done.error
    assert "another" not in done.error


def test_show_says_what_a_person_spends_over_all_tables(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", epsilon=3)
    release(ledger, "y1", year(1), person="who")
    release(ledger, "y2", year(2, first=299, column="id"), person="id")
    release(ledger, "apart", year(3, first=5000), person="who")
    shown = ledger.to_json()
    assert [each["epsilon"] for each in shown["tables"]] == pytest.approx(
        [1.455, 1.455, 1.0], abs=5e-4
    )
    assert [each["counted_with"] for each in shown["tables"]] == [["y2"], ["y1"], []]
    certificate = release(ledger, "y2", year(2, 299, "id"), person="id").certificate["ledger"]
    assert certificate["releases"] == 3
    assert certificate["epsilon"] == pytest.approx(1.809, abs=5e-3)


def test_one_column_in_common_is_no_reason_to_ask_for_the_same_ids(tmp_path: Path) -> None:
    """Towns may agree by chance, and then count together; half of all columns may not."""
    ledger = Ledger.create(tmp_path / "l", epsilon=3)
    release(ledger, "t", year(1), person="who")
    towns = year(2, first=5000)
    towns = towns.set_column(towns.column_names.index("town"), "town", year(1)["town"])
    release(ledger, "t", towns, person="who")
    doses = towns.set_column(towns.column_names.index("dose"), "dose", year(1)["dose"])
    with pytest.raises(LedgerError, match="the ids of person column 'who' are others"):
        release(ledger, "t", doses, person="who")


@pytest.mark.parametrize("most", [fingerprint.MOST_IDS, 64], ids=["all ids", "some ids"])
def test_rows_that_a_release_leaves_out_are_rows_of_a_person(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of everybody has a label in the second release, and two had one in the first."""
    monkeypatch.setattr(fingerprint, "MOST_IDS", most)
    ledger = Ledger.create(tmp_path / "l", epsilon=1e7, delta=1e-3)
    data = year(1)
    pay = [None if k % 2 else 5.0 for k in range(ROWS)]
    data = data.set_column(data.column_names.index("pay"), "pay", pa.array(pay))
    release(ledger, "t", data, drop=["pay", "who"])
    options = {"drop": ["sick"], "drop_missing_labels": True, "person": "who"}
    release(ledger, "t", data, label="pay", **options)
    total = ledger.account("t").total
    assert total is not None
    assert total.claims[1].person is not None
    assert total.claims[1].person.rows == 1
    row, person = (gaussian_mu(claim.privacy_profile) or 0.0 for claim in total.claims)
    rows = 2 if most > ROWS else ROWS
    assert total.mu == pytest.approx(math.hypot(rows * row, person), rel=1e-9)


@pytest.mark.parametrize("known", [True, False], ids=["ids that are known", "no ids"])
def test_another_table_of_the_same_name_has_other_persons(known: bool, tmp_path: Path) -> None:
    """Everybody has one row in the first table and twenty in the second, whose rows are single."""
    ledger = Ledger.create(tmp_path / "l", epsilon=1e7, delta=1e-3)
    who = pa.array([f"p{k}" for k in range(ROWS)])
    release(ledger, "t", table(1).append_column("who", who), person="who")
    release(ledger, "t", table(1))
    who = pa.array([f"p{k // 20}" for k in range(2 * ROWS)])
    other = pa.concat_tables([table(2), table(3)])
    other = other.rename_columns(["a", "b", "c", "d", "pay", "ill"])
    if known:
        other = other.append_column("who", who)
    release(ledger, "t", other, label="ill", drop=["pay", "who"] if known else ["pay"])
    total = ledger.account("t").total
    assert total is not None
    person, row, many = (gaussian_mu(claim.privacy_profile) or 0.0 for claim in total.claims)
    rows = 20 if known else 2 * ROWS
    assert total.mu == pytest.approx(math.hypot(person, row, rows * many), rel=1e-9)


def test_the_same_features_of_another_year_count_by_their_persons(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", epsilon=3)
    for name in ("y1", "y2"):
        release(ledger, name, year(1), person="who")
    for each in ledger.to_json()["tables"]:
        assert each["epsilon"] == pytest.approx(1.455, abs=5e-4)
        assert len(each["counted_with"]) == 1


def test_ids_are_stored_once_and_only_as_keyed_digests(tmp_path: Path) -> None:
    documents = []
    for name in ("one", "two"):
        ledger = Ledger.create(tmp_path / name, epsilon=3)
        for _ in range(2):
            release(ledger, "t", year(1), person="who")
        first, second = (e.document["persons"] for e in ledger.entries() if e.kind == "debit")
        assert "ids" not in second
        assert first["digest"] == second["digest"]
        documents.append(first)
    one, two = (base64.b64decode(document["ids"]) for document in documents)
    assert len(one) == len(two) == 8 * 300
    assert not {one[k : k + 8] for k in range(0, 2400, 8)} & {
        two[k : k + 8] for k in range(0, 2400, 8)
    }
    assert documents[0]["digest"] != documents[1]["digest"]
    assert b"person-" not in (tmp_path / "one").read_bytes()


def test_a_release_without_person_of_persons_that_are_known_is_refused(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", epsilon=3)
    release(ledger, "y1", year(1), person="who")
    with pytest.raises(
        LedgerError, match=r"holds 300 persons of entry 2 .'y1'.; name it as `person`"
    ):
        release(ledger, "y2", year(2))
    release(ledger, "other", year(2, first=5000))
    release(ledger, "y1", year(1))  # the same rows: they count for two rows of a person


def test_of_very_many_persons_a_sample_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "MOST_IDS", 64)
    ledger = Ledger.create(tmp_path / "l", epsilon=CAP)
    release(ledger, "y1", year(1), person="who")
    assert not ledger.entries()[1].document["persons"]["complete"]
    with pytest.raises(LedgerError, match="persons in common"):
        release(ledger, "y2", year(2, first=100), person="who")
    release(ledger, "y3", year(3, first=5000), person="who")
