"""IPUMS extracts: the same rows from every form, as cut by hand by the codebook."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from labeldp.errors import DataError, InputError
from labeldp_paper.datasets.declaration import Options
from labeldp_paper.datasets.ipums import read_codebook
from labeldp_paper.datasets.making import stream
from tests.paper.datasets.twins import rows_of
from tests.realdata import real

VARIABLES = {
    "YEAR": (1, 4), "AGE": (5, 7), "SEX": (8, 8), "MARST": (9, 9), "CHBORN": (10, 11),
    "SCHOOL": (12, 12), "EMPSTAT": (13, 13), "OCC": (14, 17), "IND": (18, 21),
    "WKSWORK1": (22, 23), "PERWT": (24, 29), "INCOME": (30, 35),
}  # fmt: skip
_VALUES = (
    (1940, 35, 1, 1, 0, 1, 1, 120, 7, 52, 1.25, -40),
    (1940, 999, 2, 6, 3, 9, 3, 9999, 0, 0, 100.0, None),
    (1940, 0, 2, 6, 1, 0, 0, 0, 0, 1, 0.01, 12),
)
PEOPLE: list[dict[str, Any]] = [dict(zip(VARIABLES, row, strict=True)) for row in _VALUES]
ALL = tuple(name for name in VARIABLES if name != "YEAR")


def expected(people: list[dict[str, Any]]) -> list[dict[str, Any]]:
    quantities = ("AGE", "WKSWORK1", "PERWT", "INCOME")
    rows = [{n: p[n] if n in quantities else str(p[n]) for n in ALL} for p in people]
    return [{**row, "AGE": None if row["AGE"] == 999 else row["AGE"]} for row in rows]


def codebook(structure: str = "rectangular", space: str = "ddi:codebook:2_5") -> str:
    shift = int(structure == "hierarchical")
    variables = "".join(
        f'<var name="{name}" dcml="{2 if name == "PERWT" else 0}" '
        f'intrvl="{"contin" if name in ("PERWT", "INCOME") else "discrete"}" rectype="P">'
        f'<location StartPos="{a + shift}" EndPos="{b + shift}" width="{b - a + 1}"/>'
        f'<varFormat type="numeric"/></var>'
        for name, (a, b) in VARIABLES.items()
    )
    if shift:
        variables = (
            '<var name="RECTYPE" dcml="0" rectype="H P"><location StartPos="1" EndPos="1"/>'
            '<varFormat type="character"/></var>'
            '<var name="CITY" dcml="0" rectype="H"><location StartPos="2" EndPos="5"/></var>'
        ) + variables
    return (
        f'<?xml version="1.0"?><codeBook xmlns="{space}"><fileDscr><fileTxt>'
        f'<fileStrc type="{structure}"/></fileTxt></fileDscr>'
        f"<dataDscr>{variables}</dataDscr></codeBook>"
    )


def fixed(people: list[dict[str, Any]], mark: str = "") -> str:
    lines = []
    for person in people:
        cells = []
        for name, (a, b) in VARIABLES.items():
            value = person[name]
            digits = round(value * 100) if name == "PERWT" else value
            width = b - a + 1
            cells.append(" " * width if digits is None else f"{digits:0{width}d}")
        lines.append(mark + "".join(cells))
    return "\n".join(lines) + "\n"


def write_all(folder: Path) -> dict[str, Path]:
    """The same people in each form of extract."""
    (folder / "flat.xml").write_text(codebook())
    (folder / "flat.dat").write_text(fixed(PEOPLE))
    (folder / "tree.xml").write_text(codebook("hierarchical", "http://www.icpsr.umich.edu/DDI"))
    tree = fixed(PEOPLE, "P").splitlines()
    (folder / "tree.dat.gz").write_bytes(
        gzip.compress("\n".join(["H0001", *tree[:2], "H0002", tree[2], ""]).encode())
    )
    (folder / "cells.xml").write_text(codebook())
    header = ",".join(f'"{name}"' for name in VARIABLES)
    body = [",".join("" if p[n] is None else str(p[n]) for n in VARIABLES) for p in PEOPLE]
    (folder / "cells.csv").write_text("\n".join([header, *body, ""]))
    names = ("flat.dat", "tree.dat.gz", "cells.csv")
    return {name: folder / name for name in names}


@pytest.mark.parametrize("form", ["flat.dat", "tree.dat.gz", "cells.csv"])
def test_every_form_gives_the_same_rows(form: str, tmp_path: Path) -> None:
    path = write_all(tmp_path)[form]
    options = Options(columns=ALL, keep_zero_weeks=True)
    assert rows_of(stream("ipums", [path], options)) == expected(PEOPLE)
    with_label = [p for p in PEOPLE if p["WKSWORK1"]]
    rows = rows_of(stream("ipums", [path], Options(columns=ALL)))
    assert rows == expected(with_label)


def test_the_papers_variables_are_the_default(tmp_path: Path) -> None:
    rows = rows_of(stream("ipums", [write_all(tmp_path)["flat.dat"]]))
    assert list(rows[0]) == [
        "AGE", "SEX", "MARST", "CHBORN", "SCHOOL", "EMPSTAT", "OCC", "IND", "WKSWORK1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "old", "new", "message"),
    [
        ("flat.dat", "194003511", "1940x3511", r"line 1, column 5 \(AGE\)"),
        ("flat.dat", "194003511", "194003541", r"line 1, columns 8-8 \(SEX\)"),
        ("flat.dat", "194003511", "19400351", "line 1, column 35: 34 characters"),
        ("cells.csv", "1940,35,1,1", "1940,abc,1,1", r"line 2, column 2 \(AGE\)"),
        ("cells.csv", "1940,35,1,1", "1940,35,4,1", "line 2, column SEX"),
        ("cells.csv", "1940,35,1,1", "1940,35,1", "line 2, column 11: 11 field"),
        ("cells.csv", '"OCC"', '"JOB"', "line 1: no column OCC"),
    ],
)
def test_flaws_are_refused_where_they_stand(
    form: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = write_all(tmp_path)[form]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        rows_of(stream("ipums", [path], Options(keep_zero_weeks=True)))


def test_a_codebook_that_does_not_fit(tmp_path: Path) -> None:
    path = write_all(tmp_path)["flat.dat"]
    with pytest.raises(DataError, match="has no variable RACE"):
        rows_of(stream("ipums", [path], Options(columns=("RACE",))))
    tree = tmp_path / "tree.dat.gz"
    with pytest.raises(DataError, match="CITY is not in the person records"):
        rows_of(stream("ipums", [tree], Options(columns=("CITY",))))
    with pytest.raises(DataError, match="line 1, column 36: 36 characters"):
        rows_of(
            stream("ipums", [path_of(fixed(PEOPLE, "P"), tmp_path)], Options(codebook=flat(path)))
        )
    (tmp_path / "flat.xml").write_text("<codeBook")
    with pytest.raises(DataError, match="is not a DDI codebook"):
        rows_of(stream("ipums", [path]))
    (tmp_path / "flat.xml").write_text("<codeBook/>")
    with pytest.raises(DataError, match="describes no variables"):
        rows_of(stream("ipums", [path]))
    (tmp_path / "flat.xml").unlink()
    with pytest.raises(InputError, match=r"needs its codebook flat\.xml"):
        rows_of(stream("ipums", [path]))


def path_of(text: str, folder: Path) -> Path:
    path = folder / "other.dat"
    path.write_text(text)
    return path


def flat(path: Path) -> Path:
    return path.with_name("flat.xml")


def by_hand(name: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Person records cut by the positions that a regular expression finds in the codebook."""
    book = real(f"ipums_fixtures/{name}.xml").read_text()
    rows = []
    places = {}
    for column in columns:
        block = re.search(rf'<var ID="{column}".*?<location.*?/>', book, re.DOTALL)
        assert block, column
        found = {k: re.search(rf'{k}="(\d+)"', block[0]) for k in ("StartPos", "EndPos", "dcml")}
        places[column] = tuple(int(m[1]) for m in found.values() if m)
    with gzip.open(real(f"ipums_fixtures/{name}.dat.gz"), "rt") as file:
        for line in file:
            if 'type="hierarchical"' not in book or line[0] == "P":
                cells = {c: int(line[a - 1 : b]) for c, (a, b, _) in places.items()}
                rows.append({c: v / 10 ** places[c][2] for c, v in cells.items()})
    return rows


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("cps_00006", ("STATEFIP", "WTSUPP", "INCTOT"), 7668),
        ("cps_00421", ("PERNUM", "WTFINL", "AGE"), 201_993),
        ("usa_00196", ("SEX", "PERWT", "AGE"), 33_057),
    ],
)
def test_true_extracts_are_read_as_by_hand(name: str, columns: tuple[str, ...], rows: int) -> None:
    path = real(f"ipums_fixtures/{name}.dat.gz")
    found = rows_of(stream("ipums", [path], Options(columns=columns)))
    assert len(found) == rows
    assert [{n: float(v) for n, v in row.items()} for row in found] == by_hand(name, columns)


def test_a_true_extract_is_the_same_as_csv() -> None:
    options = Options(columns=("STATEFIP", "MONTH", "HWTSUPP", "WTSUPP", "INCTOT"))
    one, other = (
        rows_of(stream("ipums", [real(f"ipums_fixtures/cps_00006.{form}.gz")], options))
        for form in ("dat", "csv")
    )
    assert one == other


def test_codebooks_say_what_is_a_quantity() -> None:
    book = read_codebook(real("ipums_fixtures/cps_00421.xml"))
    assert book.hierarchical
    assert book.lengths() == {"H": (39,), "P": (46,)}
    assert book.fields["WTFINL"].decimals == 4
    assert book.fields["RECTYPE"].text
