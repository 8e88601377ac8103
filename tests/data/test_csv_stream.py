"""Bytes of a label decide nothing but the label: not the rows, not the other columns."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from labeldp import DataError, Source, scan
from labeldp.data import csv_stream

JUNK = [
    '"', '""', '"5', '5"', '"5"6', ',', '5,6', '5,6,7', ',"', '",', '"a,b', '5,"x', '","', '"""',
    '\r', '5\r6', '\r\r', '"5\r', ' "5"', '\x00', "'", '"5,"', 'é', '',
]  # fmt: skip
TEXTS = ["red", "dark blue", "a,b", 'say "no"', "two\nlines", '3" pipe', "", "x\ty", "z;w", "é"]


def written(rows: list[list[str]], names: list[str], place: int, labels: list[str]) -> str:
    """A table whose label stands at `place`, its text exactly as given."""
    lines = []
    for row, label in zip([names, *rows], ["y", *labels], strict=True):
        cells = ['"' + c.replace('"', '""') + '"' if set(c) & set(",\n") else c for c in row]
        lines.append(",".join([*cells[:place], label, *cells[place:]]))
    return "\n".join(lines) + "\n"


def features(source: Source) -> list[dict[str, object]]:
    return [row for batch in source.feature_batches() for row in batch.to_pylist()]


def labelled(path: Path) -> Source:
    return scan(path, label="y", label_range=(0, 10), categorical=("c",))


def refused(source: Source) -> bool:
    """Whether labels are refused, after the last row, as a column and not as a line."""
    with pytest.raises(DataError) as problem:
        raise DataError(f"{sum(len(labels) for _, labels in source.labelled_batches())} rows")
    return "label column 'y'" in str(problem.value)


