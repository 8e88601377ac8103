"""Bad input: one line that names the thing, the cause and the cure."""

from __future__ import annotations

import gzip
import os
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import look
from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features.fit import fit_features

TABLE = pa.table({"age": [1.0, 2.0], "town": ["a", "b"], "wage": [3.0, 4.0]})


def refused(match, call, error=DataError):
    with pytest.raises(error, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError)


def test_missing_file_suggests_a_near_name(tmp_path):
    pq.write_table(TABLE, tmp_path / "wages.parquet")
    refused("no such file.*wages.parquet", lambda: scan(tmp_path / "wage.parquet"))
    refused("no such file", lambda: scan(tmp_path / "nowhere" / "x.csv"))


def test_empty_glob_and_directory(tmp_path):
    refused("matches no files", lambda: scan(str(tmp_path / "*.parquet")))
    (tmp_path / "_hidden.parquet").write_text("")
    refused("holds no data files", lambda: scan(tmp_path))


def test_directory_with_sub_directories(tmp_path):
    (tmp_path / "year=2020").mkdir()
    refused("sub-directories; pass a glob", lambda: scan(tmp_path))


def test_unknown_extension_and_url(tmp_path):
    (tmp_path / "t.doc").write_text("")
    refused("unknown format.*\\.parquet", lambda: scan(tmp_path / "t.doc"))
    refused("only local files", lambda: scan("s3://bucket/t.parquet"))


def test_half_written_parts(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.parquet.tmp").write_text("")
    refused("half-written", lambda: scan(tmp_path))


def test_mixed_formats(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("age\n1\n")
    refused("mixes CSV and Parquet", lambda: scan(tmp_path))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "csv.gz"])
@pytest.mark.parametrize("content", [b"", b"not at all", b"PAR1 cut", b"ARROW1 cut", b"FEA1"])
def test_not_what_the_extension_says(ending, content, tmp_path):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    refused(f"{path.name} (is not a complete|is empty|is not UTF-8)", lambda: scan(path))


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_truncated_files(keep, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=50_000), "b": rng.normal(size=50_000)})
    pq.write_table(table, tmp_path / "t.parquet")
    text = gzip.compress(table.to_pandas().to_csv(index=False).encode())
    (tmp_path / "t.csv.gz").write_bytes(text)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=1000)
    with pa.ipc.new_stream(tmp_path / "s.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=1000)
    for name in ("t.parquet", "t.csv.gz", "t.arrow", "s.arrow"):
        path = tmp_path / name
        os.truncate(path, int(path.stat().st_size * keep))
        refused("not a complete", lambda path=path: list(scan(path).feature_batches()))


def test_damaged_parquet_page(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).normal(size=10_000)}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    refused("not a complete Parquet file", lambda: list(scan(path).feature_batches()))


def test_unreadable_file(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    source = scan(path)
    path.unlink()
    refused("moved or removed", lambda: list(source.feature_batches()))


def test_latin_text(tmp_path):
    (tmp_path / "t.csv").write_bytes("k\nÅrhus\nb\n".encode("latin1"))
    asked = {"encoding": "utf-8"}
    refused("not UTF-8.*`encoding`", lambda: fit_features(scan(tmp_path / "t.csv", **asked)))


@pytest.mark.parametrize("part", ["label", "features", "categorical", "numeric", "drop"])
def test_wrong_column_name(part):
    value = "wagee" if part == "label" else ["wagee"]
    refused(f"{part}.*'wagee'; did you mean 'wage'", lambda: scan(TABLE, **{part: value}))


def test_name_like_nothing_lists_the_columns():
    refused("the columns are 'age', 'town'", lambda: scan(TABLE, label="zzzzzz"))


@pytest.mark.parametrize("part", ["features", "categorical", "numeric", "drop"])
def test_label_in_another_part(part):
    refused("is the label", lambda: scan(TABLE, label="wage", **{part: ["wage"]}), InputError)
    refused("must be a list", lambda: scan(TABLE, label="age", **{part: "wage"}), InputError)


def test_contradicting_declarations():
    refused("both", lambda: scan(TABLE, numeric=["age"], categorical=["age"]), InputError)
    refused("twice", lambda: scan(TABLE, features=["age", "age"]), InputError)
    refused("no feature column is left", lambda: scan(TABLE, label="wage", drop=["age", "town"]),
            InputError)  # fmt: skip
    refused(
        "`drop_missing_labels` needs", lambda: scan(TABLE, drop_missing_labels=True), InputError
    )
    refused("batch_rows", lambda: scan(TABLE, batch_rows=0), InputError)


@pytest.mark.parametrize("limits", [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), (1,)])
def test_bad_label_range(limits):
    refused("label_range", lambda: scan(TABLE, label="wage", label_range=limits), InputError)


