"""Titles, remarks and totals around a table: left out with a note, and never by a label's doing."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from labeldp import DataError, InputError, look, scan
from labeldp.data.headings import Heading, Rows

HEADER = "shop,area,staff,sales"
ROWS = [f"s{k},{k}.5,{k % 7},{k % 10}" for k in range(60)]


def written(path: Path, *lines: str, encoding: str = "utf-8", end: str = "\n") -> Path:
    path.write_bytes(end.join(lines).encode(encoding))
    return path


def read(path: Path, **said: Any) -> pa.Table:
    return pa.Table.from_batches(scan(path, label="sales", **said).feature_batches())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return read(written(tmp_path_factory.mktemp("plain") / "t.csv", HEADER, *ROWS))


ABOVE = {
    "remarks": ["# made by export.py, 2024, v2", "## twice"],
    "a title": ["Sales by shop"],
    "a title in cells": ["Sales by shop,,,", ",,,"],
    "empty lines": ["", "  "],
    "the sign": ["sep=,"],
    "all": ["", "Sales by shop", "# of 2024", ""],
}
BELOW = {
    "a total": ["Total,,,1234"],
    "a grand total": ['"Grand total",,,"1,234"'],
    "a total in one field": ["Total: 60"],
    "a source": ["Source: the till"],
    "empty cells": [",,,", ",,,7"],
    "all": ["Total,,,1234", ",,,", "", "Source: the till, 2024"],
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("above", ABOVE)
def test_lines_above(above: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path) -> None:
    lines = [*ABOVE[above], HEADER, *ROWS]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    assert read(path) == plain
    (note,) = [text for text in scan(path, label="sales").notes if "above" in text]
    assert "`skip_lines=0` to change" in note


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("below", BELOW)
def test_lines_below(below: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path) -> None:
    lines = [HEADER, *ROWS, *BELOW[below], ""]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    assert read(path) == plain
    assert scan(path, label="sales").total_rows == len(ROWS)
    assert read(path, features=["area"]).num_rows == len(ROWS)


def test_what_is_said_counts(plain: pa.Table, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a, b", "c, d", HEADER, *ROWS, "x", "y,z")
    assert read(path, skip_lines=2, skip_footer=2) == plain
    with pytest.raises(DataError, match="`skip_lines`, `skip_footer`"):
        read(path, skip_lines=2)
    with pytest.raises(DataError, match="`skip_lines`, `skip_footer`"):
        read(written(tmp_path / "u.csv", HEADER, *ROWS, "Total"), skip_footer=0)
    with pytest.raises(InputError, match="`skip_footer` must be 0 to 1000 lines, not -1"):
        read(path, skip_footer=-1)


def test_packed_files(plain: pa.Table, tmp_path: Path) -> None:
    text = "\n".join(["# remark", HEADER, *ROWS, "Total,,,5", ""])
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path / "t.csv.gz", skip_footer=1) == plain


ROWS_THAT_STAY = {
    "a shop of that name": "Total,3.5,2,4",
    "an id alone": "s99,,,",
    "all but the label empty, in words": "?,,,5",
}


@pytest.mark.parametrize("row", ROWS_THAT_STAY)
def test_rows_are_rows(row: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", HEADER, *ROWS, ROWS_THAT_STAY[row])
    assert scan(path, label="sales").total_rows == len(ROWS) + 1


def test_headers_are_headers(tmp_path: Path) -> None:
    """A sign for a name, a name of two lines, and a table of one column whose texts have commas."""
    sign = written(tmp_path / "a.csv", "#,area,sales", *(f"{k},{k}.5,1" for k in range(30)))
    assert scan(sign, label="sales").names == ("#", "area")
    long = written(
        tmp_path / "b.csv", '"shop', 'name",area,sales', *(f"a,{k}.5,1" for k in range(9))
    )
    assert scan(long, label="sales").names == ("shop\nname", "area")
    one = written(tmp_path / "c.csv", "remark", "good, fine", "bad, worse", "bad, worse")
    with pytest.raises(DataError, match="fields where the header has 1"):
        scan(one)


@pytest.mark.parametrize("label", ["", "7", "Total", "a,b", '"', "Total,,,", "# x"])
def test_no_label_has_a_say(label: str, tmp_path: Path) -> None:
    """The last row is a row, whatever its label is."""
    header = "sales,shop,area,staff"
    rows = [f"{k % 10},s{k},{k}.5,{k % 7}" for k in range(60)]
    path = written(tmp_path / "t.csv", header, f"{label},s98,1.5,2", *rows, f"{label},s99,,")
    assert scan(path, label="sales").total_rows == len(rows) + 2


def test_a_quote_in_a_label_makes_no_total_of_a_row(tmp_path: Path) -> None:
    rows = [f"s{k},{k % 10},{k}.5,{k % 7}" for k in range(60)]
    path = written(tmp_path / "t.csv", "shop,sales,area,staff", *rows, 'Sum & Co,",1.5,2')
    assert scan(path, label="sales").total_rows == len(rows) + 1


def test_excel(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Sales by shop"])
    book.active.append([])
    book.active.append(HEADER.split(","))
    for k in range(60):
        book.active.append([f"s{k}", k + 0.5, k % 7, k % 10])
    book.active.append(["Total", None, None, 270])
    book.save(tmp_path / "t.xlsx")
    source = scan(tmp_path / "t.xlsx", label="sales")
    assert (source.names, source.total_rows) == (("shop", "area", "staff"), 60)
    assert [note.partition(":")[0] for note in source.notes[:2]] == [
        "lines above the header, left out",
        "lines below the last row, left out",
    ]
    assert scan(tmp_path / "t.xlsx", label="sales", skip_footer=0).total_rows == 61


def test_look_passes_them_on(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a, b", HEADER, *ROWS, "nothing")
    found = look(path, label="sales", skip_lines=1, skip_footer=1)
    assert found["rows"] == len(ROWS)
    assert found["options"][-5:-1] == ["--skip-lines", "1", "--skip-footer", "1"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("label", ["sales", "9", "", "1,2", '"'])
def test_the_header_again(
    label: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path
) -> None:
    """As where files were put together; the label's field has no say."""
    again = f"shop,area,staff,{label}"
    lines = ["Sales by shop", HEADER, *ROWS[:20], again, *ROWS[20:50], again, *ROWS[50:], again]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    assert read(path) == plain
    assert "lines that repeat the header, left out: 3" in scan(path, label="sales").notes
    if label == "sales":
        assert scan(path).reader.rows == 60
    parted = tmp_path / "parts"
    parted.mkdir()
    written(parted / "a.csv", HEADER, *ROWS[:20], again, *ROWS[20:30])
    written(parted / "b.csv", HEADER, *ROWS[30:])
    assert read(parted) == plain