@pytest.mark.parametrize(("place", "block"), [(0, 300), (1, 120), (2, 1 << 20), (3, 300)])
def test_no_label_moves_a_row_or_a_field(
    place: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Junk in one label or in all; features with quotes and, before the label, line ends."""
    monkeypatch.setattr(csv_stream, "BLOCK", block)
    monkeypatch.setattr(csv_stream, "_TAIL", min(block, 200))
    draw = random.Random(place)
    path, names = tmp_path / "t.csv", ["a", "c", "d"]
    texts = [[t for t in TEXTS if k < place or "\n" not in t] for k in (1, 2)]
    for junk in ["5", *JUNK, None]:
        rows = [[str(k), *(draw.choice(some) for some in texts)] for k in range(20)]
        where = draw.sample(range(20), draw.choice([1, 3, 20]))
        labels = [(junk or draw.choice(JUNK)) if k in where else "5" for k in range(20)]
        path.write_text(written(rows, names, place, labels), encoding="utf-8", newline="")
        source = scan(path, label="y", label_range=(0, 10), categorical=("c", "d"))
        expected = [{"a": int(a), "c": c or None, "d": d or None} for a, c, d in rows]
        assert features(source) == expected, labels
        assert source.total_rows == 20
        assert refused(source) or set(labels) <= {"5", "'", '"5"'}, labels
        assert not refused(source) or junk != "5"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_any_line_ending_and_quoted_labels(ending: str, tmp_path: Path) -> None:
    """A comma between quotes is part of a number."""
    lines = ['"a","y","c"', *(f'"{k}","1,00{k % 7}","q,{k % 2}"' for k in range(20))]
    for last in (ending, ""):
        (tmp_path / "t.csv").write_bytes((ending.join(lines) + last).encode())
        source = scan(tmp_path / "t.csv", label="y", label_range=(0, 2000))
        labels = [float(each) for _, batch in source.labelled_batches() for each in batch]
        assert labels == [1000 + k % 7 for k in range(20)]


def test_other_encodings_and_gzip(tmp_path: Path) -> None:
    text = "a,c,y\n" + "".join(f'{k},é{k % 2},"5\n' for k in range(20))
    for name, encoding in (("t.csv.gz", "utf-8"), ("t.csv", "cp1252"), ("t.csv", "utf-16")):
        raw = text.encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        source = labelled(tmp_path / name)
        assert source.total_rows == 20
        assert sorted({row["c"] for row in features(source)}) == ["é0", "é1"]
        assert refused(source)


@pytest.mark.parametrize("first", [b"1,\xc3\xa9,12", b"1,\xc3\xa9,3\n2"])
@pytest.mark.parametrize("header", [b"a,c,y", b'"a","c","y"'])
def test_carriage_returns_alone_end_no_line(header: bytes, first: bytes, tmp_path: Path) -> None:
    """What is above the first line feed holds labels then, and is not shown."""
    (tmp_path / "t.csv").write_bytes(b"\r".join([header, first, b"2,z,7319"]))
    with pytest.raises(DataError, match="end them with line feeds") as refusal:
        scan(tmp_path / "t.csv", label="y")
    assert not set("0123456789") & set(str(refusal.value).partition("t.csv")[2])


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("label", [b"\xff", b"\x00", b"\xe9\x00"])
def test_the_header_alone_tells_the_encoding(name: str, label: bytes, tmp_path: Path) -> None:
    """Rows are read along with it."""
    rows = [b"a,c,y", b"9,z," + label, *(b"%d,\xc3\xa9,5" % k for k in range(9))]
    packed = gzip.compress if name.endswith("gz") else bytes
    (tmp_path / name).write_bytes(packed(b"\n".join(rows) + b"\n"))
    source = labelled(tmp_path / name)
    assert source.reader.encoding == "utf-8"
    assert source.total_rows == 10
    assert {row["c"] for row in features(source)} == {"\u00e9", "z"}
    assert refused(source)


@pytest.mark.parametrize(("encoding", "bad"), [("cp1252", b"\x81"), ("utf-16-le", b"\x00\xd8")])
def test_bytes_of_no_text_are_signs_in_a_feature_and_wait_for_the_last_row_in_a_label(
    encoding: str, bad: bytes, tmp_path: Path
) -> None:
    path, lines = tmp_path / "t.csv", "c,y\n" + "é,5\n" * 9
    for row, is_label in (("z,BAD", True), ("BAD,5", False)):
        start, _, end = (lines + row + "\n").partition("BAD")
        path.write_bytes(start.encode(encoding) + bad + end.encode(encoding))
        if is_label:
            source = scan(path, label="y", label_range=(0, 10), encoding=encoding)
            assert source.total_rows == 10
            assert refused(source)
        else:
            source = scan(path, label="y", encoding=encoding)
            assert [row["c"] for row in features(source)] == [*["é"] * 9, "\ufffd"]


@pytest.mark.parametrize("label", ["y", None])
def test_lines_of_another_width_and_open_quotes_are_refused(
    label: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,c,y\n1,x,5\n2,5\n")
    with pytest.raises(DataError, match="a line has not as many fields as the header"):
        scan(path, label=label)
    path.write_text("a,c,y\n1,x,5\n" + '2,"x,5\n2,x,5\n')
    with pytest.raises(DataError, match="a quote is not closed"):
        scan(path, label=label)


def test_plain_lines_are_passed_on_as_they_are(tmp_path: Path) -> None:
    rows = b'1,"x,y",5\r\n\r\n2,z,"6"\r\n' * 500
    (tmp_path / "t.csv").write_bytes(b"a,c,y\r\n" + rows)
    path = tmp_path / "t.csv"
    assert b"".join(csv_stream.LabelSafeRows(path, path, "utf-8", b",", 3, 2)) == rows


def test_blocks_end_with_rows_where_there_is_no_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_stream, "BLOCK", 50)
    monkeypatch.setattr(csv_stream, "_TAIL", 20)
    texts = [TEXTS[k % len(TEXTS)] for k in range(60)]
    (tmp_path / "t.csv").write_text(written([[t] for t in texts], ["c"], 1, ["5"] * 60))
    source = scan(tmp_path / "t.csv", categorical=["c"])
    assert [row["c"] or "" for row in features(source)] == texts
