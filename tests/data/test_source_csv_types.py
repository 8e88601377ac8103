"""Types of delimited columns: decided from all values, never from the first block."""

from __future__ import annotations

import pyarrow as pa
import pytest

from labeldp.data.delimited import DelimitedReader
from labeldp.data.source import scan
from labeldp.errors import DataError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from tests.tables import told


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def types(source):
    return {column.name: column.type for column in source.columns}


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
        (["007", "12"], "string"),
        (["1234567890123456789012", "12"], "string"),
        (["1234567890123456789012", *["12"] * 98], "string"),
        (["1234567890123456789012", *["12"] * 99], "int64"),
        (["0234567890123456789012", *["12"] * 9], "string"),
        (["0x1F", "ab"], "string"),
        (["2020-01-01", "2020-01-02 03:04:05.5"], "timestamp[us]"),
        (["2020-01-01", "soon"], "string"),
        (["a", "b"], "string"),
        (["0", "0.5", "-0"], "double"),
    ],
)
def test_narrowest_type_that_holds_everything(values, expected, tmp_path):
    path = write(tmp_path / "t.csv", "x,k", [f"{value},z" for value in values])
    source = scan(path, categorical=["k"])
    assert types(source)["x"] == expected
    assert sum(batch.num_rows for batch in source.feature_batches()) == len(values)


def test_a_decimal_far_down_decides(tmp_path):
    rows = ["1,a"] * 700_000 + ["0.5,a"]
    source = scan(write(tmp_path / "t.csv", "x,k", rows))
    assert types(source) == {"x": "double", "k": "string"}
    assert source.total_rows == 700_001


@pytest.mark.parametrize(
    ("strays", "kind"),
    [
        (["forty", "see below", "forty"], "double"),
        (["3O"], "double"),
        (["V57", "E909", "V58"], "string"),  # codes
        ([f"{chr(65 + k)} " * 2 for k in range(21)], "string"),
    ],
)
def test_texts_among_numbers_are_no_reason_to_refuse(strays, kind, tmp_path):
    """A few count as missing; of many, or with digits such as codes have, they are levels."""
    rows = [f"{i / 8}" for i in range(270 - len(strays))] + strays
    path = write(tmp_path / "t.csv", "x", rows)
    source = scan(path)
    assert types(source)["x"] == kind
    assert source.notes[0].startswith("x: texts " if kind == "double" else "x: numbers and")
    (batch,) = source.feature_batches()
    assert batch.column(0).null_count == (len(strays) if kind == "double" else 0)
    assert types(scan(path, categorical=["x"]))["x"] == "string"
    assert types(scan(path, numeric=["x"]))["x"] == "double"


def test_predictions_count_other_texts_as_missing_too(tmp_path):
    rows = [f"{i / 8},a" for i in range(200)] + ["forty,b"] * 9
    features = fit_features(scan(write(tmp_path / "t.csv", "x,k", rows)))
    again = FeatureMap.from_json(features.to_json())
    table = pa.table({"x": ["fifty", "2.5", "forty"], "k": ["a", "b", "a"]})
    (batch,) = again.batches(table)
    assert batch.column(0).to_pylist() == [None, 2.5, None]


def test_declared_numeric_with_text(tmp_path):
    path = write(tmp_path / "t.csv", "x", ["a", "1", "b"])
    with pytest.raises(DataError, match=r"'x' should be numeric, but most values are texts"):
        scan(path, numeric=["x"])


def test_declared_numeric_with_leading_zeros(tmp_path):
    path = write(tmp_path / "t.csv", "x", ["007", "08"])
    assert types(scan(path, numeric=["x"]))["x"] == "double"


def test_types_are_decided_over_all_files(tmp_path):
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "1.csv", "x,k", ["1,a"])
    write(tmp_path / "d" / "2.csv", "x,k", ["1.5,2"])
    assert types(scan(tmp_path / "d")) == {"x": "double", "k": "string"}


def test_label_type_is_not_looked_at(tmp_path):
    """The schema is public, so it must not depend on labels: two labels, one description."""
    known = []
    for label in ("1", "0.5", "true", "oops"):
        path = write(tmp_path / "t.csv", "x,y", [f"2,{label}", "3,1"])
        known.append(told(scan(path, label="y", label_range=(0, 1))))
    assert known[0] == known[1] == known[2] == known[3]


def test_quoted_newlines_and_delimiters(tmp_path):
    path = write(tmp_path / "t.csv", "x,k", ['1,"a,\nb"', "2,c"])
    batch = next(scan(path).feature_batches())
    assert batch.column(1).to_pylist() == ["a,\nb", "c"]


def test_byte_order_mark_and_windows_lines(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfx,k\r\n1,a\r\n2,b\r\n")
    assert scan(tmp_path / "t.csv").names == ("x", "k")


def test_unnamed_index_column_is_left_out(tmp_path):
    path = write(tmp_path / "t.csv", ",x", ["0,5", "1,6"])
    assert scan(path).names == ("x",)
    assert scan(path, features=["", "x"]).names == ("", "x")


def test_the_type_pass_does_not_read_the_label(tmp_path, monkeypatch):
    read = []
    batches = DelimitedReader.stored_batches
    monkeypatch.setattr(
        DelimitedReader,
        "stored_batches",
        lambda self, columns, rows: read.extend(columns) or batches(self, columns, rows),
    )
    list(scan(write(tmp_path / "t.csv", "x,y", ["1,2"]), label="y").feature_batches())
    assert read == ["x", "x"]
