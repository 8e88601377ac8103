"""Text and Excel files: encoding, delimiter, header, and lines above and below the table."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from labeldp import DataError, look, scan
from tests.extras import extra

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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encoding_delimiter_and_line_ends_are_inferred(
    encoding: str, delimiter: str, end: str, tmp_path: Path
) -> None:
    rows = [("größe", "n", "sales"), ("Köln", "1", "2"), ("Málaga", "2", "3")]
    lines = [delimiter.join(row) for row in rows]
    table = read(written(tmp_path / "t.csv", *lines, "", encoding=encoding, end=end))
    assert table.to_pydict() == {"größe": ["Köln", "Málaga"], "n": [1, 2]}


def test_a_header_does_not_tell_the_encoding_of_what_follows(tmp_path: Path) -> None:
    """Features far down do; labels never."""
    rows = ["a,1"] * 200_000 + ["Köln,2", ""]
    path = written(tmp_path / "t.csv", "town,y", *rows, encoding="latin-1")
    source = scan(path)
    assert source.notes == ("the text is read as cp1252; `encoding` to change",)
    *_, last = source.feature_batches()
    assert last.column(0)[-1].as_py() == "Köln"
    path = written(tmp_path / "u.csv", "town,y", "a,1", "b,2 ö", "", encoding="latin-1")
    assert scan(path, label="y").notes == ()


def test_names_that_repeat_are_numbered_and_unnamed_columns_left_out(tmp_path: Path) -> None:
    """As R and pandas write row names: a first column without a name."""
    rows = [f"{k},{'mf'[k % 2]},{k},{'ab'[k % 2]},,9" for k in range(4)]
    source = scan(written(tmp_path / "t.csv", '"","sex",x,sex,,y', *rows), label="y")
    assert source.names == ("sex", "x", "sex (2)")
    assert source.notes == (
        "several columns are named 'sex': the later ones are 'sex (2)' and so on",
    )
    (batch,) = source.feature_batches()
    assert batch.to_pydict() == {"sex": [*"mfmf"], "x": [0, 1, 2, 3], "sex (2)": [*"abab"]}


ABOVE = {
    "a title": ["Sales by shop"],
    "a title in cells": ["Sales by shop,,,", ",,,"],
    "a title with commas": ["Sales, by shop, 2024"],
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
    "all": ["Total,,,1234", ",,,", "", "Source: the till in 2024"],
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
    if "," not in ABOVE[above][0].strip(",="):  # without a name to look for
        assert scan(path).names == (*HEADER.split(","),)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("below", BELOW)
def test_lines_below(below: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path) -> None:
    lines = [HEADER, *ROWS, *BELOW[below], ""]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    source = scan(path, label="sales")
    assert pa.Table.from_batches(source.feature_batches()) == plain
    assert source.total_rows == len(ROWS)
    assert "`skip_footer=0` to change" in source.notes[-1]
    assert read(path, features=["area"]).num_rows == len(ROWS)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == plain


def test_what_is_said_counts(plain: pa.Table, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a, b", "c, d", HEADER, *ROWS, "x", "y,z")
    assert read(path, skip_lines=2, skip_footer=2) == plain
    with pytest.raises(DataError, match="`skip_lines`, `skip_footer`"):
        read(path, skip_lines=2)
    with pytest.raises(DataError, match="`skip_lines`, `skip_footer`"):
        read(written(tmp_path / "u.csv", HEADER, *ROWS, "Total"), skip_footer=0)
    with pytest.raises(DataError, match="correct `skip_lines`"):
        read(path, skip_lines=1)
    found = look(path, label="sales", skip_lines=2, skip_footer=2)
    assert found["rows"] == len(ROWS)
    assert found["options"][-5:-1] == ["--skip-lines", "2", "--skip-footer", "2"]


ROWS_THAT_STAY = {
    "a shop of that name": "Total,3.5,2,4",
    "an id alone": "s99,,,",
    "a number alone": ",5,,4",
    "a quoted line end": '"two\nlines",3.5,2,4',
}


@pytest.mark.parametrize("row", ROWS_THAT_STAY)
def test_rows_are_rows(row: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", HEADER, *ROWS, ROWS_THAT_STAY[row])
    assert scan(path, label="sales").total_rows == len(ROWS) + 1


def test_headers_are_headers(tmp_path: Path) -> None:
    """A sign for a name, a name of two lines, and a table of one column whose texts have commas."""
    sign = written(tmp_path / "a.csv", "#,area,sales", *(f"{k},{k}.5,1" for k in range(30)))
    assert scan(sign, label="sales").names == ("#", "area")
    rows = [f"a,{k}.5,1" for k in range(9)]
    long = written(tmp_path / "b.csv", '"shop', 'name",area,sales', *rows)
    assert scan(long, label="sales").names == ("shop\nname", "area")
    one = written(tmp_path / "c.csv", "remark", "good, fine", "bad, worse", "bad, worse")
    with pytest.raises(DataError, match="fields where the header has 1"):
        scan(one)


@pytest.mark.parametrize("label", ["", "7", "Total", "a,b", '"', "Total,,,", "# x", "5\rx", "\r"])
@pytest.mark.parametrize("last", ["s99,,", "Total,1.5,2", '"a\nb",,'])
def test_no_label_makes_a_row_a_line_below(label: str, last: str, tmp_path: Path) -> None:
    """The last row is a row, whatever its label is."""
    shop, area, staff = last.rsplit(",", 2)
    for header, row in (
        ("sales,shop,area,staff", f"{label},{last}"),
        ("shop,sales,area,staff", f"{shop},{label},{area},{staff}"),
        ("shop,area,staff,sales", f"{last},{label}"),
    ):
        names = header.split(",")
        cells = [dict(zip(HEADER.split(","), each.split(","), strict=True)) for each in ROWS]
        rows = [",".join(each[name] for name in names) for each in cells]
        path = written(tmp_path / "t.csv", header, *rows, row, "")
        assert scan(path, label="sales").total_rows == len(ROWS) + 1, header


@pytest.mark.parametrize("label", ["", "7", '"', "1,2", "5\rx", "Total"])
def test_no_label_makes_a_line_below_a_row(label: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", HEADER, *ROWS, f"Total,,,{label}", "")
    assert scan(path, label="sales").total_rows == len(ROWS)


def workbook(path: Path, *rows: list[Any]) -> Path:
    book = extra("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_excel(tmp_path: Path) -> None:
    body = [[f"s{k}", k + 0.5, k % 7, k % 10] for k in range(60)]
    lines: list[list[Any]] = [["Sales by shop"], [], HEADER.split(","), *body]
    path = workbook(tmp_path / "t.xlsx", *lines, ["Total", None, None, 270])
    source = scan(path, label="sales")
    assert (source.names, source.total_rows) == (("shop", "area", "staff"), 60)
    assert [note.partition(":")[0] for note in source.notes[:2]] == [
        "lines above the header, left out",
        "lines below the last row, left out",
    ]
    assert scan(path, label="sales", skip_footer=0).total_rows == 61


@pytest.mark.parametrize("label", [None, 3, "x"])
def test_rows_of_a_sheet_are_told_by_their_features(label: Any, tmp_path: Path) -> None:
    rows = [[k % 7, f"{k},5", k % 10] for k in range(30)]
    rows[9] = [None, None, label]
    path = workbook(tmp_path / "t.xlsx", ["area", "price", "sales"], *rows)
    source = scan(path, label="sales")
    assert source.total_rows == 29
    assert [column.kind for column in source.columns] == ["integer", "numeric"]


def test_of_several_sheets_the_one_with_the_columns_is_read_and_that_is_said(
    tmp_path: Path,
) -> None:
    book = extra("openpyxl").Workbook()
    book.active.title = "Read me"
    book.active.append(["Sales of 2024, see the other sheet"])
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
