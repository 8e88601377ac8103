"""Bad input: one line that names the thing, the cause and the remedy. Damaged and hostile files."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, InputError, look, plan, scan, verify
from labeldp.errors import MissingExtraError
from labeldp.features.fit import fit_features
from tests.extras import extra
from tests.tables import RANGE, table

TABLE = pa.table({"age": [1.0, 2.0], "town": ["a", "b"], "wage": [3.0, 4.0]})
SAID: Any = {"label": "label", "label_range": RANGE}


def refused(match: str, call: Callable[[], Any], error: type[Exception] = DataError) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError)


def arrow_file(data: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, data.schema) as out:
        out.write_table(data, max_chunksize=1000)


def test_paths_that_mean_no_table(tmp_path: Path) -> None:
    refused("no such file", lambda: scan(tmp_path / "nowhere" / "x.csv"))
    refused("holds no data files", lambda: scan(str(tmp_path / "*.parquet")))
    refused("only local files", lambda: scan("s3://bucket/t.parquet"))
    (tmp_path / "_hidden.parquet").write_text("")
    refused("holds no data files", lambda: scan(tmp_path))
    pq.write_table(TABLE, tmp_path / "wages.parquet")
    refused(r"no such file.*wages.parquet", lambda: scan(tmp_path / "wage.parquet"))
    (tmp_path / "b.csv").write_text("age\n1\n")
    refused("mixes CSV and Parquet", lambda: scan(tmp_path))
    (tmp_path / "b.csv").rename(tmp_path / "b.parquet.tmp")
    refused("half-written", lambda: scan(tmp_path))
    (tmp_path / "year=2020").mkdir()
    refused("sub-directories; pass a glob", lambda: scan(tmp_path))
    (tmp_path / "t.doc").write_text("")
    refused(r"unknown format.*\.parquet", lambda: scan(tmp_path / "t.doc"))
    source = scan(tmp_path / "wages.parquet")
    (tmp_path / "wages.parquet").unlink()
    refused("moved or removed", lambda: list(source.feature_batches()))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "csv.gz"])
@pytest.mark.parametrize("content", [b"", b"not at all", b"PAR1 cut", b"ARROW1 cut", b"FEA1"])
def test_not_what_the_extension_says(ending: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    refused(f"{path.name} (is not a complete|is empty|is not utf-8)", lambda: scan(path))


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_truncated_files(keep: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = pa.table({"a": rng.normal(size=20_000), "b": rng.normal(size=20_000)})
    pq.write_table(data, tmp_path / "t.parquet")
    text = gzip.compress(data.to_pandas().to_csv(index=False).encode())
    (tmp_path / "t.csv.gz").write_bytes(text)
    arrow_file(data, tmp_path / "t.arrow")
    with pa.ipc.new_stream(tmp_path / "s.arrow", data.schema) as out:
        out.write_table(data, max_chunksize=1000)
    for path in tmp_path.iterdir():
        os.truncate(path, int(path.stat().st_size * keep))
        refused("not a complete", lambda path=path: list(scan(path).feature_batches()))


def test_files_damaged_in_their_middle(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).normal(size=10_000)}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    refused("not a complete Parquet file", lambda: list(scan(path).feature_batches()))
    rows = "".join(f"{k},{k * k},{k % 7}\n" for k in range(400))
    packed = gzip.compress(f"a,b,label\n{rows}".encode())
    path = tmp_path / "t.csv.gz"
    for place in range(20, len(packed) - 8, 29):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 0x5A]) + packed[place + 1 :])
        with pytest.raises(DataError):
            plan(path, 1, force=True, **SAID).release(path)


def test_offsets_of_an_arrow_file_that_point_elsewhere(tmp_path: Path) -> None:
    """Arrow itself would follow them out of the file."""
    path, data = tmp_path / "t.arrow", table(50)
    arrow_file(data, path)
    content = path.read_bytes()
    offsets = data["colour"].chunk(0).buffers()[1].to_pybytes()
    place = content.index(offsets[:40])
    wrong = np.frombuffer(offsets[:40], np.int32) + 2**30
    path.write_bytes(content[:place] + wrong.tobytes() + content[place + 40 :])
    for act in (lambda: look(path, drop=["label"]), lambda: plan(path, 1, force=True, **SAID)):
        refused("is not a complete Arrow IPC file", act)


@pytest.mark.parametrize("part", ["label", "features", "categorical", "numeric", "drop"])
def test_names_in_the_wrong_place(part: str) -> None:
    several = part != "label"
    wrong: Any = {part: ["wagee"] if several else "wagee"}
    refused(f"{part}.*'wagee'; did you mean 'wage'", lambda: scan(TABLE, **wrong))
    if several:
        label: Any = {"label": "wage", part: ["wage"]}
        refused("is the label", lambda: scan(TABLE, **label), InputError)
        text: Any = {"label": "age", part: "wage"}
        refused("must be a list", lambda: scan(TABLE, **text), InputError)
    refused("the columns are 'age', 'town'", lambda: scan(TABLE, label="zzzzzz"))


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"numeric": ["age"], "categorical": ["age"]}, "both"),
        ({"features": ["age", "age"]}, "twice"),
        ({"label": "wage", "drop": ["age", "town"]}, "no feature column is left"),
        ({"drop_missing_labels": True}, "`drop_missing_labels` needs"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"label": "wage", "label_range": (1, 1)}, "label_range"),
        ({"label": "wage", "label_range": (0, float("inf"))}, "label_range"),
        ({"label": "wage", "label_range": (float("nan"), 1)}, "label_range"),
        ({"label": "wage", "label_range": (1,)}, "label_range"),
        ({"encoding": "utf-8"}, "`encoding` is for text files"),
    ],
)
def test_contradicting_declarations(said: Any, match: str) -> None:
    refused(match, lambda: scan(TABLE, **said), InputError)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"decimal": ";"}, "`decimal` must be"),
        ({"delimiter": ",,"}, "`delimiter` must be one ASCII character"),
        ({"encoding": "klingon"}, "`encoding` 'klingon' is unknown"),
        ({"na": "-"}, "`na` must be a list"),
        ({"date_format": "day first"}, "`date_format` 'day first' is none"),
        ({"skip_footer": -1}, "`skip_footer` must be 0 to 1000 lines, not -1"),
    ],
)
def test_options_that_cannot_be(options: Any, match: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n")
    refused(match, lambda: scan(tmp_path / "t.csv", **options), InputError)


def test_duplicate_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,2,1\n1,2,3\n")
    refused(r"several columns of one name.*header", lambda: scan(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    refused("several columns of one name, 'a'", lambda: scan(tmp_path / "t.csv", label="a"))
    refused(
        "several columns of one name, 'a'", lambda: scan(pa.table([[1], [2]], names=["a", "a"]))
    )
    refused("one name", lambda: scan(pd.DataFrame([[1, 2]], columns=["a", "a"])))


def test_no_rows(tmp_path: Path) -> None:
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n")
    (tmp_path / "empty.csv").write_text("")
    for data in (tmp_path / "t.parquet", tmp_path / "t.csv", TABLE.slice(0, 0)):
        refused("no rows", lambda data=data: fit_features(scan(data)))
    refused("empty", lambda: scan(tmp_path / "empty.csv"))
    arrow_file(TABLE.slice(0, 0), tmp_path / "t.arrow")
    refused("no rows", lambda: fit_features(scan(tmp_path / "t.arrow")))
    gone = pa.table({"x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())})
    source = scan(gone, label="y", label_range=(0, 1), drop_missing_labels=True)
    refused("no rows", lambda: fit_features(source))


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("difference", ["names", "order", "type"])
def test_files_of_different_schema(form: str, difference: str, tmp_path: Path) -> None:
    other = {
        "names": TABLE.rename_columns(["age", "city", "wage"]),
        "order": TABLE.select(["town", "age", "wage"]),
        "type": TABLE.set_column(0, "age", pa.array([1, 2])),
    }[difference]
    for place, data in enumerate((TABLE, other)):
        path = tmp_path / f"{place}.{form}"
        if form == "parquet":
            pq.write_table(data, path)
        elif form == "arrow":
            arrow_file(data, path)
        else:
            data.to_pandas().to_csv(path, index=False)
    if (form, difference) == ("csv", "type"):
        assert scan(tmp_path).columns[0].type == "double"
    else:
        refused("differ in .*(city|order|'age').*one schema", lambda: scan(tmp_path))


def test_values_of_features_that_no_model_takes() -> None:
    infinite = pa.table({"x": [1.0, 2.0, float("-inf")], "k": ["a", "b", "c"]})
    refused("'x' holds an infinity at row 3", lambda: fit_features(scan(infinite, batch_rows=2)))
    wide = pa.table({"id": [2**53 + 1, 5, 7], "u": pa.array([2**64 - 1, 1, 2], pa.uint64())})
    refused(r"'id'.*2\*\*53.*drop", lambda: fit_features(scan(wide, numeric=["id"])))
    refused(r"'u'.*2\*\*53.*drop", lambda: fit_features(scan(wide, features=["u"])))
    fine = pa.table({"x": ["1", " 2.5", "", None]})
    assert fit_features(scan(fine, numeric=["x"])).numeric[0].high == 2.5
    wrong = pa.table({"x": ["1", "two", "three"]})
    refused(
        "'x' should be numeric, but most values are texts such as 'three'",
        lambda: fit_features(scan(wrong, numeric=["x"], batch_rows=2)),
    )
    far: Any = {"a": [1e308, -1e308] * 20, "b": list(range(40))}
    refused("column 'a' holds numbers beyond 1e290; rescale it", lambda: look(far))


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.binary(),
        pa.duration("s"),
        pa.time32("s"),
    ],
    ids=str,
)
def test_unsupported_types(type_: pa.DataType) -> None:
    data = pa.table({"x": pa.array([None, None], type_), "a": [1.0, 2.0]})
    refused(r"'x' has type .*drop it", lambda: scan(data))
    assert scan(data, drop=["x"]).names == ("a",)


class OneShot:
    """A stream that can be exported once."""

    def __init__(self) -> None:
        self.reader = TABLE.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


def test_objects_that_are_no_tables_or_read_once() -> None:
    reader = TABLE.to_reader()
    assert scan(reader).total_rows == TABLE.num_rows
    refused("have no rows", lambda: fit_features(scan(reader)))
    once = scan(OneShot())
    for _ in range(2):
        assert sum(batch.num_rows for batch in once.feature_batches()) == TABLE.num_rows
    for wrong in (None, np.zeros((2, 2)), pl.Series([1, 2]), ["a.csv"], scan(TABLE)):
        refused("cannot be read as a table; pass a path", lambda wrong=wrong: scan(wrong))
    mixed = pd.DataFrame({"a": pd.Series([[1], "x", 2.5], dtype=object), "b": [1, 2, 3]})
    refused("column 'a' mixes types", lambda: scan(mixed))
    numbered = pd.DataFrame({0: [1, 2.5, 2], 1: [1, 2, 3]})
    assert [column.kind for column in scan(numbered).columns] == ["numeric", "integer"]


@pytest.mark.parametrize("verb", [look, scan])
def test_twenty_thousand_columns_of_text_are_refused_at_once(verb: Any, tmp_path: Path) -> None:
    """Nothing may be looked at once for every pair of columns, or for every one of so many."""
    names, path = [f"c{k}" for k in range(20_000)], tmp_path / "wide.csv"
    lines = [",".join([*names, "label"]), *(",".join(["1.5"] * 20_001) for _ in range(3))]
    path.write_text("\n".join(lines) + "\n")
    start = time.process_time()
    refused("has 20000 feature columns, and at most 4096", lambda: verb(path, label="label"))
    few = scan(path, label="label", label_range=(0, 10), drop=names[20:])
    assert few.names == tuple(names[:20])
    assert time.process_time() - start < 8


def test_a_lone_cell_at_the_end_of_a_sheet(tmp_path: Path) -> None:
    book = extra("openpyxl").Workbook()
    for row in (["a", "label"], [1, 2], [3, 4], [4, 4], [7, 5]):
        book.active.append(row)
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "t.xlsx")
    before = time.process_time()
    assert scan(tmp_path / "t.xlsx", **SAID).total_rows == 4
    assert time.process_time() - before < 10


def test_the_remedy_where_an_extra_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(MissingExtraError, match=r"Excel files needs an extra: pip install .*table"):
        scan(tmp_path / "t.xlsx")


def test_a_table_of_other_sizes_is_not_that_of_a_release(tmp_path: Path) -> None:
    data = table(300)
    plan(data, 1, force=True, **SAID).release(data).save(tmp_path / "r")
    far = data.set_column(0, "height", pa.array(np.linspace(1e200, 2e200, 300)))
    report = verify(tmp_path / "r", far)
    assert not report.valid
    assert "far outside the range" in report.problems[0]
