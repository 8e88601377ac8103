"""EXT1940USCB: read as by hand, and refused with line and column when it is something else."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from labeldp.errors import DataError
from labeldp_paper.datasets.census import FIELDS
from labeldp_paper.datasets.declaration import Options
from labeldp_paper.datasets.making import convert, generate, stream, synthetic_stream
from tests.paper.datasets.twins import POSITIONS, person, published_positions, rows_of
from tests.realdata import real

KEEP = Options(keep_zero_weeks=True)


def test_the_positions_are_the_published_ones() -> None:
    published = published_positions()
    assert {name: published[name] for name in POSITIONS} == POSITIONS


def test_records_are_read_as_by_hand(census_file: Path) -> None:
    lines = census_file.read_text().splitlines()
    expected = [person(line, POSITIONS) for line in lines if line[0] == "P"]
    assert {len(line) for line in lines} == {273}
    assert rows_of(stream("census-1940", [census_file], KEEP)) == expected


def test_a_generated_file_is_read_back_as_the_generated_table(
    census_file: Path, tmp_path: Path
) -> None:
    generate("synthetic-census", tmp_path / "direct.parquet", 2000, seed=3)
    convert("census-1940", [census_file], tmp_path / "read.parquet", options=KEEP)
    assert rows_of(tmp_path / "read.parquet") == rows_of(tmp_path / "direct.parquet")


def test_people_without_weeks_are_left_out_and_counted(census_file: Path, tmp_path: Path) -> None:
    everybody = rows_of(stream("census-1940", [census_file], KEEP))
    made = convert("census-1940", [census_file], tmp_path / "t.parquet")
    kept = [row for row in everybody if row["WKSWORK1"] > 0]
    assert rows_of(tmp_path / "t.parquet") == kept
    assert (made.rows, made.dropped) == (len(kept), 2000 - len(kept))
    assert made.dropped > 0
    assert made.label_range == (1.0, 52.0)


def test_blocks_files_line_ends_and_compression_do_not_matter(
    census_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = rows_of(stream("census-1940", [census_file], KEEP))
    raw = census_file.read_bytes()
    (tmp_path / "windows.dat").write_bytes(raw.replace(b"\n", b"\r\n"))
    (tmp_path / "open.dat").write_bytes(raw.removesuffix(b"\n"))
    (tmp_path / "zipped.dat").write_bytes(gzip.compress(raw[: 274 * 500]) + gzip.compress(b""))
    (tmp_path / "rest.dat.gz").write_bytes(gzip.compress(raw[274 * 500 :]))
    monkeypatch.setattr("labeldp_paper.datasets.reading._BLOCK", 20_000)
    for names in (["windows.dat"], ["open.dat"], ["zipped.dat", "rest.dat.gz"]):
        assert rows_of(stream("census-1940", [tmp_path / n for n in names], KEEP)) == expected


Edit = Callable[[bytes], bytes]
FLAWS: dict[str, tuple[Edit, str]] = {
    "cut short": (lambda line: line[:200], "line 7, column 201: 200 characters"),
    "empty": (lambda _: b"", "line 7, column 1 (record type)"),
    "too long": (lambda line: line + b"0", "line 7, column 274: 274 characters"),
    "another type": (lambda line: b"Q" + line[1:], "line 7, column 1 (record type)"),
    "shifted from the start": (
        lambda line: line[:1] + b"0" + line[1:-1],
        "line 7, columns 2-5: 1940 must stand here",
    ),
    "shifted in the middle": (
        lambda line: line[:130] + b"7" + line[130:-1],
        "line 7, columns 138 and 139",
    ),
    "a letter in AGE": (
        lambda line: line[:74] + b"x" + line[75:],
        "line 7, column 75 (AGE): a digit must stand here",
    ),
    "a blank label": (
        lambda line: line[:158] + b"  " + line[160:],
        "line 7, column 159 (WKSWORK1): a digit must stand here",
    ),
    "77 weeks": (
        lambda line: line[:158] + b"77" + line[160:],
        "line 7, columns 159-160 (WKSWORK1): not a code",
    ),
    "a third sex": (
        lambda line: line[:72] + b"3" + line[73:],
        "line 7, columns 73-73 (SEX): not a code",
    ),
    "a detailed code of another status": (
        lambda line: line[:138] + b"8" + line[139:],
        "line 7, columns 138 and 139",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_wrong_record_is_refused_where_it_stands(
    flaw: str, census_file: Path, tmp_path: Path
) -> None:
    edit, message = FLAWS[flaw]
    lines = census_file.read_bytes().split(b"\n")
    assert lines[6][:1] == b"P"
    record = lines[6][:137] + b"11" + lines[6][139:]
    lines[6] = edit(record)
    path, out = tmp_path / "flawed.dat", tmp_path / "out.parquet"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError) as caught:
        convert("census-1940", [path], out, options=KEEP)
    assert str(caught.value).startswith(f"{path}, {message}")
    assert "77" not in str(caught.value).replace(str(path), "")
    assert list(tmp_path.iterdir()) == [path], "nothing is left behind"


def test_line_numbers_count_through_blocks(
    census_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = census_file.read_bytes().split(b"\n")
    lines[1501] = lines[1501][:100]
    (tmp_path / "cut.dat").write_bytes(b"\n".join(lines))
    monkeypatch.setattr("labeldp_paper.datasets.reading._BLOCK", 1000)
    with pytest.raises(DataError, match=r"line 1,502, column 101"):
        rows_of(stream("census-1940", [tmp_path / "cut.dat"], KEEP))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.dat", b"", "is empty"),
        ("households.dat", b"H1940".ljust(273) + b"\n", "no P record"),
        ("cut.dat.gz", gzip.compress(bytes(range(256)) * 999)[:300], "damaged or cut short"),
        ("endless.dat", b"P" * (3 << 20), "line without an end"),
        ("table.dat", b"PAR1\x15\x04\n", "line 1, column 7"),
    ],
    ids=["empty", "households", "cut", "endless", "table"],  # bytes of gzip hold the time
)
def test_files_that_are_something_else(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        rows_of(stream("census-1940", [tmp_path / name]))


def test_absent_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        rows_of(stream("census-1940", [tmp_path / "none.dat"]))
    with pytest.raises(DataError, match="is a directory"):
        rows_of(stream("census-1940", [tmp_path]))


def test_the_published_codes_are_all_accepted() -> None:
    fields = {field.name: field for field in FIELDS}
    with real("layouts/EXT1940USCB_codes.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            field = fields.get(row["variable"])
            if field is not None and field.codes is not None:
                assert int(row["code"]) in field.codes, row
    assert 52 in (fields["WKSWORK1"].codes or ())


def test_synthetic_rows_are_a_stream_of_batches() -> None:
    batches = list(synthetic_stream("synthetic-census", 200_000))
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert len(batches) > 1
