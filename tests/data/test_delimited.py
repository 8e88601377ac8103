"""Text and Excel files: encoding, delimiter, header, types, and lines above and below the table."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from labeldp import DataError, InputError, look, scan
from labeldp.data.delimited import DelimitedReader
from tests.extras import extra
from tests.tables import told

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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
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
    with pytest.raises(DataError, match=r"not utf-8.*`encoding`"):
        scan(path, encoding="utf-8")
    path = written(tmp_path / "u.csv", "town,y", "a,1", "b,2 ö", "", encoding="latin-1")
    assert scan(path, label="y").notes == ()


def test_unnamed_columns_are_left_out_and_names_that_repeat_refused(tmp_path: Path) -> None:
    """As R and pandas write row names: a first column without a name."""
    rows = [f"{k},{'mf'[k % 2]},{k},{'ab'[k % 2]},,9" for k in range(4)]
    path = written(tmp_path / "t.csv", '"","sex",x,town,,y', *rows)
    source = scan(path, label="y")
    assert source.names == ("sex", "x", "town")
    (batch,) = source.feature_batches()
    assert batch.to_pydict() == {"sex": [*"mfmf"], "x": [0, 1, 2, 3], "town": [*"abab"]}
    assert scan(path, features=["", "x"]).names == ("", "x")
    for label in ("y", "sex"):  # under a second name it would be a public feature
        path = written(tmp_path / "u.csv", "sex,x,sex,y", *rows)
        with pytest.raises(DataError, match="several columns of one name, 'sex'; rename them"):
            scan(path, label=label)


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
    "empty cells": [",,,", ",,,7"],
    "all": ["Total,,,1234", ",,,", "", "Source: the till in 2024"],
}


@pytest.mark.parametrize(
    ("encoding", "end"), [("utf-8-sig", "\n"), ("utf-16", "\n"), ("cp1252", "\r\n")]
)
@pytest.mark.parametrize("above", ABOVE)
def test_lines_above(above: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path) -> None:
    lines = [*ABOVE[above], HEADER, *ROWS]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    assert read(path) == plain
    (note,) = [text for text in scan(path, label="sales").notes if "above" in text]
    assert "`skip_lines=0` to change" in note
    if "," not in ABOVE[above][0].strip(",="):  # without a name to look for
        assert scan(path).names == (*HEADER.split(","),)


@pytest.mark.parametrize(("encoding", "end"), [("utf-8", "\n"), ("utf-16", "\r\n")])
@pytest.mark.parametrize("below", BELOW)
def test_lines_below(below: str, encoding: str, end: str, plain: pa.Table, tmp_path: Path) -> None:
    lines = [HEADER, *ROWS, *BELOW[below], ""]
    path = written(tmp_path / "t.csv", *lines, encoding=encoding, end=end)
    source = scan(path, label="sales")
    assert pa.Table.from_batches(source.feature_batches()) == plain
    assert source.total_rows == len(ROWS)
    assert "`skip_footer=0` to change" in source.notes[-1]
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


def test_headers_are_headers(tmp_path: Path) -> None:
    """A sign for a name, a name of two lines, and a table of one column whose texts have commas."""
    sign = written(tmp_path / "a.csv", "#,area,sales", *(f"{k},{k}.5,1" for k in range(30)))
    assert scan(sign, label="sales").names == ("#", "area")
    rows = [f"a,{k}.5,1" for k in range(9)]
    long = written(tmp_path / "b.csv", '"shop', 'name",area,sales', *rows)
    assert scan(long, label="sales").names == ("shop\nname", "area")
    one = written(tmp_path / "c.csv", "remark", "good, fine", "bad, worse", "bad, worse")
    with pytest.raises(DataError, match="not as many fields as the header"):
        scan(one)


LAST_ROWS = ["s99,,", "Total,1.5,2", '"a\nb",,', ",5,"]


@pytest.mark.parametrize("label", ["", "7", "Total", "a,b", '"', "Total,,,", "# x", "5\rx", "\r"])
@pytest.mark.parametrize("last", LAST_ROWS)
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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "-3"], "int64"),
        (["1", "", "NA"], "int64"),
        ([" 1", "2 "], "int64"),
        (["1", "2.5", "1e3"], "double"),
        ([".5", "5.", "+5"], "double"),
        (["", "NaN", "null"], "double"),
        (["true", "False"], "bool"),
        (["true", "1"], "string"),
        (["1234567890123456789012", *["12"] * 98], "string"),
        (["1234567890123456789012", *["12"] * 99], "int64"),
        (["0234567890123456789012", *["12"] * 9], "string"),
        (["0x1F", "ab"], "string"),
        (["2020-01-01", "2020-01-02 03:04:05.5"], "timestamp[us]"),
        (["2020-01-01", "soon"], "string"),
        (["0", "0.5", "-0"], "double"),
        (["1"] * 400_000 + ["0.5"], "double"),  # far down
    ],
)
def test_narrowest_type_that_holds_everything(
    values: list[str], expected: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "t.csv", "x,k", *(f"{value},z" for value in values))
    source = scan(path, categorical=["k"])
    assert source.columns[0].type == expected
    assert sum(batch.num_rows for batch in source.feature_batches()) == len(values)


def test_types_are_decided_over_all_files(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", "x,k", "1,a")
    written(tmp_path / "2.csv", "x,k", "1.5,2")
    assert [column.type for column in scan(tmp_path).columns] == ["double", "string"]


def test_the_label_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is public, so it must not depend on labels: any labels, one description."""
    asked: list[str] = []
    batches = DelimitedReader.read
    monkeypatch.setattr(
        DelimitedReader,
        "read",
        lambda self, columns, rows: asked.extend(columns) or batches(self, columns, rows),
    )
    known = []
    for label in ("1", "0.5", "true", "oops", "$1,234.5", "1.234,5", ""):
        path = written(tmp_path / "t.csv", "x,y", f'2.5,"{label}"', "3.5,1")
        source = scan(path, label="y", label_range=(0, 1))
        known.append((told(source), source.notes, source.label_parser))
    list(source.feature_batches())
    assert all(each == known[0] for each in known)
    assert {*asked} == {"x"}