def test_duplicate_names(tmp_path):
    (tmp_path / "t.csv").write_text("1,2,1\n1,2,3\n")
    refused("several columns of one name.*header", lambda: scan(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    refused("several columns are named 'a', the label", lambda: scan(tmp_path / "t.csv", label="a"))
    double = pa.table([[1], [2]], names=["a", "a"])
    refused("several columns named 'a'", lambda: scan(double))
    refused("one name", lambda: scan(pd.DataFrame([[1, 2]], columns=["a", "a"])))


def test_no_rows(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n")
    (tmp_path / "empty.csv").write_text("")
    for data in (tmp_path / "t.parquet", tmp_path / "t.csv", TABLE.slice(0, 0)):
        refused("no rows", lambda data=data: scan(data))
    refused("empty", lambda: scan(tmp_path / "empty.csv"))
    with pa.ipc.new_file(tmp_path / "t.arrow", TABLE.schema):
        pass
    refused("no rows", lambda: fit_features(scan(tmp_path / "t.arrow")))


def test_all_labels_missing_leaves_no_rows():
    table = pa.table({"x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())})
    source = scan(table, label="y", label_range=(0, 1), drop_missing_labels=True)
    refused("no rows", lambda: fit_features(source))


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_files_of_different_schema(form, tmp_path):
    other = {
        "names": TABLE.rename_columns(["age", "city", "wage"]),
        "order": TABLE.select(["town", "age", "wage"]),
    }
    if form != "csv":
        other["type"] = TABLE.set_column(0, "age", pa.array([1, 2]))
    for name, second in other.items():
        place = tmp_path / name
        place.mkdir()
        for index, table in enumerate((TABLE, second)):
            path = place / f"{index}.{form}"
            if form == "parquet":
                pq.write_table(table, path)
            elif form == "arrow":
                with pa.ipc.new_file(path, table.schema) as out:
                    out.write_table(table)
            else:
                table.to_pandas().to_csv(path, index=False)
        refused("differ in .*(city|order|'age').*one schema", lambda place=place: scan(place))


def test_infinity_in_a_feature():
    table = pa.table({"x": [1.0, 2.0, float("-inf")], "k": ["a", "b", "c"]})
    refused("'x' holds an infinity at row 3", lambda: fit_features(scan(table, batch_rows=2)))


def test_integers_beyond_float64():
    table = pa.table({"id": [2**53 + 1, 5, 7], "u": pa.array([2**64 - 1, 1, 2], pa.uint64())})
    refused("'id'.*2\\*\\*53.*drop", lambda: fit_features(scan(table, numeric=["id"])))
    refused("'u'.*2\\*\\*53.*drop", lambda: fit_features(scan(table, features=["u"])))


def test_text_declared_numeric_in_a_typed_file():
    fine = pa.table({"x": ["1", " 2.5", "", None]})
    assert fit_features(scan(fine, numeric=["x"])).numeric[0].high == 2.5
    wrong = pa.table({"x": ["1", "two", "three"]})
    refused(
        "'x' should be numeric, but most values are texts such as 'three'",
        lambda: fit_features(scan(wrong, numeric=["x"], batch_rows=2)),
    )


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.binary(),
        pa.map_(pa.int8(), pa.int8()),
    ],
)
def test_unsupported_types(type_):
    table = pa.table({"x": pa.array([None, None], type_), "a": [1.0, 2.0]})
    refused("'x' has type .*drop it", lambda: scan(table))
    assert scan(table, drop=["x"]).names == ("a",)


def test_one_shot_readers_and_other_objects():
    reader = TABLE.to_reader()
    assert scan(reader).total_rows == TABLE.num_rows
    refused("read only once; pass a table", lambda: scan(reader))
    refused("give its columns names", lambda: scan(np.zeros((2, 2))))
    refused("cannot be read as a table; pass a path", lambda: scan(None))
    refused("a Series is one column", lambda: scan(pl.Series([1, 2])))


class OneShot:
    """A stream that can be exported once."""

    def __init__(self):
        self.reader = TABLE.to_reader()

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader.__arrow_c_stream__(requested_schema)


def test_hidden_one_shot_is_found_out():
    source = scan(OneShot())
    assert list(source.feature_batches())
    refused("read only once", lambda: list(source.feature_batches()))


def test_mixed_pandas_column():
    frame = pd.DataFrame({"a": pd.Series([[1], "x", 2.5], dtype=object), "b": [1, 2, 3]})
    refused("column 'a' mixes types", lambda: scan(frame))
    numbered = pd.DataFrame({0: pd.Series([1, "2", 2.5], dtype=object), 1: [1, 2, 3]})
    assert [column.kind for column in scan(numbered).columns] == ["numeric", "integer"]


@pytest.mark.parametrize("verb", [look, scan])
def test_twenty_thousand_columns_of_text_are_refused_at_once(verb, tmp_path):
    """Nothing may be looked at once for every pair of columns, or for every one of so many."""
    names, path = [f"c{k}" for k in range(20_000)], tmp_path / "wide.csv"
    lines = [",".join([*names, "label"]), *(",".join(["1.5"] * 20_001) for _ in range(3))]
    path.write_text("\n".join(lines) + "\n")
    start = time.process_time()
    with pytest.raises(DataError, match="has 20000 feature columns, and at most 4096"):
        verb(path, label="label")
    few = scan(path, label="label", label_range=(0, 10), drop=names[20:])
    assert few.names == tuple(names[:20])
    assert time.process_time() - start < 8