def test_the_header_again_far_down(tmp_path: Path) -> None:
    rows = [f"shop {k},{k}.5,{k % 7},{k % 10}" for k in range(150_000)]
    lines = [HEADER, *rows[:70_000], HEADER, *rows[70_000:], HEADER]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert read(tmp_path / "t.csv.gz").column("shop").to_pylist()[69_999:70_001] == [
        "shop 69999",
        "shop 70000",
    ]


@pytest.mark.parametrize(
    "units",
    [
        [",m²,heads,€"],
        ['"","area, all of it","How many?",'],
        [",m²,heads,1", "x,y,z,"],
        [",m²,heads,a,b"],
    ],
)
def test_units_beneath_the_header(units: list[str], plain: pa.Table, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", HEADER, *units, *ROWS)
    assert read(path) == plain
    told = f"lines below the header that hold units or other words, left out: {len(units)}"
    assert told in scan(path, label="sales").notes
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(HEADER.split(","))
    book.active.append(["", "m²", "heads", "€"])
    for number, row in enumerate(ROWS):
        shop, area, staff, sales = row.split(",")
        book.active.append([shop, float(area), int(staff), int(sales)])
        if number == 30:
            book.active.append(HEADER.split(","))
    book.save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == plain


@pytest.mark.parametrize(
    "first",
    ["s,NA,-,9", "s,unknown,5,9", "s,?,heads,9", "s,refused,,9", ",,,m²"],
)
def test_a_first_row_with_blanks_is_a_row(first: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", HEADER, first, *ROWS)
    said = {"categorical": ["area", "staff"], "clip": True, "label_range": (0, 9)}
    assert scan(path, label="sales", **said).reader.rows == 61


def test_a_line_longer_than_any_header_is_not_held_back() -> None:
    """Else a file of one line would be held, and copied, over and over."""
    text = b"a,b\n" + b"x" * (5 << 20)
    rows = Rows(io.BytesIO(text), 0, Heading.of(b"a,b\n", ",", None))
    assert len(rows.read(16)) == 4, "the header"
    assert len(rows.read(16)) == 16
    assert len(rows._rest) <= 2 << 20
    assert len(rows.read()) == len(text) - 20


def test_of_several_sheets_the_one_with_the_columns_is_read_and_that_is_said(
    tmp_path: Path,
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    cover = book.active
    cover.title = "Read me"
    cover.append(["Sales of 2024, see the other sheet"])
    for title, label in (("Old", "turnover"), ("New", "sales")):
        sheet = book.create_sheet(title)
        sheet.append(["area", label])
        for k in range(60):
            sheet.append([k % 7, k * (1 if title == "New" else 1000)])
    book.save(tmp_path / "t.xlsx")
    source = scan(tmp_path / "t.xlsx", label="sales", label_range=(0, 60))
    assert source.notes[0] == "of 3 sheets 'New' is read, the others are not"
    (_, labels) = next(source.labelled_batches())
    assert labels.max() == 59
    assert scan(tmp_path / "t.xlsx", label="turnover").total_rows == 60
    with pytest.raises(DataError, match="no column 'profit'"):
        scan(tmp_path / "t.xlsx", label="profit")