FIRST, SECOND = "10.38{0}436{0}u{0}353568.25", "11.5{0}436{0}v{0}87431.75"
SECRETS = ("353568", "87431", "568.25")


def refusal(path: Path, **said: Any) -> str:
    with pytest.raises(InputError) as caught:
        scan(path, **{"label": "y", **said})
    return str(caught.value)


@pytest.mark.parametrize("sign", [",", ";", "\t", " ", ":"])
@pytest.mark.parametrize("delimiter", [None, ".", ";", "5", "u"])
@pytest.mark.parametrize("header", [(), ("a{0}b{0}c{0}z",), ("Survey of shops", "")])
def test_no_value_is_said_of_a_row_in_the_place_of_a_header(
    header: tuple[str, ...], delimiter: str | None, sign: str, tmp_path: Path
) -> None:
    """For one of them is a label."""
    lines = (line.format(sign) for line in (*header, FIRST, SECOND, FIRST))
    path = written(tmp_path / "t.csv", *lines)
    with pytest.raises(InputError) as caught:
        look(path, drop=["nothing"], delimiter=delimiter)
    for text in (refusal(path, delimiter=delimiter), str(caught.value)):
        assert not any(secret in text for secret in SECRETS), text


def test_no_value_is_said_where_rows_differ_or_repeat(tmp_path: Path) -> None:
    for place, lines in enumerate(((FIRST, SECOND), (SECOND, FIRST))):
        written(tmp_path / f"{place}.csv", *(line.format(",") for line in lines))
    repeats = written(tmp_path / "t.txt", "353568.25,u,353568.25", "1,v,2")
    assert "several columns" in refusal(repeats)
    for said in (refusal(tmp_path), refusal(repeats)):
        assert not any(secret in said for secret in SECRETS), said


def test_names_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "age,x1,income_2019,label", "1,2,3,4", "2,3,4,5")
    assert refusal(path, label="z") == (
        "label: there is no column 'z'; the columns are 'age', 'x1', 'income_2019', 'label'"
    )
    assert "did you mean 'label'" in refusal(path, label="lable")
    said = refusal(path, delimiter=";", label="label")
    assert "the only one is 'age,x1,income_2019,label'; name another `delimiter`" in said
    years = written(tmp_path / "y.csv", "town,2019,2020,label", "a,2,3,4", "b,3,4,5")
    assert "the columns are 'town', 'label'" in refusal(years, label="z")


def workbook(path: Path, *sheets: tuple[str, list[list[Any]]]) -> Path:
    book = extra("openpyxl").Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_excel(tmp_path: Path) -> None:
    body = [[f"s{k}", k + 0.5, k % 7, k % 10] for k in range(60)]
    lines: list[list[Any]] = [["Sales by shop"], [], HEADER.split(","), *body]
    path = workbook(tmp_path / "t.xlsx", ("A", [*lines, ["Total", None, None, 270]]))
    source = scan(path, label="sales")
    assert (source.names, source.total_rows) == (("shop", "area", "staff"), 60)
    assert [note.partition(":")[0] for note in source.notes[:2]] == [
        "lines above the header, left out",
        "lines below the last row, left out",
    ]
    assert scan(path, label="sales", skip_footer=0).total_rows == 61


def test_numbers_of_a_sheet_are_what_they_are_beside_decimal_commas(tmp_path: Path) -> None:
    """A number of three decimals is no thousand; a name, a cell and a code may have line ends."""
    rows: list[list[Any]] = [[1 + k / 1000, f"{k},5", "two\nlines", k] for k in range(1, 30)]
    path = workbook(tmp_path / "t.xlsx", ("A", [["net", "price", "a\nremark", "sales"], *rows]))
    source = scan(path, label="sales", label_range=(0, 30), na=["net=1.007"])
    (batch, labels) = next(source.labelled_batches())
    assert batch.schema.names == ["net", "price", "a remark"]
    expected = [None if k == 7 else 1 + k / 1000 for k in range(1, 30)]
    assert batch.column(0).to_pylist() == expected
    assert batch.column(1).to_pylist() == [k + 0.5 for k in range(1, 30)]
    assert batch.column(2)[0].as_py() == "two\nlines"
    assert labels.tolist() == [*range(1, 30)]


@pytest.mark.parametrize("label", [None, 3, "x"])
def test_rows_of_a_sheet_are_told_by_their_features(label: Any, tmp_path: Path) -> None:
    rows: list[list[Any]] = [[k % 7, f"{k},5", k % 10] for k in range(30)]
    rows[9] = [None, None, label]
    path = workbook(tmp_path / "t.xlsx", ("A", [["area", "price", "sales"], *rows]))
    source = scan(path, label="sales")
    assert source.total_rows == 29
    assert [column.kind for column in source.columns] == ["integer", "numeric"]


def test_of_several_sheets_the_one_with_the_columns_is_read(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "t.xlsx",
        ("Read me", [["Sales of 2024, see the other sheet"]]),
        ("Old", [["area", "turnover"], *([k % 7, 1000 * k] for k in range(60))]),
        ("New", [["area", "sales"], *([k % 7, k] for k in range(60))]),
    )
    source = scan(path, label="sales", label_range=(0, 60))
    assert source.notes[0] == "of 3 sheets 'New' is read, the others are not"
    (_, labels) = next(source.labelled_batches())
    assert labels.max() == 59
    assert scan(path, label="turnover").total_rows == 60
    with pytest.raises(DataError, match="no column 'profit'"):
        scan(path, label="profit")
